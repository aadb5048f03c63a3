// The training of a network, all steps of a launch (steps.cuh) of one block per SM: for networks of any depth whose
// arithmetic is too much for one block or one cluster.
//
//   H_i = max(H_{i-1} W_i, 0), H_0 = X;  y = H_L w;  e = y - Y;  g = 2/rows e                      forward
//   w -= rate H_L^T g;  dZ_L = g w^T where H_L > 0                                               backward, where
//   W_i -= rate H_{i-1}^T dZ_i;  dZ_{i-1} = dZ_i W_i^T where H_{i-1} > 0                           i = L, ..., 1
//
// A step is a sequence of phases, separated by barriers of the whole grid: forward<1..L>, then wgrad<i> (updates
// W_i) and dgrad<i> (computes dZ_{i-1}) for i = L, ..., 1: 3 L - 1 phases. In each, every block computes one tile
// of one product. Which tile that is, the product itself with the wait for the barrier, and the layout of the workspace
// and of shared memory: grid_layout.cuh. What must wait for a phase's barrier comes before the phases: e and g, the
// update of w and, with CLIP, of W_i.
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
#include "grid_layout.cuh"

template <int I>
struct Kept : Kept<I - 1> {
    static_assert(Forward<I>::ELEMENTS <= 32, "a bit for each");
    float W[Wgrad<I>::ELEMENTS];   // its elements of W_i
    unsigned positive;               // the bits of its elements of H_i > 0
};
template <>
struct Kept<0> {};

struct Training {
    Shared& shared;
    Barrier barrier;
    const float *X, *Y;
    float *weights, *E, *workspace;
    float rate, max_norm;
    int step = 0, batch = 0, rows = 0;   // rows: of this batch
    bool first = true, last = false;
    int now = 0;                   // CLIP: which copy of W_i the forward pass reads
    float factor = 0.0f;           // CLIP: of the gradient that is not applied in memory yet
    Kept<L> kept;
    Place at;

    template <int I> __device__ const float* H() const
    {
        if constexpr (I == 0) return X + (size_t)batch * ROWS * WIDTH[0];
        else return in_workspace(AT_H + ROWS * sum_of_widths(I - 1));
    }
    template <int I> __device__ float* dZ() const { return in_workspace(AT_DZ + ROWS * sum_of_widths(I - 1)); }
    template <int I> __device__ float* W(int which) const
    {
        return which ? in_workspace(AT_SECOND + sum_of_weights(I - 1)) : weights + sum_of_weights(I - 1);
    }
    template <int I> __device__ float* dW() const { return in_workspace(AT_DW + sum_of_weights(I - 1)); }
    template <int I> __device__ float* norms() const { return in_workspace(AT_NORMS + (I - 1) * GRID * 4); }
    __device__ float* y_parts() const { return in_workspace(AT_Y); }
    __device__ float* dw() const { return in_workspace(AT_DW_OUT); }
    __device__ float* in_workspace(int offset) const { return workspace + offset; }
    __device__ float* w_in_memory() const { return weights + WEIGHTS; }

    // ---- after barrier
    //
    // What the phases after a barrier do before their arithmetic: the updates that waited for it, and the errors.

    // Sums COUNT values over the threads of the block, in one fixed order; every thread receives the sums.
    template <int COUNT> __device__ void sum_up(float (&value)[COUNT])
    {
        for (int i = 0; i < COUNT; ++i) {
            for (int apart = 16; apart > 0; apart /= 2) value[i] += __shfl_xor_sync(0xffffffff, value[i], apart);
            if (at.lane() == 0) shared.sums[i][at.warp()] = value[i];
        }
        __syncthreads();
        for (int i = 0; i < COUNT; ++i) {
            value[i] = 0.0f;
            for (int from = 0; from < WARPS; ++from) value[i] += shared.sums[i][from];
        }
    }

    // After the barrier that follows wgrad<I>: updates w, and with CLIP W_i, which waited for its gradient's norm.
    template <int I> __device__ void settle()
    {
        if (I == 1 && first) {  // no gradient yet: readers use W_1 - 0 dW_1
            factor = 0.0f;
        } else {
            float factor_of_w = rate;
            if constexpr (CLIP) {
                float sum[4] = {};
                if (at.thread < Wgrad<I>::TILES) read(norms<I>() + 4 * at.thread, sum);
                sum_up(sum);
                if (I == L) factor_of_w = rate * clipped(sum[3], max_norm);
                // The squared norm of U diag(w - f dw), with f the factor of w, is a polynomial in f.
                const float f = factor_of_w;
                factor = rate * clipped(TIMES_W<I> ? sum[0] - 2.0f * f * sum[1] + f * f * sum[2] : sum[0], max_norm);
            }
            if (I == L)
                for (int j = at.thread; j < LAST; j += THREADS) shared.w[j] -= factor_of_w * __ldcg(dw() + j);
        }
        __syncthreads();
        if constexpr (CLIP) {
            Kept<I>& mine = kept;
            for_elements<Wgrad<I>>(at, [&](int e, int row, int col) {
                mine.W[e] -= factor * (TIMES_W<I> ? shared.dW[e][at.thread] * shared.w[col] : shared.dW[e][at.thread]);
                W<I>(1 - now)[row * WIDTH[I] + col] = mine.W[e];
            });
        }
    }

