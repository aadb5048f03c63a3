// A layer's bias and its gradient, row-major float32. Z and G are (rows, width), b and s are (width).
//
//   add_bias   Z[i, j] += b[j]
//   sum_rows   s[j] = sum over i of G[i, j], the gradient of a bias
//
// sum_rows is a block per column. Of up to 256 rows, one thread adds up what the others have read, in the order
// of the rows, as a plain loop would. Of more, each thread adds up every 256th row, then the block adds up its
// threads in a tree. The order of the sums is fixed, so the same input always gives the same bits.
//
// Launch, with 256 threads per block: add_bias a thread per element of Z, sum_rows a block per column.

#include "../stored.cuh"

constexpr int THREADS = 256;

extern "C" __global__ void add_bias(Stored* __restrict__ Z, const float* __restrict__ b, int rows, int width)
{
    const size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (i < (size_t)rows * width) Z[i] += b[i % width];
}

extern "C" __global__ void sum_rows(const Stored* __restrict__ G, float* __restrict__ s, int rows, int width)
{
    __shared__ float sums[THREADS];
    const int column = blockIdx.x, t = threadIdx.x;
    float sum = 0.0f;
    for (int i = t; i < rows; i += THREADS) sum += G[(size_t)i * width + column];
    sums[t] = sum;
    if (rows <= THREADS) {
        __syncthreads();
        if (t > 0) return;
        for (int i = 1; i < rows; ++i) sum += sums[i];
        s[column] = sum;
        return;
    }
    for (int half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (t < half) sums[t] += sums[t + half];
    }
    if (t == 0) s[column] = sums[0];
}
