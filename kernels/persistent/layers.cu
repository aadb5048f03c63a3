// The training of a stack of linear layers, with or without biases and activation functions f_i, all steps of a launch
// (steps.cuh) of one block per SM: with several outputs and a softmax, or with the squared error; of widths that need
// several tiles per block, too.
//
//   Z_i = H_{i-1} W_i + b_i, H_i = f_i(Z_i), H_0 = X                                                   i = 1, ..., L
//   dZ_L = scale (softmax(Z_L) - Y),   or scale times the derivatives of a loss of each output, such as Z_L - Y
//   dW_i = H_{i-1}^T dZ_i;  db_i = the sum of dZ_i's rows;  dZ_{i-1} = dZ_i W_i^T f'_{i-1}
//   W_i -= rate dW_i;  b_i -= rate db_i;  or what an optimiser makes of them (updates.cuh)
//
// A step is a sequence of phases, separated by barriers of the whole grid; in each, the tiles of one product, or of two
// that do not depend on each other, are dealt to the blocks:
//
//   forward         L phases. A tile of the last one holds whole rows, so that the block computes loss and dZ_L itself.
//   SEQUENTIAL      wgrad<i> (updates W_i), then dgrad<i> (computes dZ_{i-1} by the new W_i): 2 L - 1 phases
//   otherwise       dgrad<L>; dgrad<i> beside wgrad<i+1>, i = L-1, ..., 2; wgrad<2> beside wgrad<1>: L
//   CLIPPED         and then, once all gradients are known, their norm and the updates: one phase more
//   AT_ONCE         the block that computes dZ_L of some rows computes their dZ_{L-1}, too: one phase less
//
//   early loads     operands that are ready already are loaded before the barrier is waited for: X, W_i in the forward
//                   pass, H_{i-1} and, to be updated, W_i in the backward pass.
//   biases          the gradient of b_i is summed from the operand dZ_i on its way to the product that is W_i's.
//   3 x TF32        float32 products on tensor cores by three TF32 products (tf32.cuh). Before sm_80: float32.
//   SHUFFLED        an epoch takes the rows in the order of row_order.cuh. In the first phase of a step the blocks copy
//                   the rows of the next step to one of two batches in the workspace, in the last step of an epoch they
//                   compute the order of the epoch after the next.
//
// Layout: widths and the batch are padded with zeros; each batch of X and Y is stored contiguously, but with SHUFFLED
// all rows are; W is W_1, b_1, W_2, ..., without the biases that a layer does not have, and M, what an optimiser keeps,
// STATES times the same. E: of each row its cross-entropy, or of each output its loss, of the squared error Z_L - Y, in the
// order in which an epoch takes the rows.
// Launch: cooperative, GRID blocks of 256 threads, `shared_bytes` of dynamic shared memory.

constexpr int THREADS = 256;

#include "../activation_functions.cuh"
#include "../output_losses.cuh"
#include "../row_order.cuh"
#include "barrier.cuh"
#include "tiles.cuh"
#include "updates.cuh"

constexpr int IDENTITY = -1;
constexpr int WIDTH[] = {WIDTHS};                                 // features, outputs of each layer: padded
constexpr int NEURONS[] = {0, OUTPUTS_OF_LAYERS};                 // of layer i, from 1: without padding
constexpr int F[] = {IDENTITY, ACTIVATIONS};
constexpr bool BIAS[] = {false, BIASES};
constexpr int L = sizeof WIDTH / sizeof *WIDTH - 1;               // layers
constexpr int LAST = WIDTH[L], OUTPUTS = NEURONS[L];
constexpr int MOST_EARLY = 4;   // elements per thread that are loaded before a product, for use behind it
constexpr bool ADAM = STATES == 2, COUNTS = ADAM || SCHEDULED;   // COUNTS: updates depend on the number of the step
constexpr bool CROSS_ENTROPY = Loss::LOSS == Loss::softmax_cross_entropy, SQUARED = Loss::LOSS == Loss::error;
constexpr int OF_ROW = CROSS_ENTROPY ? 1 : OUTPUTS;               // floats of E

constexpr Tile FORWARD_TILES[] = {FORWARD}, WGRAD_TILES[] = {WGRAD}, DGRAD_TILES[] = {DGRAD};

