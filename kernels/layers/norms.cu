// Norms and their gradients, row-major float32: of each row, and of each channel of a batch.
//
// Of rows: X, Z, G and D are (rows, width), W and b (width), M is (rows, 2).
//
//   layernorm        M[i] = the mean of row i of X, and 1 / sqrt(its variance + eps); N = (X - M[i, 0]) M[i, 1],
//                    Z[i, j] = W[j] N[i, j] + b[j]
//   layernorm_wgrad  dW[j] = the sum over i of G[i, j] N[i, j], db[j] = the sum of G[i, j]
//   layernorm_dgrad  with V = G[i, j] W[j]: D = M[i, 1] (V - mean(V) - N mean(V N)), means over the row
//
// Of channels: X, Z, G and D are (rows, channels, pixels), W, b, A and V (channels), M is (channels, 2).
//
//   batchnorm          M, N and Z as above, with the mean and the variance of a channel
//   batchnorm_wgrad    dW and db as above; A += 0.1 (mean - A), V += 0.1 (variance n / (n - 1) - V), n = rows pixels
//   batchnorm_dgrad    D as above, with means in the channel
//   batchnorm_predict  Z = W (X - A) / sqrt(V + eps) + b
//
// A warp reads a row several times, of which only the first is from further away than L1, and so does a block with a
// channel. The sums of a column are divided among 32 lines of 8 threads, so that a line reads a whole sector; those of
// a channel of images among all threads of a block. The order of the sums is fixed, so the same input always gives the
// same bits.
//
// Launch, with 256 threads per block: layernorm and layernorm_dgrad a warp per row, layernorm_wgrad a block per 8
// columns, those of channels a block per channel or, of one pixel, per 8 channels; batchnorm_predict a thread per
// element.

#include "../stored.cuh"

constexpr int THREADS = 256;
constexpr int WARP = 32;
constexpr int COLUMNS = 8;
constexpr float EPS = 1e-5f;
constexpr float MOMENTUM = 0.1f;

__device__ float sum_of_warp(float x)
{
    for (int apart = WARP / 2; apart > 0; apart /= 2) x += __shfl_xor_sync(0xFFFFFFFFu, x, apart);
    return x;
}

// The sum of the block's threads that have the same column, of neighbouring ones.
template <int COLUMNS_OF_BLOCK>
__device__ float sum_of_column(float x)
{
    __shared__ float sums[THREADS];
    const int t = threadIdx.x;
    sums[t] = x;
    for (int half = THREADS / 2; half >= COLUMNS_OF_BLOCK; half /= 2) {
        __syncthreads();
        if (t < half) sums[t] += sums[t + half];
    }
    __syncthreads();
    const float sum = sums[t % COLUMNS_OF_BLOCK];
    __syncthreads();
    return sum;
}

