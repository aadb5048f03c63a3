// The barrier of a grid of GRID blocks that all run at once: arrive() ends a phase, wait() begins the next; between them a
// block may read what is older. Blocks count at COUNTERS places, since additions at one place take turns.

constexpr int COUNTERS = 8, COUNTER_STRIDE = 32;                    // unsigneds; a line of L2 each
constexpr int BARRIER_FLOATS = (COUNTERS + 1) * COUNTER_STRIDE;     // of memory, 0 at first

struct Barrier {
    unsigned* counters;
    unsigned rounds = 0;

    __device__ unsigned* counter(unsigned i) const { return counters + i * COUNTER_STRIDE; }

    __device__ void arrive()
    {
        __syncthreads();
#ifndef CUDA_ON_CPU
        if (threadIdx.x == 0)
            asm volatile("fence.acq_rel.gpu;\nred.relaxed.gpu.global.add.u32 [%0], 1;"
                         :: "l"(counter(blockIdx.x % COUNTERS)) : "memory");
#endif
    }

    __device__ void wait()
    {
#ifdef CUDA_ON_CPU
        cuda_on_cpu::grid_barrier();
#else
        ++rounds;
        if (threadIdx.x < COUNTERS) {
            const unsigned target = rounds * ((GRID - threadIdx.x + COUNTERS - 1) / COUNTERS);
            unsigned now;
            do asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(counter(threadIdx.x)) : "memory");
            while ((int)(now - target) < 0);
        }
        __syncthreads();
#endif
    }

    __device__ void reset()  // after the last wait(): the next launch begins at 0
    {
#ifndef CUDA_ON_CPU
        if (threadIdx.x == 0 && atomicAdd(counter(COUNTERS), 1) == GRID - 1)
            for (int i = 0; i <= COUNTERS; ++i) *counter(i) = 0;
#endif
    }
};
