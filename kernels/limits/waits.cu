// How long it takes to start work, and for blocks to wait for each other, each again and again in one launch: what
// floors are computed from. Divided by `rounds`, a launch's time is that of one.
//
//   empty              nothing: what a launch costs, or a node of a graph.
//   cluster_barrier    all blocks of a cluster arrive and wait.
//   cluster_exchange   each block of a cluster sends every other one a word, into its shared memory, and waits for
//                      all of theirs: an mbarrier counts the bytes that have come.
//   grid_barrier       all blocks of the grid add to one counter in memory and wait until it says that all have.
//   grid_exchange      each block writes a word to memory and reads those of all others until they are there.
//
// No exchange begins before the one before it has ended. Blocks are as small as they can be,
// one warp where that is enough, since a floor must not count what a block adds.
//
// Launch: clusters or a cooperative grid of blocks of 32 threads, grid_exchange of at least as many threads as there
// are blocks. `counter` and `words` are 0 before. Clusters need sm_90; what a device lacks is left out, and such
// a kernel is not to be launched.

extern "C" __global__ void empty() {}

// ---- in a cluster, through shared memory

#if __CUDA_ARCH__ >= 900
constexpr int MOST_BLOCKS = 16;  // of a cluster

#include "../persistent/cluster.cuh"
#include "../persistent/copies.cuh"
#endif

extern "C" __global__ __launch_bounds__(32, 1) void cluster_barrier(int rounds)
{
#if __CUDA_ARCH__ >= 900
    for (int round = 0; round < rounds; ++round) cluster_barrier();
#endif
}

extern "C" __global__ __launch_bounds__(32, 1) void cluster_exchange(unsigned* out, int rounds)
{
#if __CUDA_ARCH__ >= 900
    __shared__ unsigned words[2][MOST_BLOCKS];  // of even and odd rounds: one is read while the other is written
    __shared__ alignas(8) unsigned long long arrived[2];
    const unsigned rank = cluster_rank();
    unsigned blocks;
    asm("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(blocks));
    const unsigned lane = threadIdx.x, bytes = 4 * blocks;
    if (lane == 0)
        for (int half = 0; half < 2; ++half) mbarrier_init(shared_address(&arrived[half]));
    mbarriers_made();
    __syncwarp();  // for racecheck, which takes the lane that makes one for another
    if (lane == 0)
        for (int half = 0; half < 2; ++half) mbarrier_expect(shared_address(&arrived[half]), bytes);
    cluster_barrier();
    unsigned word = rank;
    for (int round = 0; round < rounds; ++round) {
        const unsigned half = round % 2, mbarrier = shared_address(&arrived[half]);
        const float message[1] = {__uint_as_float(word)};
        if (lane < blocks)
            send(in_block(shared_address(&words[half][rank]), lane), message, in_block(mbarrier, lane));
        mbarrier_wait(mbarrier, round / 2 % 2);
        word += words[half][lane % blocks];
        __syncwarp();
        if (lane == 0) mbarrier_expect(mbarrier, bytes);  // before the word of the next round, without which none sends here
        __syncwarp();
    }
    cluster_barrier();  // whose shared memory is written to until all are through
    if (lane == 0) out[blockIdx.x] = word;
#endif
}

// ---- in a grid, through memory

__device__ unsigned read_acquire(const unsigned* from)
{
    unsigned value;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
    return value;
}

extern "C" __global__ __launch_bounds__(32, 1) void grid_barrier(unsigned* counter, int rounds)
{
    for (unsigned round = 1; round <= rounds; ++round) {
        if (threadIdx.x == 0) {
            asm volatile("red.release.gpu.global.add.u32 [%0], 1;" :: "l"(counter) : "memory");
            while (read_acquire(counter) < round * gridDim.x) {}
        }
        __syncthreads();
    }
}

extern "C" __global__ __launch_bounds__(1024, 1) void grid_exchange(unsigned* words, int rounds)
{
    const bool reads = threadIdx.x < gridDim.x;
    for (unsigned round = 1; round <= rounds; ++round) {
        if (threadIdx.x == 0)
            asm volatile("st.release.gpu.global.u32 [%0], %1;" :: "l"(words + blockIdx.x), "r"(round) : "memory");
        if (reads)
            while (read_acquire(words + threadIdx.x) < round) {}
        __syncthreads();
    }
}
