// Self-validating messages through global memory, so that blocks that run at the same time exchange data without a
// barrier or a fence. A reader polls a value until a tag in the value itself marks it as fresh. There are two kinds:
//
//   floats   the last bit of the mantissa is the tag of the step ("turn" in the code). The reader sets it to 0, so 23
//            of the 24 bits of precision arrive.
//   words    64 bits: 32 bits of data, and the number of the step in the upper half.
//
// All loads and stores are relaxed, at GPU scope.
//
// Two buffers alternate: even steps use one, odd steps the other. A float's tag, 0 at first, is 1, 0, 1, ... in
// successive uses of its buffer. So a value may be overwritten once every reader has read what was there two steps
// earlier; each kernel says why that holds.

typedef unsigned long long Word;

#ifdef CUDA_ON_CPU  // the CPU emulator of the tests defines these
using namespace cuda_on_cpu;
__device__ void let_come(unsigned) { pause(); }
template <int COUNT>
__device__ void look(const float* from, float (&to)[COUNT]) { strong_read(from, to, COUNT); }
template <int COUNT>
__device__ void leave(float* to, const float (&from)[COUNT]) { strong_write(to, from, COUNT); }
__device__ void look(const Word* from, Word (&to)[2]) { to[0] = look(from), to[1] = look(from + 1); }
#else
__device__ void publish(Word* to, Word value)
{
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" :: "l"(to), "l"(value) : "memory");
}

__device__ Word look(const Word* from)
{
    Word found;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(found) : "l"(from) : "memory");
    return found;
}

__device__ void look(const Word* from, Word (&to)[2])
{
    asm volatile("ld.relaxed.gpu.global.v2.u64 {%0, %1}, [%2];" : "=l"(to[0]), "=l"(to[1]) : "l"(from) : "memory");
}

// Without a memory clobber: the compiler may move these loads, but not past each other.
template <int COUNT>
__device__ void look(const float* from, float (&to)[COUNT])
{
    if constexpr (COUNT % 4 == 0) {
#pragma unroll
        for (int i = 0; i < COUNT; i += 4)
            asm volatile("ld.relaxed.gpu.global.v4.f32 {%0, %1, %2, %3}, [%4];"
                         : "=f"(to[i]), "=f"(to[i + 1]), "=f"(to[i + 2]), "=f"(to[i + 3]) : "l"(from + i));
    } else if constexpr (COUNT % 2 == 0) {
#pragma unroll
        for (int i = 0; i < COUNT; i += 2)
            asm volatile("ld.relaxed.gpu.global.v2.f32 {%0, %1}, [%2];"
                         : "=f"(to[i]), "=f"(to[i + 1]) : "l"(from + i));
    } else {
#pragma unroll
        for (int i = 0; i < COUNT; ++i)
            asm volatile("ld.relaxed.gpu.global.f32 %0, [%1];" : "=f"(to[i]) : "l"(from + i));
    }
}

template <int COUNT>
__device__ void leave(float* to, const float (&from)[COUNT])
{
    if constexpr (COUNT % 4 == 0) {
#pragma unroll
        for (int i = 0; i < COUNT; i += 4)
            asm volatile("st.relaxed.gpu.global.v4.f32 [%0], {%1, %2, %3, %4};"
                         :: "l"(to + i), "f"(from[i]), "f"(from[i + 1]), "f"(from[i + 2]), "f"(from[i + 3]));
    } else if constexpr (COUNT % 2 == 0) {
#pragma unroll
        for (int i = 0; i < COUNT; i += 2)
            asm volatile("st.relaxed.gpu.global.v2.f32 [%0], {%1, %2};" :: "l"(to + i), "f"(from[i]), "f"(from[i + 1]));
    } else {
#pragma unroll
        for (int i = 0; i < COUNT; ++i)
            asm volatile("st.relaxed.gpu.global.f32 [%0], %1;" :: "l"(to + i), "f"(from[i]));
    }
}

__device__ void pause() {}

// A pause of so many clock cycles, before polling starts for a message that cannot have arrived yet, so that polling does
// not slow down its writers. __nanosleep is too coarse: it saves 7 to 8% of a step with two or three hidden layers, where
// the best number of cycles saves 2 to 3% more (NVIDIA H200).
__device__ void let_come(unsigned cycles)
{
    const unsigned began = clock();
    while ((unsigned)clock() - began < cycles) {}
}
#endif

__device__ Word await(const Word* from, unsigned high)
{
    for (;;) {
        const Word found = look(from);
        if (found >> 32 == high) return found;
        pause();
    }
}

// Whether the messages of all lanes of a warp have arrived; otherwise the warp polls again.
__device__ bool all_have(bool mine)
{
    const bool all = __all_sync(0xffffffffu, mine);
    if (!all) pause();
    return all;
}

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
__device__ void await(float (&v)[N][COUNT], unsigned turn, Where where)
{
    while (!all_have(have_come(v, turn))) look_again(v, turn, where);
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
