// The shape of the network, a thread's place, and which tile of each product a block computes.

#include "../../integers.cuh"

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

constexpr Tile FORWARD_TILES[] = {FORWARD}, DESCEND_TILES[] = {DESCEND}, PROPAGATE_TILES[] = {PROPAGATE};

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
using Descend = Shape<WIDTH[I - 1], WIDTH[I], ROWS, DESCEND_TILES[I - 1].rows, DESCEND_TILES[I - 1].cols>;
template <int I>
using Propagate = Shape<ROWS, WIDTH[I - 1], WIDTH[I], PROPAGATE_TILES[I - 1].rows, PROPAGATE_TILES[I - 1].cols>;

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
