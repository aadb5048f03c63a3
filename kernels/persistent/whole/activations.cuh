// Activation functions and their slopes; from the output, or for SILU and GELU from the input. The definitions and parameters
// are PyTorch's defaults.

template <int KIND>
__device__ float activation(float z)
{
    if constexpr (KIND == RELU) return z < 0.0f ? 0.0f : z;   // a NaN stays
    else if constexpr (KIND == LEAKY_RELU) return z > 0.0f ? z : 0.01f * z;
    else if constexpr (KIND == TANH) return tanhf(z);
    else if constexpr (KIND == SIGMOID) return 1.0f / (1.0f + expf(-z));
    else if constexpr (KIND == SILU) return z / (1.0f + expf(-z));
    else if constexpr (KIND == GELU) return 0.5f * z * (1.0f + erff(z * 0.70710678f));
    else if constexpr (KIND == ELU) return z > 0.0f ? z : expm1f(z);
    else return z;
}

template <int KIND>
__device__ float slope_from(float h)
{
    if constexpr (KIND == RELU) return h > 0.0f ? 1.0f : 0.0f;
    else if constexpr (KIND == LEAKY_RELU) return h > 0.0f ? 1.0f : 0.01f;
    else if constexpr (KIND == TANH) return 1.0f - h * h;
    else if constexpr (KIND == SIGMOID) return h * (1.0f - h);
    else if constexpr (KIND == ELU) return h > 0.0f ? 1.0f : h + 1.0f;
    else return 1.0f;
}

template <int KIND>
__device__ float slope_at(float z)
{
    if constexpr (KIND == SILU) {
        const float s = 1.0f / (1.0f + expf(-z));
        return s * (1.0f + z * (1.0f - s));
    } else {
        return 0.5f * (1.0f + erff(z * 0.70710678f)) + z * expf(-0.5f * z * z) * 0.39894228f;
    }
}