template <int I> using Forward = Tiles<ROWS, WIDTH[I], WIDTH[I - 1], FORWARD_TILES[I - 1].rows, FORWARD_TILES[I - 1].cols>;
template <int I> using Wgrad = Tiles<WIDTH[I - 1], WIDTH[I], ROWS, WGRAD_TILES[I - 1].rows, WGRAD_TILES[I - 1].cols>;
template <int I> using Dgrad = Tiles<ROWS, WIDTH[I - 1], WIDTH[I], DGRAD_TILES[I - 1].rows, DGRAD_TILES[I - 1].cols>;
static_assert(Forward<L>::tile.cols == LAST, "a block has whole rows of the outputs");
static_assert(!CLIPPED || !SEQUENTIAL, "all gradients are known before the first update");

// ---- layout of the parameters and of the workspace, as offsets in floats; and of shared memory

__device__ constexpr int sum_of_parameters(int layers)
{
    int sum = 0;
    for (int i = 1; i <= layers; ++i) sum += (WIDTH[i - 1] + BIAS[i]) * WIDTH[i];
    return sum;
}
__device__ constexpr int sum_of_widths(int layers)
{
    int sum = 0;
    for (int i = 1; i <= layers; ++i) sum += WIDTH[i];
    return sum;
}
__device__ constexpr bool keeps_Z(int i) { return F[i] == SILU || F[i] == GELU; }   // for f'
__device__ constexpr int sum_of_Z(int layers)
{
    int sum = 0;
    for (int i = 1; i <= layers; ++i) sum += keeps_Z(i) * WIDTH[i];
    return sum;
}
constexpr int PARAMETERS = sum_of_parameters(L);
constexpr int AT_H = HEAD_FLOATS, AT_DZ = AT_H + ROWS * sum_of_widths(L - 1);
constexpr int AT_Z = AT_DZ + ROWS * sum_of_widths(L), AT_BATCHES = AT_Z + ROWS * sum_of_Z(L - 1);
constexpr int OF_X = ROWS * WIDTH[0], OF_BATCH = OF_X + ROWS * LAST;   // floats of a batch
constexpr int AT_GRADIENTS = AT_BATCHES + SHUFFLED * 2 * OF_BATCH, AT_SQUARES = AT_GRADIENTS + CLIPPED * PARAMETERS;
constexpr int AT_ORDERS = AT_SQUARES + CLIPPED * to_multiple(GRID, 4);   // and then for two orders of all rows
extern "C" __device__ const int workspace_floats = AT_ORDERS;

template <int I> __device__ constexpr int most_floats()
{
    const int here = larger(larger(Forward<I>::FLOATS, Wgrad<I>::FLOATS), Dgrad<I>::FLOATS);
    return larger(most_floats<I - 1>(), here);
}
template <> __device__ constexpr int most_floats<0>() { return 0; }

constexpr int QUADS_PER_THREAD = SHUFFLED ? up(OF_BATCH / 4, GRID * THREADS) : 1;
constexpr bool EARLY_QUADS = SHUFFLED && QUADS_PER_THREAD <= 2;   // of a batch, four floats each: held during a product

struct Shared {
    float parts[most_floats<L>()];              // partial sums of a tile, from each group of warps
    float db[WARPS][64];                        // partial sums of a bias's gradient, from each group
#if CLIPPED
    float squares[WARPS];                       // of gradients, from each warp
#endif
#if STATES == 2 || SCHEDULED
    float of_steps[3][THREADS];                 // OfStep's numbers in the next steps
#endif
    float z[Forward<L>::tile.rows][LAST + (AT_ONCE ? 4 : 1)];   // outputs; AT_ONCE then dZ_L
};
extern "C" __device__ const int shared_bytes = sizeof(Shared);

// dZ_i as it is read for W_i's gradient: k, the rows of the batch, runs down its rows. As a by-product, their sum.
template <int SIZE_, bool READY>
struct Summed : Matrix<false, SIZE_, READY> {
    using Raw = Share<SIZE_>;
    float sum[SIZE_] = {};

    __device__ Share<SIZE_> value(const Raw& raw, int)
    {
#pragma unroll
        for (int i = 0; i < SIZE_; ++i)
#pragma unroll
            for (int s = 0; s < 4; ++s) sum[i] += raw.v[i][s];
        return raw;
    }
};

