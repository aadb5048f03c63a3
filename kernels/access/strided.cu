// Strided access: neighbouring threads read (or copy) floats that are `stride` floats apart.
//
//   read_strided   sums[t] = the sum of thread t's elements of from[0 .. n)
//   copy_strided   to[i] = from[i] at the same positions
//
// A warp's load is served in sectors of 32 bytes. At stride 1 its 32 floats fill 4 sectors. At stride s it touches
// min(s, 8) times as many, and uses 4 of the 32 bytes of each from stride 8 on: the rest is moved for nothing.
//
// A sparse walk must not be small enough for L2. So strides above 32 make several sweeps, each 32 floats (a line of 128
// bytes) further on, and each pass begins one sector further on, until it comes back to the first. Pass r visits the
// elements 8 (r mod max(1, min(s, 32) / 8)) + 32 w + s i < n, for the sweeps w = 0 .. ceil(s / 32) - 1.
//
// Launch: any number of blocks of whole warps; sums has a float per thread. n < 2^31, rounds passes.

#include "walk.cuh"

constexpr unsigned LINE = 32, SECTOR = 8;  // floats
constexpr int AT_ONCE = 8;

template <class Use>
__device__ void stride_through(const float* from, unsigned n, unsigned stride, int rounds, Use use)
{
    const unsigned apart = stride < LINE ? stride : LINE, sectors = apart < SECTOR ? 1 : apart / SECTOR;
    for (int round = 0; round < rounds; ++round)
        for (unsigned sweep = 0; sweep < stride; sweep += LINE) {
            const unsigned start = sweep + SECTOR * (round % sectors);
            if (start >= n) break;
            walk<AT_ONCE>((n - start - 1) / stride + 1, [=](unsigned i) { return from[start + i * stride]; },
                          [&](unsigned i, float v) { use(start + i * stride, v); });
        }
}

extern "C" __global__ void read_strided(const float* __restrict__ from, float* __restrict__ sums, unsigned n,
                                        unsigned stride, int rounds)
{
    float sum = 0.0f;
    stride_through(from, n, stride, rounds, [&](unsigned, float v) { sum += v; });
    own_sum(sums) = sum;
}

extern "C" __global__ void copy_strided(const float* __restrict__ from, float* __restrict__ to, unsigned n,
                                        unsigned stride, int rounds)
{
    stride_through(from, n, stride, rounds, [&](unsigned i, float v) { to[i] = v; });
}
