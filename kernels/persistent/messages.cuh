// Messages through memory that say themselves whether they have come, so that blocks which run at the same time need
// neither barrier nor fence between them: floats whose last bit is of the turn in which they were written, and words of
// 64 bits with the step in the upper half. All reads and writes are relaxed, of the device's scope. The bit is 0 for who
// reads the float: 23 bits of 24 come.
//
// A float's place is of every second step; its bit, 0 at first, is 1, 0, 1, ... So a place may be written when all have
// read what was there two steps ago.

typedef unsigned long long Word;

// A pause before the first look at what cannot have come yet, so that nobody hinders those who are to write it: 7% of a
// step with two hidden layers, 8% with three (256-256, 256-1024-256, NVIDIA H200; of 300 to 700 ns within 1%).
constexpr int NANOSECONDS = 500;

#ifdef CUDA_ON_CPU  // whose emulator has these
using namespace cuda_on_cpu;
__device__ void let_come() { pause(); }
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

// Which the compiler may move, but not across each other.
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
__device__ void let_come() { __nanosleep(NANOSECONDS); }
#endif

__device__ Word await(const Word* from, unsigned high)
{
    for (;;) {
        const Word found = look(from);
        if (found >> 32 == high) return found;
        pause();
    }
}

// Whether all that the lanes of a warp have looked for has come; it is worth looking again if not.
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

// N vectors, of those that this thread `has`, each from where it is; await() looks again for those that are missing.
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

// Places of two steps, SIZE floats each.
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