struct Training {
    Shared& shared;
    Barrier barrier;
    const float *X, *Y;
    float *parameters, *state, *E, *workspace;
    Numbers numbers;
    int of_all, batches;
    unsigned seed, epoch;
    float max_norm;
    int step = 0, batch = 0, rows = 0;   // rows: of this batch; of_all: of all
    bool waited = false;       // for the barrier before this phase
    float squares = 0.0f;      // of this thread's gradients, CLIPPED

    template <int I> __device__ const float* H() const
    {
        if constexpr (I == 0 && SHUFFLED) return batch_of(step);
        else if constexpr (I == 0) return X + (size_t)batch * ROWS * WIDTH[0];
        else return workspace + AT_H + ROWS * sum_of_widths(I - 1);
    }
    template <int I> __device__ float* Z() const { return workspace + AT_Z + ROWS * sum_of_Z(I - 1); }
    template <int I> __device__ float* dZ() const { return workspace + AT_DZ + ROWS * sum_of_widths(I - 1); }
    template <int I> __device__ float* W() const { return parameters + sum_of_parameters(I - 1); }
    template <int I> __device__ float* b() const { return W<I>() + WIDTH[I - 1] * WIDTH[I]; }

    // Before an operand of the phase is read that the last one wrote; and before shared memory of a tile is used again.
    __device__ void ready(const Awaited& awaited)
    {
        if (waited) __syncthreads();
        else barrier.wait(awaited, step);
        waited = true;
    }

    __device__ void end_phase(const Awaited& awaited)
    {
        if (!waited) barrier.wait(awaited, step);   // a block without a tile
        waited = false;
        barrier.arrive();
    }

    // Calls f for this block's tiles, dealt to the blocks behind those that have BEFORE other tiles in this phase.
    template <class T, int BEFORE, class F> __device__ void each_tile(F f)
    {
        const int first = (opaque(blockIdx.x) + GRID - BEFORE % GRID) % GRID;
#pragma unroll 1
        for (int number = first; number < T::COUNT; number += GRID) f(T(number));
    }

    template <int I> __device__ void forward()
    {
        using T = Forward<I>;
        [[maybe_unused]] OfOutputs of_outputs;
        float4 quads[I == 1 && EARLY_QUADS ? QUADS_PER_THREAD : 1];
        if constexpr (I == 1 && EARLY_QUADS) each_quad([&](int i, int quad) { quads[i] = quad_of_next(quad); });
        each_tile<T, 0>([&](const T tile) {
            Matrix<true, T::A_ROWS, I == 1> x{H<I - 1>() + tile.lane_row() * WIDTH[I - 1], WIDTH[I - 1]};
            Matrix<false, T::B_COLS, I != 1> w{W<I>() + tile.lane_col(), WIDTH[I]};
            float z[T::ELEMENTS], bias = 0.0f;
            product(tile, shared.parts, x, w, z, [&] { ready({"forward", I}); }, [&] {
                if constexpr (BIAS[I]) bias = from_l2(b<I>() + tile.own_col());
                if constexpr (I == L && AT_ONCE) of_outputs.read(*this, tile.row);
            });
            if constexpr (I < L) {
                tile.each([&](int e, int row) {
                    const float value = z[e] + bias;
                    const int at = row * WIDTH[I] + tile.own_col();
                    const bool is_padding = F[I] == SIGMOID && tile.own_col() >= NEURONS[I];   // of the others f(0) = 0
                    const_cast<float*>(H<I>())[at] = is_padding ? 0.0f : F[I] == IDENTITY ? value : activated(F[I], value);
                    if (keeps_Z(I)) Z<I>()[at] = value;
                });
            } else if constexpr (CROSS_ENTROPY) {
                tile.each([&](int e, int row) { shared.z[row - tile.row][tile.own_col()] = z[e] + bias; });
                __syncthreads();
                for (int line = tile.at.warp(); line < T::tile.rows; line += WARPS) softmax(line, tile.row + line, tile.at.lane());
            } else {
                tile.each([&](int e, int row) { loss_of_output(z[e] + bias, row, tile.own_col()); });
            }
            if constexpr (I == L && AT_ONCE) {
                __syncthreads();
                of_outputs.write(*this, tile.row);
            }
        });
        if constexpr (I == 1 && SHUFFLED) {
            if (!waited) ready({"forward", I});
            store_next(quads);
            if (batch + 1 == batches) write_order(epoch + 2);
        }
        end_phase({"forward", I});
    }

