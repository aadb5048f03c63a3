// Pooling and its gradient, row-major float32. Images are (rows, channels, height, width); windows of
// size x size lie side by side, and rows and columns that fill no window are not read.
//
//   avg_pool2d            Z = the mean of each window
//   avg_pool2d_gradient   D = G / size^2 in a window, else 0
//   max_pool2d            Z = the largest element of each window
//   max_pool2d_gradient   D = G where X is the largest of its window, the first of equal ones, else 0
//
// The last two look for the largest in row-major order and keep the first, so no index has to be stored between them.
//
// Launch, with 256 threads per block: a thread per window, for gradients a thread per element of D.

constexpr int THREADS = 256;

__device__ size_t own_element() { return (size_t)blockIdx.x * THREADS + threadIdx.x; }

// Where the largest element of the window with this upper left corner lies.
__device__ size_t largest(const float* __restrict__ X, size_t corner, int width, int size)
{
    size_t best = corner;
    for (int i = 0; i < size; ++i) {
        for (int j = 0; j < size; ++j) {
            const size_t at = corner + (size_t)i * width + j;
            if (X[at] > X[best]) best = at;
        }
    }
    return best;
}

extern "C" __global__ void avg_pool2d(const float* __restrict__ X, float* __restrict__ Z, int rows, int channels,
                                      int height, int width, int size)
{
    const int high = height / size, wide = width / size;
    const size_t at = own_element();
    if (at >= (size_t)rows * channels * high * wide) return;
    const size_t x = at % wide, y = at / wide % high, image = at / wide / high;
    float sum = 0.0f;
    for (int i = 0; i < size; ++i) {
        for (int j = 0; j < size; ++j) sum += X[(image * height + y * size + i) * width + x * size + j];
    }
    Z[at] = sum / (size * size);
}

extern "C" __global__ void avg_pool2d_gradient(const float* __restrict__ G, float* __restrict__ D, int rows,
                                               int channels, int height, int width, int size)
{
    const int high = height / size, wide = width / size;
    const size_t at = own_element();
    if (at >= (size_t)rows * channels * height * width) return;
    const size_t x = at % width / size, y = at / width % height / size, image = at / width / height;
    D[at] = x < wide && y < high ? G[(image * high + y) * wide + x] / (size * size) : 0.0f;
}

extern "C" __global__ void max_pool2d(const float* __restrict__ X, float* __restrict__ Z, int rows, int channels,
                                      int height, int width, int size)
{
    const int high = height / size, wide = width / size;
    const size_t at = own_element();
    if (at >= (size_t)rows * channels * high * wide) return;
    const size_t x = at % wide, y = at / wide % high, image = at / wide / high;
    Z[at] = X[largest(X, (image * height + y * size) * width + x * size, width, size)];
}

extern "C" __global__ void max_pool2d_gradient(const float* __restrict__ G, const float* __restrict__ X,
                                               float* __restrict__ D, int rows, int channels, int height, int width,
                                               int size)
{
    const int high = height / size, wide = width / size;
    const size_t at = own_element();
    if (at >= (size_t)rows * channels * height * width) return;
    const size_t x = at % width / size, y = at / width % height / size, image = at / width / height;
    float gradient = 0.0f;
    if (x < wide && y < high && largest(X, (image * height + y * size) * width + x * size, width, size) == at) {
        gradient = G[(image * high + y) * wide + x];
    }
    D[at] = gradient;
}
