// The whole training of a network, all epochs, in one launch of one block per SM: for networks of any depth whose
// arithmetic is too much for one block or one cluster.
//
//   H_i = max(H_{i-1} W_i, 0), H_0 = X;  y = H_L w;  e = y - Y;  g = 2/rows e                      forward
//   w -= rate H_L^T g;  dZ_L = g w^T where H_L > 0                                               backward, where
//   W_i -= rate H_{i-1}^T dZ_i;  dZ_{i-1} = dZ_i W_i^T where H_{i-1} > 0                           i = L, ..., 1
//
// A step is a sequence of phases, separated by barriers of the whole grid: forward<1..L>, then descend<i> (updates
// W_i) and propagate<i> (computes dZ_{i-1}) for i = L, ..., 1: 3 L - 1 phases. In each, every block computes one tile
// of one product:
//
//   no staging      the tile is so small that its warps split k among them. No warp reads what another one reads, so
//                   operands go from L2 directly to registers, and the warps' sums are combined in shared memory.
//   early loads     operands that are ready already are loaded before the barrier is waited for: X, W_i in the forward
//                   pass, H_{i-1} in the backward pass.
//   y, e, g         each tile of H_L contributes to y; each block that needs e adds up these parts itself, in one
//   order.
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

constexpr int THREADS = 256, WARPS = THREADS / 32;
constexpr int SLAB = 16;                                    // values of k that a warp takes at a time
constexpr int WIDTH[] = {WIDTHS};                           // features, hidden layers: multiples of 16
constexpr int L = sizeof WIDTH / sizeof *WIDTH - 1;         // hidden layers
constexpr int LAST = WIDTH[L];
constexpr int ROWS = (BATCH + 15) / 16 * 16;                // rows of a batch, padded
// Per thread, for operands in flight. Fewer hide less latency; with more the compiler runs out of registers.
constexpr int MOST_REGISTERS = 64 - 16 * CLIP - 16 * (__CUDA_ARCH__ >= 1000);
constexpr bool SCARCE = CLIP && __CUDA_ARCH__ >= 1000;      // there the compiler uses more registers itself

__device__ constexpr int smaller(int a, int b) { return a < b ? a : b; }
__device__ constexpr int larger(int a, int b) { return a > b ? a : b; }
__device__ constexpr int up(int a, int b) { return (a + b - 1) / b; }

// The index of thread and block, made opaque in each phase: otherwise the compiler would compute everything that
// depends on it once, and keep it in registers throughout all phases.
struct Place {
    unsigned thread = threadIdx.x, block = blockIdx.x;

    __device__ Place()
    {
#ifndef CUDA_ON_CPU
        asm volatile("" : "+r"(thread), "+r"(block));
#endif
    }
    __device__ unsigned lane() const { return thread % 32; }
    __device__ unsigned warp() const { return thread / 32; }
};

// ---- which tile of a product a block computes

struct Tile {
    int rows, cols;
};

constexpr Tile FORWARD_TILES[] = {FORWARD}, DESCEND_TILES[] = {DESCEND}, PROPAGATE_TILES[] = {PROPAGATE};

template <int M, int N, int K, int ROWS_, int COLS_>
struct Shape {
    static constexpr Tile tile{ROWS_, COLS_};
    static_assert(M % tile.rows == 0 && N % tile.cols == 0 && M / tile.rows * (N / tile.cols) <= GRID, "one tile a block");
    static constexpr int ACROSS = N / tile.cols, TILES = M / tile.rows * ACROSS;
    static constexpr int SIZE = tile.rows * tile.cols, ELEMENTS = up(SIZE, THREADS);   // ELEMENTS: per thread

    // A warp computes WARP_ROWS x WARP_COLS elements of the tile over every GROUPS-th slab of k. A lane's share of a
    // slab is A_ROWS rows of A and B_COLS columns of B.
    static constexpr int WARP_ROWS = smaller(tile.rows, 32), WARP_COLS = smaller(tile.cols, SCARCE ? 16 : 32);
    static constexpr int WARPS_DOWN = tile.rows / WARP_ROWS, WARPS_ACROSS = tile.cols / WARP_COLS;
    static constexpr int A_ROWS = WARP_ROWS / 8, B_COLS = WARP_COLS / 8;
    static constexpr int SLABS = K / SLAB, GROUPS = smaller(SLABS, WARPS / (WARPS_DOWN * WARPS_ACROSS));
    static constexpr int OWN = up(SLABS, GROUPS);                                  // slabs per warp, at most
    static constexpr int STRIDE = tile.cols + 4, PART = tile.rows * STRIDE;        // floats of the sums of a group

