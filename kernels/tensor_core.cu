// A matrix product and the element-wise operation that follows it, on tensor cores; C is m x n, float32 in memory.
//
// tensor_core: each input of a product is rounded, in registers, to TF32 (-DTF32: 10 bits of mantissa) or
// to BF16 (-DBF16: 7 bits); tensor cores multiply the rounded values exactly and accumulate in float32. Weights,
// activations and gradients are in memory as stored.cuh says, and the operation after the product is float32 arithmetic.
// TF32 and BF16 have float32's exponent: a gradient that float32 can hold does not vanish when it is rounded,
// so no loss scaling is needed, as it would be with FP16.
//
//   mma             one warp-wide instruction adds a product of 16 x 8 elements to its sums. PTX defines which
//                   elements a lane holds. With g = lane / 4 and t = lane % 4: rows g and g + 8 of A, column g of
//                   B, and of k the values t and t + 4 (TF32) or 2t, 2t + 1, 2t + 8, 2t + 9 (BF16).
//   numbering       which row of C is called g is free, and so is the order of a sum. So a lane takes neighbours:
//                   ROWS rows, COLS columns and 4 values of k (Operand), and loads vectors from global memory,
//                   whichever way a matrix is stored, that feed the mma without a shuffle.
//   split of k      the tiles of C that suit these small matrices keep one warp busy, or a few. The other warps
//                   form more groups, which compute the same tile from other slabs of k. So the main loop shares
//                   nothing and has no barrier; only neighbouring warps of a group read the same values, which
//                   they find in the cache. At the end the groups' sums are combined in shared memory, in one
//                   fixed order, so the same input gives the same bits.
//   stages          several slabs are being loaded from global memory while one is multiplied.
//   one column      n = 1, the network's output, would waste 7/8 of an mma: FP32 units multiply the rounded
//                   inputs instead. A warp adds up a row (row_sums), or neighbouring threads take neighbouring
//                   columns of A (column_sums).
//   before sm_80    tensor cores support neither format: FP32 units multiply the rounded inputs (dot), and
//                   threads share nothing, as in the naive kernel. Correct, but slow.
//
// Launch: blockDim = (BLOCK_X, BLOCK_Y), whole warps; a block computes TILE_ROWS x TILE_COLS elements of C,
// of which a thread writes WORK_ROWS x WORK_COLS; gridDim = (ceil(n / TILE_COLS), ceil(m / TILE_ROWS)).
// Any m, n >= 1 and k >= 0; elements outside the matrices count as 0.
// Choice of work: of [4, 4], [2, 4], [2, 2], [1, 2], [1, 1] with blocks of [16, 16], the first whose grid has
// at least 3/4 as many blocks as the device has SMs, else the last.

#include "mma.cuh"
#include "stored.cuh"
#include "tile_place.cuh"

// How a tile of C is divided: among warps, their lanes, and groups of warps that take other slabs of k.

constexpr int THREADS = BLOCK_X * BLOCK_Y, WORK = WORK_ROWS * WORK_COLS;
constexpr int TILE_ROWS = BLOCK_Y * WORK_ROWS, TILE_COLS = BLOCK_X * WORK_COLS;

constexpr int SLAB = 16;                                          // values of k that a warp takes at a time
constexpr int ROWS = TILE_ROWS > 16 ? 4 : 2;                      // rows of A per lane
constexpr int COLS = TILE_COLS > 16 ? 4 : 2;                      // columns of B per lane
constexpr int WARP_ROWS = 8 * ROWS, WARP_COLS = 8 * COLS;         // elements that a warp computes
constexpr int DOWN = (TILE_ROWS + WARP_ROWS - 1) / WARP_ROWS;     // warps that cover a tile, down and across
constexpr int ACROSS = (TILE_COLS + WARP_COLS - 1) / WARP_COLS;
constexpr int STAGES = 128 / (WARP_ROWS + WARP_COLS);             // slabs in flight: 48 or 64 registers

constexpr int SUM_STRIDE = ACROSS * WARP_COLS, SUMS = DOWN * WARP_ROWS * SUM_STRIDE;  // per group
constexpr int SHARED_FLOATS = 48 * 1024 / 4;                      // shared memory without opting in to more
constexpr int SPARE = THREADS / 32 / (DOWN * ACROSS), FITTING = SHARED_FLOATS / SUMS;
constexpr int GROUPS = SPARE < FITTING ? SPARE : FITTING;         // groups of warps, each with its own slabs
static_assert(THREADS % 32 == 0, "a block must be whole warps");
static_assert(GROUPS >= 1, "the tile, block x work, is too large for so many warps, or for shared memory");

