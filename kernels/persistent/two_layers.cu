// The training of a network with two hidden layers, all steps of a launch (steps.cuh) of GROUPS groups of 8 blocks.
//
//   H1 = max(X W1, 0), H2 = max(H1 W2, 0), y = H2 w, e = y - Y, g = 2/rows e                       forward
//   w -= rate H2^T g;  W2 -= rate H1^T (g w^T where H2 > 0);  dZ1 = g w^T W2^T where H1 > 0;       backward, in
//   W1 -= rate X^T dZ1                                                                             the paper's order
//
// Blocks exchange data three times per step, by self-validating messages (messages.cuh), without a barrier or a fence.
// In the forward pass a group computes 16 rows of the batch, in the backward pass 16 neurons of the first layer. Block
// r of a group works on the same COLS2 columns of W2 and H2 in both passes. It also owns neurons 2 r and 2 r + 1 of
// the group's first-layer neurons. A step has three parts, each in a header of two_layers/ that says more:
//
//   forward       A group computes 16 rows of H2, each block some columns, and their contribution to y.
//   second_layer  A block updates w and some of W2, and publishes its columns' contribution to dH1.
//   first_layer   A block updates two columns of W1, and publishes these columns of the next batch's H1.
//
// The weights that a block updates never leave its registers; other blocks read published copies of W2 and w. Products
// are three TF32 ones on tensor cores (tf32.cuh), or two where one operand is bits, which TF32 represents exactly.
//
// Why a message of two steps ago may be overwritten: a block that publishes H1, or anything of a backward pass, has
// received every y of the step. Each y came from a block with rows, after it had read the weights and had received
// every H1; and each H1 came from a block with neurons, after it had read everything of the step before. A block that
// publishes H2's bits or y has received every H1.
//
// Layout: widths and the batch are padded with zeros to multiples of 16; each batch of X and Y is stored contiguously.
// `weights` is W1, W2, w. Launch: cooperative, GRID = 8 GROUPS blocks of 256 threads, `shared_bytes` of dynamic shared
// memory. Needs sm_80.

#include "clipping.cuh"
#include "copies.cuh"
#include "fragments.cuh"
#include "groups.cuh"
#include "messages.cuh"
#include "two_layers/layout.cuh"
#include "two_layers/state.cuh"
#include "two_layers/norms.cuh"
#include "two_layers/forward.cuh"
#include "two_layers/second_layer.cuh"
#include "two_layers/first_layer.cuh"

// Each header from state.cuh on extends the struct of the one before it, and uses only what stands before it.
struct Training : FirstLayer {
    template <class Do> __device__ void for_weights(bool with_W1, Do f)  // f(kept, its address)
    {
        float* const W2 = weights + FEATURES * N1;
        for (int i = 0; i < 2; ++i) {
            if (has2) f(kept2[i], W2 + at2() + i);
            if (with_W1 && has1) f(kept1[i], weights + at1() + i);
        }
    }

    __device__ void start()
    {
        for_weights(true, [](float& kept, const float* from) { kept = *from; });
        if (t < COLS2) s.w[0][t] = weights[FEATURES * N1 + N1 * N2 + col + t];
        for (int i = t; i < (ROWS - PADDED) * STRIDE_X; i += THREADS)
            for (auto& of_X : s.X) of_X[PADDED + i / STRIDE_X][i % STRIDE_X] = 0.0f;
        fetch_X(0, first);
        forget(AT_WORDS, workspace_floats);
        copies_done();
        all_meet();
        tell_weights(0, s.w[0]);
        take_row(0);
        tell_H1(0);
        look_for_weights(0);
    }
    __device__ void finish()
    {
        for_weights(warp == 0, [](const float& kept, float* to) { *to = kept; });
        if (has_w) weights[FEATURES * N1 + N1 * N2 + col + t] = old_w()[t];
        all_meet();
        leave();
    }
};

extern "C" __global__ __launch_bounds__(THREADS, 1) void train_persistent(
    const float* __restrict__ X, const float* __restrict__ Y, float* weights, float* E, float* workspace, int rows,
    int first, int steps, float rate, float max_norm)
{
    extern __shared__ __align__(16) float dynamic[];
    Shared& s = *reinterpret_cast<Shared*>(dynamic);
    const Barrier barrier{reinterpret_cast<unsigned*>(workspace)};
    Training training{State{{barrier, X, Y, weights, E, workspace, rate, (unsigned)first}, s, max_norm}};
    const int batches = (rows + BATCH - 1) / BATCH;
    training.start();
    for (; training.step < steps; ++training.step) {
        training.look_ahead(batches);
        training.turn_to_batch(steps, batches, rows);
        training.tell_y();
        training.hear_errors();
        if (training.has_neurons) training.second_layer();
        training.look_for_weights(training.step + 1);
        if (training.has_neurons) training.first_layer();
    }
    training.finish();
}