    static __device__ bool has_tile(Place at) { return at.block < TILES; }
    static __device__ int first_row(Place at) { return at.block / ACROSS * tile.rows; }
    static __device__ int first_col(Place at) { return at.block % ACROSS * tile.cols; }
    static __device__ int group(Place at) { return at.warp() / (WARPS_DOWN * WARPS_ACROSS); }
    static __device__ int lane_row(Place at)  // in the tile
    {
        return at.warp() / WARPS_ACROSS % WARPS_DOWN * WARP_ROWS + at.lane() / 4 * A_ROWS;
    }
    static __device__ int lane_col(Place at) { return at.warp() % WARPS_ACROSS * WARP_COLS + at.lane() / 4 * B_COLS; }
};

template <int I> using Forward = Shape<ROWS, WIDTH[I], WIDTH[I - 1], FORWARD_TILES[I - 1].rows, FORWARD_TILES[I - 1].cols>;
template <int I> using Descend = Shape<WIDTH[I - 1], WIDTH[I], ROWS, DESCEND_TILES[I - 1].rows, DESCEND_TILES[I - 1].cols>;
template <int I> using Propagate = Shape<ROWS, WIDTH[I - 1], WIDTH[I], PROPAGATE_TILES[I - 1].rows, PROPAGATE_TILES[I - 1].cols>;

// Whether dW_I is stored without its factor diag(w), because w is known only after the norm of its gradient.
template <int I> constexpr bool TIMES_W = CLIP && SEQUENTIAL && I == L;

// ---- layout of the workspace, as offsets in floats, the barrier's first; and of shared memory

constexpr int SPAN = smaller(Forward<L>::tile.cols, 32);   // columns of H_L in one partial sum of y
constexpr int Y_PARTS = LAST / SPAN;

__device__ constexpr int sum_of_weights(int layers)
{
    int sum = 0;
    for (int i = 1; i <= layers; ++i) sum += WIDTH[i - 1] * WIDTH[i];
    return sum;
}
__device__ constexpr int sum_of_widths(int layers)
{
    int sum = 0;
    for (int i = 1; i <= layers; ++i) sum += WIDTH[i];
    return sum;
}
constexpr int WEIGHTS = sum_of_weights(L), NEURONS = sum_of_widths(L);
constexpr int AT_H = BARRIER_FLOATS, AT_DZ = AT_H + ROWS * NEURONS, AT_Y = AT_DZ + ROWS * NEURONS, AT_DW_OUT = AT_Y + ROWS * Y_PARTS;
constexpr int AT_SECOND = AT_DW_OUT + LAST, AT_DW = AT_SECOND + CLIP * WEIGHTS, AT_NORMS = AT_DW + CLIP * WEIGHTS;
extern "C" __device__ const int workspace_floats = AT_NORMS + CLIP * L * GRID * 4;

template <class S> __device__ constexpr int floats() { return S::GROUPS * S::PART; }
template <int I> __device__ constexpr int most_floats()
{
    const int here = larger(larger(floats<Forward<I>>(), floats<Descend<I>>()), floats<Propagate<I>>());
    return larger(most_floats<I - 1>(), here);
}
template <> __device__ constexpr int most_floats<0>() { return 0; }

template <int I> __device__ constexpr int most_elements() { return larger(most_elements<I - 1>(), Descend<I>::ELEMENTS); }
template <> __device__ constexpr int most_elements<0>() { return 1; }

struct Shared {
    float parts[most_floats<L>()];                 // partial sums of a tile, from each group of warps
    float g[ROWS];
    float w[LAST];
    float dw[WARPS][Descend<L>::tile.cols];        // partial sums of w's gradient, from each group
    float sums[4][WARPS];
    float dW[CLIP ? most_elements<L>() : 1][THREADS];   // CLIP: this block's tile of the last gradient
};
extern "C" __device__ const int shared_bytes = sizeof(Shared);

// ---- the product of a phase. After the barrier and before the arithmetic, meanwhile() prepares what operands need in
// shared memory. Element e of a thread is in row (threadIdx.x + e THREADS) / cols of the tile, column (threadIdx.x + e
// THREADS) % cols.

