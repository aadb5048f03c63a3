// A convolution and its gradients, row-major float32. X and D are (rows, channels, height, width), W is (filters,
// channels, kernel, kernel), Z and G are (rows, filters, high, wide), high = height + 2 padding - kernel + 1.
//
// naive: a thread computes one element of what is written, from global memory.
//
//   conv2d         Z[r, f, y, x] = b[f] + sum of W[f, c, i, j] X[r, c, y + i - padding, x + j - padding]
//   conv2d_dgrad   D[r, c, y, x] = sum of W[f, c, i, j] G[r, f, y - i + padding, x - j + padding]
//   conv2d_wgrad   dW[f, c, i, j] = sum of G[r, f, y, x] X[r, c, y + i - padding, x + j - padding], db[f] = sum of G
//
// The first two have a thread for each of a million elements. The gradient of the weights has a thread for each of a
// few thousand, each of which adds up every position of every image: it takes most of the time, and larger blocks
// make it slower, since fewer of them occupy fewer multiprocessors.
//
// The shape is an argument, as in a program for any network: each index costs divisions, no loop is unrolled.
//
// Launch: a thread per element, BLOCK_X BLOCK_Y threads per block.

#include "shape.cuh"

constexpr int THREADS = BLOCK_X * BLOCK_Y;

LAUNCH(conv2d, up(ROWS * FILTERS * HIGH * WIDE, THREADS), 1, THREADS)
LAUNCH(conv2d_dgrad, up(ROWS * CHANNELS * HEIGHT * WIDTH, THREADS), 1, THREADS)
LAUNCH(conv2d_wgrad, up(WEIGHTS + FILTERS, THREADS), 1, THREADS)

#define SIZES int rows, int channels, int height, int width, int filters, int kernel, int padding

__device__ size_t own_element() { return (size_t)blockIdx.x * blockDim.x + threadIdx.x; }

extern "C" __global__ void conv2d(const float* __restrict__ X, const float* __restrict__ W,
                                  const float* __restrict__ b, float* __restrict__ Z, SIZES)
{
    const int high = height + 2 * padding - kernel + 1, wide = width + 2 * padding - kernel + 1;
    const size_t at = own_element();
    if (at >= (size_t)rows * filters * high * wide) return;
    const int x = at % wide, y = at / wide % high, f = at / wide / high % filters;
    const size_t r = at / wide / high / filters;
    float sum = 0.0f;
    for (int c = 0; c < channels; ++c)
        for (int i = 0; i < kernel; ++i)
            for (int j = 0; j < kernel; ++j) {
                const int row = y + i - padding, col = x + j - padding;
                if (row >= 0 && row < height && col >= 0 && col < width)
                    sum += W[((f * channels + c) * kernel + i) * kernel + j] *
                           X[((r * channels + c) * height + row) * width + col];
            }
    Z[at] = sum + b[f];
}

extern "C" __global__ void conv2d_dgrad(const float* __restrict__ G, const float* __restrict__ W,
                                        float* __restrict__ D, SIZES)
{
    const int high = height + 2 * padding - kernel + 1, wide = width + 2 * padding - kernel + 1;
    const size_t at = own_element();
    if (at >= (size_t)rows * channels * height * width) return;
    const int x = at % width, y = at / width % height, c = at / width / height % channels;
    const size_t r = at / width / height / channels;
    float sum = 0.0f;
    for (int f = 0; f < filters; ++f)
        for (int i = 0; i < kernel; ++i)
            for (int j = 0; j < kernel; ++j) {
                const int row = y - i + padding, col = x - j + padding;
                if (row >= 0 && row < high && col >= 0 && col < wide)
                    sum += W[((f * channels + c) * kernel + i) * kernel + j] *
                           G[((r * filters + f) * high + row) * wide + col];
            }
    D[at] = sum;
}

extern "C" __global__ void conv2d_wgrad(const float* __restrict__ G, const float* __restrict__ X,
                                        float* __restrict__ dW, float* __restrict__ db, SIZES)
{
    const int high = height + 2 * padding - kernel + 1, wide = width + 2 * padding - kernel + 1;
    const int at = own_element(), weights = filters * channels * kernel * kernel;
    if (at >= weights + filters) return;
    const bool of_bias = at >= weights;
    const int f = of_bias ? at - weights : at / (kernel * kernel) / channels;
    const int c = at / (kernel * kernel) % channels, down = at / kernel % kernel - padding, right = at % kernel - padding;
    const int first_y = max(0, -down), last_y = min(high, height - down);  // where the weight meets the image
    const int first_x = max(0, -right), last_x = min(wide, width - right);
    float sum = 0.0f;
    for (int r = 0; r < rows; ++r) {
        const float* gradients = G + ((size_t)r * filters + f) * high * wide;
        const float* image = X + ((size_t)r * channels + c) * height * width;
        if (of_bias) {
            for (int i = 0; i < high * wide; ++i) sum += gradients[i];
            continue;
        }
        for (int y = first_y; y < last_y; ++y)
            for (int x = first_x; x < last_x; ++x)
                sum += gradients[y * wide + x] * image[(y + down) * width + x + right];
    }
    (of_bias ? db[f] : dW[at]) = sum;
}