template <int SIZE>
struct __align__(4 * SIZE) Floats {  // loaded and stored as one vector
    float v[SIZE];
};

__device__ unsigned thread_in_block() { return threadIdx.y * BLOCK_X + threadIdx.x; }

// A lane's share of a matrix: loaded several slabs of k ahead, as vectors where it can, and rounded in registers.

constexpr int WORDS = 4 / PACK;  // registers that hold a lane's four values of k

#if __CUDA_ARCH__ >= 800
template <int SIZE>
struct Rounded {
    unsigned v[SIZE][WORDS];
};

// A lane's share of a slab: SIZE neighbouring rows of A or columns of B, times four neighbouring values of k.
// ALONG_K: k runs along a row in memory (A, and the B of A B^T); otherwise down the rows (A^T, and B).
template <class Element, bool ALONG_K, int SIZE>
struct Operand {
    const Element* from;  // the lane's share of the next slab
    size_t line, step;    // elements from row to row, and from slab to slab
    int rows, first_k;    // rows or columns left in the matrix; the lane's first k within a slab
    bool whole;           // the warp's share is inside the matrix and aligned for vector loads
    float held[STAGES][SIZE][4] = {};

    // first: the warp's first row or column; first_slab: its first slab.
    __device__ Operand(const Element* __restrict__ matrix, int extent, int k, int first, int first_slab)
    {
        const int own = SIZE * (thread_in_block() % 32 / 4);
        first_k = 4 * (thread_in_block() % 4);
        line = ALONG_K ? k : extent;
        step = GROUPS * SLAB * (ALONG_K ? 1 : line);
        rows = extent - first - own;
        whole = (size_t)matrix % 16 == 0 && line % 4 == 0 && (ALONG_K || first % SIZE == 0) &&
                first + 8 * SIZE <= extent;
        from = matrix + (ALONG_K ? (first + own) * line + first_slab * SLAB + first_k
                                 : (first_slab * SLAB + first_k) * line + first + own);
    }

    // Global memory -> registers. left: values of k that remain, this slab included.
    __device__ void fetch(int stage, int left)
    {
        auto& share = held[stage];
        if (!whole || left < SLAB) {
            for (int i = 0; i < SIZE; ++i)
                for (int s = 0; s < 4; ++s) {
                    const bool inside = i < rows && first_k + s < left;
                    share[i][s] = inside ? from[ALONG_K ? i * line + s : s * line + i] : 0.0f;
                }
        } else if constexpr (ALONG_K) {
            for (int i = 0; i < SIZE; ++i) {
                const auto four = loaded<Floats<4>>(from + i * line);
                for (int s = 0; s < 4; ++s) share[i][s] = four.v[s];
            }
        } else {
            for (int s = 0; s < 4; ++s) {
                const auto neighbours = loaded<Floats<SIZE>>(from + s * line);
                for (int i = 0; i < SIZE; ++i) share[i][s] = neighbours.v[i];
            }
        }
        from += step;
    }

    __device__ Rounded<SIZE> rounded(int stage) const
    {
        Rounded<SIZE> result;
        for (int i = 0; i < SIZE; ++i)
            for (int w = 0; w < WORDS; ++w)
#ifdef TF32
                result.v[i][w] = cvt_rna_tf32(held[stage][i][w]);
#else
                result.v[i][w] = cvt_rn_bf16x2(held[stage][i][2 * w + 1], held[stage][i][2 * w]);
#endif
        return result;
    }
};
#endif

// The sums of a tile: on tensor cores, each group's to shared memory; before sm_80 one by one, on FP32 units.

#if __CUDA_ARCH__ >= 800
// sum[p][c] belongs to rows 2p and 2p + 1 of each lane's A and column c of its B. TF32: two mma, of 8 k each.
__device__ void multiply(float (&sum)[ROWS / 2][COLS][4], const Rounded<ROWS>& a, const Rounded<COLS>& b)
{
    for (int w = 0; w < WORDS; w += 2)
        for (int p = 0; p < ROWS / 2; ++p)
            for (int c = 0; c < COLS; ++c) {
                const auto &g = a.v[2 * p], &g8 = a.v[2 * p + 1];  // the mma's rows g and g + 8
                const unsigned left[] = {g[w], g8[w], g[w + 1], g8[w + 1]};
                const unsigned right[] = {b.v[c][w], b.v[c][w + 1]};
#ifdef TF32
                mma_m16n8k8_tf32(sum[p][c], left, right);
#else
                mma_m16n8k16_bf16(sum[p][c], left, right);
#endif
            }
}

// The index of the sum at row r, column c of the tile, among those of its group. A lane stores COLS columns at
// once, two such widths apart from its neighbour; the xor moves every other g into the banks between.
__device__ int place(int r, int c) { return r * SUM_STRIDE + (c ^ (r / ROWS % 2 * COLS)); }

