// A matrix product and the element-wise operation that follows it, in one kernel; row-major float32, C is m x n.
//
// tiled_fused: shared-memory tiles, a stored W^T and fused epilogues together, and in addition:
//
//   register tile   a thread accumulates MICRO.rows x MICRO.cols elements, so that a value read from shared
//                   memory contributes to up to four sums; values are read as float4.
//   split of k      the tiles that suit these small matrices have fewer register tiles than the block has
//                   threads. So the threads form groups: each group covers the whole tile, but only every
//                   groups-th four values of k. At the end the partial sums are combined in shared memory, in
//                   one fixed order, so the same input always gives the same bits.
//   double buffer   the next slab is loaded from global memory into registers while the current one is
//                   multiplied, and is then stored into the other buffer: one barrier per slab.
//   deep slabs      a thread moves about four float4 per slab. Small tiles get deep slabs, and few of them,
//                   because such products are limited by memory latency rather than by arithmetic.
//   any layout      a slab is stored in shared memory as it is in global memory, so a transposed operand is
//                   copied like any other; only the reads differ (Operand::fragment).
//   one column      with n = 1, the network's output, there is no tile: a warp adds up a row (row_sums), or
//                   neighbouring threads take neighbouring columns of A (column_sums).
//
// Launch: blockDim = (BLOCK_X, BLOCK_Y); a block computes TILE_ROWS x TILE_COLS elements of C, of which a
// thread writes WORK_ROWS x WORK_COLS; gridDim = (ceil(n / TILE_COLS), ceil(m / TILE_ROWS)).
// Any m, n >= 1 and k >= 0; elements outside the matrices count as 0.
// Choice of work: of [4, 4], [2, 4], [2, 2], [1, 2], [1, 1] with blocks of [16, 16], the first whose grid has
// at least 3/4 as many blocks as the device has SMs, else the last.

#include "stored.cuh"
#include "tile_place.cuh"

constexpr int THREADS = BLOCK_X * BLOCK_Y, WORK = WORK_ROWS * WORK_COLS;
constexpr int TILE_ROWS = BLOCK_Y * WORK_ROWS, TILE_COLS = BLOCK_X * WORK_COLS;
constexpr int SUM_STRIDE = (TILE_COLS + 3) / 4 * 4 + 4;  // floats in a row of partial sums
constexpr int SHARED_FLOATS = 48 * 1024 / 4;             // shared memory that a block has without opting in to more

__device__ constexpr int slab_depth()
{
    int depth = 128;
    while (depth > 8 && ((TILE_ROWS + TILE_COLS) * depth > 24 * THREADS ||
                         2 * (TILE_ROWS + TILE_COLS + 6) * (depth + 4) > SHARED_FLOATS))
        depth /= 2;
    return depth;
}
constexpr int DEPTH = slab_depth();  // values of k in a slab

struct Micro {
    int rows, cols, groups;
    bool shaped;  // a warp is 4 x 8 register tiles
};

__device__ constexpr Micro micro_tile()  // the largest tile that fills whole warps, else WORK_ROWS x WORK_COLS
{
    for (int size = 16; size >= 1; size /= 2) {
        const int rows = size >= 8 ? 4 : size >= 2 ? 2 : 1, cols = size / rows;
        if (TILE_ROWS % (4 * rows) != 0 || TILE_COLS % (8 * cols) != 0) continue;
        const int tiles = TILE_ROWS / rows * (TILE_COLS / cols), groups = THREADS / tiles;
        if (THREADS % tiles == 0 && groups * TILE_ROWS * SUM_STRIDE <= SHARED_FLOATS)
            return {rows, cols, groups, true};
    }
    return {WORK_ROWS, WORK_COLS, 1, false};
}
constexpr Micro MICRO = micro_tile();
constexpr int DOWN = TILE_ROWS / MICRO.rows, ACROSS = TILE_COLS / MICRO.cols;  // register tiles in a tile

template <int SIZE>
struct __align__(SIZE % 4 == 0 ? 16 : SIZE % 2 == 0 ? 8 : 4) Floats {  // loaded and stored as one vector
    float v[SIZE];
};

template <int SIZE>
__device__ Floats<SIZE>& floats(float* p) { return *reinterpret_cast<Floats<SIZE>*>(p); }

__device__ unsigned thread_in_block() { return threadIdx.y * BLOCK_X + threadIdx.x; }

// ---- one operand: EXTENT rows of A or columns of B, and DEPTH values of k
// ALONG_K: k runs along a row in memory (A, and the B of A B^T); otherwise down the rows (A^T, and B).

template <class Element, bool ALONG_K, int EXTENT, int SIZE>  // SIZE: rows or columns of a register tile
struct Operand {
    static constexpr int LINES = ALONG_K ? EXTENT : DEPTH;
    static constexpr int VECTORS = (ALONG_K ? DEPTH : EXTENT + 3) / 4;  // float4 in a row
    static constexpr int STRIDE = ALONG_K ? DEPTH + 4 : 4 * VECTORS;
    static constexpr int FLOATS = LINES * STRIDE;
    static constexpr int COPIES = (LINES * VECTORS + THREADS - 1) / THREADS;  // float4 that a thread moves per slab

