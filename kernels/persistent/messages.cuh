// Self-validating messages through global memory, so that blocks that run at the same time exchange data without a
// barrier or a fence. A reader polls a value until a tag in the value itself marks it as fresh. There are two kinds:
//
//   floats   the last bit of the mantissa is the tag of the step ("turn" in the code). The reader sets it to 0, so 23
//            of the 24 bits of precision arrive.
//   words    64 bits: 32 bits of data, and the number of the step in the upper half.
//
// What of this the PTX memory model covers: that a value which carries its tag is the message. Value and tag are one
// scalar, and a scalar is read and written as a whole. A vector is, to the model, as many scalars in any order, and may be:
// each has its own tag. What the model does not cover: that a message is read before it is overwritten. The reader's load,
// a barrier of its block, its block's next message, perhaps third blocks' messages, and at last the overwriting store are
// a chain, but relaxed loads and stores order nothing beyond their own location. Three properties of the hardware do:
//
//   - A load has returned before a later store of its thread is issued, if a branch depends on its value: every wait is
//     such a branch. Stores are not issued speculatively.
//   - The same holds across bar.sync, for later stores of other threads of the block.
//   - L2 is the one place where these loads and stores take effect, so that what one block has seen, all do.
//
// Tested on an H100 (sm_90) only. With FENCES = 1 messages are loaded by ld.acquire and stored by st.release: with
// bar.sync, which orders a block's threads, each link of the chain then synchronizes with the next, and the model covers
// all of it, except that polling ever ends: it promises no progress. tests/test_fall_back.py trains by both builds, and
// expects the same bits.
//
// Two buffers alternate: even steps use one, odd steps the other. A float's tag, 0 at first, is 1, 0, 1, ... in
// successive uses of its buffer. So a value may be overwritten once every reader has read what was there two steps
// earlier; each kernel says why that holds.

#include "waits.cuh"

#ifndef FENCES
#define FENCES 0
#endif

typedef unsigned long long Word;

#ifdef CUDA_ON_CPU  // the CPU emulator of the tests defines more
__device__ void let_come(unsigned) { pause(); }
template <int COUNT>
__device__ void look(const float* from, float (&to)[COUNT]) { strong_read(from, to, COUNT); }
template <int COUNT>
__device__ void leave(float* to, const float (&from)[COUNT]) { strong_write(to, from, COUNT); }
__device__ void look(const Word* from, Word (&to)[2]) { to[0] = look(from), to[1] = look(from + 1); }
#else
#if FENCES
#define LOAD "ld.acquire.gpu.global."
#define STORE "st.release.gpu.global."
#define ORDERED : "memory"
#else
#define LOAD "ld.relaxed.gpu.global."
#define STORE "st.relaxed.gpu.global."
#define ORDERED
#endif

__device__ void publish(Word* to, Word value)
{
    asm volatile(STORE "u64 [%0], %1;" :: "l"(to), "l"(value) : "memory");
}

__device__ Word look(const Word* from)
{
    Word found;
    asm volatile(LOAD "u64 %0, [%1];" : "=l"(found) : "l"(from) : "memory");
    return found;
}

__device__ void look(const Word* from, Word (&to)[2])
{
    asm volatile(LOAD "v2.u64 {%0, %1}, [%2];" : "=l"(to[0]), "=l"(to[1]) : "l"(from) : "memory");
}

// Unless FENCES is set, without a memory clobber: the compiler may move these loads, but not past each other.
template <int COUNT>
__device__ void look(const float* from, float (&to)[COUNT])
{
    if constexpr (COUNT % 4 == 0) {
#pragma unroll
        for (int i = 0; i < COUNT; i += 4)
            asm volatile(LOAD "v4.f32 {%0, %1, %2, %3}, [%4];"
                         : "=f"(to[i]), "=f"(to[i + 1]), "=f"(to[i + 2]), "=f"(to[i + 3]) : "l"(from + i) ORDERED);
    } else if constexpr (COUNT % 2 == 0) {
#pragma unroll
        for (int i = 0; i < COUNT; i += 2)
            asm volatile(LOAD "v2.f32 {%0, %1}, [%2];"
                         : "=f"(to[i]), "=f"(to[i + 1]) : "l"(from + i) ORDERED);
    } else {
#pragma unroll
        for (int i = 0; i < COUNT; ++i)
            asm volatile(LOAD "f32 %0, [%1];" : "=f"(to[i]) : "l"(from + i) ORDERED);
    }
}

