// The training of a convolutional network, all steps of a launch (steps.cuh):
//
//   conv2d, ReLU, conv2d, ReLU, maxpool2d, linear; softmax and cross-entropy
//
// A block takes one part of one image of the batch: some rows of its pooled features, and what they depend on
// (convolution_layout.cuh). Activations and their gradients stay in its shared memory. conv1's output at a border between
// two parts is computed by both, and each adds its own share of the gradient, so parts exchange nothing but logits.
//
// The convolutions' weights and gradients, and partial logits, are messages (messages.cuh). A step has five
// phases, below in this order:
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
// of each row in the order in which an epoch takes them, S workspace_floats, 0 before the first launch, and with SHUFFLED
// two orders of all rows. MEAN: whether gradients are of a batch's mean or its sum. M: what an optimiser keeps (updates.cuh)
// of each weight, where its owner has it.
// Launch: cooperative, GRID blocks of 384 threads, `shared_bytes` of dynamic shared memory. Needs sm_80.

#include "../row_order.cuh"
#include "barrier.cuh"
#include "copies.cuh"
#include "l2.cuh"
#include "messages.cuh"
#include "convolution_layout.cuh"
#include "masked.cuh"
#include "updates.cuh"

static_assert(GRID == GRID_BLOCKS, "a block per part");

__device__ float rectified(float z) { return z < 0.0f ? 0.0f : z; }  // a NaN is not < 0 and stays

// Sums over a warp. Lanes that are APART share the sums: each keeps half of them and gives the other half away. In the end
// a lane has one sum, number lane / (32 / POWER).
template <int LEFT, int APART>
__device__ void sum_over_lanes(float (&sum)[POWER], int lane)
{
    const bool upper = lane & APART;
    if constexpr (LEFT == 0) {
        sum[0] += __shfl_xor_sync(0xffffffff, sum[0], APART);
    } else {
#pragma unroll
        for (int i = 0; i < LEFT; ++i) {
            const float low = sum[i], high = sum[i + LEFT];
            sum[i] = (upper ? high : low) + __shfl_xor_sync(0xffffffff, upper ? low : high, APART);
        }
    }
    if constexpr (APART > 1) sum_over_lanes<LEFT / 2, APART / 2>(sum, lane);
}

struct Training {
    Shared& s;
    Barrier barrier;
    const float *X, *Y;
    float *W1, *b1, *W2, *b2, *W3, *b3, *M, *E, *S;
    Numbers numbers;
    unsigned high, seed, epoch;
    int of_all, batches;
    OfWeights of_weights{S + AT_WEIGHTS};
    OfGradients of_gradients{S + AT_GRADIENTS};
    int t = threadIdx.x, warp = threadIdx.x / 32, lane = threadIdx.x % 32, p = threadIdx.x % 32 / 4, q = threadIdx.x % 4;
    int image = blockIdx.x / PARTS, part = blockIdx.x % PARTS;
    int step = 0, batch = 0, count = 0;
    float target = 0.0f;   // of output `lane`
    unsigned next_row = 0; // SHUFFLED: of the block's image of the next batch

    // Makes the compiler compute addresses anew in each step: kept in registers, those of all phases would spill.
    __device__ void begin_step() { asm volatile("" : "+r"(t), "+r"(warp), "+r"(lane), "+r"(p), "+r"(q)); }

    // ---- optimisers, and rows in another order in each epoch

    __device__ float* state_of(int slot, int s) const { return M + s * STATE_SLOTS + slot; }
    __device__ void read_kept(int slot, float (&kept)[2]) const
    {
        for (int i = 0; i < STATES; ++i) kept[i] = from_l2(state_of(slot, i));
    }
    __device__ float next(float old, float gradient, float (&kept)[2]) const
    {
        OfStep of_step;
#if STATES == 2 || SCHEDULED
        for (int i = 0; i < 3; ++i)
            if (i < 2 ? ADAM : SCHEDULED) of_step.T[1 + i] = s.of_steps[i][step % 32];
#endif
        return updated<Update::UPDATE>(old, gradient, kept, numbers, of_step);
    }
    __device__ float next_of_slot(float old, float gradient, int slot, float (&kept)[2]) const
    {
        const float w = next(old, gradient, kept);
        for (int i = 0; i < STATES; ++i) *state_of(slot, i) = kept[i];
        return w;
    }

    // Every 32 steps, what their updates need. Follows a barrier of the block, and one follows.
    __device__ void prepare() const
    {
#if STATES == 2 || SCHEDULED
        if (step % 32 || warp) return;
        const OfStep later(numbers, ADAM, (double)epoch * batches + batch + lane);
        for (int i = 0; i < 3; ++i) s.of_steps[i][lane] = later.T[1 + i];
#endif
    }

