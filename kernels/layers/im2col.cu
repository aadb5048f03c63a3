// What turns a convolution into a matrix product, row-major float32. Images are (rows, channels, height, width).
//
//   im2col           P[r y x, c i j] = X[r, c, y + i - padding, x + j - padding], and 0 outside of the image:
//                    a row of P for each position (y, x) of a kernel x kernel window, in steps of stride
//   col2im           X[r, c, y, x] = the sum of all elements of P that im2col copies it to
//   transpose_each   T[n] = A[n]^T, of count matrices A[n] of rows x cols
//
// With the weights W as (filters, channels kernel kernel), the outputs of all positions are P W^T, with the
// filters in columns; transpose_each brings them to (rows, filters, positions) and the gradients back. col2im
// gathers instead of scattering with atomics: its sums have one fixed order.
//
// Launch, with 256 threads per block: a thread per element of what is written.

constexpr int THREADS = 256;

__device__ size_t own_element() { return (size_t)blockIdx.x * THREADS + threadIdx.x; }

extern "C" __global__ void im2col(const float* __restrict__ X, float* __restrict__ P, int rows, int channels,
                                  int height, int width, int kernel, int padding, int stride)
{
    const int high = (height + 2 * padding - kernel) / stride + 1, wide = (width + 2 * padding - kernel) / stride + 1;
    const int patch = channels * kernel * kernel;
    const size_t at = own_element();
    if (at >= (size_t)rows * high * wide * patch) return;
    const int in_patch = at % patch, c = in_patch / (kernel * kernel);
    const size_t position = at / patch;
    const int x = position % wide * stride + in_patch % kernel - padding;
    const int y = position / wide % high * stride + in_patch / kernel % kernel - padding;
    const size_t image = position / wide / high * channels + c;
    const bool inside = x >= 0 && x < width && y >= 0 && y < height;
    P[at] = inside ? X[(image * height + y) * width + x] : 0.0f;
}

extern "C" __global__ void col2im(const float* __restrict__ P, float* __restrict__ X, int rows, int channels,
                                  int height, int width, int kernel, int padding, int stride)
{
    const int high = (height + 2 * padding - kernel) / stride + 1, wide = (width + 2 * padding - kernel) / stride + 1;
    const size_t at = own_element();
    if (at >= (size_t)rows * channels * height * width) return;
    const int x = at % width, y = at / width % height, c = at / width / height % channels;
    const size_t r = at / width / height / channels;
    float sum = 0.0f;
    for (int i = 0; i < kernel; ++i) {
        const int top = y + padding - i;  // of the window in which this element is in row i
        if (top < 0 || top % stride || top / stride >= high) continue;
        for (int j = 0; j < kernel; ++j) {
            const int left = x + padding - j;
            if (left < 0 || left % stride || left / stride >= wide) continue;
            const size_t window = (r * high + top / stride) * wide + left / stride;
            sum += P[window * channels * kernel * kernel + (c * kernel + i) * kernel + j];
        }
    }
    X[at] = sum;
}

extern "C" __global__ void transpose_each(const float* __restrict__ A, float* __restrict__ T, int count, int rows,
                                          int cols)
{
    const size_t at = own_element();
    if (at >= (size_t)count * rows * cols) return;
    const size_t row = at % rows, col = at / rows % cols, n = at / rows / cols;  // of A; T is written in order
    T[at] = A[(n * rows + row) * cols + col];
}
