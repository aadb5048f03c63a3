// Array of structures against structure of arrays: a thread per structure of FIELDS floats, of which it uses 1, 2, 4 or 8
// neighbouring ones: the first in the first pass, then the next ones, so that L2 does not hold what a pass asks for.
//
//   read_aos, copy_aos   field f of structure i is from[FIELDS i + f]: neighbouring threads are 32 bytes apart
//   read_soa, copy_soa   field f of structure i is from[f n + i]: neighbouring threads are neighbours
//
// A structure is one sector of 32 bytes. As an array of structures it is moved whole, whichever part is used, and each of a
// warp's loads touches 32 sectors; the second field's come from L1. As a structure of arrays only the used fields move.
//
// A thread has 8 loads in flight, and with all fields in use 16, those of two structures: arrays of fields are then read
// 1.11 times as fast as with those of one, and copied 1.24 times (an NVIDIA H200, one run).
//
//   read_...   sums[t] = the sum of the used fields of thread t's structures
//   copy_...   the used fields of `to` = those of `from`, in the same layout
//
// Launch: any number of blocks of whole warps; sums has a float per thread. n structures, FIELDS n < 2^31, rounds passes.

#include "walk.cuh"

constexpr unsigned FIELDS = 8;

template <int USED>
struct Fields {
    float f[USED];
};

template <int USED, class Place, class Use>
__device__ void pass(const float* from, unsigned n, Place place, Use use)
{
    walk<USED == FIELDS ? 2 : FIELDS / USED>(
        n,
        [=](unsigned i) {
            Fields<USED> v;
#pragma unroll
            for (int f = 0; f < USED; ++f) v.f[f] = from[place(i, f)];
            return v;
        },
        [&](unsigned i, const Fields<USED>& v) {
#pragma unroll
            for (int f = 0; f < USED; ++f) use(place(i, f), v.f[f]);
        });
}

template <class Place, class Use>
__device__ void passes(const float* from, unsigned n, unsigned used, int rounds, Place place, Use use)
{
    for (int round = 0; round < rounds; ++round) {
        const unsigned first = round * used % FIELDS;
        const auto at = [=](unsigned i, unsigned f) { return place(i, first + f); };
        if (used == 1) pass<1>(from, n, at, use);
        if (used == 2) pass<2>(from, n, at, use);
        if (used == 4) pass<4>(from, n, at, use);
        if (used == 8) pass<8>(from, n, at, use);
    }
}

struct OfStructures {
    __device__ unsigned operator()(unsigned i, unsigned f) const { return FIELDS * i + f; }
};

struct OfArrays {
    unsigned n;
    __device__ unsigned operator()(unsigned i, unsigned f) const { return f * n + i; }
};

template <class Place>
__device__ void read(const float* from, float* sums, unsigned n, unsigned used, int rounds, Place place)
{
    float sum = 0.0f;
    passes(from, n, used, rounds, place, [&](unsigned, float v) { sum += v; });
    own_sum(sums) = sum;
}

template <class Place>
__device__ void copy(const float* from, float* to, unsigned n, unsigned used, int rounds, Place place)
{
    passes(from, n, used, rounds, place, [=](unsigned at, float v) { to[at] = v; });
}

#define LAYOUT(NAME, PLACE)                                                                                            \
    extern "C" __global__ void read_##NAME(const float* __restrict__ from, float* __restrict__ sums, unsigned n,       \
                                           unsigned used, int rounds)                                                  \
    {                                                                                                                  \
        read(from, sums, n, used, rounds, PLACE);                                                                      \
    }                                                                                                                  \
    extern "C" __global__ void copy_##NAME(const float* __restrict__ from, float* __restrict__ to, unsigned n,         \
                                           unsigned used, int rounds)                                                  \
    {                                                                                                                  \
        copy(from, to, n, used, rounds, PLACE);                                                                        \
    }

LAYOUT(aos, OfStructures())
LAYOUT(soa, OfArrays{n})
