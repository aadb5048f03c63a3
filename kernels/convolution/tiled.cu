// A convolution and its gradients, row-major float32. X and D are (rows, channels, height, width), W is (filters,
// channels, kernel, kernel), Z and G are (rows, filters, high, wide), high = height + 2 padding - kernel + 1.
//
// tiled: neighbouring outputs read nearly the same inputs. A block computes a tile of BLOCK_Y x BLOCK_X elements of
// one image and one filter: channel by channel it copies the tile of X beneath, with the margin that the kernel
// reaches, to shared memory, and the weights; each value is then read there kernel^2 times.
//
//   conv2d         Z = X * W + b, a cross-correlation
//   conv2d_dgrad   D = G * W turned by 180 degrees, over all filters: the same loop with another margin
//   conv2d_wgrad   a block for each filter and channel: it walks over the tiles of all images; each thread adds up,
//                  for its place in the tile, the products of G with the TAPS neighbours in X; at the end the block
//                  adds up its threads in a tree. The sums have one fixed order.
//
// Launch: BLOCK_X BLOCK_Y threads per block; a block per tile, image and filter, or per filter and channel.

#include "shape.cuh"

constexpr int THREADS = BLOCK_X * BLOCK_Y;
constexpr int TILE_HIGH = BLOCK_Y + KERNEL - 1, TILE_WIDE = BLOCK_X + KERNEL - 1;  // with the margin

__device__ int own_row() { return threadIdx.x / BLOCK_X; }
__device__ int own_col() { return threadIdx.x % BLOCK_X; }

// tile[y][x] = image[first_row + y][first_col + x], 0 outside of the image.
__device__ void copy_tile(float (&tile)[TILE_HIGH][TILE_WIDE], const float* __restrict__ image, int high, int wide,
                          int first_row, int first_col)
{
    for (int i = threadIdx.x; i < TILE_HIGH * TILE_WIDE; i += THREADS) {
        const int y = i / TILE_WIDE, x = i % TILE_WIDE, row = first_row + y, col = first_col + x;
        const bool inside = row >= 0 && row < high && col >= 0 && col < wide;
        tile[y][x] = inside ? image[row * wide + col] : 0.0f;
    }
}

// finish(at, o, sum) of each element of outputs (rows, OUT, OUT_HIGH, OUT_WIDE), from images (rows, IN, IN_HIGH,
// IN_WIDE) with this margin around them; weight(o, c, tap) reads the weights.
template <int IN, int IN_HIGH, int IN_WIDE, int OUT, int OUT_HIGH, int OUT_WIDE, int MARGIN, class Weight, class Finish>
__device__ void correlate(const float* __restrict__ images, Weight weight, Finish finish)
{
    __shared__ float tile[TILE_HIGH][TILE_WIDE], weights[TAPS];
    constexpr int DOWN = up(OUT_HIGH, BLOCK_Y), ACROSS = up(OUT_WIDE, BLOCK_X);
    const int first_col = blockIdx.x % ACROSS * BLOCK_X, first_row = blockIdx.x / ACROSS % DOWN * BLOCK_Y;
    const int o = blockIdx.x / (ACROSS * DOWN) % OUT, r = blockIdx.x / (ACROSS * DOWN) / OUT;

    float sum = 0.0f;
    for (int c = 0; c < IN; ++c) {
        const float* image = images + ((size_t)r * IN + c) * IN_HIGH * IN_WIDE;
        copy_tile(tile, image, IN_HIGH, IN_WIDE, first_row - MARGIN, first_col - MARGIN);
        for (int tap = threadIdx.x; tap < TAPS; tap += THREADS) weights[tap] = weight(o, c, tap);
        __syncthreads();
        for (int i = 0; i < KERNEL; ++i)
            for (int j = 0; j < KERNEL; ++j) sum += weights[i * KERNEL + j] * tile[own_row() + i][own_col() + j];
        __syncthreads();
    }
    const int row = first_row + own_row(), col = first_col + own_col();
    if (row < OUT_HIGH && col < OUT_WIDE) finish((((size_t)r * OUT + o) * OUT_HIGH + row) * OUT_WIDE + col, o, sum);
}

