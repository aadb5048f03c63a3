// C = A B, C = A^T B and C = A B^T, row-major float32; C is m x n, the sums run over k.
//
// naive: one thread computes one element of C and reads a row and a column of the two matrices from global
// memory. Threads share nothing except what happens to be in the caches. This is the kernel that the paper
// times, and the baseline of every other kernel.
//
// What a warp of 32 neighbouring columns reads in one iteration of the sum, in each version:
//
//   matmul      A (m x k): one float, broadcast;  B (k x n): consecutive floats
//   matmul_tn   A (k x m): one float, broadcast;  B (k x n): consecutive floats
//   matmul_nt   A (m x k): one float, broadcast;  B (n x k): floats k apart, each from another cache line.
//               The paper's programs transpose B on the host first; `pretransposed` keeps a transposed copy,
//               `tiled` transposes in shared memory.
//
// Launch: blockDim = (BLOCK_X, BLOCK_Y), gridDim = (ceil(n / BLOCK_X), ceil(m / BLOCK_Y)).
// Any m, n >= 1 and k >= 0; threads outside C do nothing.

#include "stored.cuh"
#include "tile_place.cuh"

extern "C" __global__ void matmul(const Stored* __restrict__ A, const float* __restrict__ B,
                                  Stored* __restrict__ C, int m, int k, int n)
{
    const int row = tile_row() * blockDim.y + threadIdx.y;
    const int col = tile_col() * blockDim.x + threadIdx.x;
    if (row >= m || col >= n) return;

    float sum = 0.0f;
    for (int i = 0; i < k; ++i)
        sum += A[(size_t)row * k + i] * B[(size_t)i * n + col];
    C[(size_t)row * n + col] = sum;
}

extern "C" __global__ void matmul_tn(const Stored* __restrict__ A, const Stored* __restrict__ B,
                                     float* __restrict__ C, int m, int k, int n)
{
    const int row = tile_row() * blockDim.y + threadIdx.y;
    const int col = tile_col() * blockDim.x + threadIdx.x;
    if (row >= m || col >= n) return;

    float sum = 0.0f;
    for (int i = 0; i < k; ++i)
        sum += A[(size_t)i * m + row] * B[(size_t)i * n + col];
    C[(size_t)row * n + col] = sum;
}

extern "C" __global__ void matmul_nt(const Stored* __restrict__ A, const float* __restrict__ B,
                                     Stored* __restrict__ C, int m, int k, int n)
{
    const int row = tile_row() * blockDim.y + threadIdx.y;
    const int col = tile_col() * blockDim.x + threadIdx.x;
    if (row >= m || col >= n) return;

    float sum = 0.0f;
    for (int i = 0; i < k; ++i)
        sum += A[(size_t)row * k + i] * B[(size_t)col * k + i];
    C[(size_t)row * n + col] = sum;
}