template <class S, class A, class B, class Meanwhile>
__device__ void product(Place at, Shared& shared, Barrier& barrier, A& a, B& b, float (&element)[S::ELEMENTS], Meanwhile meanwhile)
{
    const int g = at.lane() / 4, t = at.lane() % 4;
    constexpr int REGISTERS = (sizeof(typename A::Raw) + sizeof(typename B::Raw)) / sizeof(float);
    constexpr int STAGES = smaller(S::OWN, larger(1, MOST_REGISTERS / REGISTERS));
    typename A::Raw raw_a[STAGES];
    typename B::Raw raw_b[STAGES];
    const auto k_of = [&](int n) { return (S::group(at) + S::GROUPS * n) * SLAB + 4 * t; };   // k of this warp's n-th slab
    const auto has = [&](int n) {
        constexpr bool ALL = S::SLABS % S::GROUPS == 0 && S::GROUPS * S::WARPS_DOWN * S::WARPS_ACROSS == WARPS;
        return ALL ? n < S::OWN : S::group(at) < S::GROUPS && S::group(at) + S::GROUPS * n < S::SLABS;
    };
    if (!S::has_tile(at)) {
        barrier.wait();
        meanwhile();
        return;
    }


#pragma unroll
    for (int n = 0; n < STAGES; ++n)
        if (has(n)) a.read_early(k_of(n), raw_a[n]), b.read_early(k_of(n), raw_b[n]);
    barrier.wait();
#pragma unroll
    for (int n = 0; n < STAGES; ++n)
        if (has(n)) a.read_late(k_of(n), raw_a[n]), b.read_late(k_of(n), raw_b[n]);
    meanwhile();

    float sum[S::A_ROWS / 2][S::B_COLS][4] = {};
#pragma unroll 1
    for (int base = 0; base < S::OWN; base += STAGES)
#pragma unroll
        for (int stage = 0; stage < STAGES; ++stage) {
            const int n = base + stage, next = n + STAGES;
            if (!has(n)) break;
            const auto left = a.value(raw_a[stage], k_of(n));
            const auto right = b.value(raw_b[stage], k_of(n));
            if (has(next)) {
                a.read_early(k_of(next), raw_a[stage]), b.read_early(k_of(next), raw_b[stage]);
                a.read_late(k_of(next), raw_a[stage]), b.read_late(k_of(next), raw_b[stage]);
            }
            multiply<S::A_ROWS, S::B_COLS>(sum, left, right);
        }

    if (S::group(at) < S::GROUPS) {  // of each mma a lane holds rows g and g + 8, columns 2t and 2t + 1
        const int row = S::lane_row(at), col = S::lane_col(at) + S::B_COLS * (2 * t - g);
        float* const part = shared.parts + S::group(at) * S::PART + row * S::STRIDE + col;
#pragma unroll
        for (int i = 0; i < S::A_ROWS; ++i)
#pragma unroll
            for (int which = 0; which < 2; ++which)
#pragma unroll
                for (int c = 0; c < S::B_COLS; ++c)
                    part[i * S::STRIDE + S::B_COLS * which + c] = sum[i / 2][c][i % 2 * 2 + which];
    }
    __syncthreads();
#pragma unroll
    for (int e = 0; e < S::ELEMENTS; ++e) {
        const unsigned i = at.thread + e * THREADS;
        element[e] = 0.0f;
        if (S::SIZE % THREADS == 0 || i < S::SIZE)
#pragma unroll
            for (int p = 0; p < S::GROUPS; ++p)
                element[e] += shared.parts[p * S::PART + i / S::tile.cols * S::STRIDE + i % S::tile.cols];
    }
}

// Calls f(e, row, col) for each element of the block's tile that this thread owns.
template <class S, class F>
__device__ void for_elements(Place at, F f)
{
    if (!S::has_tile(at)) return;
#pragma unroll
    for (int e = 0; e < S::ELEMENTS; ++e) {
        const unsigned i = at.thread + e * THREADS;
        if (S::SIZE % THREADS == 0 || i < S::SIZE) f(e, S::first_row(at) + i / S::tile.cols, S::first_col(at) + i % S::tile.cols);
    }
}

// ---- what a thread keeps in registers of each layer: its elements of W_i, and the bits of its elements of H_i > 0

template <int I>
struct Kept : Kept<I - 1> {
    static_assert(Forward<I>::ELEMENTS <= 32, "a bit for each");
    float W[Descend<I>::ELEMENTS];
    unsigned positive;
};
template <>
struct Kept<0> {};

struct Training {
    Shared& shared;
    Barrier barrier;
    const float *X, *Y;
    float *weights, *E, *workspace;
    float rate, max_norm;
    int batch = 0, rows = 0;       // rows: of this batch
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
    __device__ float* in_workspace(int offset) const
    {
        return workspace + offset;
    }
    __device__ float* w_in_memory() const { return weights + WEIGHTS; }

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

