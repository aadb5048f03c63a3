// Tiles of a product, computed by the warps of a block of THREADS. A tile is so small that warps split k among them. No
// warp reads what another one reads, so operands go from L2 directly to registers, and the warps' sums are combined in
// shared memory.

#include "../integers.cuh"
#include "slab.cuh"

constexpr int WARPS = THREADS / 32;
constexpr int SLAB = 16;               // values of k that a warp takes at a time
constexpr int MOST_REGISTERS = 64 - 16 * (__CUDA_ARCH__ >= 1000);   // per thread, for operands in flight

struct Tile {
    int rows, cols;
};

// An index, made opaque each time it is used: otherwise the compiler would compute everything that depends on it once,
// and keep it in registers throughout all phases.
__device__ unsigned opaque(unsigned index)
{
#ifndef CUDA_ON_CPU
    asm volatile("" : "+r"(index));
#endif
    return index;
}

// A thread's place in its block.
struct Place {
    unsigned thread = opaque(threadIdx.x);

    __device__ int lane() const { return thread % 32; }
    __device__ int warp() const { return thread / 32; }
};

// The tiles of a product (M, K) (K, N). Columns of a tile are a power of two, so that all elements of a thread are in one
// column: element e is in row thread / cols + e ROW_STEP of the tile, column thread % cols.
template <int M_, int N_, int K, int ROWS_, int COLS_>
struct Tiles {
    static constexpr int M = M_, N = N_;
    static constexpr Tile tile{ROWS_, COLS_};
    static_assert(M % tile.rows == 0 && N % tile.cols == 0 && K % SLAB == 0 && THREADS % tile.cols == 0, "whole tiles");
    static constexpr int ACROSS = N / tile.cols, COUNT = M / tile.rows * ACROSS;
    static constexpr int SIZE = tile.rows * tile.cols, ELEMENTS = up(SIZE, THREADS);   // ELEMENTS: per thread
    static constexpr int ROW_STEP = THREADS / tile.cols;

    // A warp computes WARP_ROWS x WARP_COLS elements of the tile over every GROUPS-th slab of k. A lane's share of a
    // slab is A_ROWS rows of A and B_COLS columns of B.
    static constexpr int WARP_ROWS = smaller(tile.rows, 32), WARP_COLS = smaller(tile.cols, 32);
    static constexpr int WARPS_DOWN = tile.rows / WARP_ROWS, WARPS_ACROSS = tile.cols / WARP_COLS;
    static constexpr int A_ROWS = WARP_ROWS / 8, B_COLS = WARP_COLS / 8;
    static constexpr int SLABS = K / SLAB, GROUPS = smaller(SLABS, WARPS / (WARPS_DOWN * WARPS_ACROSS));
    static constexpr int OWN = up(SLABS, GROUPS);                                  // slabs per warp, at most
    static constexpr int STRIDE = tile.cols + 4, PART = tile.rows * STRIDE;        // floats of the sums of a group
    static constexpr int FLOATS = GROUPS * PART;

    int row, col;   // the first of the tile
    Place at;

    __device__ explicit Tiles(int number) : row(number / ACROSS * tile.rows), col(number % ACROSS * tile.cols) {}
    __device__ int group() const { return at.warp() / (WARPS_DOWN * WARPS_ACROSS); }
    __device__ int warp_row() const { return at.warp() / WARPS_ACROSS % WARPS_DOWN * WARP_ROWS; }
    __device__ int warp_col() const { return at.warp() % WARPS_ACROSS * WARP_COLS; }
    __device__ int lane_row() const { return row + warp_row() + at.lane() / 4 * A_ROWS; }     // of the product
    __device__ int lane_col() const { return col + warp_col() + at.lane() / 4 * B_COLS; }