    __device__ unsigned* order_of(unsigned epoch) const
    {
        return reinterpret_cast<unsigned*>(S + workspace_floats) + (size_t)(epoch % 2) * of_all;
    }
    __device__ void write_order(unsigned epoch) const
    {
        for (int i = blockIdx.x * THREADS + t; i < of_all; i += GRID * THREADS)
            order_of(epoch)[i] = row_in_place(i, of_all, seed, epoch);
    }
    __device__ void find_row(unsigned epoch, int of_batch)
    {
        const int place = of_batch * BATCH + image;
        if (place < of_all) next_row = __float_as_uint(from_l2(reinterpret_cast<const float*>(order_of(epoch)) + place));
    }
    __device__ void find_next_row()
    {
        const int after = batch_after(batch, batches);
        find_row(epoch + (after == 0), after);
    }

    __device__ int first_row2() const { return part * ROWS2; }
    __device__ bool has_image() const { return image < count; }

    // ---- weights
    //
    // The convolutions' weights, as messages. Each belongs to a block, which sends it to all; they are in the order of the
    // gradients (convolution_layout.cuh). A block writes what it hears in the order in which conv1 reads its weights, and as the
    // right operands of conv2's forward and backward products.

    // Which weight a published gradient belongs to; null for padding.
    __device__ float* parameter(int at) const
    {
        if (at >= AT_DB2 && at < AT_DW1) return at - AT_DB2 < FILTERS2 ? b2 + at - AT_DB2 : nullptr;
        const int tile = at < AT_DB2 ? at / 128 : (at - AT_DW1) / 128, place = at < AT_DB2 ? at % 128 : (at - AT_DW1) % 128;
        const int across = place / 16 + place % 4 / 2 * 8, along = place % 16 / 4 * 2 + place % 2;   // in an accumulator
        if (at < AT_DB2) {
            const int unit = tile / K2, tap = unit % K2 * K2 + tile % K2;
            const int f = unit / K2 / C8 * 16 + across, c = unit / K2 % C8 * 8 + along;
            if (f >= FILTERS2 || c >= FILTERS1) return nullptr;
            return W2 + (f * FILTERS1 + c) * TAPS2 + tap;
        }
        const int c = tile / N1 * 16 + across, tap = tile % N1 * 8 + along;
        if (tile >= PAIRS1 || c >= FILTERS1 || tap > TAPS1) return nullptr;
        return tap == TAPS1 ? b1 + c : W1 + c * TAPS1 + tap;
    }

    __device__ void tell_weight(int of_step, int own, float weight) const
    {
        const float one[1] = {weight};
        of_weights.put(of_step, blockIdx.x * OWN_G + own, one);
    }

    // Waits for the convolutions' weights of this step.
    __device__ void hear_weights()
    {
        constexpr int LOADS = up(GRADIENTS / 4, THREADS);
        constexpr unsigned PAUSE = 900;   // cycles
        const unsigned turn = turn_of(step);
        const float* const from = of_weights.of(step) + 4 * t;
        const auto has = [&](int i) { return t + i * THREADS < GRADIENTS / 4; };
        const auto where = [&](int i) { return from + 4 * i * THREADS; };
        float w[LOADS][4];
        let_come(PAUSE);
        look_for(w, turn, has, where);
        await(w, step, where, "weights");
#pragma unroll
        for (int i = 0; i < LOADS; ++i) {
            if (!has(i)) continue;
            const int at = 4 * (t + i * THREADS);
            if (at >= AT_DB2 && at < AT_DW1) {
                for (int j = 0; j < 4; ++j) s.b2[at - AT_DB2 + j] = w[i][j];
                continue;
            }
            const int tile = (at < AT_DB2 ? at : at - AT_DW1) / 128, place = (at < AT_DB2 ? at : at - AT_DW1) % 128;
            const int across = place / 16, along = place % 16 / 2;
            if (at < AT_DB2) {
                const int unit = tile / K2, tap = unit % K2 * K2 + tile % K2, c = unit / K2 % C8, f = unit / K2 / C8 * 2;
                for (int half = 0; half < 2; ++half) {
                    float* const forward = s.Wf + ((tap * C8 + c) * N8 + f + half) * 64 + across * 8 + along;
                    float* const backward = s.Wb + ((tap * N8 + f + half) * C8 + c) * 64 + along * 8 + across;
                    *reinterpret_cast<float2*>(forward) = make_float2(w[i][2 * half], w[i][2 * half + 1]);
                    backward[0] = w[i][2 * half], backward[8] = w[i][2 * half + 1];
                }
            } else {
                for (int j = 0; j < 4; ++j) {
                    const int c = tile / N1 * 16 + across + j / 2 * 8, tap = tile % N1 * 8 + along + j % 2;
                    if (tap < TAPS1) s.W1[tap][c] = w[i][j];
                    if (tap == TAPS1) s.b1[c] = w[i][j];
                }
            }
        }
    }

