// Aligned or not: neighbouring threads read (or copy) neighbouring floats, beginning `offset` floats into the buffer.
//
//   read_offset   sums[t] = the sum of thread t's elements of from[offset .. n)
//   copy_offset   to[i] = from[i] for offset <= i < n
//
// cudaMalloc aligns to 256 bytes. With an offset that is no multiple of 8 floats, the 128 bytes of a warp's load lie in 5
// sectors of 32 bytes instead of 4. The fifth is the next warp's first, so that a cache may already have it.
//
// Launch: any number of blocks of whole warps; sums has a float per thread. offset <= n < 2^31, rounds passes.

#include "walk.cuh"

constexpr int AT_ONCE = 8;

extern "C" __global__ void read_offset(const float* __restrict__ from, float* __restrict__ sums, unsigned n,
                                       unsigned offset, int rounds)
{
    float sum = 0.0f;
    for (int round = 0; round < rounds; ++round)
        walk<AT_ONCE>(n - offset, [=](unsigned i) { return from[offset + i]; }, [&](unsigned, float v) { sum += v; });
    own_sum(sums) = sum;
}

extern "C" __global__ void copy_offset(const float* __restrict__ from, float* __restrict__ to, unsigned n,
                                       unsigned offset, int rounds)
{
    for (int round = 0; round < rounds; ++round)
        walk<AT_ONCE>(n - offset, [=](unsigned i) { return from[offset + i]; },
                      [=](unsigned i, float v) { to[offset + i] = v; });
}
