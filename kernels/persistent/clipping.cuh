// Gradients whose norm is at most max_norm, as kernels/elementwise.cu clips them.

__device__ float clipped(float square, float max_norm)  // what to multiply a gradient with, from its norm's square
{
    const float norm = sqrtf(square < 0.0f ? 0.0f : square);
    return norm > max_norm ? max_norm / (norm + 1e-6f) : 1.0f;
}
