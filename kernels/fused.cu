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
// Compiled with -DTRAINING, it has the kernels for biases, activation functions and Adam instead: see
// snn/backends/ops.py.
//
// Launch: blockDim = (BLOCK_X, BLOCK_Y), gridDim = (ceil(n / BLOCK_X), ceil(m / BLOCK_Y)).
// Any m, n >= 1 and k >= 0; threads outside C do nothing.

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

template <bool A_TRANSPOSED, bool B_TRANSPOSED>
__device__ float dot(const float* __restrict__ A, const float* __restrict__ B, Element c, int m, int k, int n)
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

extern "C" __global__ void matmul(const float* A, const float* B, float* C, int m, int k, int n)
{
    const Element c = own_element(m, n);
    if (c.inside) C[c.at] = dot<false, false>(A, B, c, m, k, n);
}

extern "C" __global__ void matmul_tn(const float* A, const float* B, float* C, int m, int k, int n)
{
    const Element c = own_element(m, n);
    if (c.inside) C[c.at] = dot<true, false>(A, B, c, m, k, n);
}

extern "C" __global__ void matmul_nt(const float* A, const float* B, float* C, int m, int k, int n)
{
    const Element c = own_element(m, n);
    if (c.inside) C[c.at] = dot<false, true>(A, B, c, m, k, n);
}

// ---- forward

extern "C" __global__ void matmul_relu(const float* A, const float* B, float* C, int m, int k, int n)
{
    const Element c = own_element(m, n);
    if (!c.inside) return;
    const float sum = dot<false, false>(A, B, c, m, k, n);
    C[c.at] = sum < 0.0f ? 0.0f : sum;  // a NaN is not < 0 and stays
}

extern "C" __global__ void matmul_bias(const float* A, const float* B, float* C, const float* b, int m, int k, int n)
{
    const Element c = own_element(m, n);
    if (c.inside) C[c.at] = dot<false, false>(A, B, c, m, k, n) + b[c.col];
}

extern "C" __global__ void matmul_error(const float* A, const float* B, float* D, const float* Y, float* E,
                                        int m, int k, int n, float scale)
{
    const Element c = own_element(m, n);
    if (!c.inside) return;
    const float error = dot<false, false>(A, B, c, m, k, n) - Y[c.at];
    E[c.at] = error;
    D[c.at] = scale * error;
}

// ---- backward

extern "C" __global__ void matmul_mask(const float* A, const float* B, float* C, const float* H, int m, int k,
                                       int n)
{
    const Element c = own_element(m, n);
    if (!c.inside) return;
    const float sum = dot<false, false>(A, B, c, m, k, n);
    C[c.at] = H[c.at] > 0.0f ? sum : 0.0f;
}

extern "C" __global__ void matmul_nt_mask(const float* A, const float* B, float* C, const float* H, int m,
                                          int k, int n)
{
    const Element c = own_element(m, n);
    if (!c.inside) return;
    const float sum = dot<false, true>(A, B, c, m, k, n);
    C[c.at] = H[c.at] > 0.0f ? sum : 0.0f;
}

// Rounded twice, as in NumPy: the step, then the difference.
__device__ void updated(const float* A, const float* B, float* W, int m, int k, int n, float rate)
{
    const Element c = own_element(m, n);
    if (!c.inside) return;
    const float gradient = dot<true, false>(A, B, c, m, k, n);
    W[c.at] = __fsub_rn(W[c.at], __fmul_rn(rate, gradient));
}

extern "C" __global__ void matmul_tn_update(const float* A, const float* B, float* W, int m, int k, int n,
                                            float rate)
{
    updated(A, B, W, m, k, n, rate);
}

extern "C" __global__ void matmul_tn_update_bias(const float* A, const float* B, float* W, float* b, int m, int k,
                                                 int n, float rate)
{
    updated(A, B, W, m, k, n, rate);
    update_bias(B, b, k, n, rate);
}

#else

#include "activation_functions.cuh"
#include "adam.cuh"
#include "column_sums.cuh"

extern "C" __global__ void matmul_bias_activation(const float* A, const float* B, float* C, const float* b, int m,
                                                  int k, int n, int f)
{
    const Element c = own_element(m, n);
    if (c.inside) C[c.at] = activated(f, dot<false, false>(A, B, c, m, k, n) + b[c.col]);
}

extern "C" __global__ void matmul_bias_activation_kept(const float* A, const float* B, float* Z, const float* b,
                                                       float* C, int m, int k, int n, int f)
{
    const Element c = own_element(m, n);
    if (!c.inside) return;
    Z[c.at] = dot<false, false>(A, B, c, m, k, n) + b[c.col];
    C[c.at] = activated(f, Z[c.at]);
}

extern "C" __global__ void matmul_bias_error(const float* A, const float* B, float* D, const float* b,
                                             const float* Y, float* E, int m, int k, int n, float scale)
{
    const Element c = own_element(m, n);
    if (!c.inside) return;
    const float error = dot<false, false>(A, B, c, m, k, n) + b[c.col] - Y[c.at];
    E[c.at] = error;
    D[c.at] = scale * error;
}

extern "C" __global__ void matmul_derivative(const float* A, const float* B, float* C, const float* H, int m, int k,
                                             int n, int f)
{
    const Element c = own_element(m, n);
    if (c.inside) C[c.at] = differentiated(f, dot<false, false>(A, B, c, m, k, n), H[c.at]);
}

extern "C" __global__ void matmul_nt_derivative(const float* A, const float* B, float* C, const float* H, int m,
                                                int k, int n, int f)
{
    const Element c = own_element(m, n);
    if (c.inside) C[c.at] = differentiated(f, dot<false, true>(A, B, c, m, k, n), H[c.at]);
}

// A^T B and, if there is a row of blocks below, the sums of the columns of B as one more row.
template <class Finish>
__device__ void gradients(const float* A, const float* B, int m, int k, int n, Finish finish)
{
    const Element c = own_element(m, n);
    if (c.inside) finish(c.at, dot<true, false>(A, B, c, m, k, n));
    if ((int)(tile_row() * blockDim.y) >= m)
        sum_columns(B, k, n, tile_col() * blockDim.x, blockDim.x,
                    [=](int column, float sum) { finish((size_t)m * n + column, sum); });
}

extern "C" __global__ void matmul_tn_sum(const float* A, const float* B, float* G, int m, int k, int n, int)
{
    gradients(A, B, m, k, n, [=](size_t at, float sum) { G[at] = sum; });
}

extern "C" __global__ void matmul_tn_adam(const float* A, const float* B, float* W, float* M, float* V,
                                          const float* T, int m, int k, int n, int, float rate, float gain1,
                                          float gain2, float eps, float decay, float shrink)
{
    gradients(A, B, m, k, n, [=](size_t at, float sum) {
        const float w = W[at], gradient = followed(w, sum, T, decay);
        W[at] = stepped(w - rate * T[3] * shrink * w, gradient, M + at, V + at, T, rate, gain1, gain2, eps);
    });
}

#endif
