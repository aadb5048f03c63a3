// Vector loads: each thread reads (or copies) one, two or four neighbouring floats in one instruction.
//
//   read_float, read_float2, read_float4   sums[t] = the sum of thread t's elements of from[0 .. n)
//   copy_float, copy_float2, copy_float4   to[i] = from[i], i < n
//
// All move the same bytes, and each warp's load fills whole sectors. A wider one needs fewer instructions, and has more
// bytes in flight per thread, which matters where few threads are resident. The address must be a multiple of its size.
// What is left of n floats after whole vectors is not visited.
//
// Launch: any number of blocks of whole warps; sums has a float per thread. n < 2^31, rounds passes. `width` is unused: the
// name says it.

#include "walk.cuh"

constexpr int AT_ONCE = 8;

__device__ float total(float v) { return v; }
__device__ float total(float2 v) { return v.x + v.y; }
__device__ float total(float4 v) { return v.x + v.y + v.z + v.w; }

template <class Vector>
__device__ void read(const float* from, float* sums, unsigned n, int rounds)
{
    const Vector* vectors = reinterpret_cast<const Vector*>(from);
    float sum = 0.0f;
    for (int round = 0; round < rounds; ++round)
        walk<AT_ONCE>(n / (sizeof(Vector) / 4), [=](unsigned i) { return vectors[i]; },
                      [&](unsigned, Vector v) { sum += total(v); });
    own_sum(sums) = sum;
}

template <class Vector>
__device__ void copy(const float* from, float* to, unsigned n, int rounds)
{
    const Vector* vectors = reinterpret_cast<const Vector*>(from);
    Vector* written = reinterpret_cast<Vector*>(to);
    for (int round = 0; round < rounds; ++round)
        walk<AT_ONCE>(n / (sizeof(Vector) / 4), [=](unsigned i) { return vectors[i]; },
                      [=](unsigned i, Vector v) { written[i] = v; });
}

#define VECTOR(NAME)                                                                                                   \
    extern "C" __global__ void read_##NAME(const float* __restrict__ from, float* __restrict__ sums, unsigned n,       \
                                           unsigned width, int rounds)                                                 \
    {                                                                                                                  \
        read<NAME>(from, sums, n, rounds);                                                                             \
    }                                                                                                                  \
    extern "C" __global__ void copy_##NAME(const float* __restrict__ from, float* __restrict__ to, unsigned n,         \
                                           unsigned width, int rounds)                                                 \
    {                                                                                                                  \
        copy<NAME>(from, to, n, rounds);                                                                               \
    }

VECTOR(float)
VECTOR(float2)
VECTOR(float4)
