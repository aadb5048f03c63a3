// What the kernels that train with GROUPS groups of 8 blocks share. All GRID blocks run at the same time and exchange
// data through global memory by self-validating messages (messages.cuh).

#include "barrier.cuh"

constexpr int BLOCKS = 8, WARPS = 8, THREADS = 32 * WARPS;   // BLOCKS: per group
static_assert(GRID == BLOCKS * GROUPS, "all groups");

struct Groups {
    Barrier barrier;                      // only before the first step and at the end
    const float *X, *Y;
    float *weights, *E, *workspace;
    float rate;
    int next;                             // the next batch; at first that of the first step
    int group = blockIdx.x / BLOCKS, rank = blockIdx.x % BLOCKS, t = threadIdx.x;
    int batch = 0, count = 0, step = 0;   // count: rows of this batch
    bool last = false;

    __device__ void all_meet()
    {
        barrier.arrive();
        barrier.wait();
    }

    // Clears the messages of an earlier launch.
    __device__ void forget(int from, int to) const
    {
        for (int i = from + (int)blockIdx.x * THREADS + t; i < to; i += GRID * THREADS) workspace[i] = 0.0f;
    }

    __device__ void turn_to_step(int steps, int batches, int rows)
    {
        batch = next, next = batch_after(batch, batches);
        count = min(BATCH, rows - batch * BATCH);
        last = step == steps - 1;
    }

    __device__ void leave()  // after the last step
    {
        if (blockIdx.x == 0 && t == 0) count_steps(workspace, step);
        barrier.reset();
    }
};