    // ---- forward
    //
    // The forward pass, from the pixels to the pooled features. conv1 by ordinary multiply-adds. conv2 as an implicit
    // product on tensor cores (tf32.cuh): rows are positions, so ordered that a lane holds all elements of a window, and
    // pools them in registers.

    // Loads the pixels and the target of the block's image of a batch; of a row that the batch does not have, zeros.
    __device__ void fetch_image(int rows, int of_batch, float (&pixels)[PIXELS])
    {
        const int place = of_batch * BATCH + image, row = SHUFFLED ? (int)next_row : place;
        const bool has = place < rows;
        const int top = first_row2() - PADDING2 - PADDING1, left = -PADDING2 - PADDING1;
#pragma unroll
        for (int i = 0; i < PIXELS; ++i) {
            const int at = t + i * THREADS, c = at / (ROWS0 * COLS0), y = top + at / COLS0 % ROWS0, x = left + at % COLS0;
            const bool inside = has && c < CHANNELS && y >= 0 && y < HEIGHT && x >= 0 && x < WIDTH;
            pixels[i] = inside ? X[(((size_t)row * CHANNELS + c) * HEIGHT + y) * WIDTH + x] : 0.0f;
        }
        if (warp == 0) target = has && lane < OUTPUTS ? Y[(size_t)row * OUTPUTS + lane] : 0.0f;
    }

    __device__ void store_image(const float (&pixels)[PIXELS])
    {
#pragma unroll
        for (int i = 0; i < PIXELS; ++i) {
            const int at = t + i * THREADS, c = at / (ROWS0 * COLS0);
            if (c < CHANNELS) s.X[c * PLANE0 + at / COLS0 % ROWS0 * P + at % COLS0] = pixels[i];
        }
    }

    __device__ void forward_first()
    {
        constexpr int POSITIONS = ROWS1 * COLS1;
        for (int i = t; i < POSITIONS * (F1 / 4); i += THREADS) {
            const int c = i / POSITIONS * 4, r = i % POSITIONS / COLS1, x = i % COLS1;
            const int y = first_row2() + r - PADDING2, z = x - PADDING2;
            float sum[4] = {};
            const float* const from = s.X + r * P + x;
#pragma unroll
            for (int tap = 0; tap < TAPS1; ++tap) {
                const float pixel = from[tap / (K1 * K1) * PLANE0 + tap / K1 % K1 * P + tap % K1];
                const float4 w = *reinterpret_cast<const float4*>(&s.W1[tap][c]);
                sum[0] += pixel * w.x, sum[1] += pixel * w.y, sum[2] += pixel * w.z, sum[3] += pixel * w.w;
            }
            const bool inside = y >= 0 && y < HIGH1 && z >= 0 && z < WIDE1;
            for (int j = 0; j < 4; ++j) sum[j] = inside ? rectified(sum[j] + s.b1[c + j]) : 0.0f;
            *reinterpret_cast<float4*>(s.A1 + (r * P + x) * CS + c) = make_float4(sum[0], sum[1], sum[2], sum[3]);
        }
    }

