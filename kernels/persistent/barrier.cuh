// A barrier of the whole grid, for GRID blocks that all run at once, split in two: arrive() ends a phase and wait()
// begins the next one; between the two a block may read what was written in earlier phases. All blocks share one
// counter: eight counters, each in its own L2 cache line, were 2% slower. It and another are the first words of the
// workspace's head (steps.cuh).

#include "steps.cuh"
#include "waits.cuh"

struct Barrier {
    unsigned* counter;
    unsigned target = 0;

    __device__ void arrive()
    {
        __syncthreads();
#ifndef CUDA_ON_CPU
        if (threadIdx.x == 0)
            asm volatile("fence.acq_rel.gpu;\nred.relaxed.gpu.global.add.u32 [%0], 1;" :: "l"(counter) : "memory");
#endif
    }

    __device__ void wait(const Awaited& awaited, int step)   // for a report: what follows the barrier
    {
#ifdef CUDA_ON_CPU
        cuda_on_cpu::grid_barrier();
#else
        target += GRID;
        if (threadIdx.x == 0) {
            for (WaitLimit limit; (int)(arrived() - target) < 0;) limit.after_failed_look(awaited, step);
        }
        __syncthreads();
#endif
    }

#ifndef CUDA_ON_CPU
    __device__ unsigned arrived() const
    {
        unsigned now;
        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(counter) : "memory");
        return now;
    }
#endif

    __device__ void reset()  // after the last wait(), so that the next launch starts at 0
    {
#ifndef CUDA_ON_CPU
        if (threadIdx.x == 0 && atomicAdd(counter + 1, 1) == GRID - 1) counter[0] = counter[1] = 0;
#endif
    }
};
