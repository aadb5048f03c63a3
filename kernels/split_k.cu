// A matrix product with few elements and a long sum, and the element-wise operation that follows it; row-major float32, C
// is m x n.
//
// split_k: where C has fewer elements than the device has threads, as the outputs of a classifier behind a convolution,
// 64 x 10 with k = 4608, tiles of C leave most of the device idle while a few threads walk along k. Here a block
// computes the elements of one row: for each it has as many threads as it can, which take turns along k, so that
// neighbouring threads read neighbouring values of B, and adds up their sums in a tree, in one fixed order.
//
// Launch: blockDim = (BLOCK_X, 1), gridDim = (ceil(n / BLOCK_X), m). Any m, n >= 1 and k >= 0.

#include "stored.cuh"

constexpr int THREADS = BLOCK_X * BLOCK_Y;
static_assert(BLOCK_Y == 1, "a block computes one row");
constexpr int TILE_ROWS = 1, TILE_COLS = THREADS;

__device__ unsigned tile_row() { return blockIdx.y; }
__device__ unsigned tile_col() { return blockIdx.x; }

template <bool A_TRANSPOSED, bool B_TRANSPOSED, class OfB, class Beside, class Finish>
__device__ void product(const Stored* __restrict__ A, const OfB* __restrict__ B, int m, int k, int n,
                        const Beside* beside, float* WT, Finish finish)
{
    __shared__ float sums[THREADS];
    const int row = blockIdx.y, first_col = blockIdx.x * THREADS, cols = min(n - first_col, THREADS);
    const int own = threadIdx.x % cols, share = threadIdx.x / cols, col = first_col + own;
    int shares = THREADS / cols;  // threads of an element

    float sum = 0.0f;
    if (share < shares) {
#pragma unroll 16
        for (int i = share; i < k; i += shares)
            sum += A[A_TRANSPOSED ? (size_t)i * m + row : (size_t)row * k + i] *
                   B[B_TRANSPOSED ? (size_t)col * k + i : (size_t)i * n + col];
    }
    sums[threadIdx.x] = sum;
    while (shares > 1) {
        const int half = (shares + 1) / 2;
        __syncthreads();
        if (share + half < shares) sums[threadIdx.x] += sums[threadIdx.x + half * cols];
        shares = half;
    }
    if (share > 0) return;
    const size_t at = (size_t)row * n + col;
    const float value = finish(at, sums[threadIdx.x], beside ? beside[at] : 0.0f);
    if (WT) WT[(size_t)col * m + row] = value;
}

#include "entry_points.cuh"