template <bool A_TRANSPOSED, bool B_TRANSPOSED, class OfB>
__device__ void tile_sums(const Stored* __restrict__ A, const OfB* __restrict__ B, int m, int k, int n,
                          float* sums)
{
    const int warp = thread_in_block() / 32, group = warp / (DOWN * ACROSS), part = warp % (DOWN * ACROSS);
    const int down = part / ACROSS * WARP_ROWS, across = part % ACROSS * WARP_COLS;  // in the tile
    if (group >= GROUPS) return;

    Operand<Stored, !A_TRANSPOSED, ROWS> a(A, m, k, tile_row() * TILE_ROWS + down, group);
    Operand<OfB, B_TRANSPOSED, COLS> b(B, n, k, tile_col() * TILE_COLS + across, group);
    float sum[ROWS / 2][COLS][4] = {};
    const int left = k - group * SLAB, step = GROUPS * SLAB;  // left: of k, from its first slab on; step: to its next
#pragma unroll 1
    for (int done = -STAGES * step; done < left; done += STAGES * step)  // the first iteration only fetches
#pragma unroll
        for (int s = 0; s < STAGES; ++s) {
            const int multiplied = done + s * step, fetched = multiplied + STAGES * step;
            const bool ready = 0 <= multiplied && multiplied < left;
            Rounded<ROWS> rows;
            Rounded<COLS> cols;
            if (ready) rows = a.rounded(s), cols = b.rounded(s);  // frees the registers for the next fetch
            if (fetched < left) a.fetch(s, left - fetched), b.fetch(s, left - fetched);
            if (ready) multiply(sum, rows, cols);
        }

    // Of each mma a lane holds rows g and g + 8 (half 0 and 1) and columns 2t and 2t + 1 (which).
    const int g = thread_in_block() % 32 / 4, t = thread_in_block() % 4;
    for (int p = 0; p < ROWS / 2; ++p)
        for (int half = 0; half < 2; ++half)
            for (int which = 0; which < 2; ++which) {
                Floats<COLS> line;
                for (int c = 0; c < COLS; ++c) line.v[c] = sum[p][c][2 * half + which];
                const int at = place(down + ROWS * g + 2 * p + half, across + COLS * (2 * t + which));
                *reinterpret_cast<Floats<COLS>*>(sums + group * SUMS + at) = line;
            }
}
#else  // before sm_80
template <bool A_TRANSPOSED, bool B_TRANSPOSED, class OfB>
__device__ float dot(const Stored* __restrict__ A, const OfB* __restrict__ B, int row, int col, int m, int k,
                     int n)
{
    float sum = 0.0f;
    for (int i = 0; i < k; ++i)
        sum += rounded(A[A_TRANSPOSED ? (size_t)i * m + row : (size_t)row * k + i]) *
               rounded(B[B_TRANSPOSED ? (size_t)col * k + i : (size_t)i * n + col]);
    return sum;
}
#endif

#include "one_column.cuh"

// The product: finish(at, sum, beside[at]) writes an element and returns it; WT receives its transpose.
// beside and WT may be null; beside is loaded before the sums are ready.

template <bool A_TRANSPOSED, bool B_TRANSPOSED, class OfB, class Beside, class Finish>
__device__ void product(const Stored* __restrict__ A, const OfB* __restrict__ B, int m, int k, int n,
                        const Beside* beside, float* WT, Finish finish)
{
    constexpr int TURNED = TILE_ROWS * (TILE_COLS + 1);  // floats of a padded tile, whose columns are read
    __shared__ __align__(16) float shared[GROUPS * SUMS > TURNED ? GROUPS * SUMS : TURNED];

    if (n == 1) {
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

#if __CUDA_ARCH__ >= 800
    tile_sums<A_TRANSPOSED, B_TRANSPOSED>(A, B, m, k, n, shared);
    __syncthreads();
    const auto total = [&](int r, int c) {
        float sum = 0.0f;
        for (int group = 0; group < GROUPS; ++group) sum += shared[group * SUMS + place(r, c)];
        return sum;
    };
#else
    const auto total = [&](int r, int c) {
        return dot<A_TRANSPOSED, B_TRANSPOSED>(A, B, first_row + r, first_col + c, m, k, n);
    };
#endif
#pragma unroll
    for (int e = 0; e < WORK; ++e) {
        const unsigned i = thread + e * THREADS, r = i / TILE_COLS, c = i % TILE_COLS;
        value[e] = inside(r, c) ? finish(at(r, c), total(r, c), other[e]) : 0.0f;
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
