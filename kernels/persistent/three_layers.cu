// The training of a network with three hidden layers, all steps of a launch (steps.cuh) of GROUPS groups of 8 blocks.
//
//   H_i = max(H_{i-1} W_i, 0), H_0 = X;  y = H_3 w;  e = y - Y;  g = 2/rows e                      forward
//   w -= rate H_3^T g;  dZ_3 = g w^T where H_3 > 0                                               backward, where
//   W_i -= rate H_{i-1}^T dZ_i;  dZ_{i-1} = dZ_i W_i^T where H_{i-1} > 0                           i = 3, 2, 1
//
// Blocks exchange data by self-validating messages (messages.cuh), without a barrier or a fence. Layers 2 and 3
// multiply on tensor cores, in three products of FP16 halves (halves.cuh), or in two where one operand is bits
// (bits.cuh). A step has four parts, each in a header of three_layers/ that says more:
//
//   forward       Two groups take 32 rows of the batch. A block computes some columns of H_2, their contribution to
//                 Z_3, and, from all contributions, some columns of H_3 for 16 rows, with their contribution to y.
//   third_layer   A block updates w, and the rows of W_3 for 8 neurons of layer 2, whose dZ_2 it publishes.
//   second_layer  A block updates some rows of W_2 in its group's columns, and publishes their contribution to dH_1.
//   first_layer   A block updates some columns of W_1, and publishes these columns of the next batch's H_1.
//
// Blocks wait for others six times per step: for H_1, Z_3, y, dw, dZ_2 and dH_1. Everything else was published long
// before. Clipping (CLIP) adds three waits, for norms. Simultaneous updates multiply by the weights before the update
// instead.
//
// Why a message of two steps ago (or, for the bits, of one step ago) may be overwritten: a block that publishes
// anything in a step has received H_1. That needed dH_1 from all groups, which needed dZ_2 from all blocks of each
// group, sent after they had read the bits and every y. Each y needed all blocks to have finished with the weights,
// and with the step before that.
//
// Layout: widths and the batch are padded with zeros to multiples of 16; each batch of X and Y is stored contiguously.
// `weights` is W_1, W_2, W_3, w. Launch: cooperative, GRID blocks of 256 threads, `shared_bytes` of dynamic shared
// memory, up to 218 KiB. Needs sm_80.

#include "bits.cuh"
#include "clipping.cuh"
#include "copies.cuh"
#include "fragments.cuh"
#include "groups.cuh"
#include "l2.cuh"
#include "messages.cuh"
#include "three_layers/layout.cuh"
#include "three_layers/words.cuh"
#include "three_layers/state.cuh"
#include "three_layers/scales.cuh"
#include "three_layers/norms.cuh"
#include "three_layers/forward.cuh"
#include "three_layers/third_layer.cuh"
#include "three_layers/second_layer.cuh"
#include "three_layers/first_layer.cuh"

// Each header from state.cuh on extends the struct of the one before it, and uses only what stands before it.
struct Training : FirstLayer {
    __device__ float* w_in_memory() const { return weights + F * N1 + N1 * N2 + N2 * N3; }

    template <class Do> __device__ void for_weights(bool with_W1, Do f)  // f(kept, its address)
    {
        const Lane lane;
        float *const of_W2 = weights + F * N1, *const of_W3 = of_W2 + N1 * N2;
        for (int i = 0; i < PAIRS; ++i)
            for (int n = 0; n < 2; ++n)
                if (with_W1 && has1(i)) f(W1[i][n], weights + place1(i) + n);
        for (int n = 0; n < 2; ++n)
            for (int i = 0; i < 4; ++i) {
                if (has2()) f(W2[n][i], of_W2 + place2(n, i, lane));
                f(W3[n][i], of_W3 + place3(n, i, lane));
            }
    }

    __device__ void start(int batches)
    {
        for_weights(true, [](float& kept, const float* from) { kept = *from; });
        const float w[1] = {w_in_memory()[t]};
        w_of(0)[t] = w[0];
        float x_most[4] = {};
        for (int b = blockIdx.x; b < batches; b += GRID)
            for (int i = t; i < ROWS * F / 4; i += THREADS) {
                const float4 v = take4(X + (size_t)b * ROWS * F + 4 * i);
                const float one[] = {v.x, v.y, v.z, v.w};
                for (int j = 0; j < 4; ++j) x_most[j] = __uint_as_float(max(bits_of(x_most[j]), bits_of(one[j])));
            }
        leave_largest(s.largest_w[0], w);
        leave_largest_W1();
        leave_largest(s.largest[1], W2[0], W2[1]), leave_largest(s.largest[2], W3[0], W3[1]);
        leave_largest(s.largest[3], x_most);
        fetch_X(0, first);
        forget(AT_BITS, AT_KEPT);
        copies_done();
        all_meet();
        tell_largest();
        hear_scales(0);
        if (t == 0) s.grown = false;
        __syncthreads();
        put2(0), put3(0);
        float x[F];
        take_row(0, x);
        for (int i = 0; i < PAIRS; ++i) tell_H1(0, i, x);
        look_for_W2(0);
    }
    __device__ void finish()
    {
        const bool stopped = s.grown;
        leave_largest_W1();
        __syncthreads();
        if (!stopped) {  // weights may have grown in the last step
            tell_largest();
            hear_scales(step + 1);
            __syncthreads();
        }
        if (!s.grown) {
            for_weights(warp == 0, [](const float& kept, float* to) { *to = kept; });
            if (blockIdx.x == 0) w_in_memory()[t] = w_of(step)[t];
        }
        all_meet();
        if (blockIdx.x == 0 && t == 0) {
            // The weights of a step are judged in the next one, or above: those of the step before it were in range.
            reinterpret_cast<unsigned*>(workspace)[AT_STOPPED] = !s.grown ? 0 : stopped ? step - 1 : step;
            if (!s.grown) keep_scales();
        }
        if (s.grown) step = 0;
        leave();
    }
};

extern "C" __global__ __launch_bounds__(THREADS, 1) void train_persistent(
    const float* X, const float* Y, float* weights, float* E, float* workspace, int rows, int first, int steps,
    float rate, float max_norm)
{
    extern __shared__ __align__(16) float dynamic[];
    Shared& shared = *reinterpret_cast<Shared*>(dynamic);
    const Barrier barrier{reinterpret_cast<unsigned*>(workspace)};
    const State state{{barrier, X, Y, weights, E, workspace, rate, (unsigned)first}, shared, max_norm};
    Training training{state};
    const int batches = (rows + BATCH - 1) / BATCH;
    training.start(batches);
    for (; training.step < steps && !shared.grown; ++training.step) {
        training.look_ahead(batches);
        training.tell_H2();
        training.tell_Z3();
        training.tell_y();
        training.turn_to_batch(steps, batches, rows);
        training.scale = 2.0f / training.count;
        training.hear_errors();
        training.third_layer();
        training.second_layer();
        training.first_layer();
    }
    training.finish();
}