extern "C" __global__ void layernorm(const Stored* __restrict__ X, const float* __restrict__ W,
                                     const float* __restrict__ b, Stored* __restrict__ Z, float* __restrict__ M,
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

extern "C" __global__ void layernorm_wgrad(const Stored* __restrict__ G, const Stored* __restrict__ X,
                                           const float* __restrict__ M, float* __restrict__ dW,
                                           float* __restrict__ db, int rows, int width)
{
    const size_t j = (size_t)blockIdx.x * COLUMNS + threadIdx.x % COLUMNS;
    float of_W = 0.0f, of_b = 0.0f;
    for (size_t i = threadIdx.x / COLUMNS; i < rows && j < width; i += THREADS / COLUMNS) {
        const float g = G[i * width + j];
        of_W += g * (X[i * width + j] - M[2 * i]) * M[2 * i + 1];
        of_b += g;
    }
    of_W = sum_of_column<COLUMNS>(of_W), of_b = sum_of_column<COLUMNS>(of_b);
    if (threadIdx.x < COLUMNS && j < width) dW[j] = of_W, db[j] = of_b;
}

extern "C" __global__ void layernorm_dgrad(const Stored* __restrict__ G, const Stored* __restrict__ X,
                                           const float* __restrict__ M, const float* __restrict__ W,
                                           Stored* __restrict__ D, int rows, int width)
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

// ---- of channels

// Calls a function with the place of each element of this thread's channel, of which the threads of a block share one
// or more.
template <int CHANNELS, class Function>
__device__ void each_of_channel(size_t c, int rows, int channels, int pixels, Function function)
{
    if (c >= channels) return;
    const unsigned n = rows * pixels;
#pragma unroll 8  // so that as many reads are on their way: a channel has few threads
    for (unsigned e = threadIdx.x / CHANNELS; e < n; e += THREADS / CHANNELS) {
        function((e / pixels * channels + c) * pixels + e % pixels);
    }
}

template <int CHANNELS>
__device__ void normalise(const Stored* __restrict__ X, const float* __restrict__ W, const float* __restrict__ b,
                          Stored* __restrict__ Z, float* __restrict__ M, int rows, int channels, int pixels)
{
    const size_t c = (size_t)blockIdx.x * CHANNELS + threadIdx.x % CHANNELS;
    const float n = (float)rows * pixels;
    float sum = 0.0f, squares = 0.0f;
    each_of_channel<CHANNELS>(c, rows, channels, pixels, [&](size_t i) { sum += X[i]; });
    const float mean = sum_of_column<CHANNELS>(sum) / n;
    each_of_channel<CHANNELS>(c, rows, channels, pixels, [&](size_t i) { squares += (X[i] - mean) * (X[i] - mean); });
    const float scale = 1.0f / sqrtf(sum_of_column<CHANNELS>(squares) / n + EPS);
    each_of_channel<CHANNELS>(c, rows, channels, pixels,
                              [&](size_t i) { Z[i] = (X[i] - mean) * scale * W[c] + b[c]; });
    if (threadIdx.x < CHANNELS && c < channels) M[2 * c] = mean, M[2 * c + 1] = scale;
}

template <int CHANNELS>
__device__ void sum_gradients(const Stored* __restrict__ G, const Stored* __restrict__ X, const float* __restrict__ M,
                              float* __restrict__ dW, float* __restrict__ db, float* __restrict__ A,
                              float* __restrict__ V, int rows, int channels, int pixels)
{
    const size_t c = (size_t)blockIdx.x * CHANNELS + threadIdx.x % CHANNELS;
    const float n = (float)rows * pixels;
    float of_W = 0.0f, of_b = 0.0f;
    each_of_channel<CHANNELS>(c, rows, channels, pixels, [&](size_t i) {
        of_W += G[i] * (X[i] - M[2 * c]) * M[2 * c + 1];
        of_b += G[i];
    });
    of_W = sum_of_column<CHANNELS>(of_W), of_b = sum_of_column<CHANNELS>(of_b);
    if (threadIdx.x >= CHANNELS || c >= channels) return;
    const float variance = (1.0f / (M[2 * c + 1] * M[2 * c + 1]) - EPS) * (n / fmaxf(n - 1.0f, 1.0f));
    dW[c] = of_W, db[c] = of_b;
    A[c] += MOMENTUM * (M[2 * c] - A[c]);
    V[c] += MOMENTUM * (variance - V[c]);
}

template <int CHANNELS>
__device__ void propagate(const Stored* __restrict__ G, const Stored* __restrict__ X, const float* __restrict__ M,
                          const float* __restrict__ W, Stored* __restrict__ D, int rows, int channels, int pixels)
{
    const size_t c = (size_t)blockIdx.x * CHANNELS + threadIdx.x % CHANNELS;
    const float n = (float)rows * pixels, mean = c < channels ? M[2 * c] : 0.0f, scale = c < channels ? M[2 * c + 1] : 0.0f;
    float sum = 0.0f, products = 0.0f;
    each_of_channel<CHANNELS>(c, rows, channels, pixels, [&](size_t i) {
        sum += G[i];
        products += G[i] * (X[i] - mean) * scale;
    });
    sum = sum_of_column<CHANNELS>(sum) / n, products = sum_of_column<CHANNELS>(products) / n;
    each_of_channel<CHANNELS>(c, rows, channels, pixels, [&](size_t i) {
        D[i] = scale * W[c] * (G[i] - sum - (X[i] - mean) * scale * products);
    });
}

extern "C" __global__ void batchnorm(const Stored* __restrict__ X, const float* __restrict__ W,
                                     const float* __restrict__ b, Stored* __restrict__ Z, float* __restrict__ M,
                                     int rows, int channels, int pixels)
{
    if (pixels > 1) normalise<1>(X, W, b, Z, M, rows, channels, pixels);
    else normalise<COLUMNS>(X, W, b, Z, M, rows, channels, 1);
}

extern "C" __global__ void batchnorm_wgrad(const Stored* __restrict__ G, const Stored* __restrict__ X,
                                           const float* __restrict__ M, float* __restrict__ dW,
                                           float* __restrict__ db, float* __restrict__ A, float* __restrict__ V,
                                           int rows, int channels, int pixels)
{
    if (pixels > 1) sum_gradients<1>(G, X, M, dW, db, A, V, rows, channels, pixels);
    else sum_gradients<COLUMNS>(G, X, M, dW, db, A, V, rows, channels, 1);
}

extern "C" __global__ void batchnorm_dgrad(const Stored* __restrict__ G, const Stored* __restrict__ X,
                                           const float* __restrict__ M, const float* __restrict__ W,
                                           Stored* __restrict__ D, int rows, int channels, int pixels)
{
    if (pixels > 1) propagate<1>(G, X, M, W, D, rows, channels, pixels);
    else propagate<COLUMNS>(G, X, M, W, D, rows, channels, 1);
}

extern "C" __global__ void batchnorm_predict(const Stored* __restrict__ X, const float* __restrict__ W,
                                             const float* __restrict__ b, const float* __restrict__ A,
                                             const float* __restrict__ V, Stored* __restrict__ Z, int rows,
                                             int channels, int pixels)
{
    const size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= (size_t)rows * channels * pixels) return;
    const size_t c = i / pixels % channels;
    Z[i] = (X[i] - A[c]) * (W[c] / sqrtf(V[c] + EPS)) + b[c];
}
