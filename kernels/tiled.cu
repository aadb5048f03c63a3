// C = A B, C = A^T B and C = A B^T, row-major float32; C is m x n, the sums run over k.
//
// tiled: a block computes one tile of C and walks along k in slabs. All its threads first copy the slabs of A
// and B that the tile needs into shared memory, each value once, and then read each value there as many times
// as the tile is wide or high. For a tile of 16 x 16 this is 16 times less global-memory traffic than in the
// naive kernel.
//
//   coalescing  neighbouring threads copy from neighbouring addresses, whichever way a matrix is stored, so
//               reads coalesce for A^T and B^T too, where the naive kernel's are strided.
//   padding     copying a transposed operand writes columns of the shared tile; rows padded by one float put
//               the values of a column into different banks.
//   barriers    two per slab: no thread reads before all have written, none overwrites before all have read.
//
// Launch: blockDim = (BLOCK_X, BLOCK_Y), each 1 to 32, gridDim = (ceil(n / BLOCK_X), ceil(m / BLOCK_Y)).
// Any m, n >= 1 and k >= 0; elements outside the matrices count as 0.

#include "stored.cuh"
#include "tile_place.cuh"

constexpr int THREADS = BLOCK_X * BLOCK_Y;
constexpr int DEPTH = BLOCK_X > BLOCK_Y ? BLOCK_X : BLOCK_Y;  // k values of a slab

// tile[r][c] = the element (row + r, col + c) of a rows x cols matrix. TRANSPOSED: what is stored in memory is
// the transpose of that matrix, cols x rows.
template <bool TRANSPOSED, int TILE_ROWS, int TILE_COLS, class Element>
__device__ void copy_tile(float (*tile)[TILE_COLS + 1], const Element* __restrict__ matrix, int row, int col,
                          int rows, int cols)
{
    for (int i = threadIdx.y * BLOCK_X + threadIdx.x; i < TILE_ROWS * TILE_COLS; i += THREADS) {
        const int r = TRANSPOSED ? i % TILE_ROWS : i / TILE_COLS;
        const int c = TRANSPOSED ? i / TILE_ROWS : i % TILE_COLS;
        const bool inside = row + r < rows && col + c < cols;
        const size_t at = TRANSPOSED ? (size_t)(col + c) * rows + row + r : (size_t)(row + r) * cols + col + c;
        tile[r][c] = inside ? matrix[at] : 0.0f;
    }
}

template <bool A_TRANSPOSED, bool B_TRANSPOSED, class OfB, class OfC>
__device__ void product(const Stored* __restrict__ A, const OfB* __restrict__ B, OfC* __restrict__ C,
                        int m, int k, int n)
{
    __shared__ float a[BLOCK_Y][DEPTH + 1];
    __shared__ float b[DEPTH][BLOCK_X + 1];
    const int first_row = tile_row() * BLOCK_Y, first_col = tile_col() * BLOCK_X;

    float sum = 0.0f;
    for (int start = 0; start < k; start += DEPTH) {
        copy_tile<A_TRANSPOSED, BLOCK_Y, DEPTH>(a, A, first_row, start, m, k);
        copy_tile<B_TRANSPOSED, DEPTH, BLOCK_X>(b, B, start, first_col, k, n);
        __syncthreads();
        for (int i = 0; i < DEPTH; ++i)
            sum += a[threadIdx.y][i] * b[i][threadIdx.x];
        __syncthreads();
    }

    const int row = first_row + threadIdx.y, col = first_col + threadIdx.x;
    if (row < m && col < n) C[(size_t)row * n + col] = sum;
}

extern "C" __global__ __launch_bounds__(THREADS) void matmul(const Stored* A, const float* B, Stored* C, int m, int k, int n)
{
    product<false, false>(A, B, C, m, k, n);
}

extern "C" __global__ __launch_bounds__(THREADS) void matmul_tn(const Stored* A, const Stored* B, float* C, int m, int k, int n)
{
    product<true, false>(A, B, C, m, k, n);
}

extern "C" __global__ __launch_bounds__(THREADS) void matmul_nt(const Stored* A, const float* B, Stored* C, int m, int k, int n)
{
    product<false, true>(A, B, C, m, k, n);
}