    __device__ float scale() const
    {
        constexpr int TERMS = Loss::LOSS == Loss::binary_cross_entropy ? OUTPUTS : 1;   // of a row, that are averaged
        return (SQUARED ? 2.0f : 1.0f) / (MEAN ? float(rows) * TERMS : 1.0f);
    }
    __device__ float target(int row, int col) const
    {
        if constexpr (SHUFFLED) return from_l2(batch_of(step) + OF_X + row * LAST + col);
        else return (Y + ((size_t)batch * ROWS + row) * LAST)[col];
    }
    __device__ float* errors(int row) const { return E + ((size_t)batch * BATCH + row) * OF_ROW; }

    __device__ void loss_of_output(float z, int row, int col) const
    {
        const bool real = row < rows && col < OUTPUTS;
        const OfOutput its = of_output<Loss::LOSS>(z, real ? target(row, col) : z);
        const float loss = its.loss, d = real ? its.slope : 0.0f;
        dZ<L>()[row * LAST + col] = scale() * d;
        if (AT_ONCE) shared.z[row % Forward<L>::tile.rows][col] = scale() * d;
        if (real) errors(row)[col] = loss;
    }

    // Loss and gradient of one row, by a warp: as in kernels/layers/softmax.cu.
    __device__ void softmax(int line, int row, int lane)
    {
        const float* const z = shared.z[line];
        float* const gradient = dZ<L>() + row * LAST;
        const auto write = [&](int j, float d) {
            gradient[j] = d;
            if (AT_ONCE) shared.z[line][j] = d;
        };
        if (row >= rows) {
            for (int j = lane; j < LAST; j += 32) write(j, 0.0f);
            return;
        }
        float largest = z[0], sum = 0.0f, loss = 0.0f;
        for (int j = lane; j < OUTPUTS; j += 32) largest = z[j] > largest ? z[j] : largest;
        for (int apart = 16; apart > 0; apart /= 2) {
            const float other = __shfl_xor_sync(0xffffffff, largest, apart);
            largest = other > largest ? other : largest;
        }
        for (int j = lane; j < OUTPUTS; j += 32) sum += expf(z[j] - largest);
        for (int apart = 16; apart > 0; apart /= 2) sum += __shfl_xor_sync(0xffffffff, sum, apart);
        const float log_sum = logf(sum);
        if (AT_ONCE) __syncwarp();   // all lanes have read z[0]
        for (int j = lane; j < LAST; j += 32) {
            const float y = j < OUTPUTS ? target(row, j) : 0.0f;
            if (j < OUTPUTS) loss += y * (log_sum - (z[j] - largest));
            write(j, j < OUTPUTS ? scale() * (expf(z[j] - largest) / sum - y) : 0.0f);
        }
        for (int apart = 16; apart > 0; apart /= 2) loss += __shfl_xor_sync(0xffffffff, loss, apart);
        if (lane == 0) errors(row)[0] = loss;
    }

    // READY: dZ_I was written before the last phase.
    template <int I, bool READY, int BEFORE> __device__ void wgrad()
    {
        using T = Wgrad<I>;
        each_tile<T, BEFORE>([&](const T tile) {
            Matrix<false, T::A_ROWS, true> x{H<I - 1>() + tile.lane_row(), WIDTH[I - 1]};
            Summed<T::B_COLS, READY> dz;
            dz.from = dZ<I>() + tile.lane_col(), dz.line = WIDTH[I];
            float old[T::ELEMENTS], kept[T::ELEMENTS][2], gradient[T::ELEMENTS];
            float* const own = W<I>() + tile.own_col();
            const auto read_old = [&] {
                if (CLIPPED) return;
                tile.each([&](int e, int row) {
                    old[e] = from_l2(own + row * WIDTH[I]);
                    for (int s = 0; s < STATES; ++s) kept[e][s] = from_l2(state_of(own + row * WIDTH[I], s));
                });
            };
            if (T::ELEMENTS <= MOST_EARLY) read_old();
            product(tile, shared.parts, x, dz, gradient, [&] { ready({"update", I}); }, [] {});
            if (T::ELEMENTS > MOST_EARLY) read_old();
            tile.each([&](int e, int row) {
                if constexpr (CLIPPED) keep(own + row * WIDTH[I], gradient[e]);
                else update(own + row * WIDTH[I], old[e], gradient[e], kept[e]);
            });
            if (BIAS[I] && tile.row == 0) update_bias<I>(tile, dz.sum);
        });
    }