LAUNCH(conv2d, up(HIGH, BLOCK_Y) * up(WIDE, BLOCK_X) * ROWS * FILTERS, 1, THREADS)
LAUNCH(conv2d_dgrad, up(HEIGHT, BLOCK_Y) * up(WIDTH, BLOCK_X) * ROWS * CHANNELS, 1, THREADS)
LAUNCH(conv2d_wgrad, FILTERS * CHANNELS, 1, THREADS)

#if !defined(ONLY) || defined(ONLY_conv2d)
extern "C" __global__ __launch_bounds__(THREADS) void conv2d(const float* X, const float* W, const float* b, float* Z,
                                                             SHAPE)
{
    correlate<CHANNELS, HEIGHT, WIDTH, FILTERS, HIGH, WIDE, PADDING>(
        X, [=](int f, int c, int tap) { return W[(f * CHANNELS + c) * TAPS + tap]; },
        [=](size_t at, int f, float sum) { Z[at] = sum + b[f]; });
}
#endif

#if !defined(ONLY) || defined(ONLY_conv2d_dgrad)
extern "C" __global__ __launch_bounds__(THREADS) void conv2d_dgrad(const float* G, const float* W, float* D, SHAPE)
{
    correlate<FILTERS, HIGH, WIDE, CHANNELS, HEIGHT, WIDTH, KERNEL - 1 - PADDING>(
        G, [=](int c, int f, int tap) { return W[(f * CHANNELS + c) * TAPS + TAPS - 1 - tap]; },
        [=](size_t at, int, float sum) { D[at] = sum; });
}
#endif

// ---- the gradient of the weights

// The sum of the values of all threads; thread 0 gets it.
__device__ float block_sum(float value)
{
    __shared__ float values[THREADS];
    values[threadIdx.x] = value;
    for (int count = THREADS; count > 1; count = (count + 1) / 2) {
        const int half = (count + 1) / 2;
        __syncthreads();
        if (threadIdx.x + half < count) values[threadIdx.x] += values[threadIdx.x + half];
    }
    __syncthreads();
    const float sum = values[0];
    __syncthreads();
    return sum;
}

#if !defined(ONLY) || defined(ONLY_conv2d_wgrad)
extern "C" __global__ __launch_bounds__(THREADS) void conv2d_wgrad(const float* __restrict__ G,
                                                                   const float* __restrict__ X, float* dW, float* db,
                                                                   SHAPE)
{
    __shared__ float tile[TILE_HIGH][TILE_WIDE];
    constexpr int AT_ONCE = smaller(TAPS, 25);  // sums in a thread's registers; larger kernels take several passes
    const int f = blockIdx.x / CHANNELS, c = blockIdx.x % CHANNELS;

    float of_bias = 0.0f;
    for (int first = 0; first < TAPS; first += AT_ONCE) {
        float sum[AT_ONCE] = {};
        for (int r = 0; r < ROWS; ++r)
            for (int y = 0; y < HIGH; y += BLOCK_Y)
                for (int x = 0; x < WIDE; x += BLOCK_X) {
                    copy_tile(tile, X + ((size_t)r * CHANNELS + c) * HEIGHT * WIDTH, HEIGHT, WIDTH, y - PADDING,
                              x - PADDING);
                    const int row = y + own_row(), col = x + own_col();
                    const bool inside = row < HIGH && col < WIDE;
                    const float g = inside ? G[(((size_t)r * FILTERS + f) * HIGH + row) * WIDE + col] : 0.0f;
                    if (first == 0) of_bias += g;
                    __syncthreads();
#pragma unroll
                    for (int s = 0; s < AT_ONCE; ++s) {
                        const int tap = first + s, i = tap / KERNEL, j = tap % KERNEL;
                        if (tap < TAPS) sum[s] += g * tile[own_row() + i][own_col() + j];
                    }
                    __syncthreads();
                }
#pragma unroll
        for (int s = 0; s < AT_ONCE; ++s) {
            const float total = block_sum(sum[s]);
            if (threadIdx.x == 0 && first + s < TAPS) dW[blockIdx.x * TAPS + first + s] = total;
        }
    }
    if (c != 0) return;
    const float total = block_sum(of_bias);
    if (threadIdx.x == 0) db[f] = total;
}
#endif
