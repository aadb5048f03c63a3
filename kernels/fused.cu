// A matrix product and the element-wise operation that follows it, in one kernel; row-major float32, C is m x n.
//
// fused: the arithmetic of the naive kernel, but the thread that computed an element of the product also
// applies the operation that follows: ReLU, the output error, the mask of ReLU's derivative, or the weight
// update. The product never makes a round trip through global memory, and each fusion saves one launch,
// which for matrices of this size costs as much as the product itself.
//
//   matmul, matmul_tn, matmul_nt   C = A B, A^T B, A B^T
//   matmul_relu                    C = max(A B, 0)                    Z1 and H1 at once
//   matmul_bias                    C = A B + b                        b: a row
//   matmul_error                   E = A B - Y, D = scale E           Z2, the error and dZ2
//   matmul_mask, matmul_nt_mask    C = A B, A B^T where H > 0         dH1 and dZ1
//   matmul_tn_update[_bias]        W = W - rate A^T B                 dW and the update [and that of the bias]
//
// Compiled with -DTRAINING, it has the kernels of training.cuh instead.
//
// Launch: blockDim = (BLOCK_X, BLOCK_Y), gridDim = (ceil(n / BLOCK_X), ceil(m / BLOCK_Y)).
// Any m, n >= 1 and k >= 0; threads outside C do nothing.

#include "stored.cuh"
#include "tile_place.cuh"

struct Element {
    int row, col;
    bool inside;
    size_t at;  // its index in a row-major m x n matrix
};

__device__ Element own_element(int m, int n)
{
    const int row = tile_row() * blockDim.y + threadIdx.y;
    const int col = tile_col() * blockDim.x + threadIdx.x;
    return {row, col, row < m && col < n, (size_t)row * n + col};
}

template <bool A_TRANSPOSED, bool B_TRANSPOSED, class OfB>
__device__ float dot(const Stored* __restrict__ A, const OfB* __restrict__ B, Element c, int m, int k, int n)
{
    float sum = 0.0f;
    for (int i = 0; i < k; ++i)
        sum += A[A_TRANSPOSED ? (size_t)i * m + c.row : (size_t)c.row * k + i] *
               B[B_TRANSPOSED ? (size_t)c.col * k + i : (size_t)i * n + c.col];
    return sum;
}

#ifndef TRAINING

#include "bias_update.cuh"

// ---- plain products

extern "C" __global__ void matmul(const Stored* A, const float* B, Stored* C, int m, int k, int n)
{
    const Element c = own_element(m, n);
    if (c.inside) C[c.at] = dot<false, false>(A, B, c, m, k, n);
}

extern "C" __global__ void matmul_tn(const Stored* A, const Stored* B, float* C, int m, int k, int n)
{
    const Element c = own_element(m, n);
    if (c.inside) C[c.at] = dot<true, false>(A, B, c, m, k, n);
}

extern "C" __global__ void matmul_nt(const Stored* A, const float* B, Stored* C, int m, int k, int n)
{
    const Element c = own_element(m, n);
    if (c.inside) C[c.at] = dot<false, true>(A, B, c, m, k, n);
}

// ---- forward

extern "C" __global__ void matmul_relu(const Stored* A, const float* B, Stored* C, int m, int k, int n)
{
    const Element c = own_element(m, n);
    if (!c.inside) return;
    const float sum = dot<false, false>(A, B, c, m, k, n);
    C[c.at] = sum < 0.0f ? 0.0f : sum;  // a NaN is not < 0 and stays
}

extern "C" __global__ void matmul_bias(const Stored* A, const float* B, Stored* C, const float* b, int m, int k, int n)
{
    const Element c = own_element(m, n);
    if (c.inside) C[c.at] = dot<false, false>(A, B, c, m, k, n) + b[c.col];
}

extern "C" __global__ void matmul_error(const Stored* A, const float* B, Stored* D, const float* Y, float* E,
                                        int m, int k, int n, float scale)
{
    const Element c = own_element(m, n);
    if (!c.inside) return;
    const float error = dot<false, false>(A, B, c, m, k, n) - Y[c.at];
    E[c.at] = error;
    D[c.at] = scale * error;
}

// ---- backward

extern "C" __global__ void matmul_mask(const Stored* A, const float* B, Stored* C, const Stored* H, int m, int k,
                                       int n)
{
    const Element c = own_element(m, n);
    if (!c.inside) return;
    const float sum = dot<false, false>(A, B, c, m, k, n);
    C[c.at] = H[c.at] > 0.0f ? sum : 0.0f;
}

extern "C" __global__ void matmul_nt_mask(const Stored* A, const float* B, Stored* C, const Stored* H, int m,
                                          int k, int n)
{
    const Element c = own_element(m, n);
    if (!c.inside) return;
    const float sum = dot<false, true>(A, B, c, m, k, n);
    C[c.at] = H[c.at] > 0.0f ? sum : 0.0f;
}

// Rounded twice, as in NumPy: the step, then the difference.
__device__ void updated(const Stored* A, const Stored* B, float* W, int m, int k, int n, float rate)
{
    const Element c = own_element(m, n);
    if (!c.inside) return;
    const float gradient = dot<true, false>(A, B, c, m, k, n);
    W[c.at] = __fsub_rn(W[c.at], __fmul_rn(rate, gradient));
}

extern "C" __global__ void matmul_tn_update(const Stored* A, const Stored* B, float* W, int m, int k, int n,
                                            float rate)
{
    updated(A, B, W, m, k, n, rate);
}

extern "C" __global__ void matmul_tn_update_bias(const Stored* A, const Stored* B, float* W, float* b, int m, int k,
                                                 int n, float rate)
{
    updated(A, B, W, m, k, n, rate);
    update_bias(B, b, k, n, rate);
}

#else

constexpr int TILE_ROWS = BLOCK_Y, TILE_COLS = BLOCK_X;

template <bool A_TRANSPOSED, bool B_TRANSPOSED, class OfB, class Beside, class Finish>
__device__ void product(const Stored* A, const OfB* B, int m, int k, int n, const Beside* beside, float*, Finish finish)
{
    const Element c = own_element(m, n);
    if (c.inside) finish(c.at, dot<A_TRANSPOSED, B_TRANSPOSED>(A, B, c, m, k, n), beside ? beside[c.at] : 0.0f);
}

#define KERNEL extern "C" __global__ void

#include "training.cuh"

#endif