    // Computes e and g of the batch from the partial sums of y.
    __device__ void errors()
    {
        const float scale = 2.0f / rows;
        for (int r = at.thread; r < ROWS; r += THREADS) {
            const float target = Y[(size_t)batch * ROWS + r];
            float y = 0.0f;
#pragma unroll 16
            for (int p = 0; p < Y_PARTS; ++p) y += __ldcg(y_parts() + p * ROWS + r);
            const float error = r < rows ? y - target : 0.0f;
            shared.g[r] = scale * error;
            if (last && at.block == 0) E[r] = error;
        }
        __syncthreads();
    }

    // ---- forward
    //
    // H_i = max(H_{i-1} W_i, 0), and its bits > 0, which stay in registers. A tile of H_L also contributes to y.

    template <int I> __device__ void forward()
    {
        using S = Forward<I>;
        at = Place();
        const int row = S::first_row(at) + S::lane_row(at), col = S::first_col(at) + S::lane_col(at);
        Matrix<true, S::A_ROWS, I == 1> a{H<I - 1>() + row * WIDTH[I - 1], WIDTH[I - 1]};
        const auto ready = [&] { barrier.wait({"forward", I}, step); };
        const auto meanwhile = [&] { if constexpr (I == 1) settle<1>(); };
        float h[S::ELEMENTS];
        if constexpr (CLIP && I == 1) {
            Stepped<false, S::B_COLS, TIMES_W<I>> b{
                {W<I>(now) + col, WIDTH[I]}, {dW<I>() + col, WIDTH[I]}, factor, shared.w + col};
            product<S>(at, shared, a, b, h, ready, meanwhile);
            now = 1 - now;
        } else {
            Matrix<false, S::B_COLS, I != 1> b{W<I>(now) + col, WIDTH[I]};
            product<S>(at, shared, a, b, h, ready, meanwhile);
        }

        Kept<I>& mine = kept;
        mine.positive = 0;
        for_elements<S>(at, [&](int e, int row, int col) {
            const float value = h[e] < 0.0f ? 0.0f : h[e];  // a NaN is not < 0 and stays
            const_cast<float*>(H<I>())[row * WIDTH[I] + col] = value;
            mine.positive |= (value > 0.0f) << e;
            if constexpr (I == L) {
                float part = value * shared.w[col];
                for (int apart = SPAN / 2; apart > 0; apart /= 2) part += __shfl_xor_sync(0xffffffff, part, apart);
                if (col % SPAN == 0) y_parts()[col / SPAN * ROWS + row] = part;
            }
        });
        barrier.arrive();
    }

    // ---- wgrad
    //
    // dW_i = H_{i-1}^T dZ_i, by which the owner of a tile of W_i updates it. With CLIP it stores the gradient and its part
    // of the squared norm, and settle() updates. dW_L needs no dZ_L: its operand is g where H_L > 0; dw is a by-product.

    template <int I> __device__ void wgrad()
    {
        using S = Wgrad<I>;
        at = Place();
        const int row = S::first_row(at) + S::lane_row(at), col = S::first_col(at) + S::lane_col(at);
        constexpr bool AFTER_WGRAD = !SEQUENTIAL && I == 1 && L > 1, FIRST = I == L && (SEQUENTIAL || L == 1);
        const auto ready = [&] { barrier.wait({"update", I}, step); };
        const auto meanwhile = [&] {
            if constexpr (FIRST) errors();
            if constexpr (AFTER_WGRAD) settle<I + 1>();
        };
        Matrix<false, S::A_ROWS, true> a{H<I - 1>() + row, WIDTH[I - 1]};
        float gradient[S::ELEMENTS];
        if constexpr (I < L) {
            Matrix<false, S::B_COLS, !SEQUENTIAL> b{dZ<I>() + col, WIDTH[I]};
            product<S>(at, shared, a, b, gradient, ready, meanwhile);
        } else {
            MaskedError<S::B_COLS, !FIRST> b;
            b.from = H<L>() + col, b.line = LAST, b.g = shared.g;
            product<S>(at, shared, a, b, gradient, ready, meanwhile);
            parts_of_dw(b.dw);
        }

        float squares[4] = {};
        Kept<I>& mine = kept;
        for_elements<S>(at, [&](int e, int row, int col) {
            const int i = row * WIDTH[I] + col;
            if constexpr (I == L) {
                float dw_col = 0.0f;
                for (int from = 0; from < S::GROUPS; ++from) dw_col += shared.dw[from][col - S::first_col(at)];
                if (row == 0) dw()[col] = dw_col, squares[3] += dw_col * dw_col;
                const float old = shared.w[col];
                if (TIMES_W<I>) {
                    const float square = gradient[e] * gradient[e];
                    squares[0] += square * old * old, squares[1] += square * old * dw_col;
                    squares[2] += square * dw_col * dw_col;
                } else {
                    gradient[e] *= SEQUENTIAL ? old - rate * dw_col : old;
                }
            }
            if (CLIP && !TIMES_W<I>) squares[0] += gradient[e] * gradient[e];
            if (CLIP) dW<I>()[i] = shared.dW[e][at.thread] = gradient[e];
            else W<I>(0)[i] = mine.W[e] -= rate * gradient[e];
        });
        if constexpr (CLIP) {
            if (S::has_tile(at)) {
                sum_up(squares);
                if (at.thread == 0)
                    *reinterpret_cast<float4*>(norms<I>() + 4 * at.block) =
                        make_float4(squares[0], squares[1], squares[2], squares[3]);
            }
        }
        barrier.arrive();
    }