    template <int I, class T, int SIZE> __device__ void update_bias(const T& tile, float (&sum)[SIZE])
    {
        for (int c = 0; c < SIZE; ++c) {
            for (int apart = 1; apart < 4; apart *= 2) sum[c] += __shfl_xor_sync(0xffffffff, sum[c], apart);
            if (tile.at.lane() % 4 == 0 && tile.group() < T::GROUPS && tile.warp_row() == 0)
                shared.db[tile.group()][tile.lane_col() - tile.col + c] = sum[c];
        }
        __syncthreads();
        if (tile.at.thread < T::tile.cols) {
            float db = 0.0f;
            for (int from = 0; from < T::GROUPS; ++from) db += shared.db[from][tile.at.thread];
            float *const own = b<I>() + tile.own_col(), kept[2];
            if constexpr (CLIPPED) return keep(own, db);
            for (int s = 0; s < STATES; ++s) kept[s] = __ldcg(state_of(own, s));
            update(own, __ldcg(own), db, kept);
        }
    }

    __device__ float* state_of(const float* own, int s) const { return state + s * PARAMETERS + (own - parameters); }

    __device__ void update(float* own, float old, float gradient, float (&kept)[2], float factor = 1.0f) const
    {
        OfStep of_step;
        of_step.T[4] = factor;   // of gradients
#if STATES == 2 || SCHEDULED
        for (int i = 0; i < 3; ++i)
            if (i < 2 ? ADAM : SCHEDULED) of_step.T[1 + i] = shared.of_steps[i][step % THREADS];
#endif
        *own = updated<Update::UPDATE>(old, gradient, kept, numbers, of_step);
        for (int s = 0; s < STATES; ++s) *state_of(own, s) = kept[s];
    }

    // ---- gradients that are clipped together: kernels/layers/optimizers.cu has the formula

    __device__ void keep(const float* own, float gradient)
    {
        workspace[AT_GRADIENTS + (own - parameters)] = gradient;
        squares += gradient * gradient;
    }

#if CLIPPED
    __device__ float sum_of_block(float value)
    {
        const Place at;
        for (int apart = 16; apart > 0; apart /= 2) value += __shfl_xor_sync(0xffffffff, value, apart);
        if (at.lane() == 0) shared.squares[at.warp()] = value;
        __syncthreads();
        float sum = 0.0f;
        for (int warp = 0; warp < WARPS; ++warp) sum += shared.squares[warp];
        __syncthreads();   // before squares are written again
        return sum;
    }

    __device__ void write_squares()
    {
        const float sum = sum_of_block(squares);
        if (threadIdx.x == 0) workspace[AT_SQUARES + blockIdx.x] = sum;
        squares = 0.0f;
    }

    __device__ void clip_and_update()
    {
        ready("clip");
        float sum = 0.0f;
        for (int block = threadIdx.x; block < GRID; block += THREADS) sum += from_l2(workspace + AT_SQUARES + block);
        const float scale = max_norm / (sqrtf(sum_of_block(sum)) + 1e-6f), factor = scale > 1.0f ? 1.0f : scale;   // a NaN stays
        for (int i = blockIdx.x * THREADS + threadIdx.x; i < PARAMETERS; i += GRID * THREADS) {
            float* const own = parameters + i;
            float kept[2];
            for (int s = 0; s < STATES; ++s) kept[s] = from_l2(state_of(own, s));
            update(own, from_l2(own), from_l2(workspace + AT_GRADIENTS + i), kept, factor);
        }
        end_phase("clip");
    }
#endif

    // Before a step: every THREADS steps, what the next ones need. Follows a barrier of the block, and one follows.
    __device__ void prepare() const
    {
#if STATES == 2 || SCHEDULED
        if (step % THREADS) return;
        const OfStep later(numbers, ADAM, (double)epoch * batches + batch + threadIdx.x);
        for (int i = 0; i < 3; ++i) shared.of_steps[i][threadIdx.x] = later.T[1 + i];
#endif
    }

