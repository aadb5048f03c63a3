// The training of a network, all steps of a launch (steps.cuh) of one block per SM: for networks of any depth whose
// arithmetic is too much for one block or one cluster.
//
//   H_i = max(H_{i-1} W_i, 0), H_0 = X;  y = H_L w;  e = y - Y;  g = 2/rows e                      forward
//   w -= rate H_L^T g;  dZ_L = g w^T where H_L > 0                                               backward, where
//   W_i -= rate H_{i-1}^T dZ_i;  dZ_{i-1} = dZ_i W_i^T where H_{i-1} > 0                           i = L, ..., 1
//
// A step is a sequence of phases, separated by barriers of the whole grid: forward<1..L>, then descend<i> (updates
// W_i) and propagate<i> (computes dZ_{i-1}) for i = L, ..., 1: 3 L - 1 phases. In each, every block computes one tile
// of one product. The headers of grid/ say more:
//
//   forward         H_i, and parts of y.
//   descend         dW_i and the update of W_i, and dw.
//   propagate       dZ_{i-1}.
//   after_barrier   What must wait for a phase's barrier: e and g; the update of w and, with CLIP, of W_i.
//   product         The arithmetic of every phase, with the wait for its barrier.
//   tiles, layout   Which tile of a product is a block's; the workspace and shared memory.
//   state           What a thread keeps from phase to phase.
//
// How phases avoid waiting, and reading:
//
//   no staging      the tile is so small that its warps split k among them. No warp reads what another one reads, so
//                   operands go from L2 directly to registers, and the warps' sums are combined in shared memory.
//   early loads     operands that are ready already are loaded before the barrier is waited for: X, W_i in the forward
//                   pass, H_{i-1} in the backward pass.
//   y, e, g         each tile of H_L contributes to y; each block that needs e adds up these parts itself, in one order
//   w               dW_L = U diag(w), U = H_{L-1}^T (g where H_L > 0). So U need not wait for the new w, of which each
//                   block computes the elements of its columns of H_L.
//   ownership       a block's tiles of W_i, and the bits of its tiles of H_i > 0, never leave its registers.
//   clipping        (CLIP) the norm of a gradient is known one barrier later. Until then W_i stays unchanged beside
//                   dW_i, and readers use W_i - factor dW_i; the owner of a tile writes it to a second copy of W_i.
//   3 x TF32        float32 products on tensor cores by three TF32 products (tf32.cuh). Before sm_80: float32.
//
// Layout: widths and the batch are padded with zeros to multiples of 16; each batch of X and Y is stored contiguously.
// Launch: cooperative, GRID blocks of 256 threads, `shared_bytes` of dynamic shared memory.

#include "barrier.cuh"
#include "clipping.cuh"
#include "slab.cuh"
#include "grid/tiles.cuh"
#include "grid/layout.cuh"
#include "grid/product.cuh"
#include "grid/state.cuh"
#include "grid/after_barrier.cuh"
#include "grid/forward.cuh"
#include "grid/descend.cuh"
#include "grid/propagate.cuh"

// Each header from state.cuh on extends the struct of the one before it, and uses only what stands before it.
struct Training : PropagatePhase {
    template <int I> __device__ void start()
    {
        if constexpr (I > 0) {
            start<I - 1>();
            Kept<I>& mine = kept;
            for_elements<Descend<I>>(at, [&](int e, int row, int col) {
                const int i = row * WIDTH[I] + col;
                mine.W[e] = W<I>(0)[i];
                if (CLIP) W<I>(1)[i] = mine.W[e], dW<I>()[i] = shared.dW[e][at.thread] = 0.0f;
            });
        } else {
            for (int j = at.thread; j < LAST; j += THREADS) shared.w[j] = w_in_memory()[j];
        }
    }

    template <int I> __device__ void finish()
    {
        if constexpr (I > 0) {
            finish<I - 1>();
            const Kept<I>& mine = kept;
            for_elements<Descend<I>>(at, [&](int e, int row, int col) { W<I>(0)[row * WIDTH[I] + col] = mine.W[e]; });
        } else if (at.block == 0) {
            for (int j = at.thread; j < LAST; j += THREADS) w_in_memory()[j] = shared.w[j];
        }
    }

    // ---- the phases of a step

    template <int I> __device__ void forward_up_to()
    {
        if constexpr (I > 1) forward_up_to<I - 1>();
        forward<I>();
    }

    template <int I> __device__ void backward_from()  // SEQUENTIAL: dZ_{i-1} is of the updated W_i
    {
        if constexpr (SEQUENTIAL || I == 1) descend<I>();
        if constexpr (I > 1) {
            propagate<I>();
            if constexpr (!SEQUENTIAL) descend<I>();
            backward_from<I - 1>();
        }
    }
};

extern "C" __global__ __launch_bounds__(THREADS, 1) void train_persistent(
    const float* X, const float* Y, float* weights, float* E, float* workspace, int rows, int first, int steps,
    float rate, float max_norm)
{
    extern __shared__ __align__(16) float dynamic[];
    Shared& shared = *reinterpret_cast<Shared*>(dynamic);
    Barrier barrier{reinterpret_cast<unsigned*>(workspace)};
    Training training{State{shared, barrier, X, Y, weights, E, workspace, rate, max_norm}};
    const int batches = (rows + BATCH - 1) / BATCH;
    int step = 0;
    training.batch = first;
    training.start<L>();
    training.barrier.arrive();
    for (; step < steps; ++step) {
        training.step = step;
        training.rows = smaller(BATCH, rows - training.batch * BATCH);
        training.last = step == steps - 1;
        training.forward_up_to<L>();
        training.backward_from<L>();
        training.first = false;
        training.batch = batch_after(training.batch, batches);
    }
    training.barrier.wait("blocks", steps);
    training.settle<1>();
    training.finish<L>();
    if (blockIdx.x == 0 && threadIdx.x == 0) count_steps(workspace, step);
    training.barrier.reset();
}