    // conv2, ReLU and the pooling. A warp computes 8 filters of GROUPS groups of 8 windows at a time. Rows p and p + 8
    // of tile i are elements 2 i and 2 i + 1 of window p, column by column: of windows of 2 x 2 the first tile for one
    // column of taps is the second tile for the column before, and is read once.
    __device__ void forward_second()
    {
        constexpr int ALL = up(WINDOWS, 8);
        constexpr int GROUPS = smaller(larger(1, 6 / HALVES), up(ALL * N8, WARPS)), SETS = up(ALL, GROUPS);
        const int valid = WP * (smaller(HP, (part + 1) * PR) - part * PR);   // windows that the last part has
        for (int unit = warp; unit < SETS * N8; unit += WARPS) {
            const int n = unit % N8, first = unit / N8 * GROUPS * 8 + p;
            int from[GROUPS][2 * HALVES];
            for (int g = 0; g < GROUPS; ++g) {
                const int w = first + 8 * g < WINDOWS ? first + 8 * g : 0;
                for (int e = 0; e < 2 * HALVES; ++e) {
                    const int element = smaller(e, ELEMENTS - 1);
                    const int r = w / WP * POOL + element % POOL, x = w % WP * POOL + element / POOL;
                    from[g][e] = (r * P + x) * CS + 2 * q;
                }
            }
            float sum[GROUPS * HALVES][1][4] = {};
#pragma unroll 1
            for (int kr = 0; kr < K2; ++kr) {
                float part[GROUPS * HALVES][1][4] = {};
#pragma unroll
                for (int kc = 0; kc < K2; ++kc)
#pragma unroll 2
                    for (int c = 0; c < C8; ++c) {
                        const int at = (kr * P + kc) * CS + 8 * c;
                        Masked<4> a[GROUPS * HALVES];
#pragma unroll
                        for (int i = 0; i < GROUPS * HALVES; ++i) {
                            const int(&rows)[2 * HALVES] = from[i / HALVES];
                            a[i] = left_at(s.A1 + rows[i % HALVES * 2] + at, s.A1 + rows[i % HALVES * 2 + 1] + at, high);
                        }
                        const Masked<2> b[1] = {right_at(s.Wf + (((kr * K2 + kc) * C8 + c) * N8 + n) * 64 + 2 * lane, high)};
                        multiply(part, a, b);
                    }
                add(sum, part);
            }
#pragma unroll
            for (int g = 0; g < GROUPS; ++g)
#pragma unroll
                for (int j = 0; j < 2; ++j) {
                    const int w = first + 8 * g, f = 8 * n + 2 * q + j;
                    const float bias = s.b2[f];
                    float best = sum[g * HALVES][0][j] + bias;
                    int which = 0;
#pragma unroll
                    for (int e = 1; e < ELEMENTS; ++e) {
                        const int at = e % POOL * POOL + e / POOL;
                        const float value = sum[g * HALVES + at / 2][0][at % 2 * 2 + j] + bias;
                        if (value > best || value != value) best = value, which = e;
                    }
                    if (w >= WINDOWS) continue;
                    s.pooled[w * F2 + f] = w < valid ? rectified(best) : 0.0f;
                    s.which[w * F2 + f] = which;
                }
        }
    }

    // ---- linear
    //
    // The linear layer and the loss. A block has partial logits, of its part's features; the parts of an image exchange
    // them by messages (messages.cuh), and each computes the gradient of all the image's logits.

    // Row of the linear layer's matrix that belongs to a slot of a part; -1 for padding.
    __device__ static int feature(int slot)
    {
        const int part = slot / SLOTS, f = slot % F2, w = slot % SLOTS / F2, row = part * PR + w / WP;
        return part < PARTS && f < FILTERS2 && row < HP ? (f * HP + row) * WP + w % WP : -1;
    }

    // Starts to read the part's rows of the linear layer's matrix, which arrive while conv2 is computed.
    __device__ void read_linear() const
    {
        const float* const FC = S + AT_FC + part * SLOTS * OUTPUTS;
        for (int i = 4 * t; i < SLOTS * OUTPUTS; i += 4 * THREADS) copy_async(shared_address(s.FC + i), FC + i);
    }

    __device__ void row_of_FC(int slot, float (&w)[OUTPUTS]) const
    {
        const float* const from = s.FC + slot * OUTPUTS;
        if constexpr (OUTPUTS % 2 == 0)
#pragma unroll
            for (int o = 0; o < OUTPUTS; o += 2) {
                const float2 v = pair_at(from + o);
                w[o] = v.x, w[o + 1] = v.y;
            }
        else
#pragma unroll
            for (int o = 0; o < OUTPUTS; ++o) w[o] = from[o];
    }

    // Publishes the pooled features, and exchanges partial logits with the other parts of the image.
    __device__ void exchange_logits()
    {
        float* const to = S + AT_POOLED + (size_t)image * ALL_FC + part * SLOTS;
        for (int i = 4 * t; i < SLOTS; i += 4 * THREADS)
            *reinterpret_cast<float4*>(to + i) = *reinterpret_cast<const float4*>(s.pooled + i);
        float sum[POWER] = {};
        for (int i = t; i < SLOTS; i += THREADS) {
            const float v = s.pooled[i];
            float w[OUTPUTS];
            row_of_FC(i, w);
#pragma unroll
            for (int o = 0; o < OUTPUTS; ++o) sum[o] += v * w[o];
        }
        sum_over_lanes<POWER / 2, 16>(sum, lane);
        if (lane % (32 / POWER) == 0) s.logits[warp][lane / (32 / POWER)] = sum[0];
        __syncthreads();
        Word* const words = reinterpret_cast<Word*>(S + AT_LOGITS) + image * PARTS * OUTPUTS;
        if (t < OUTPUTS) {
            float logit = 0.0f;
            for (int from = 0; from < WARPS; ++from) logit += s.logits[from][t];
            publish(words + part * OUTPUTS + t, (Word)(step + 1) << 32 | __float_as_uint(logit));
        }
        for (int i = t; i < PARTS * OUTPUTS; i += THREADS)
            s.all_logits[i / OUTPUTS][i % OUTPUTS] = __uint_as_float((unsigned)await(words + i, step + 1, "logits", step));
        __syncthreads();
    }