    __device__ int own_col() const { return col + at.thread % tile.cols; }
    template <class F> __device__ void each(F f) const   // calls f(e, row) for each element of this thread
    {
#pragma unroll
        for (int e = 0; e < ELEMENTS; ++e)
            if (SIZE % THREADS == 0 || at.thread + e * THREADS < SIZE) f(e, row + int(at.thread) / tile.cols + e * ROW_STEP);
    }
};

// The tile's elements that this thread owns. ready() waits until all operands may be read; then meanwhile() reads what
// follows the arithmetic. `parts` holds FLOATS floats, which nothing may read from ready() on.
template <class T, class A, class B, class Ready, class Meanwhile>
__device__ void product(const T& tile, float* parts, A& a, B& b, float (&element)[T::ELEMENTS], Ready ready, Meanwhile meanwhile)
{
    const int g = tile.at.lane() / 4, t = tile.at.lane() % 4, group = tile.group();
    constexpr int REGISTERS = (sizeof(typename A::Raw) + sizeof(typename B::Raw)) / sizeof(float);
    constexpr bool EQUAL = T::SLABS % T::GROUPS == 0 && T::GROUPS * T::WARPS_DOWN * T::WARPS_ACROSS == WARPS;
    constexpr int STAGES = smaller(T::OWN, larger(1, MOST_REGISTERS / REGISTERS));
    typename A::Raw raw_a[STAGES] = {};
    typename B::Raw raw_b[STAGES] = {};
    const auto k_of = [&](int n) { return (group + T::GROUPS * n) * SLAB + 4 * t; };   // k of this warp's n-th slab
    const auto has = [&](int n) {
        return EQUAL ? n < T::OWN : group < T::GROUPS && group + T::GROUPS * n < T::SLABS;
    };

#pragma unroll
    for (int n = 0; n < STAGES; ++n)
        if (has(n)) a.read_early(k_of(n), raw_a[n]), b.read_early(k_of(n), raw_b[n]);
    ready();
#pragma unroll
    for (int n = 0; n < STAGES; ++n)
        if (has(n)) a.read_late(k_of(n), raw_a[n]), b.read_late(k_of(n), raw_b[n]);
    meanwhile();

    float sum[T::A_ROWS / 2][T::B_COLS][4] = {};
#pragma unroll 1
    for (int base = 0; base < T::OWN; base += STAGES)
#pragma unroll
        for (int stage = 0; stage < STAGES; ++stage) {
            const int n = base + stage, next = n + STAGES;
            if (n >= T::OWN) break;
            const auto left = a.value(raw_a[stage], k_of(n));
            const auto right = b.value(raw_b[stage], k_of(n));
            if (has(next)) {
                a.read_early(k_of(next), raw_a[stage]), b.read_early(k_of(next), raw_b[stage]);
                a.read_late(k_of(next), raw_a[stage]), b.read_late(k_of(next), raw_b[stage]);
            } else if (!EQUAL) {
                raw_a[stage] = {}, raw_b[stage] = {};   // a slab of zeros, in place of a branch
            }
            multiply<8, T::A_ROWS, T::B_COLS>(sum, left, right);
        }

    if (group < T::GROUPS) {  // of each mma a lane holds rows g and g + 8, columns 2t and 2t + 1
        const int row = tile.warp_row() + g * T::A_ROWS, col = tile.warp_col() + T::B_COLS * 2 * t;
        float* const part = parts + group * T::PART + row * T::STRIDE + col;
#pragma unroll
        for (int i = 0; i < T::A_ROWS; ++i)
#pragma unroll
            for (int which = 0; which < 2; ++which)
#pragma unroll
                for (int c = 0; c < T::B_COLS; ++c)
                    part[i * T::STRIDE + T::B_COLS * which + c] = sum[i / 2][c][i % 2 * 2 + which];
    }
    __syncthreads();
    tile.each([&](int e, int row) {
        const float* const from = parts + (row - tile.row) * T::STRIDE + tile.own_col() - tile.col;
        element[e] = 0.0f;
#pragma unroll
        for (int p = 0; p < T::GROUPS; ++p) element[e] += from[p * T::PART];
    });
}