template <int COUNT>
__device__ void leave(float* to, const float (&from)[COUNT])
{
    if constexpr (COUNT % 4 == 0) {
#pragma unroll
        for (int i = 0; i < COUNT; i += 4)
            asm volatile(STORE "v4.f32 [%0], {%1, %2, %3, %4};"
                         :: "l"(to + i), "f"(from[i]), "f"(from[i + 1]), "f"(from[i + 2]), "f"(from[i + 3]) ORDERED);
    } else if constexpr (COUNT % 2 == 0) {
#pragma unroll
        for (int i = 0; i < COUNT; i += 2)
            asm volatile(STORE "v2.f32 [%0], {%1, %2};" :: "l"(to + i), "f"(from[i]), "f"(from[i + 1]) ORDERED);
    } else {
#pragma unroll
        for (int i = 0; i < COUNT; ++i)
            asm volatile(STORE "f32 [%0], %1;" :: "l"(to + i), "f"(from[i]) ORDERED);
    }
}

// A pause of so many clock cycles, before polling starts for a message that cannot have arrived yet, so that polling does
// not slow down its writers. __nanosleep is too coarse: it saves 7 to 8% of a step with two or three hidden layers, where
// the best number of cycles saves 2 to 3% more (NVIDIA H200).
__device__ void let_come(unsigned cycles)
{
    const unsigned began = clock();
    while ((unsigned)clock() - began < cycles) {}
}
#endif

__device__ Word await(const Word* from, unsigned high, const Awaited& awaited, int step)
{
    Word found = look(from);
    for (WaitLimit limit; found >> 32 != high; found = look(from)) limit.after_failed_look(awaited, step);
    return found;
}

// Whether the messages of all lanes of a warp have arrived.
__device__ bool all_have(bool mine) { return __all_sync(0xffffffffu, mine); }

__device__ unsigned turn_of(int step) { return ~((unsigned)step >> 1) & 1; }

template <int COUNT>
__device__ bool has_come(const float (&v)[COUNT], unsigned turn)
{
    unsigned others = 0;
#pragma unroll
    for (int i = 0; i < COUNT; ++i) others |= __float_as_uint(v[i]) ^ turn;
    return (others & 1) == 0;
}

template <int COUNT>
__device__ void without_turn(float (&v)[COUNT])
{
#pragma unroll
    for (int i = 0; i < COUNT; ++i) v[i] = __uint_as_float(__float_as_uint(v[i]) & ~1u);
}

// First load of N vectors, vector i from where(i) if has(i); await() reloads those that have not arrived. Vectors that
// this thread does not have are marked as arrived.
template <int N, int COUNT, class Has, class Where>
__device__ void look_for(float (&v)[N][COUNT], unsigned turn, Has has, Where where)
{
#pragma unroll
    for (int i = 0; i < N; ++i) {
#pragma unroll
        for (int j = 0; j < COUNT; ++j) v[i][j] = __uint_as_float(turn);
        if (has(i)) look(where(i), v[i]);
    }
}

template <int N, int COUNT>
__device__ bool have_come(const float (&v)[N][COUNT], unsigned turn)
{
    bool come = true;
#pragma unroll
    for (int i = 0; i < N; ++i) come &= has_come(v[i], turn);
    return come;
}

template <int N, int COUNT, class Where>
__device__ void look_again(float (&v)[N][COUNT], unsigned turn, Where where)
{
#pragma unroll
    for (int i = 0; i < N; ++i)
        if (!has_come(v[i], turn)) look(where(i), v[i]);
}

template <int N, int COUNT>
__device__ void without_turn(float (&v)[N][COUNT])
{
#pragma unroll
    for (int i = 0; i < N; ++i) without_turn(v[i]);
}

template <int N, int COUNT, class Where>
__device__ void await(float (&v)[N][COUNT], int step, Where where, const Awaited& awaited)
{
    const unsigned turn = turn_of(step);
    for (WaitLimit limit; !all_have(have_come(v, turn)); look_again(v, turn, where)) limit.after_failed_look(awaited, step);
    without_turn(v);
}

// Two buffers of SIZE floats: one for even steps, one for odd steps.
template <int SIZE>
struct Messages {
    static constexpr int FLOATS = 2 * SIZE;
    float* first;

    __device__ float* of(int step) const { return first + (step & 1) * SIZE; }

    template <int COUNT>
    __device__ void put(int step, int at, const float (&v)[COUNT]) const
    {
        float value[COUNT];
#pragma unroll
        for (int i = 0; i < COUNT; ++i) value[i] = __uint_as_float((__float_as_uint(v[i]) & ~1u) | turn_of(step));
        leave(of(step) + at, value);
    }
};