    template <int I> __device__ void dgrad()
    {
        using T = Dgrad<I>;
        each_tile<T, 0>([&](const T tile) {
            Matrix<true, T::A_ROWS, SEQUENTIAL> dz{dZ<I>() + tile.lane_row() * WIDTH[I], WIDTH[I]};
            Matrix<true, T::B_COLS, !SEQUENTIAL> w{W<I>() + tile.lane_col() * WIDTH[I], WIDTH[I]};
            float h[T::ELEMENTS], dH[T::ELEMENTS];
            const auto read_h = [&] {
                const float* const from = for_slope<I - 1>();
                if (F[I - 1] != IDENTITY)
                    tile.each([&](int e, int row) { h[e] = from_l2(from + row * WIDTH[I - 1] + tile.own_col()); });
            };
            if (T::ELEMENTS <= MOST_EARLY) read_h();
            product(tile, shared.parts, dz, w, dH, [&] { ready({"backward", I}); }, [] {});
            if (T::ELEMENTS > MOST_EARLY) read_h();
            tile.each([&](int e, int row) {
                dZ<I - 1>()[row * WIDTH[I - 1] + tile.own_col()] = times_slope<I - 1>(dH[e], h[e]);
            });
        });
    }

    template <int I> __device__ const float* for_slope() const   // what f' is computed from
    {
        if constexpr (keeps_Z(I)) return Z<I>();
        else return H<I>();
    }
    template <int I> __device__ static float times_slope(float dH, float h)
    {
        return F[I] == IDENTITY ? dH : differentiated(F[I], dH, h);
    }

    // dZ_{L-1} of the rows of a tile of outputs, some columns per thread: few terms, added in float32.
    struct OfOutputs {
        static constexpr int M = Forward<L>::tile.rows, N = WIDTH[L - 1], COLS = AT_ONCE ? up(N, THREADS) : 1;
        float w[COLS][LAST], h[COLS][M];

        template <class G> __device__ void each(G g)
        {
#pragma unroll
            for (int c = 0; c < COLS; ++c)
                if (const int col = c * THREADS + threadIdx.x; N % THREADS == 0 || col < N) g(c, col);
        }
        __device__ void read(const Training& of, int first)
        {
            each([&](int c, int col) {
                ::read(of.W<L>() + col * LAST, w[c]);
#pragma unroll
                for (int row = 0; row < M; ++row) h[c][row] = from_l2(of.for_slope<L - 1>() + (first + row) * N + col);
            });
        }
        __device__ void write(const Training& of, int first)
        {
#pragma unroll
            for (int row = 0; row < M; ++row) {
                float d[LAST];
#pragma unroll
                for (int j = 0; j < LAST; j += 4) {
                    const float4 v = *reinterpret_cast<const float4*>(&of.shared.z[row][j]);
                    d[j] = v.x, d[j + 1] = v.y, d[j + 2] = v.z, d[j + 3] = v.w;
                }
                each([&](int c, int col) {
                    float dH = 0.0f;
#pragma unroll
                    for (int j = 0; j < LAST; ++j) dH += d[j] * w[c][j];
                    of.dZ<L - 1>()[(first + row) * N + col] = times_slope<L - 1>(dH, h[c][row]);
                });
            }
        }
    };

    // ---- rows in another order in each epoch

    __device__ float* batch_of(int step) const { return workspace + AT_BATCHES + step % 2 * OF_BATCH; }
    __device__ unsigned* order_of(unsigned epoch) const
    {
        return reinterpret_cast<unsigned*>(workspace + AT_ORDERS) + (size_t)(epoch % 2) * of_all;
    }

    __device__ void write_order(unsigned epoch) const
    {
        for (int i = blockIdx.x * THREADS + threadIdx.x; i < of_all; i += GRID * THREADS)
            order_of(epoch)[i] = row_in_place(i, of_all, seed, epoch);
    }

    template <class G> __device__ void each_quad(G g) const   // calls g(i, quad) for this thread's quads of a batch
    {
#pragma unroll
        for (int i = 0; i < QUADS_PER_THREAD; ++i) {
            const int quad = (i * GRID + blockIdx.x) * THREADS + threadIdx.x;
            if (OF_BATCH / 4 % (GRID * THREADS) == 0 || quad < OF_BATCH / 4) g(i, quad);
        }
    }

