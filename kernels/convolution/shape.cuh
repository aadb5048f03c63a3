// A convolution's shape, compiled in as -DROWS, CHANNELS, HEIGHT, WIDTH, FILTERS, KERNEL and PADDING, for some
// operations with SIZE, the side of a pooling's windows, and PARTS, the number of partial sums. So no index costs a
// division, and loops over a kernel's taps are unrolled.
//
// Images are (rows, channels, height, width), row-major float32; stride 1. With -DONLY, of all operations only those
// named by -DONLY_conv2d and so on are compiled. Of each, LAUNCH tells the grid and the block size.

#include "../integers.cuh"

#ifndef SIZE
#define SIZE 1
#endif
#ifndef PARTS
#define PARTS 1
#endif

constexpr int HIGH = HEIGHT + 2 * PADDING - KERNEL + 1, WIDE = WIDTH + 2 * PADDING - KERNEL + 1;
constexpr int TAPS = KERNEL * KERNEL, WEIGHTS = FILTERS * CHANNELS * TAPS;

#define SHAPE int, int, int, int, int, int, int  // the same as arguments

#define LAUNCH(op, grid_x, grid_y, threads)                \
    extern "C" __device__ const int op##_grid_x = grid_x;  \
    extern "C" __device__ const int op##_grid_y = grid_y;  \
    extern "C" __device__ const int op##_threads = threads;