    __device__ static float over_lanes(float v, bool largest)
    {
        for (int apart = 1; apart < 32; apart *= 2) {
            const float other = __shfl_xor_sync(0xffffffff, v, apart);
            v = largest ? (other > v ? other : v) : v + other;
        }
        return v;
    }

    // The loss of the image, and the gradient of its logits: of a mean over the batch, or of a sum.
    __device__ void differentiate_loss()
    {
        if (warp == 0) {
            const bool mine = lane < OUTPUTS;
            float z = mine ? s.b3[lane] : 0.0f;
            if (mine)
                for (int from = 0; from < PARTS; ++from) z += s.all_logits[from][lane];
            const float most = over_lanes(mine ? z : __uint_as_float(0xff800000), true), apart = z - most;
            const float sum = over_lanes(mine ? expf(apart) : 0.0f, false);
            const float loss = over_lanes(mine ? target * (logf(sum) - apart) : 0.0f, false);
            const float scale = MEAN ? 1.0f / count : 1.0f;
            const float dl = has_image() && mine ? scale * (expf(apart) / sum - target) : 0.0f;
            s.dl[lane] = dl;
            if (part == 0 && mine) S[AT_DL + image * OUTPUTS + lane] = dl;
            if (part == 0 && lane == 0 && has_image()) E[(size_t)batch * BATCH + image] = loss;
        }
        __syncthreads();
    }

    // ---- backward
    //
    // The backward pass: the gradient of the pooled features, spread to the windows' largest elements. dW2 and the gradient
    // of conv1's output are implicit products as well, and so is dW1, whose bias is a further tap of ones.

    template <int COUNT>
    __device__ void tell_gradients(int at, const float (&v)[COUNT]) const
    {
        of_gradients.put(step, blockIdx.x * ALL_G + at, v);
    }

    // The gradient of the pooled features where the ReLU passes it, and its sums over the windows, of each warp's.
    __device__ void differentiate_pooled()
    {
        for (int i = t; i < SLOTS; i += THREADS) {
            float w[OUTPUTS], sum = 0.0f;
            row_of_FC(i, w);
#pragma unroll
            for (int o = 0; o < OUTPUTS; ++o) sum += w[o] * s.dl[o];
            s.pooled[i] = s.pooled[i] > 0.0f ? sum : 0.0f;
        }
        __syncthreads();
        for (int i = t; i < DROWS * DP * (FS / 4); i += THREADS) {   // what is around the windows
            const int at = i / (FS / 4), r = at / DP - (K2 - 1), x = at % DP - (K2 - 1);
            if (r < 0 || r >= ROWS2 || x < 0 || x >= COLS2)
                *reinterpret_cast<float4*>(s.dZ + 4 * i) = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        }
        for (int i = t; i < SLOTS; i += THREADS) {
            const int w = i / F2, which = s.which[i];
            const float gradient = s.pooled[i];
            float* const to = s.dZ + ((w / WP * POOL + K2 - 1) * DP + w % WP * POOL + K2 - 1) * FS + i % F2;
#pragma unroll
            for (int e = 0; e < ELEMENTS; ++e) to[(e / POOL * DP + e % POOL) * FS] = e == which ? gradient : 0.0f;
        }
        for (int f = lane; f < F2; f += 32) {
            float sum = 0.0f;
            for (int w = warp; w < WINDOWS; w += WARPS) sum += s.pooled[w * F2 + f];
            s.db2[warp][f] = sum;
        }
        __syncthreads();
    }

    // dW2, filters x channels for each tap: a warp has a row of taps of 16 filters and 8 channels, and sums over
    // positions. Of 8 positions, lane q takes 2 q and 2 q + 1; its channel's values for the next tap are one further.
    __device__ void wgrad_second()
    {
        for (int unit = warp; unit < UNITS2; unit += WARPS) {
            const int kr = unit % K2, c = unit / K2 % C8 * 8, f = unit / K2 / C8 * 16;
            float sum[1][K2][4] = {};
            constexpr int AT_ONCE = __CUDA_ARCH__ >= 900 ? 3 : 2;   // before sm_90, three do not fit into registers
            for (int r = 0; r < ROWS2; ++r) {
                const float* const of_row = s.dZ + ((r + K2 - 1) * DP + K2 - 1 + 2 * q) * FS + f + p;
                const float* const inputs = s.A1 + ((r + kr) * P + 2 * q) * CS + c + p;
                float part[1][K2][4] = {};
#pragma unroll AT_ONCE
                for (int i = 0; i < STEPS2; ++i) {
                    const float *const dz = of_row + i * 8 * FS, *const x = inputs + i * 8 * CS;
                    Masked<4> a[1];
                    a[0].set(0, dz[0], high), a[0].set(1, dz[8], high);
                    a[0].set(2, dz[FS], high), a[0].set(3, dz[FS + 8], high);
                    Masked<2> b[K2];
#pragma unroll
                    for (int j = 0; j <= K2; ++j) {
                        const float value = x[j * CS];
                        if (j < K2) b[j].set(0, value, high);
                        if (j > 0) b[j - 1].set(1, value, high);
                    }
                    multiply(part, a, b);
                }
                add(sum, part);
            }
#pragma unroll
            for (int kc = 0; kc < K2; ++kc) tell_gradients((unit * K2 + kc) * 128 + 4 * lane, sum[0][kc]);
        }
    }