    template <int SIZE> __device__ void parts_of_dw(float (&dw)[SIZE])
    {
        using S = Wgrad<L>;
        if (!S::has_tile(at)) return;
        for (int c = 0; c < SIZE; ++c) {
            for (int apart = 1; apart < 4; apart *= 2) dw[c] += __shfl_xor_sync(0xffffffff, dw[c], apart);
            if (at.lane() % 4 == 0 && S::group(at) < S::GROUPS && S::lane_row(at) < S::WARP_ROWS)
                shared.dw[S::group(at)][S::lane_col(at) + c] = dw[c];
        }
        __syncthreads();
    }

    // ---- dgrad
    //
    // dZ_{i-1} = dZ_i W_i^T where H_{i-1} > 0.

    template <int I> __device__ void dgrad()
    {
        using S = Dgrad<I>;
        at = Place();
        const int row = S::first_row(at) + S::lane_row(at), col = S::first_col(at) + S::lane_col(at);
        constexpr bool FIRST = I == L && !SEQUENTIAL;
        const auto meanwhile = [&] {
            if constexpr (FIRST) errors();
            if constexpr (SEQUENTIAL) settle<I>();
            else if constexpr (I < L) settle<I + 1>();
        };
        float dH[S::ELEMENTS];
        if constexpr (I == L) {
            LastError<S::A_ROWS, !FIRST> a;
            a.from = H<L>() + row * LAST, a.line = LAST, a.g = shared.g + row, a.w = shared.w;
            times_weights<I>(a, col, dH, meanwhile);
        } else {
            Matrix<true, S::A_ROWS, true> a{dZ<I>() + row * WIDTH[I], WIDTH[I]};
            times_weights<I>(a, col, dH, meanwhile);
        }
        const Kept<I - 1>& below = kept;
        for_elements<S>(at, [&](int e, int row, int col) {
            dZ<I - 1>()[row * WIDTH[I - 1] + col] = below.positive >> e & 1 ? dH[e] : 0.0f;
        });
        barrier.arrive();
    }

    template <int I, class A, class Meanwhile>  // A W_I^T
    __device__ void times_weights(A& a, int col, float (&dH)[Dgrad<I>::ELEMENTS], Meanwhile meanwhile)
    {
        using S = Dgrad<I>;
        const auto ready = [&] { barrier.wait({"backward", I}, step); };
        const Matrix<true, S::B_COLS, !SEQUENTIAL || CLIP> old{W<I>(now) + col * WIDTH[I], WIDTH[I]};
        if constexpr (CLIP && SEQUENTIAL) {
            Stepped<true, S::B_COLS, TIMES_W<I>> b{old, {dW<I>() + col * WIDTH[I], WIDTH[I]}, factor, shared.w};
            product<S>(at, shared, a, b, dH, ready, meanwhile);
        } else {
            auto b = old;
            product<S>(at, shared, a, b, dH, ready, meanwhile);
        }
    }

    template <int I> __device__ void start()
    {
        if constexpr (I > 0) {
            start<I - 1>();
            Kept<I>& mine = kept;
            for_elements<Wgrad<I>>(at, [&](int e, int row, int col) {
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
            for_elements<Wgrad<I>>(at, [&](int e, int row, int col) { W<I>(0)[row * WIDTH[I] + col] = mine.W[e]; });
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
        if constexpr (SEQUENTIAL || I == 1) wgrad<I>();
        if constexpr (I > 1) {
            dgrad<I>();
            if constexpr (!SEQUENTIAL) wgrad<I>();
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
    Training training{shared, barrier, X, Y, weights, E, workspace, rate, max_norm};
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