    const Element* from[COPIES];  // the thread's addresses in the next slab
    int inside[COPIES];           // elements from there to the last row or column of the matrix
    Floats<4> held[COPIES];
    size_t step;                  // elements from slab to slab
    bool aligned;

    __device__ Operand(const Element* __restrict__ matrix, int extent, int k, int first)  // first: of the tile
    {
        const size_t width = ALONG_K ? k : extent;  // row length of the matrix as stored
        step = ALONG_K ? DEPTH : DEPTH * width;
        aligned = (size_t)matrix % 16 == 0 && width % 4 == 0 && (ALONG_K || first % 4 == 0);
        for (int c = 0; c < COPIES; ++c) {
            const int line = vector(c) / VECTORS, i = vector(c) % VECTORS * 4;
            from[c] = matrix + (ALONG_K ? (first + line) * width + i : line * width + first + i);
            inside[c] = extent - first - (ALONG_K ? line : i);
        }
    }

    static __device__ unsigned vector(int copy) { return thread_in_block() + copy * THREADS; }

    __device__ void fetch(int left)  // global memory -> registers; left: values of k from this slab on
    {
        int valid[COPIES];  // how many of the four elements are inside the matrix
        for (int c = 0; c < COPIES; ++c) {
            const int line = vector(c) / VECTORS, i = vector(c) % VECTORS * 4;
            valid[c] = ALONG_K ? (inside[c] > 0 ? left - i : 0) : (line < left ? inside[c] : 0);
            held[c] = {};
        }
        if (aligned) {
            for (int c = 0; c < COPIES; ++c)
                if (valid[c] > 0) held[c] = loaded<Floats<4>>(from[c]);
        } else {
            for (int c = 0; c < COPIES; ++c)
                for (int j = 0; j < 4; ++j)
                    if (valid[c] > j) held[c].v[j] = from[c][j];
        }
        for (int c = 0; c < COPIES; ++c) from[c] += step;
    }

    __device__ void put(float* slab) const  // registers -> shared memory
    {
        for (int c = 0; c < COPIES; ++c)
            if (LINES * VECTORS % THREADS == 0 || vector(c) < LINES * VECTORS)
                floats<4>(slab + vector(c) / VECTORS * STRIDE + vector(c) % VECTORS * 4) = held[c];
    }

    // The i-th row or column of register tile t. ALONG_K: neighbouring threads take neighbouring rows, STRIDE
    // floats apart, which lie in different banks. Otherwise the columns of a register tile form one vector.
    static __device__ int place(int t, int i) { return ALONG_K ? t + i * (EXTENT / SIZE) : t * SIZE + i; }

    static __device__ void fragment(float* slab, int t, int d, Floats<SIZE> (&f)[4])  // k = d to d + 3
    {
        if constexpr (ALONG_K) {
            for (int i = 0; i < SIZE; ++i) {
                const Floats<4> line = floats<4>(slab + place(t, i) * STRIDE + d);
                for (int s = 0; s < 4; ++s) f[s].v[i] = line.v[s];
            }
        } else {
            for (int s = 0; s < 4; ++s) f[s] = floats<SIZE>(slab + (d + s) * STRIDE + place(t, 0));
        }
    }
};

// ---- n = 1

__device__ float rounded(float x) { return x; }  // FP32 as it is

#include "one_column.cuh"

// ---- the product: finish(at, sum, beside[at]) writes an element and returns it; WT receives its transpose.
// beside and WT may be null; beside is loaded before the sums are ready.