    __device__ float4 quad_of(unsigned epoch, int batch, int quad) const
    {
        const bool of_X = quad < OF_X / 4;
        const int width = of_X ? WIDTH[0] : LAST, at = 4 * quad - (of_X ? 0 : OF_X), row = at / width;
        const int place = batch * BATCH + row;
        if (row >= BATCH || place >= of_all) return make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        const unsigned from = __float_as_uint(from_l2(reinterpret_cast<const float*>(order_of(epoch)) + place));
        return *reinterpret_cast<const float4*>((of_X ? X : Y) + (size_t)from * width + at % width);
    }
    __device__ float4 quad_of_next(int quad) const
    {
        const int next = batch_after(batch, batches);
        return quad_of(epoch + (next == 0), next, quad);
    }
    template <int N> __device__ void store_next(const float4 (&quads)[N]) const
    {
        float4* const to = reinterpret_cast<float4*>(batch_of(step + 1));
        each_quad([&](int i, int quad) { to[quad] = EARLY_QUADS ? quads[i] : quad_of_next(quad); });
    }

    // The first batch of a launch, and the orders of this epoch and of the next.
    __device__ void begin()
    {
        write_order(epoch), write_order(epoch + 1);
        barrier.arrive();
        barrier.wait("order", 0);
        each_quad([&](int, int quad) { reinterpret_cast<float4*>(batch_of(0))[quad] = quad_of(epoch, batch, quad); });
        barrier.arrive();
        barrier.wait("rows", 0);
    }

    template <int I> __device__ void forward_up_to()
    {
        if constexpr (I > 1) forward_up_to<I - 1>();
        forward<I>();
    }

    template <int I> __device__ void one_after_the_other()
    {
        wgrad<I, false, 0>();
        end_phase({"update", I});
        if constexpr (I > 1) {
            dgrad<I>();
            end_phase({"backward", I});
            one_after_the_other<I - 1>();
        }
    }

    template <int I> __device__ void at_the_same_time()
    {
        constexpr bool READY = !AT_ONCE || I + 1 < L;
        if constexpr (I > 1) dgrad<I>();
        else wgrad<1, false, 0>();
        if constexpr (I < L) wgrad<I + 1, READY, (I > 1 ? Dgrad<I>::COUNT : Wgrad<1>::COUNT)>();
#if CLIPPED
        if constexpr (I == 1) write_squares();
#endif
        end_phase({"backward", I});
        if constexpr (I > 1) at_the_same_time<I - 1>();
#if CLIPPED
        else clip_and_update();
#endif
    }
};

extern "C" __global__ __launch_bounds__(THREADS, 1) void train_persistent(
    const float* X, const float* Y, float* parameters,
#if STATES
    float* state,
#endif
    float* E, float* workspace, int rows, int first, int steps, float rate, int epoch, int seed,
    float a, float b, float c, float d, int form, int warmup, int length, float end, float max_norm)
{
#if !STATES
    float* const state = nullptr;
#endif
    extern __shared__ __align__(16) float dynamic[];
    Shared& shared = *reinterpret_cast<Shared*>(dynamic);
    Barrier barrier{reinterpret_cast<unsigned*>(workspace)};
    const int batches = (rows + BATCH - 1) / BATCH;
    Training training{shared, barrier, X, Y, parameters, state, E, workspace, 
                      {rate, {a, b, c, d}, form, warmup, length, end}, rows, batches, (unsigned)seed, (unsigned)epoch,
                      max_norm};
    int step = 0;
    training.batch = first;
    if constexpr (SHUFFLED) training.begin();
    training.barrier.arrive();
    for (; step < steps; ++step) {
        training.step = step;
        if constexpr (COUNTS) training.prepare();
        training.rows = smaller(BATCH, rows - training.batch * BATCH);
        training.forward_up_to<L>();
        if constexpr (SEQUENTIAL) training.one_after_the_other<L>();
        else training.at_the_same_time<AT_ONCE ? L - 1 : L>();
        training.batch = batch_after(training.batch, batches);
        if ((SHUFFLED || COUNTS) && training.batch == 0) ++training.epoch;
    }
    training.barrier.wait("blocks", steps);
    if (blockIdx.x == 0 && threadIdx.x == 0) count_steps(workspace, step);
    training.barrier.reset();
}
