// What two published programs compute in place of a gradient, and in which order, row-major float32. Images are
// (rows, channels, height, width), the gradient G of a convolution's outputs is (rows, filters, high, wide), dW is
// (filters, channels kernel kernel), db is (filters).
//
//   keep_first               G[i] = 0 from i = kept on: a kernel that was launched with too few threads
//   published_wgrad          the gradient of a convolution's parameters p, weights before biases, as a kernel has
//                            it whose 32 threads each take another parameter and every 32nd position, and are then
//                            added up as if they had shared one: with g[p, i] the term of position i (row, y, x),
//                                d[32 k] = sum over t < 32 of the sum over i = t mod 32 of g[32 k + t, i]
//                            and 0 for every other parameter
//   published_linear_wgrad   dW = X^T G and db = the sum of the rows of G, right: lane t takes every 32nd row; its
//                            products are rounded before they are added, since there the program has one addition
//                            for weights and biases, and no compiler fuses a product that may not be one
//   published_softmax        softmax_cross_entropy with the device's approximate exponential and a logarithm that
//                            is kept from 0 by 1e-10
//   fma_update               W -= rate G in one fused multiply-add, as compilers contract it
//
// Lanes are added up in a tree: 16 apart, then 8, 4, 2 and 1.
//
// Launch, with 256 threads per block: keep_first and fma_update a thread per element, published_softmax a thread
// per row, published_wgrad a warp per 32 parameters, published_linear_wgrad a warp per parameter.

constexpr int THREADS = 256;
constexpr int LANES = 32;

__device__ size_t own_element() { return (size_t)blockIdx.x * THREADS + threadIdx.x; }

// The sum over the lanes of each warp, in its first lane.
__device__ float sum_of_lanes(float value)
{
    for (int apart = LANES / 2; apart > 0; apart /= 2) value += __shfl_down_sync(0xffffffffu, value, apart);
    return value;
}

extern "C" __global__ void keep_first(float* __restrict__ G, int n, int kept)
{
    const size_t i = own_element();
    if (i >= kept && i < n) G[i] = 0.0f;
}

extern "C" __global__ void fma_update(float* __restrict__ W, const float* __restrict__ G, int n, float rate)
{
    const size_t i = own_element();
    if (i < n) W[i] = fmaf(-rate, G[i], W[i]);
}

extern "C" __global__ void published_softmax(const float* __restrict__ P, const float* __restrict__ Y,
                                             float* __restrict__ E, float* __restrict__ D, int rows, int width,
                                             float scale)
{
    const size_t i = own_element();
    if (i >= rows) return;
    P += i * width, Y += i * width, D += i * width;
    float largest = P[0], sum = 0.0f, loss = 0.0f;
    for (int j = 1; j < width; ++j) largest = P[j] > largest ? P[j] : largest;
    for (int j = 0; j < width; ++j) sum += __expf(P[j] - largest);
    for (int j = 0; j < width; ++j) {
        const float p = __expf(P[j] - largest) / sum;
        loss -= Y[j] * logf(p + 1e-10f);
        D[j] = scale * (p - Y[j]);
    }
    E[i] = loss;
}

extern "C" __global__ void published_linear_wgrad(const float* __restrict__ X, const float* __restrict__ G,
                                                  float* __restrict__ dW, float* __restrict__ db, int rows,
                                                  int inputs, int width)
{
    const size_t own = own_element() / LANES, weights = (size_t)inputs * width;
    const size_t input = own / width, output = own % width;  // of a bias: input == inputs
    float sum = 0.0f;
    if (own < weights + width) {
        for (int i = threadIdx.x % LANES; i < rows; i += LANES) {
            const float g = G[(size_t)i * width + output];
            sum = __fadd_rn(sum, own < weights ? __fmul_rn(X[(size_t)i * inputs + input], g) : g);
        }
    }
    sum = sum_of_lanes(sum);
    if (threadIdx.x % LANES == 0 && own < weights + width) (own < weights ? dW[own] : db[output]) = sum;
}

extern "C" __global__ void published_wgrad(const float* __restrict__ X, const float* __restrict__ G,
                                           float* __restrict__ dW, float* __restrict__ db, int rows, int channels,
                                           int height, int width, int kernel, int padding, int filters)
{
    const int high = height + 2 * padding - kernel + 1, wide = width + 2 * padding - kernel + 1;
    const int patch = channels * kernel * kernel, weights = filters * patch, all = weights + filters;
    const int lane = threadIdx.x % LANES, own = own_element();
    const bool is_bias = own >= weights;
    const int filter = is_bias ? own - weights : own / patch, tap = own % patch;
    const int channel = tap / (kernel * kernel), dy = tap / kernel % kernel - padding, dx = tap % kernel - padding;

    float sum = 0.0f;
    if (own < all) {
        for (int i = lane; i < rows * high * wide; i += LANES) {
            const int x = i % wide, y = i / wide % high, r = i / wide / high;
            const float g = G[((size_t)(r * filters + filter) * high + y) * wide + x];
            if (is_bias) {
                sum += g;
            } else if (x + dx >= 0 && x + dx < width && y + dy >= 0 && y + dy < height) {
                sum += g * X[((size_t)(r * channels + channel) * height + y + dy) * width + x + dx];
            }
        }
    }
    sum = sum_of_lanes(sum);
    if (own < all) (is_bias ? db[filter] : dW[own]) = lane == 0 ? sum : 0.0f;
}
