// The element-wise work of a training step, between its matrix products; row-major float32. Every product
// kernel uses these, except the fused ones, which apply the same operations inside the product.
//
//   relu                  Z = max(Z, 0), in place
//   error                 E = P - Y, D = scale E
//   mask                  D = D where H > 0, else 0: the derivative of ReLU
//   update                W = W - rate G
//   update_both           the same, and WT = W^T
//   sum_squares           partial[b] = block b's share of the sum of squares of G
//   clipped_update        G scaled to a norm of at most max_norm, then W = W - rate G
//   clipped_update_both   the same, and WT = W^T
//   transpose             T = A^T
//
// A NaN passes through all of them, except where it is masked. Updates are rounded twice, as in NumPy: the step
// first, then the difference. Hence __fmul_rn and __fsub_rn; otherwise the compiler would fuse both into one
// multiply-add.
// Every sum is added in one fixed order, so the same input always gives the same bits.
//
// Launch, with blocks of 256 threads:
//   over n elements         blockDim = (256), gridDim = (ceil(n / 256))
//   sum_squares             blockDim = (256), gridDim = (256)
//   transpose and ..._both  blockDim = (32, 8), gridDim = (ceil(cols / 32), ceil(rows / 32))

#include "stored.cuh"
#include "tile_place.cuh"

constexpr int THREADS = 256;
constexpr int TILE = 32;          // rows and columns of a transposed tile
constexpr int TILE_THREADS_Y = 8;
constexpr int PARTIALS = 256;     // blocks of sum_squares, each with one partial sum

__device__ unsigned own_element() { return blockIdx.x * THREADS + threadIdx.x; }

// ---- forward

extern "C" __global__ void relu(Stored* __restrict__ Z, int n)
{
    const unsigned i = own_element();
    if (i < n) Z[i] = Z[i] < 0.0f ? 0.0f : Z[i];  // a NaN is not < 0 and stays
}

extern "C" __global__ void error(const Stored* __restrict__ P, const float* __restrict__ Y,
                                 float* __restrict__ E, Stored* __restrict__ D, int n, float scale)
{
    const unsigned i = own_element();
    if (i >= n) return;
    const float difference = P[i] - Y[i];
    E[i] = difference;
    D[i] = scale * difference;
}

// ---- backward

extern "C" __global__ void mask(Stored* __restrict__ D, const Stored* __restrict__ H, int n)
{
    const unsigned i = own_element();
    if (i < n) D[i] = H[i] > 0.0f ? D[i] : 0.0f;  // not D * 0, which is NaN if D is infinite
}

__device__ float stepped(float w, float gradient, float rate)
{
    return __fsub_rn(w, __fmul_rn(rate, gradient));
}

extern "C" __global__ void update(float* __restrict__ W, const float* __restrict__ G, int n, float rate)
{
    const unsigned i = own_element();
    if (i < n) W[i] = stepped(W[i], G[i], rate);
}

// ---- the norm of a gradient

// Block-wide sum of `value` (block size 256); every thread gets the result.
__device__ float block_sum(float value)
{
    __shared__ float of_warp[THREADS / 32];
    const int thread = threadIdx.y * blockDim.x + threadIdx.x;
    for (int apart = 16; apart > 0; apart /= 2) value += __shfl_xor_sync(0xffffffffu, value, apart);
    if (thread % 32 == 0) of_warp[thread / 32] = value;
    __syncthreads();

    float sum = 0.0f;
    for (int warp = 0; warp < THREADS / 32; ++warp) sum += of_warp[warp];
    return sum;
}

extern "C" __global__ void sum_squares(const float* __restrict__ G, float* __restrict__ partial, int n)
{
    float sum = 0.0f;
    for (size_t i = own_element(); i < n; i += PARTIALS * THREADS) sum += G[i] * G[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

// The factor that clips a gradient. Every block adds up the partial sums again: reading 256 cached floats
// costs less than one more launch.
__device__ float clipping(const float* __restrict__ partial, float max_norm)
{
    static_assert(PARTIALS == THREADS, "a thread takes one partial sum");
    const float norm = sqrtf(block_sum(partial[threadIdx.y * blockDim.x + threadIdx.x]));
    return norm > max_norm ? max_norm / (norm + 1e-6f) : 1.0f;
}

extern "C" __global__ void clipped_update(float* __restrict__ W, const float* __restrict__ G,
                                          const float* __restrict__ partial, int n, float rate, float max_norm)
{
    const float factor = clipping(partial, max_norm);
    const unsigned i = own_element();
    if (i < n) W[i] = stepped(W[i], __fmul_rn(G[i], factor), rate);
}

// ---- kernels that write by rows and by columns

// T[col][row] = value(index of [row][col]) for a rows x cols matrix. The transposition happens in a tile of
// shared memory, which is written by rows and read by columns, so that both global accesses coalesce. Each
// row of the tile is padded by one float, so that the values of a column lie in different banks.
template <class Value>
__device__ void transposed(float* __restrict__ T, int rows, int cols, Value value)
{
    __shared__ float tile[TILE][TILE + 1];
    const int first_row = tile_row() * TILE, first_col = tile_col() * TILE;

    for (int i = threadIdx.y; i < TILE; i += TILE_THREADS_Y) {
        const int row = first_row + i, col = first_col + threadIdx.x;
        if (row < rows && col < cols) tile[i][threadIdx.x] = value((size_t)row * cols + col);
    }
    __syncthreads();
    for (int i = threadIdx.y; i < TILE; i += TILE_THREADS_Y) {
        const int row = first_row + threadIdx.x, col = first_col + i;
        if (row < rows && col < cols) T[(size_t)col * rows + row] = tile[threadIdx.x][i];
    }
}

extern "C" __global__ void transpose(const float* __restrict__ A, float* __restrict__ T, int rows, int cols)
{
    transposed(T, rows, cols, [=](size_t at) { return A[at]; });
}

extern "C" __global__ void update_both(float* __restrict__ W, float* __restrict__ WT,
                                       const float* __restrict__ G, int rows, int cols, float rate)
{
    transposed(WT, rows, cols, [=](size_t at) { return W[at] = stepped(W[at], G[at], rate); });
}

extern "C" __global__ void clipped_update_both(float* __restrict__ W, float* __restrict__ WT,
                                               const float* __restrict__ G, const float* __restrict__ partial,
                                               int rows, int cols, float rate, float max_norm)
{
    const float factor = clipping(partial, max_norm);
    transposed(WT, rows, cols,
               [=](size_t at) { return W[at] = stepped(W[at], __fmul_rn(G[at], factor), rate); });
}
