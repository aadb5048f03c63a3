// C = A B, C = A^T B and C = A B^T, row-major float32; C is m x n, the sums run over k.
//
// pretransposed: the arithmetic of the naive kernel on another layout. To propagate an error back through a
// layer, dH = dZ W^T, neighbouring threads of the naive kernel read W[col][i] in each iteration: addresses a
// whole row of W apart, so that every read is a memory transaction of its own. Here W^T is stored beside W and
// renewed with it in every update, and dH = dZ (W^T) is a plain product whose threads read consecutive floats,
// eight per transaction. matmul_nt is left for the convolutions that are computed as products of patches.
//
// The price is the second copy of W: its memory, and writing it in every update.
//
// Launch: blockDim = (BLOCK_X, BLOCK_Y), gridDim = (ceil(n / BLOCK_X), ceil(m / BLOCK_Y)).
// Any m, n >= 1 and k >= 0; threads outside C do nothing.

#include "stored.cuh"
#include "tile_place.cuh"

template <bool A_TRANSPOSED, bool B_TRANSPOSED, class OfB, class OfC>
__device__ void product(const Stored* __restrict__ A, const OfB* __restrict__ B, OfC* __restrict__ C,
                        int m, int k, int n)
{
    const int row = tile_row() * blockDim.y + threadIdx.y;
    const int col = tile_col() * blockDim.x + threadIdx.x;
    if (row >= m || col >= n) return;

    float sum = 0.0f;
    for (int i = 0; i < k; ++i)
        sum += A[A_TRANSPOSED ? (size_t)i * m + row : (size_t)row * k + i] *
               B[B_TRANSPOSED ? (size_t)col * k + i : (size_t)i * n + col];
    C[(size_t)row * n + col] = sum;
}

extern "C" __global__ void matmul(const Stored* A, const float* B, Stored* C, int m, int k, int n)
{
    product<false, false>(A, B, C, m, k, n);
}

extern "C" __global__ void matmul_tn(const Stored* A, const Stored* B, float* C, int m, int k, int n)
{
    product<true, false>(A, B, C, m, k, n);
}

extern "C" __global__ void matmul_nt(const Stored* A, const float* B, Stored* C, int m, int k, int n)
{
    product<false, true>(A, B, C, m, k, n);
}
