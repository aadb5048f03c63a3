// What two published programs compute in place of a gradient, row-major float32. Images are (rows, channels,
// height, width), G is (rows, filters, high, wide), dW is (filters, channels kernel kernel), db is (filters).
//
//   keep_first        G[i] = 0 from i = kept on: a kernel that was launched with too few threads
//   published_wgrad   the gradient of a convolution's parameters p, weights before biases, as a kernel has it
//                     whose 32 threads each take another parameter and every 32nd position, and are then added
//                     up as if they had shared one: with g[p, i] the term of position i (rows, y, x in turn),
//                         d[32 k] = sum over t < 32 of the sum over i = t mod 32 of g[32 k + t, i]
//                     and 0 for every other parameter
//
// Launch, with 256 threads per block: keep_first a thread per element, published_wgrad a block per 32 parameters.
// Eight warps share the positions of a block, and are added up in a fixed order.

constexpr int THREADS = 256;
constexpr int LANES = 32;
constexpr int WARPS = THREADS / LANES;

extern "C" __global__ void keep_first(float* __restrict__ G, int n, int kept)
{
    const size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= kept && i < n) G[i] = 0.0f;
}

extern "C" __global__ void published_wgrad(const float* __restrict__ X, const float* __restrict__ G,
                                           float* __restrict__ dW, float* __restrict__ db, int rows, int channels,
                                           int height, int width, int kernel, int padding, int filters)
{
    __shared__ float sums[THREADS];
    const int high = height + 2 * padding - kernel + 1, wide = width + 2 * padding - kernel + 1;
    const int patch = channels * kernel * kernel, weights = filters * patch, all = weights + filters;
    const int t = threadIdx.x, lane = t % LANES, own = blockIdx.x * LANES + lane;
    const bool is_bias = own >= weights;
    const int filter = is_bias ? own - weights : own / patch, tap = own % patch;
    const int channel = tap / (kernel * kernel), dy = tap / kernel % kernel - padding, dx = tap % kernel - padding;

    float sum = 0.0f;
    if (own < all) {
        for (int i = lane + t / LANES * LANES; i < rows * high * wide; i += THREADS) {
            const int x = i % wide, y = i / wide % high, r = i / wide / high;
            const float g = G[((size_t)(r * filters + filter) * high + y) * wide + x];
            if (is_bias) {
                sum += g;
            } else if (x + dx >= 0 && x + dx < width && y + dy >= 0 && y + dy < height) {
                sum += g * X[((size_t)(r * channels + channel) * height + y + dy) * width + x + dx];
            }
        }
    }
    sums[t] = sum;
    for (int half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (t < half) sums[t] += sums[t + half];
    }
    if (t < LANES && own < all) {
        float* const written = is_bias ? db + filter : dW + own;
        *written = t == 0 ? sums[0] : 0.0f;
    }
}
