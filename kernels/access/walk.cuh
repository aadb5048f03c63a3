// A grid-stride walk over `count` values: value i belongs to thread i mod (all threads), and each thread has AT_ONCE
// loads in flight before it uses the first. One load at a time would leave DRAM idle while a thread waits for it.

template <int AT_ONCE, class Load, class Use>
__device__ void walk(unsigned count, Load load, Use use)
{
    const unsigned step = gridDim.x * blockDim.x, first = blockIdx.x * blockDim.x + threadIdx.x;
    for (unsigned at = first; at < count; at += AT_ONCE * step) {
        decltype(load(0u)) v[AT_ONCE];
#pragma unroll
        for (int i = 0; i < AT_ONCE; ++i)
            if (at + i * step < count) v[i] = load(at + i * step);
#pragma unroll
        for (int i = 0; i < AT_ONCE; ++i)
            if (at + i * step < count) use(at + i * step, v[i]);
    }
}

// Where a thread of a reading kernel leaves its sum; otherwise the compiler would remove the loads.
__device__ float& own_sum(float* sums) { return sums[blockIdx.x * blockDim.x + threadIdx.x]; }
