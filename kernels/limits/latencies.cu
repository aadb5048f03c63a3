// Latencies of memory, in cycles of the SM's clock: one thread follows a chain of addresses, each of which is what the
// load before it brought, so that no load begins before the previous one has ended.
//
//   fill_chain      writes the chain into a buffer of `lines` lines of 128 bytes, a power of two: line i holds the first
//                   word of line (i * 1664525 + 1013904223) mod lines, which visits every line once (Hull and Dobell).
//   chase_registers `steps` multiply-adds, each of what the one before it gave: operands that are in registers.
//   chase_shared    `steps` loads from shared memory, over a chain of SHARED words.
//   chase_l1        the same from a buffer, by loads that L1 may keep.
//   chase_memory    the same, by loads that bypass L1: from L2 where the buffer fits into it, else from main memory.
//   sum_by_shuffles `steps` sums over the lanes of a warp, each of what the one before it gave: five exchanges, each added.
//   sum_by_atomics  the same: each lane adds its number to one float in shared memory, which then every lane reads.
//
// `warm` loads precede those that are timed: as many as a chain has lines leave it in the cache. A chain continues at the
// word `*at`, where the launch before it ended, so that without them no launch finds lines of another one in L2.
//
// A load's address is computed from what the last one brought, so a step includes that instruction: about five cycles.
// No compiler shortens a chain of multiply-adds of floats, as each rounds.
//
// Launch: fill_chain with any number of blocks; the sums with one block of one warp, the others with one block of one
// thread. *cycles is of all `steps`.

constexpr unsigned WORDS = 32;     // per line
constexpr unsigned SHARED = 1024;  // words of the chain in shared memory
constexpr int LANES = 32;          // of a warp

__device__ unsigned after(unsigned line, unsigned lines) { return (line * 1664525u + 1013904223u) & (lines - 1); }

extern "C" __global__ void fill_chain(unsigned* next, unsigned lines)
{
    const unsigned stride = gridDim.x * blockDim.x;
    for (unsigned line = blockIdx.x * blockDim.x + threadIdx.x; line < lines; line += stride)
        next[line * WORDS] = after(line, lines) * WORDS;
}

template <class Load>
__device__ void chase(unsigned* at, long long* cycles, int warm, int steps, Load load)
{
    unsigned word = *at;
    for (int step = 0; step < warm; ++step) word = load(word);
    asm volatile("" : "+r"(word) :: "memory");  // the loads before and after stay on their side of the clock
    const long long began = clock64();
    asm volatile("" : "+r"(word) :: "memory");
#pragma unroll 8
    for (int step = 0; step < steps; ++step) word = load(word);
    asm volatile("" : "+r"(word) :: "memory");
    *cycles = clock64() - began;
    *at = word;
}

extern "C" __global__ void chase_registers(unsigned* at, long long* cycles, int warm, int steps)
{
    chase(at, cycles, warm, steps, [](unsigned word) {
        return __float_as_uint(fmaf(__uint_as_float(word), 0.5f, 1.0f));
    });
}

extern "C" __global__ void chase_shared(unsigned* at, long long* cycles, int warm, int steps)
{
    __shared__ unsigned next[SHARED];
    for (unsigned i = 0; i < SHARED; ++i) next[i] = after(i, SHARED);
    __syncthreads();
    const volatile unsigned* const chain = next;
    chase(at, cycles, warm, steps, [&](unsigned word) { return chain[word]; });
}

extern "C" __global__ void chase_l1(const unsigned* next, unsigned* at, long long* cycles, int warm, int steps)
{
    chase(at, cycles, warm, steps, [&](unsigned word) { return __ldca(next + word); });
}

extern "C" __global__ void chase_memory(const unsigned* next, unsigned* at, long long* cycles, int warm, int steps)
{
    chase(at, cycles, warm, steps, [&](unsigned word) { return __ldcg(next + word); });
}

// Both sums end with a product, so that repeated sums stay finite.

extern "C" __global__ void sum_by_shuffles(unsigned* at, long long* cycles, int warm, int steps)
{
    // Different numbers: if all lanes had the same, the compiler would leave out the shuffles.
    const float own = threadIdx.x;
    chase(at, cycles, warm, steps, [=](unsigned word) {
        float sum = __uint_as_float(word) + own;
        for (int apart = LANES / 2; apart > 0; apart /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, apart);
        return __float_as_uint(sum * (1.0f / LANES));
    });
}

extern "C" __global__ void sum_by_atomics(unsigned* at, long long* cycles, int warm, int steps)
{
    __shared__ float total;
    chase(at, cycles, warm, steps, [&](unsigned word) {
        if (threadIdx.x == 0) total = 0.0f;
        __syncwarp();
        atomicAdd(&total, __uint_as_float(word));
        __syncwarp();
        const float sum = *static_cast<volatile float*>(&total);
        __syncwarp();
        return __float_as_uint(sum * (1.0f / LANES));
    });
}
