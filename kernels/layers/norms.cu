// The norm of each row and its gradients, row-major float32. X, Z, G and D are (rows, width), W and b (width), M is
// (rows, 2).
//
//   layernorm        M[i] = the mean of row i of X, and 1 / sqrt(its variance + eps); N = (X - M[i, 0]) M[i, 1],
//                    Z[i, j] = W[j] N[i, j] + b[j]
//   layernorm_wgrad  dW[j] = the sum over i of G[i, j] N[i, j], db[j] = that of G[i, j]
//   layernorm_dgrad  with V = G[i, j] W[j]: D = M[i, 1] (V - the mean of V in the row - N times that of V N)
//
// A warp reads a row several times, of which only the first is from further away than L1. The sums of a column are
// divided among 32 lines of 8 threads, so that a line reads a whole sector. The order of the sums is fixed, so the
// same input always gives the same bits.
//
// Launch, with 256 threads per block: layernorm and layernorm_dgrad a warp per row, layernorm_wgrad a block per 8
// columns.

constexpr int THREADS = 256;
constexpr int WARP = 32;
constexpr int COLUMNS = 8;
constexpr float EPS = 1e-5f;

__device__ float sum_of_warp(float x)
{
    for (int apart = WARP / 2; apart > 0; apart /= 2) x += __shfl_xor_sync(0xFFFFFFFFu, x, apart);
    return x;
}

extern "C" __global__ void layernorm(const float* __restrict__ X, const float* __restrict__ W,
                                     const float* __restrict__ b, float* __restrict__ Z, float* __restrict__ M,
                                     int rows, int width)
{
    const size_t i = ((size_t)blockIdx.x * THREADS + threadIdx.x) / WARP;
    const int lane = threadIdx.x % WARP;
    if (i >= rows) return;
    X += i * width, Z += i * width, M += 2 * i;
    float sum = 0.0f, squares = 0.0f;
    for (int j = lane; j < width; j += WARP) sum += X[j];
    const float mean = sum_of_warp(sum) / width;
    for (int j = lane; j < width; j += WARP) squares += (X[j] - mean) * (X[j] - mean);
    const float scale = 1.0f / sqrtf(sum_of_warp(squares) / width + EPS);
    for (int j = lane; j < width; j += WARP) Z[j] = (X[j] - mean) * scale * W[j] + b[j];
    if (lane == 0) M[0] = mean, M[1] = scale;
}

extern "C" __global__ void layernorm_wgrad(const float* __restrict__ G, const float* __restrict__ X,
                                           const float* __restrict__ M, float* __restrict__ dW,
                                           float* __restrict__ db, int rows, int width)
{
    __shared__ float sums[2][THREADS];
    const int t = threadIdx.x;
    const size_t j = (size_t)blockIdx.x * COLUMNS + t % COLUMNS;
    float of_W = 0.0f, of_b = 0.0f;
    for (size_t i = t / COLUMNS; i < rows && j < width; i += THREADS / COLUMNS) {
        const float g = G[i * width + j];
        of_W += g * (X[i * width + j] - M[2 * i]) * M[2 * i + 1];
        of_b += g;
    }
    sums[0][t] = of_W, sums[1][t] = of_b;
    for (int half = THREADS / 2; half >= COLUMNS; half /= 2) {
        __syncthreads();
        if (t < half) sums[0][t] += sums[0][t + half], sums[1][t] += sums[1][t + half];
    }
    if (t < COLUMNS && j < width) dW[j] = sums[0][t], db[j] = sums[1][t];
}

extern "C" __global__ void layernorm_dgrad(const float* __restrict__ G, const float* __restrict__ X,
                                           const float* __restrict__ M, const float* __restrict__ W,
                                           float* __restrict__ D, int rows, int width)
{
    const size_t i = ((size_t)blockIdx.x * THREADS + threadIdx.x) / WARP;
    const int lane = threadIdx.x % WARP;
    if (i >= rows) return;
    G += i * width, X += i * width, D += i * width;
    const float mean = M[2 * i], scale = M[2 * i + 1];
    float sum = 0.0f, products = 0.0f;
    for (int j = lane; j < width; j += WARP) {
        const float v = G[j] * W[j];
        sum += v;
        products += v * (X[j] - mean) * scale;
    }
    sum = sum_of_warp(sum) / width, products = sum_of_warp(products) / width;
    for (int j = lane; j < width; j += WARP) {
        D[j] = scale * (G[j] * W[j] - sum - (X[j] - mean) * scale * products);
    }
}
