// Latencies of a device: starting work, and waiting for other blocks. Each kernel repeats one operation `rounds` times
// in one launch, so that the launch's time over `rounds` is its latency. Floors of a step are computed from them.
//
//   empty              nothing: the cost of a launch, or of a graph node.
//   cluster_barrier    all blocks of a cluster arrive and wait.
//   cluster_exchange   each block of a cluster sends one word to every other block's shared memory and waits for
//                      theirs: an mbarrier counts the bytes that have arrived.
//   grid_barrier       all blocks of the grid increment one counter in global memory and wait until all have done so.
//   grid_exchange      each block writes one word to global memory and polls the words of all others.
//
// No exchange begins before the previous one has ended. Blocks are as small as possible, one warp where that is
// enough, since a lower bound must not include a block's own synchronisation.
//
// Launch: clusters, or a cooperative grid, of blocks of 32 threads; grid_exchange with at least as many threads per
// block as there are blocks. `counter` and `words` must be 0 before. Clusters need sm_90; on older devices the body is
// compiled out, and the kernel must not be launched.

extern "C" __global__ void empty() {}

// ---- within a cluster, through shared memory

#if __CUDA_ARCH__ >= 900
constexpr int MOST_BLOCKS = 16;  // per cluster, at most

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
    __shared__ unsigned words[2][MOST_BLOCKS];  // for even and odd rounds: one is read while the other is written
    __shared__ alignas(8) unsigned long long arrived[2];
    const unsigned rank = cluster_rank();
    unsigned blocks;
    asm("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(blocks));
    const unsigned lane = threadIdx.x, bytes = 4 * blocks;
    if (lane == 0)
        for (int half = 0; half < 2; ++half) mbarrier_init(shared_address(&arrived[half]));
    mbarriers_made();
    __syncwarp();  // for racecheck, which does not see that lane 0 initialised them
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
        if (lane == 0) mbarrier_expect(mbarrier, bytes);  // before the next word, for which others wait
        __syncwarp();
    }
    cluster_barrier();  // no block may exit while others still write to its shared memory
    if (lane == 0) out[blockIdx.x] = word;
#endif
}

// ---- across a grid, through global memory

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
