// Activation functions f, and gradients multiplied by their derivatives; the definitions and parameters are PyTorch's
// defaults. A derivative is computed from the output h = f(x), that of SiLU and GELU from the input.

enum Activation { RELU, LEAKY_RELU, TANH, SIGMOID, ELU, SILU, GELU };  // as FUSED_ACTIVATIONS in snn/models/step.py

constexpr float LEAK = 0.01f;

__device__ float logistic(float x) { return 1.0f / (1.0f + expf(-x)); }
__device__ float normal(float x) { return 0.5f * (1.0f + erff(x * 0.70710678f)); }  // 1 / sqrt(2)

__device__ float activated(int f, float x)
{
    switch (f) {
        case RELU: return x < 0.0f ? 0.0f : x;  // a NaN is not < 0 and stays
        case LEAKY_RELU: return x > 0.0f ? x : LEAK * x;
        case TANH: return tanhf(x);
        case SIGMOID: return logistic(x);
        case ELU: return x > 0.0f ? x : expm1f(x);
        case SILU: return x * logistic(x);
        default: return x * normal(x);
    }
}

__device__ float differentiated(int f, float gradient, float h)
{
    switch (f) {
        case RELU: return h > 0.0f ? gradient : 0.0f;  // not gradient * 0, which is NaN if it is infinite
        case LEAKY_RELU: return h > 0.0f ? gradient : LEAK * gradient;
        case TANH: return gradient * (1.0f - h * h);
        case SIGMOID: return gradient * (h * (1.0f - h));
        case ELU: return gradient * (h > 0.0f ? 1.0f : h + 1.0f);
        case SILU: {
            const float s = logistic(h);
            return gradient * (s * (1.0f + h * (1.0f - s)));
        }
        default: {
            const float density = expf(-0.5f * h * h) * 0.39894228f;  // 1 / sqrt(2 pi)
            return gradient * (normal(h) + h * density);
        }
    }
}
