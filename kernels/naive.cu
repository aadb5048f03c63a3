// C = A B, row-major float32: A is m x k, B is k x n, C is m x n.
//
// naive: one thread computes one element of C and reads a row of A and a column of B from
// global memory. Nothing is shared between threads but what the caches happen to hold; this is
// the kernel that the paper times, and the one that every later kernel is measured against.
//
// Launch: blockDim = (BLOCK_X, BLOCK_Y), gridDim = (ceil(n / BLOCK_X), ceil(m / BLOCK_Y)).
// Any m, n >= 1 and k >= 0; threads outside C do nothing.

extern "C" __global__ void matmul_naive(const float* __restrict__ A, const float* __restrict__ B,
                                        float* __restrict__ C, int m, int k, int n)
{
    const int row = blockIdx.y * blockDim.y + threadIdx.y;
    const int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= m || col >= n) return;

    float sum = 0.0f;
    for (int i = 0; i < k; ++i)
        sum += A[(size_t)row * k + i] * B[(size_t)i * n + col];
    C[(size_t)row * n + col] = sum;
}