    // The gradient of conv1's output, in its place, where it is > 0: positions x channels, summed over taps and filters.
    __device__ void dgrad_second()
    {
        constexpr int POSITIONS = ROWS1 * COLS1, TILES = up(POSITIONS, 16), BOTH = up(TILES, 2);
        for (int unit = warp; unit < BOTH; unit += WARPS) {
            int from[2][2], to[2][2];
            for (int i = 0; i < 2; ++i)
                for (int half = 0; half < 2; ++half) {
                    const int at = 16 * (unit + i * BOTH) + 2 * p + half, clamped = smaller(at, POSITIONS - 1);
                    const int r = clamped / COLS1, x = clamped % COLS1;
                    from[i][half] = ((r + K2 - 1) * DP + x + K2 - 1) * FS + 2 * q;
                    to[i][half] = at < POSITIONS ? (r * P + x) * CS + 2 * q : -1;
                }
            float sum[2][C8][4] = {};
#pragma unroll 1
            for (int kr = 0; kr < K2; ++kr) {
                float part[2][C8][4] = {};
#pragma unroll
                for (int kc = 0; kc < K2; ++kc)
#pragma unroll
                    for (int f = 0; f < N8; ++f) {
                        const int at = 8 * f - (kr * DP + kc) * FS;
                        Masked<4> a[2];
                        Masked<2> b[C8];
#pragma unroll
                        for (int i = 0; i < 2; ++i) a[i] = left_at(s.dZ + from[i][0] + at, s.dZ + from[i][1] + at, high);
#pragma unroll
                        for (int c = 0; c < C8; ++c)
                            b[c] = right_at(s.Wb + (((kr * K2 + kc) * N8 + f) * C8 + c) * 64 + 2 * lane, high);
                        multiply(part, a, b);
                    }
                add(sum, part);
            }
#pragma unroll
            for (int i = 0; i < 2; ++i)
#pragma unroll
                for (int half = 0; half < 2; ++half)
#pragma unroll
                    for (int c = 0; c < C8; ++c) {
                        if (to[i][half] < 0) continue;
                        float2& value = *reinterpret_cast<float2*>(s.A1 + to[i][half] + 8 * c);
                        value = make_float2(value.x > 0.0f ? sum[i][c][2 * half] : 0.0f,
                                            value.y > 0.0f ? sum[i][c][2 * half + 1] : 0.0f);
                    }
        }
        __syncthreads();
    }

    // dW1 and db1, channels x taps, of each warp's positions; then their sums over the warps, which are published.
    __device__ void wgrad_first()
    {
        constexpr int STEPS = up(ROWS1 * P, 8), N = N1 % 2 ? 1 : 2;   // N: tiles of 8 taps at a time
        for (int pair = 0; pair < PAIRS1; pair += N) {
            const int c = pair / N1 * 16, first = pair % N1 * 8 + p;
            float sum[1][N][4] = {};
#pragma unroll 2
            for (int i = warp; i < STEPS; i += WARPS) {
                const float* const dz = s.A1 + (8 * i + 2 * q) * CS + c + p;
                Masked<4> a[1];
                Masked<2> b[N];
                a[0].set(0, dz[0], high), a[0].set(1, dz[8], high), a[0].set(2, dz[CS], high), a[0].set(3, dz[CS + 8], high);
#pragma unroll
                for (int n = 0; n < N; ++n) {
                    const int tap = first + 8 * n, used = tap < TAPS1 ? tap : 0;
                    const float* const x = s.X + 8 * i + 2 * q + used / (K1 * K1) * PLANE0 + used / K1 % K1 * P + used % K1;
                    for (int j = 0; j < 2; ++j) b[n].set(j, tap < TAPS1 ? x[j] : tap == TAPS1 ? 1.0f : 0.0f, high);
                }
                multiply(sum, a, b);
            }
#pragma unroll
            for (int n = 0; n < N; ++n) {
                const float(&v)[4] = sum[0][n];
                *reinterpret_cast<float4*>(&s.dW1[pair + n][warp][4 * lane]) = make_float4(v[0], v[1], v[2], v[3]);
            }
        }
        __syncthreads();
        for (int i = t; i < F2 + PAIRS1 * 128; i += THREADS) {
            float sum[1] = {};
            for (int from = 0; from < WARPS; ++from)
                sum[0] += i < F2 ? s.db2[from][i] : s.dW1[(i - F2) / 128][from][(i - F2) % 128];
            tell_gradients(AT_DB2 + i, sum);
        }
    }

