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
    unsigned first;                       // the batch of the first step
    int group = blockIdx.x / BLOCKS, rank = blockIdx.x % BLOCKS, t = threadIdx.x;
    int batch = 0, next = 0, count = 0, step = 0;   // next: the next batch; count: rows of this batch
    bool last = false;

    __device__ void all_meet()
    {
        barrier.arrive();
        barrier.wait("blocks", step);
    }

    // Clears the messages of an earlier launch.
    __device__ void forget(int from, int to) const
    {
        for (int i = from + (int)blockIdx.x * THREADS + t; i < to; i += GRID * THREADS) workspace[i] = 0.0f;
    }

    // In two parts, each where its results are needed: together, with three layers, they took more registers than
    // there are.
    __device__ void look_ahead(int batches) { next = (first + step + 1) % (unsigned)batches; }
    __device__ void turn_to_batch(int steps, int batches, int rows)
    {
        batch = (first + step) % (unsigned)batches;
        count = min(BATCH, rows - batch * BATCH);
        last = step == steps - 1;
    }

    __device__ void leave()  // after the last step
    {
        if (blockIdx.x == 0 && t == 0) count_steps(workspace, step);
        barrier.reset();
    }
};
