// A matrix product and the element-wise operation that follows it, on tensor cores; C is m x n, float32 in memory.
//
// tensor_core: each input of a product is rounded, in registers, to TF32 (-DTF32: 10 bits of mantissa) or
// to BF16 (-DBF16: 7 bits); tensor cores multiply the rounded values exactly and accumulate in float32. Weights,
// activations and gradients stay float32 in memory, and the operation after the product is float32 arithmetic.
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

#include "tile_place.cuh"
#include "tensor_core/layout.cuh"
#include "mma.cuh"
#include "tensor_core/operand.cuh"
#include "tensor_core/sums.cuh"
#include "one_column.cuh"

// The product: finish(at, sum, beside[at]) writes an element and returns it; WT receives its transpose.
// beside and WT may be null; beside is loaded before the sums are ready.

template <bool A_TRANSPOSED, bool B_TRANSPOSED, class Finish>
__device__ void product(const float* __restrict__ A, const float* __restrict__ B, int m, int k, int n,
                        const float* beside, float* WT, Finish finish)
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