    // ---- update
    //
    // The update. Each block sums a share of the convolutions' gradients over all blocks, in their order, updates these
    // weights and sends them to all; gradients are messages as well. It also computes the gradient of its own rows of the
    // linear layer's matrix from all images' pooled features, and updates them.

    __device__ void update()
    {
        constexpr int COLUMNS = OWN_G / 4, FOURS = OWN_FC / 4, OWN = up(OWN_G, THREADS);
        const float* const own_pooled = S + AT_POOLED + blockIdx.x * OWN_FC;
        for (int i = t; i < BATCH * FOURS; i += THREADS)
            copy_async(shared_address(s.all.pooled + 4 * i), own_pooled + (size_t)(i / FOURS) * ALL_FC + 4 * (i % FOURS));
        for (int i = 4 * t; i < BATCH * OUTPUTS; i += 4 * THREADS) copy_async(shared_address(s.all.dl + i), S + AT_DL + i);
        // The last threads own weights of the convolutions.
        float *w[OWN], old[OWN], kept[OWN][2];
#pragma unroll
        for (int i = 0; i < OWN; ++i) {
            const int at = THREADS - 1 - t + i * THREADS;
            w[i] = at < OWN_G ? parameter(blockIdx.x * OWN_G + at) : nullptr;
            if (w[i]) old[i] = from_l2(w[i]), read_kept(blockIdx.x * OWN_G + at, kept[i]);
        }
        // Chunks of blocks, in their order, for each four gradients.
        const unsigned turn = turn_of(step);
        const float* const own = of_gradients.of(step) + blockIdx.x * OWN_G;
#pragma unroll 1
        for (int first = 0; first < COLUMNS * CHUNKS; first += THREADS) {   // all lanes of a warp
            const int i = first + t, column = i % COLUMNS, chunk = i / COLUMNS;
            const bool any = i < COLUMNS * CHUNKS && blockIdx.x * OWN_G + 4 * column < GRADIENTS;
            const auto has = [&](int j) { return any && chunk * CHUNK + j < GRID; };
            const auto where = [&](int j) { return own + (size_t)(chunk * CHUNK + j) * ALL_G + 4 * column; };
            float v[CHUNK][4], sum[4] = {};
            look_for(v, turn, has, where);
            await(v, step, where, "gradient");
#pragma unroll
            for (int j = 0; j < CHUNK; ++j)
                for (int k = 0; k < 4; ++k) sum[k] += v[j][k];
            if (i < COLUMNS * CHUNKS)
                *reinterpret_cast<float4*>(s.all.sums + chunk * OWN_G + 4 * column) =
                    make_float4(sum[0], sum[1], sum[2], sum[3]);
        }
        copies_done();
        __syncthreads();
#pragma unroll
        for (int i = 0; i < OWN; ++i) {
            const int at = THREADS - 1 - t + i * THREADS;
            if (at >= OWN_G) continue;
            float updated = 0.0f;
            if (w[i]) {
                float sum = 0.0f;
                for (int chunk = 0; chunk < CHUNKS; ++chunk) sum += s.all.sums[chunk * OWN_G + at];
                *w[i] = updated = next_of_slot(old[i], sum, blockIdx.x * OWN_G + at, kept[i]);
            }
            tell_weight(step + 1, at, updated);
        }
        update_linear();
    }

