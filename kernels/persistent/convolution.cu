// The training of a convolutional network, all steps of a launch (steps.cuh):
//
//   conv2d, ReLU, conv2d, ReLU, maxpool2d, linear; softmax and cross-entropy
//
// A block takes one part of one image of the batch: some rows of its pooled features, and what they depend on
// (image_strips.cuh). Activations and their gradients stay in its shared memory. conv1's output at a border between
// two parts is computed by both, and each adds its own share of the gradient, so parts exchange nothing but logits.
//
// The convolutions' weights and gradients, and partial logits, are messages (messages.cuh). A step has five phases, each
// in a header of convolution/ that says more:
//
//   weights    A block hears the convolutions' weights of the step from all blocks.
//   forward    conv1 and its ReLU; conv2, its ReLU and the pooling: the part's features.
//   linear     The part's contribution to the logits, which the parts of an image exchange; the loss.
//   backward   A block publishes its part's contribution to the gradients of the convolutions' weights.
//   update     A block sums a share of these gradients over all blocks, and sends the updated weights to all. It also
//              updates its own rows of the linear layer's matrix.
//
// The linear layer's matrix, the pooled features and the logits' gradients are no messages. Two barriers of all blocks
// stand around the update of that matrix, each far behind its arrival: blocks arrive at the first before the gradient of
// conv1's output, and wait for it before the update; they arrive at the second after the update, and wait for it after the
// next batch's conv1.
//
// Why a message of two steps ago may be overwritten: a block that sends gradients, or weights, has heard all weights of
// its step. Their owners had heard the gradients of the step before from all blocks, each of which had heard all weights
// of that step and read the gradients of the one before it. Logits of the step before were read by all blocks that have
// arrived at the first barrier.
//
// All gradients are those of the weights before the step (simultaneous updates). Sums have a fixed order.
//
// X is (rows, CHANNELS, HEIGHT, WIDTH), Y one-hot (rows, OUTPUTS), W and b as snn/models/layers.py has them, E the loss
// of each row, S workspace_floats, 0 before the first launch. MEAN: whether gradients are of a batch's mean or its sum.
// Launch: cooperative, GRID blocks of 384 threads, `shared_bytes` of dynamic shared memory. Needs sm_80.

#include "barrier.cuh"
#include "copies.cuh"
#include "l2.cuh"
#include "messages.cuh"
#include "image_strips.cuh"
#include "masked.cuh"
#include "convolution/state.cuh"
#include "convolution/weights.cuh"
#include "convolution/forward.cuh"
#include "convolution/linear.cuh"
#include "convolution/backward.cuh"
#include "convolution/update.cuh"

static_assert(GRID == GRID_BLOCKS, "a block per part");

// Each header from state.cuh on extends the struct of the one before it, and uses only what stands before it.
struct Training : Update {
    __device__ void start()
    {
        float* const all = reinterpret_cast<float*>(&s);
        for (int i = t; i < (int)(sizeof(Shared) / 4); i += THREADS) all[i] = 0.0f;
        const int first = blockIdx.x * THREADS + t, stride = GRID * THREADS;
        Word* const logits = reinterpret_cast<Word*>(S + AT_LOGITS);
        for (int i = first; i < BATCH * PARTS * OUTPUTS; i += stride) logits[i] = 0;
        for (int i = first; i < OfWeights::FLOATS; i += stride) of_weights.first[i] = 0.0f;
        for (int i = first; i < OfGradients::FLOATS; i += stride) of_gradients.first[i] = 0.0f;
        for (int i = first; i < ALL_FC * OUTPUTS; i += stride) {
            const int from = feature(i / OUTPUTS);
            S[AT_FC + i] = from < 0 ? 0.0f : from_l2(W3 + from * OUTPUTS + i % OUTPUTS);
        }
        __syncthreads();
        if (t < OUTPUTS) s.b3[t] = from_l2(b3 + t);
        barrier.arrive();
        barrier.wait("blocks", step);
        for (int i = t; i < OWN_G; i += THREADS) {
            const float* const w = parameter(blockIdx.x * OWN_G + i);
            tell_weight(0, i, w ? from_l2(w) : 0.0f);
        }
        barrier.arrive();
    }

    __device__ void finish()
    {
        const int first = blockIdx.x * THREADS + t, stride = GRID * THREADS;
        for (int i = first; i < PARTS * SLOTS * OUTPUTS; i += stride) {
            const int to = feature(i / OUTPUTS);
            if (to >= 0) W3[to * OUTPUTS + i % OUTPUTS] = from_l2(S + AT_FC + i);
        }
        if (blockIdx.x == 0 && t < OUTPUTS) b3[t] = s.b3[t];
        if (blockIdx.x == 0 && t == 0) count_steps(S, step);
        barrier.reset();
    }
};

extern "C" __global__ __launch_bounds__(THREADS, 1) void train_persistent(
    const float* X, const float* Y, float* W1, float* b1, float* W2, float* b2, float* W3, float* b3, float* E, float* S,
    int rows, int first, int steps, float rate)
{
    extern __shared__ __align__(16) float dynamic[];
    const State state{*reinterpret_cast<Shared*>(dynamic), Barrier{reinterpret_cast<unsigned*>(S)},
                      X, Y, W1, b1, W2, b2, W3, b3, E, S, rate, high_bits(rows)};
    Training training{state};
    const int batches = (rows + BATCH - 1) / BATCH;
    training.batch = first;
    training.start();
    float pixels[PIXELS];
    training.fetch_image(rows, first, pixels);
    training.store_image(pixels);
    for (; training.step < steps; ++training.step) {
        training.count = min(BATCH, rows - training.batch * BATCH);
        training.begin_step();
        training.hear_weights();
        __syncthreads();
        training.convolve_first();
        training.barrier.wait("linear", training.step);   // they have updated its matrix
        training.read_linear();
        training.convolve_second();
        copies_done();
        __syncthreads();
        training.exchange_logits();
        training.differentiate_loss();
        training.differentiate_pooled();
        training.differentiate_second();
        training.barrier.arrive();    // has published its features, and has read that matrix
        training.batch = batch_after(training.batch, batches);
        training.fetch_image(rows, training.batch, pixels);   // arrives meanwhile
        training.propagate();
        training.differentiate_first();
        training.store_image(pixels);
        training.barrier.wait("update", training.step);
        training.update();
        training.barrier.arrive();
    }
    training.barrier.wait("blocks", training.step);
    training.finish();
}