    // After the barrier that follows descend<I>: updates w, and with CLIP W_i, which waited for its gradient's norm.
    template <int I> __device__ void settle()
    {
        if (I == 1 && first) {  // no gradient yet: readers use W_1 - 0 dW_1
            factor = 0.0f;
        } else {
            float factor_of_w = rate;
            if constexpr (CLIP) {
                float sum[4] = {};
                if (at.thread < Descend<I>::TILES) read(norms<I>() + 4 * at.thread, sum);
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
            for_elements<Descend<I>>(at, [&](int e, int row, int col) {
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

    template <int I> __device__ void forward()
    {
        using S = Forward<I>;
        at = Place();
        const int row = S::first_row(at) + S::lane_row(at), col = S::first_col(at) + S::lane_col(at);
        Matrix<true, S::A_ROWS, I == 1> a{H<I - 1>() + row * WIDTH[I - 1], WIDTH[I - 1]};
        const auto meanwhile = [&] { if constexpr (I == 1) settle<1>(); };
        float h[S::ELEMENTS];
        if constexpr (CLIP && I == 1) {
            Stepped<false, S::B_COLS, TIMES_W<I>> b{{W<I>(now) + col, WIDTH[I]}, {dW<I>() + col, WIDTH[I]}, factor, shared.w + col};
            product<S>(at, shared, barrier, a, b, h, meanwhile);
            now = 1 - now;
        } else {
            Matrix<false, S::B_COLS, I != 1> b{W<I>(now) + col, WIDTH[I]};
            product<S>(at, shared, barrier, a, b, h, meanwhile);
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

    template <int I> __device__ void descend()
    {
        using S = Descend<I>;
        at = Place();
        const int row = S::first_row(at) + S::lane_row(at), col = S::first_col(at) + S::lane_col(at);
        constexpr bool AFTER_DESCEND = !SEQUENTIAL && I == 1 && L > 1, FIRST = I == L && (SEQUENTIAL || L == 1);
        const auto meanwhile = [&] {
            if constexpr (FIRST) errors();
            if constexpr (AFTER_DESCEND) settle<I + 1>();
        };
        Matrix<false, S::A_ROWS, true> a{H<I - 1>() + row, WIDTH[I - 1]};
        float gradient[S::ELEMENTS];
        if constexpr (I < L) {
            Matrix<false, S::B_COLS, !SEQUENTIAL> b{dZ<I>() + col, WIDTH[I]};
            product<S>(at, shared, barrier, a, b, gradient, meanwhile);
        } else {
            MaskedError<S::B_COLS, !FIRST> b;
            b.from = H<L>() + col, b.line = LAST, b.g = shared.g;
            product<S>(at, shared, barrier, a, b, gradient, [&] { meanwhile(); });
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
                    squares[0] += square * old * old, squares[1] += square * old * dw_col, squares[2] += square * dw_col * dw_col;
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
        using S = Descend<L>;
        if (!S::has_tile(at)) return;
        for (int c = 0; c < SIZE; ++c) {
            for (int apart = 1; apart < 4; apart *= 2) dw[c] += __shfl_xor_sync(0xffffffff, dw[c], apart);
            if (at.lane() % 4 == 0 && S::group(at) < S::GROUPS && S::lane_row(at) < S::WARP_ROWS) shared.dw[S::group(at)][S::lane_col(at) + c] = dw[c];
        }
        __syncthreads();
    }

    template <int I> __device__ void propagate()
    {
        using S = Propagate<I>;
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
    __device__ void times_weights(A& a, int col, float (&dH)[Propagate<I>::ELEMENTS], Meanwhile meanwhile)
    {
        using S = Propagate<I>;
        const Matrix<true, S::B_COLS, !SEQUENTIAL || CLIP> old{W<I>(now) + col * WIDTH[I], WIDTH[I]};
        if constexpr (CLIP && SEQUENTIAL) {
            Stepped<true, S::B_COLS, TIMES_W<I>> b{old, {dW<I>() + col * WIDTH[I], WIDTH[I]}, factor, shared.w};
            product<S>(at, shared, barrier, a, b, dH, meanwhile);
        } else {
            auto b = old;
            product<S>(at, shared, barrier, a, b, dH, meanwhile);
        }
    }

    template <int I> __device__ void forward_up_to()
    {
        if constexpr (I > 1) forward_up_to<I - 1>();
        forward<I>();
    }

    template <int I> __device__ void backward_from()
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
    const float* X, const float* Y, float* weights, float* E, float* workspace, int rows, int epochs, float rate,
    float max_norm)
{
    extern __shared__ __align__(16) float dynamic[];
    Shared& shared = *reinterpret_cast<Shared*>(dynamic);
    Barrier barrier{reinterpret_cast<unsigned*>(workspace)};
    Training training{shared, barrier, X, Y, weights, E, workspace, rate, max_norm};
    const int batches = (rows + BATCH - 1) / BATCH, steps = epochs * batches;
    training.start<L>();
    training.barrier.arrive();
    for (int step = 0; step < steps; ++step) {
        training.batch = step % batches;
        training.rows = smaller(BATCH, rows - training.batch * BATCH);
        training.last = step == steps - 1;
        training.forward_up_to<L>();
        training.backward_from<L>();
        training.first = false;
    }
    training.barrier.wait();
    training.settle<1>();
    training.finish<L>();
    training.barrier.reset();
}