    // The block's rows of the linear layer's matrix: 16 rows x 8 outputs at a time, summed over the batch. And every
    // block keeps the bias for itself.
    __device__ void update_linear()
    {
        constexpr int N = up(OUTPUTS, 8), UNITS = up(OWN_FC, 16) * N;
        float* const FC = S + AT_FC + blockIdx.x * OWN_FC * OUTPUTS;
        for (int unit = warp; unit < UNITS; unit += WARPS) {
            const int row = unit / N * 16 + p, output = unit % N * 8;
            float old[2][2], kept[2][2][2], sum[1][1][4] = {};
            const auto slot = [&](int half, int j) {
                return ALL_G + (blockIdx.x * OWN_FC + row + 8 * half) * OUTPUTS + output + 2 * q + j;
            };
            for (int half = 0; half < 2; ++half)
                for (int j = 0; j < 2; ++j)
                    if (row + 8 * half < OWN_FC && output + 2 * q + j < OUTPUTS)
                        old[half][j] = from_l2(FC + (row + 8 * half) * OUTPUTS + output + 2 * q + j),
                        read_kept(slot(half, j), kept[half][j]);
            const int rows[2] = {smaller(row, OWN_FC - 1), smaller(row + 8, OWN_FC - 1)}, o = smaller(output + p, OUTPUTS - 1);
#pragma unroll 2
            for (int k = 0; k < BATCH; k += 8) {
                Masked<4> a[1];
                Masked<2> b[1];
                for (int j = 0; j < 2; ++j) {
                    const int of_batch = k + 2 * q + j, has = smaller(of_batch, BATCH - 1);
                    for (int half = 0; half < 2; ++half)
                        a[0].set(2 * j + half, s.all.pooled[has * OWN_FC + rows[half]], high);
                    b[0].set(j, of_batch < BATCH ? s.all.dl[has * OUTPUTS + o] : 0.0f, high);
                }
                multiply(sum, a, b);
            }
            for (int half = 0; half < 2; ++half)
                for (int j = 0; j < 2; ++j)
                    if (row + 8 * half < OWN_FC && output + 2 * q + j < OUTPUTS)
                        FC[(row + 8 * half) * OUTPUTS + output + 2 * q + j] =
                            next_of_slot(old[half][j], sum[0][0][2 * half + j], slot(half, j), kept[half][j]);
        }
        if (warp == WARPS - 1 && lane < OUTPUTS) {
            float sum = 0.0f;
#pragma unroll 8
            for (int b = 0; b < BATCH; ++b) sum += s.all.dl[b * OUTPUTS + lane];
            float kept[2];
#if STATES
            for (int i = 0; i < STATES; ++i) kept[i] = s.b3_state[i][lane];
#endif
            s.b3[lane] = next(s.b3[lane], sum, kept);
#if STATES
            for (int i = 0; i < STATES; ++i) s.b3_state[i][lane] = kept[i];
#endif
        }
    }

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
#if STATES
        if (t < STATES * 32) s.b3_state[t / 32][lane] = from_l2(state_of(ALL_G + ALL_FC * OUTPUTS + lane, t / 32));
#endif
        if constexpr (SHUFFLED) write_order(epoch), write_order(epoch + 1);
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
#if STATES
        if (blockIdx.x == 0 && t < STATES * 32) *state_of(ALL_G + ALL_FC * OUTPUTS + lane, t / 32) = s.b3_state[t / 32][lane];
#endif
        if (blockIdx.x == 0 && t == 0) count_steps(S, step);
        barrier.reset();
    }
};

extern "C" __global__ __launch_bounds__(THREADS, 1) void train_persistent(
    const float* X, const float* Y, float* W1, float* b1, float* W2, float* b2, float* W3, float* b3,
#if STATES
    float* M,
#endif
    float* E, float* S, int rows, int first, int steps, float rate, int epoch, int seed, float a, float b, float c, float d,
    int form, int warmup, int length, float end, float)
{
#if !STATES
    float* const M = nullptr;
#endif
    extern __shared__ __align__(16) float dynamic[];
    const int batches = (rows + BATCH - 1) / BATCH;
    Training training{*reinterpret_cast<Shared*>(dynamic), Barrier{reinterpret_cast<unsigned*>(S)},
                      X, Y, W1, b1, W2, b2, W3, b3, M, E, S, {rate, {a, b, c, d}, form, warmup, length, end},
                      high_bits(rows), (unsigned)seed, (unsigned)epoch, rows, batches};
    training.batch = first;
    training.start();
    float pixels[PIXELS];
    if constexpr (SHUFFLED) training.find_row(training.epoch, first);
    training.fetch_image(rows, first, pixels);
    training.store_image(pixels);
    for (; training.step < steps; ++training.step) {
        training.count = min(BATCH, rows - training.batch * BATCH);
        training.begin_step();
        training.prepare();
        if constexpr (SHUFFLED) training.find_next_row();
        training.hear_weights();
        __syncthreads();
        training.forward_first();
        training.barrier.wait("linear", training.step);   // they have updated its matrix
        if (SHUFFLED && training.batch + 1 == batches) training.write_order(training.epoch + 2);
        training.read_linear();
        training.forward_second();
        copies_done();
        __syncthreads();
        training.exchange_logits();
        training.differentiate_loss();
        training.differentiate_pooled();
        training.wgrad_second();
        training.barrier.arrive();    // has published its features, and has read that matrix
        training.batch = batch_after(training.batch, batches);
        if ((SHUFFLED || STATES == 2 || SCHEDULED) && training.batch == 0) ++training.epoch;
        training.fetch_image(rows, training.batch, pixels);   // arrives meanwhile
        training.dgrad_second();
        training.wgrad_first();
        training.store_image(pixels);
        training.barrier.wait("update", training.step);
        training.update();
        training.barrier.arrive();
    }
    training.barrier.wait("blocks", training.step);
    training.finish();
}
