// The data: batches in global memory, the next one on its way to shared memory, and the rows of X that a lane takes
// from there as operands of products.

struct Data {
    const float *X, *Y;
    int rows, batches, first, steps;

    __device__ const float* of(int batch) const { return X + (size_t)batch * PADDED * FEATURES; }
    __device__ float target(int batch, int row) const { return row < PADDED ? Y[(size_t)batch * PADDED + row] : 0.0f; }
    __device__ int after(int batch) const { return batch_after(batch, batches); }
};

__device__ void fetch(float* slab, const float* __restrict__ X)  // by the 32 threads of a warp
{
    constexpr int CHUNKS = PADDED * FEATURES / 4, LINE = FEATURES / 4, AT_ONCE = 32 / LINE * LINE;
    const unsigned lane = threadIdx.x % 32, row = lane / LINE, c = lane % LINE;
    const unsigned to = shared_address(slab) + 4 * (row * STRIDE + 4 * c);
    const float* const from = X + 4 * lane;
    if (AT_ONCE < 32 && lane >= AT_ONCE) return;
#pragma unroll
    for (int i = 0; i < (CHUNKS + AT_ONCE - 1) / AT_ONCE; ++i)
        if (CHUNKS % AT_ONCE == 0 || lane + i * AT_ONCE < CHUNKS)
            copy_async(to + 4 * i * (AT_ONCE / LINE) * STRIDE, from + 4 * i * AT_ONCE);
}

// The right operand of a product, N tiles of eight rows: two values per lane for each tile and each eight features.
// In which order a product takes the features is free. Here, a lane has V neighbours: features V (2 q + i) .. + V - 1 of
// 8 V are element i of V eights, in the forward product, and V p .. + V - 1 in the backward product. V is 4, or 2 for
// the last 16 features if there is no whole 32.
template <int N> using Rows = float[N][K][2];

__device__ constexpr int eights_together(int k) { return k / 4 < K / 4 ? 4 : 2; }

__device__ int feature(int k, int i, int q)
{
    const int V = eights_together(k);
    return k / 4 * 32 + V * (2 * q + i) + k % 4 % V;
}

template <int N>
__device__ void take(float (&to)[N][K][2], int j, int i, const float* row, int nth)  // nth: 2 q + i, or p
{
#pragma unroll
    for (int k = 0; k < K; k += 4) {
        if (eights_together(k) == 4) {
            const float4 v = *reinterpret_cast<const float4*>(row + 8 * k + 4 * nth);
            to[j][k][i] = v.x, to[j][k + 1][i] = v.y;
            if (k + 3 < K) to[j][k + 2][i] = v.z, to[j][k + 3][i] = v.w;
        } else {
            const float2 v = *reinterpret_cast<const float2*>(row + 8 * k + 2 * nth);
            to[j][k][i] = v.x, to[j][k + 1][i] = v.y;
        }
    }
}

template <int N>
__device__ void take_forward(Rows<N>& x, const float* row, int q, int group)  // row: p of the warp's rows
{
#pragma unroll
    for (int j = 0; j < N; ++j)
#pragma unroll
        for (int i = 0; i < 2; ++i) take(x, j, i, row + 8 * (group * N + j) * STRIDE, 2 * q + i);
}

template <int N>
__device__ void take_backward(Rows<N>& x, const float* row, int p, int group)  // row: 2 q of the warp's rows
{
#pragma unroll
    for (int j = 0; j < N; ++j)
#pragma unroll
        for (int i = 0; i < 2; ++i) take(x, j, i, row + (8 * (group * N + j) + i) * STRIDE, p);
}
