// Clipping a gradient to a norm of at most max_norm, with the formula of kernels/elementwise.cu.

__device__ float clipped(float square, float max_norm)  // the factor that clips a gradient, from its squared norm
{
    const float norm = sqrtf(square < 0.0f ? 0.0f : square);
    return norm > max_norm ? max_norm / (norm + 1e-6f) : 1.0f;
}
