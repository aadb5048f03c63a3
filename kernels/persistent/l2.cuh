// COUNT neighbouring floats, aligned as vectors are: from L2, since another multiprocessor may have written them, and to it.

template <int COUNT>
__device__ void read(const float* from, float (&to)[COUNT])
{
    if constexpr (COUNT % 4 == 0) {
#pragma unroll
        for (int i = 0; i < COUNT; i += 4) {
            const float4 v = __ldcg(reinterpret_cast<const float4*>(from + i));
            to[i] = v.x, to[i + 1] = v.y, to[i + 2] = v.z, to[i + 3] = v.w;
        }
    } else if constexpr (COUNT % 2 == 0) {
#pragma unroll
        for (int i = 0; i < COUNT; i += 2) {
            const float2 v = __ldcg(reinterpret_cast<const float2*>(from + i));
            to[i] = v.x, to[i + 1] = v.y;
        }
    } else {
#pragma unroll
        for (int i = 0; i < COUNT; ++i) to[i] = __ldcg(from + i);
    }
}

template <int COUNT>
__device__ void write(float* to, const float (&from)[COUNT])
{
    if constexpr (COUNT % 4 == 0) {
#pragma unroll
        for (int i = 0; i < COUNT; i += 4)
            *reinterpret_cast<float4*>(to + i) = make_float4(from[i], from[i + 1], from[i + 2], from[i + 3]);
    } else if constexpr (COUNT % 2 == 0) {
#pragma unroll
        for (int i = 0; i < COUNT; i += 2) *reinterpret_cast<float2*>(to + i) = make_float2(from[i], from[i + 1]);
    } else {
#pragma unroll
        for (int i = 0; i < COUNT; ++i) to[i] = from[i];
    }
}