template <bool A_TRANSPOSED, bool B_TRANSPOSED, class OfB, class Beside, class Finish>
__device__ void product(const Stored* __restrict__ A, const OfB* __restrict__ B, int m, int k, int n,
                        const Beside* beside, float* WT, Finish finish)
{
    using OperandA = Operand<Stored, !A_TRANSPOSED, TILE_ROWS, MICRO.rows>;
    using OperandB = Operand<OfB, B_TRANSPOSED, TILE_COLS, MICRO.cols>;
    constexpr int BUFFER = OperandA::FLOATS + OperandB::FLOATS, SUMS = MICRO.groups * TILE_ROWS * SUM_STRIDE;
    static_assert(SUMS <= SHARED_FLOATS, "the tile, block x work, is too large for shared memory");
    __shared__ __align__(16) float shared[2 * BUFFER > SUMS ? 2 * BUFFER : SUMS];

    if (n == 1 && THREADS % 32 == 0) {
        const auto finish_row = [&](size_t row, float sum) {
            const float value = finish(row, sum, beside ? beside[row] : 0.0f);
            if (WT) WT[row] = value;
        };
        if (A_TRANSPOSED) column_sums(A, B, m, k, shared, finish_row);
        else row_sums(A, B, m, k, finish_row);
        return;
    }

    const unsigned thread = thread_in_block();
    const int first_row = tile_row() * TILE_ROWS, first_col = tile_col() * TILE_COLS;
    const auto inside = [&](int r, int c) { return first_row + r < m && first_col + c < n; };
    const auto at = [&](int r, int c) { return (size_t)(first_row + r) * n + first_col + c; };

    // The elements that this thread writes: neighbouring threads write neighbouring columns.
    float other[WORK], value[WORK];
    for (int e = 0; e < WORK; ++e) {
        const unsigned i = thread + e * THREADS, r = i / TILE_COLS, c = i % TILE_COLS;
        other[e] = beside && inside(r, c) ? beside[at(r, c)] : 0.0f;
    }

    // The register tile (down, across) that it accumulates. In a shaped warp lanes 2i and 2i + 1 share columns,
    // i and i + 2 share rows, so that a half-warp reads its float4 in one access.
    const int group = thread / (DOWN * ACROSS), member = thread % (DOWN * ACROSS);
    int down = member / ACROSS, across = member % ACROSS;
    if (MICRO.shaped) {
        constexpr int WARPS_ACROSS = ACROSS / 8 > 0 ? ACROSS / 8 : 1;
        const int lane = thread % 32, warp = member / 32;
        down = warp / WARPS_ACROSS * 4 + lane / 16 * 2 + lane % 2;
        across = warp % WARPS_ACROSS * 8 + lane / 2 % 8;
    }

    Floats<MICRO.cols> sum[MICRO.rows] = {};
    const auto add_four = [&](float* slab, int d) {
        Floats<MICRO.rows> a[4];
        Floats<MICRO.cols> b[4];
        OperandA::fragment(slab, down, d, a);
        OperandB::fragment(slab + OperandA::FLOATS, across, d, b);
        for (int s = 0; s < 4; ++s)
            for (int r = 0; r < MICRO.rows; ++r)
                for (int c = 0; c < MICRO.cols; ++c) sum[r].v[c] += a[s].v[r] * b[s].v[c];
    };

    OperandA operand_a(A, m, k, first_row);
    OperandB operand_b(B, n, k, first_col);
    operand_a.fetch(k), operand_b.fetch(k);
    operand_a.put(shared), operand_b.put(shared + OperandA::FLOATS);
    __syncthreads();
    for (int left = k, buffer = 0; left > 0; left -= DEPTH, buffer = BUFFER - buffer) {
        if (left > DEPTH) operand_a.fetch(left - DEPTH), operand_b.fetch(left - DEPTH);
        if (left >= DEPTH) {
#pragma unroll 2
            for (int d = 0; d < DEPTH; d += 4 * MICRO.groups)
                if (DEPTH % (4 * MICRO.groups) == 0 || d + 4 * group < DEPTH)
                    add_four(shared + buffer, d + 4 * group);
        } else {
#pragma unroll 1
            for (int d = 4 * group; d < left; d += 4 * MICRO.groups) add_four(shared + buffer, d);
        }
        float* next = shared + BUFFER - buffer;
        if (left > DEPTH) operand_a.put(next), operand_b.put(next + OperandA::FLOATS);
        __syncthreads();
    }

    for (int r = 0; r < MICRO.rows; ++r) {
        float* line = shared + (group * TILE_ROWS + OperandA::place(down, r)) * SUM_STRIDE;
        for (int c = 0; B_TRANSPOSED && c < MICRO.cols; ++c) line[OperandB::place(across, c)] = sum[r].v[c];
        if (!B_TRANSPOSED) floats<MICRO.cols>(line + OperandB::place(across, 0)) = sum[r];
    }
    __syncthreads();
    for (int e = 0; e < WORK; ++e) {
        const unsigned i = thread + e * THREADS, r = i / TILE_COLS, c = i % TILE_COLS;
        float total = 0.0f;
        for (int g = 0; g < MICRO.groups; ++g) total += shared[(g * TILE_ROWS + r) * SUM_STRIDE + c];
        value[e] = inside(r, c) ? finish(at(r, c), total, other[e]) : 0.0f;
    }

    if (WT == nullptr) return;
    __syncthreads();
    for (int e = 0; e < WORK; ++e) {
        const unsigned i = thread + e * THREADS;
        shared[i / TILE_COLS * (TILE_COLS + 1) + i % TILE_COLS] = value[e];
    }
    __syncthreads();
    for (int e = 0; e < WORK; ++e) {  // now neighbouring threads write neighbouring rows of C
        const unsigned i = thread + e * THREADS, r = i % TILE_ROWS, c = i / TILE_ROWS;
        if (inside(r, c)) WT[(size_t)(first_col + c) * m + first_row + r] = shared[r * (TILE_COLS + 1) + c];
    }
}

#include "entry_points.cuh"
