// Loads of COUNT consecutive floats, aligned for vector loads, from L2: the L1 of an SM may hold a stale copy of data
// that another SM has written.

// Not __ldcg: compilers postpone it until the value is needed, even past a barrier. A volatile asm stays in place.
#ifdef CUDA_ON_CPU
template <class Vector>
__device__ Vector from_l2(const Vector* from) { return *from; }
#else
__device__ float from_l2(const float* from)
{
    float v;
    asm volatile("ld.global.cg.f32 %0, [%1];" : "=f"(v) : "l"(from) : "memory");
    return v;
}
__device__ float2 from_l2(const float2* from)
{
    float2 v;
    asm volatile("ld.global.cg.v2.f32 {%0, %1}, [%2];" : "=f"(v.x), "=f"(v.y) : "l"(from) : "memory");
    return v;
}
__device__ float4 from_l2(const float4* from)
{
    float4 v;
    asm volatile("ld.global.cg.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(from) : "memory");
    return v;
}
#endif

template <int COUNT>
__device__ void read(const float* from, float (&to)[COUNT])
{
    if constexpr (COUNT % 4 == 0) {
#pragma unroll
        for (int i = 0; i < COUNT; i += 4) {
            const float4 v = from_l2(reinterpret_cast<const float4*>(from + i));
            to[i] = v.x, to[i + 1] = v.y, to[i + 2] = v.z, to[i + 3] = v.w;
        }
    } else if constexpr (COUNT % 2 == 0) {
#pragma unroll
        for (int i = 0; i < COUNT; i += 2) {
            const float2 v = from_l2(reinterpret_cast<const float2*>(from + i));
            to[i] = v.x, to[i + 1] = v.y;
        }
    } else {
#pragma unroll
        for (int i = 0; i < COUNT; ++i) to[i] = from_l2(from + i);
    }
}
