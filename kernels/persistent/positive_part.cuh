// max(z, 0) in one instruction. A NaN remains one.

#ifdef CUDA_ON_CPU
__device__ float positive_part(float z) { return z < 0.0f ? 0.0f : z; }
#else
__device__ float positive_part(float z)
{
    float h;
    asm("max.NaN.f32 %0, %1, 0f00000000;" : "=f"(h) : "f"(z));
    return h;
}
#endif
