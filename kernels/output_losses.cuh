// Losses of single outputs: kernels/layers/losses.cu has the formulae.

enum class Loss { error, softmax_cross_entropy, huber, binary_cross_entropy };   // the operations of their names

struct OfOutput {
    float loss, slope;   // slope: the loss's derivative, but for a factor
};

// NaN stays NaN.
template <Loss KIND>
__device__ OfOutput of_output(float z, float y)
{
    const float error = z - y, distance = fabsf(error);
    if constexpr (KIND == Loss::huber) {
        if (distance > 1.0f) return {distance - 0.5f, copysignf(1.0f, error)};
        return {0.5f * error * error, error};
    } else if constexpr (KIND == Loss::binary_cross_entropy) {
        return {fmaxf(z, 0.0f) - z * y + log1pf(expf(-fabsf(z))), 1.0f / (1.0f + expf(-z)) - y};
    } else {
        return {error, error};
    }
}
