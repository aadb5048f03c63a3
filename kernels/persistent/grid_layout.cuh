// The shape of the network, a thread's place, and which tile of each product a block computes.

#include "../integers.cuh"

constexpr int THREADS = 256, WARPS = THREADS / 32;
constexpr int SLAB = 16;                                    // values of k that a warp takes at a time
constexpr int WIDTH[] = {WIDTHS};                           // features, hidden layers: multiples of 16
constexpr int L = sizeof WIDTH / sizeof *WIDTH - 1;         // hidden layers
constexpr int LAST = WIDTH[L];
constexpr int ROWS = (BATCH + 15) / 16 * 16;                // rows of a batch, padded
// Per thread, for operands in flight. Fewer hide less latency; with more the compiler runs out of registers.
constexpr int MOST_REGISTERS = 64 - 16 * CLIP - 16 * (__CUDA_ARCH__ >= 1000);
constexpr bool SCARCE = CLIP && __CUDA_ARCH__ >= 1000;      // there the compiler uses more registers itself

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

struct Tile {
    int rows, cols;
};

constexpr Tile FORWARD_TILES[] = {FORWARD}, WGRAD_TILES[] = {WGRAD}, DGRAD_TILES[] = {DGRAD};

template <int M, int N, int K, int ROWS_, int COLS_>
struct Shape {
    static constexpr Tile tile{ROWS_, COLS_};
    static_assert(M % tile.rows == 0 && N % tile.cols == 0 && M / tile.rows * (N / tile.cols) <= GRID,
                  "one tile a block");
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

template <int I>
using Forward = Shape<ROWS, WIDTH[I], WIDTH[I - 1], FORWARD_TILES[I - 1].rows, FORWARD_TILES[I - 1].cols>;
template <int I>
using Wgrad = Shape<WIDTH[I - 1], WIDTH[I], ROWS, WGRAD_TILES[I - 1].rows, WGRAD_TILES[I - 1].cols>;
template <int I>
using Dgrad = Shape<ROWS, WIDTH[I - 1], WIDTH[I], DGRAD_TILES[I - 1].rows, DGRAD_TILES[I - 1].cols>;

// Whether dW_I is stored without its factor diag(w), because w is known only after the norm of its gradient.
template <int I> constexpr bool TIMES_W = CLIP && SEQUENTIAL && I == L;

// Calls f(e, row, col) for each element of the block's tile that this thread owns.
template <class S, class F>
__device__ void for_elements(Place at, F f)
{
    if (!S::has_tile(at)) return;
#pragma unroll
    for (int e = 0; e < S::ELEMENTS; ++e) {
        const unsigned i = at.thread + e * THREADS;
        if (S::SIZE % THREADS == 0 || i < S::SIZE)
            f(e, S::first_row(at) + i / S::tile.cols, S::first_col(at) + i % S::tile.cols);
    }
}

// The layout of the workspace, as offsets in floats, the head first; and of shared memory.

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
constexpr int AT_H = HEAD_FLOATS, AT_DZ = AT_H + ROWS * NEURONS, AT_Y = AT_DZ + ROWS * NEURONS;
constexpr int AT_DW_OUT = AT_Y + ROWS * Y_PARTS, AT_SECOND = AT_DW_OUT + LAST;
constexpr int AT_DW = AT_SECOND + CLIP * WEIGHTS, AT_NORMS = AT_DW + CLIP * WEIGHTS;
extern "C" __device__ const int workspace_floats = AT_NORMS + CLIP * L * GRID * 4;

template <class S> __device__ constexpr int floats() { return S::GROUPS * S::PART; }
template <int I> __device__ constexpr int most_floats()
{
    const int here = larger(larger(floats<Forward<I>>(), floats<Wgrad<I>>()), floats<Dgrad<I>>());
    return larger(most_floats<I - 1>(), here);
}
template <> __device__ constexpr int most_floats<0>() { return 0; }

template <int I>
__device__ constexpr int most_elements() { return larger(most_elements<I - 1>(), Wgrad<I>::ELEMENTS); }
template <> __device__ constexpr int most_elements<0>() { return 1; }

template <int I>   // of all W that a thread owns, in registers
__device__ constexpr int all_elements() { return all_elements<I - 1>() + Wgrad<I>::ELEMENTS; }
template <> __device__ constexpr int all_elements<0>() { return 0; }

struct Shared {
    float parts[most_floats<L>()];                 // partial sums of a tile, from each group of warps
    float g[ROWS];
    float w[LAST];
    float dw[WARPS][Wgrad<L>::tile.cols];        // partial sums of w's gradient, from each group
    float sums[4][WARPS];
    float dW[CLIP ? most_elements<L>() : 1][THREADS];   // CLIP: this block's tile of the last gradient
};
extern "C" __device__ const int shared_bytes = sizeof(Shared);

// The product of a phase. ready() waits for the barrier, once what is ready earlier has been loaded. After the barrier and
// before the arithmetic, meanwhile() prepares what operands need in shared memory. Element e of a thread is in row
// (threadIdx.x + e THREADS) / cols of the tile, column (threadIdx.x + e THREADS) % cols.

template <class S, class A, class B, class Ready, class Meanwhile>
__device__ void product(Place at, Shared& shared, A& a, B& b, float (&element)[S::ELEMENTS], Ready ready,
                        Meanwhile meanwhile)
{
    const int g = at.lane() / 4, t = at.lane() % 4;
    constexpr int REGISTERS = (sizeof(typename A::Raw) + sizeof(typename B::Raw)) / sizeof(float);
    constexpr int STAGES = smaller(S::OWN, larger(1, (MOST_REGISTERS - 8 * (all_elements<L>() > 16)) / REGISTERS));
    typename A::Raw raw_a[STAGES];
    typename B::Raw raw_b[STAGES];
    const auto k_of = [&](int n) { return (S::group(at) + S::GROUPS * n) * SLAB + 4 * t; };   // of the warp's n-th slab
    const auto has = [&](int n) {
        constexpr bool ALL = S::SLABS % S::GROUPS == 0 && S::GROUPS * S::WARPS_DOWN * S::WARPS_ACROSS == WARPS;
        return ALL ? n < S::OWN : S::group(at) < S::GROUPS && S::group(at) + S::GROUPS * n < S::SLABS;
    };
    if (!S::has_tile(at)) {
        ready();
        meanwhile();
        return;
    }

#pragma unroll
    for (int n = 0; n < STAGES; ++n)
        if (has(n)) a.read_early(k_of(n), raw_a[n]), b.read_early(k_of(n), raw_b[n]);
    ready();
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
            multiply<16, S::A_ROWS, S::B_COLS>(sum, left, right);
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
