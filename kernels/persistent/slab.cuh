// The product of one slab, 16 values of k, by one warp, and its operands: matrices read from memory, or computed from
// them on the way. Of a slab, a lane holds SIZE neighbouring rows of A or columns of B, times four neighbouring values
// of k.

#include "l2.cuh"

template <int SIZE>
struct Share {
    float v[SIZE][4];
};

// A matrix whose k runs along the rows in memory (ALONG_K) or down the rows. READY: it may be read before the barrier.
template <bool ALONG_K, int SIZE_, bool READY>
struct Matrix {
    static constexpr int SIZE = SIZE_;
    using Raw = Share<SIZE>;
    const float* from;  // its first row or column
    int line;           // floats from row to row

    __device__ void read_one(int k, Share<SIZE>& raw) const
    {
        if constexpr (ALONG_K) {
#pragma unroll
            for (int i = 0; i < SIZE; ++i) read(from + i * line + k, raw.v[i]);
        } else {
#pragma unroll
            for (int s = 0; s < 4; ++s) {
                float across[SIZE];
                read(from + (k + s) * line, across);
#pragma unroll
                for (int i = 0; i < SIZE; ++i) raw.v[i][s] = across[i];
            }
        }
    }
    __device__ void read_early(int k, Raw& raw) const { if (READY) read_one(k, raw); }
    __device__ void read_late(int k, Raw& raw) const { if (!READY) read_one(k, raw); }
    __device__ Share<SIZE> value(const Raw& raw, int) { return raw; }
};

// g w^T where H_L > 0; k runs along the rows of H_L.
template <int SIZE_, bool READY>
struct LastError : Matrix<true, SIZE_, READY> {
    using Raw = Share<SIZE_>;
    const float *g, *w;  // g: from the first row on

    __device__ Share<SIZE_> value(const Raw& raw, int k)
    {
        Share<SIZE_> result;
#pragma unroll
        for (int i = 0; i < SIZE_; ++i)
#pragma unroll
            for (int s = 0; s < 4; ++s) result.v[i][s] = raw.v[i][s] > 0.0f ? g[i] * w[k + s] : 0.0f;
        return result;
    }
};

// g where H_L > 0; k, the rows of the batch, runs down the rows of H_L. As a by-product, dw = H_L^T g of its columns.
template <int SIZE_, bool READY>
struct MaskedError : Matrix<false, SIZE_, READY> {
    using Raw = Share<SIZE_>;
    const float* g;
    float dw[SIZE_] = {};

    __device__ Share<SIZE_> value(const Raw& raw, int k)
    {
        Share<SIZE_> result;
#pragma unroll
        for (int i = 0; i < SIZE_; ++i)
#pragma unroll
            for (int s = 0; s < 4; ++s) {
                dw[i] += raw.v[i][s] * g[k + s];
                result.v[i][s] = raw.v[i][s] > 0.0f ? g[k + s] : 0.0f;
            }
        return result;
    }
};

// W - factor dW, or W - factor dW diag(w): the updated W before it has been written to memory.
template <bool ALONG_K, int SIZE_, bool TIMES_W>
struct Stepped {
    static constexpr int SIZE = SIZE_;
    struct Raw {
        Share<SIZE> W, dW;
    };
    Matrix<ALONG_K, SIZE, true> W;
    Matrix<ALONG_K, SIZE, false> dW;
    const float &factor, *w;  // w: of the first row or column, or of k = 0

    __device__ void read_early(int k, Raw& raw) const { W.read_early(k, raw.W); }
    __device__ void read_late(int k, Raw& raw) const { dW.read_late(k, raw.dW); }
    __device__ Share<SIZE> value(const Raw& raw, int k)
    {
        Share<SIZE> result;
#pragma unroll
        for (int i = 0; i < SIZE; ++i)
#pragma unroll
            for (int s = 0; s < 4; ++s) {
                const float gradient = TIMES_W ? raw.dW.v[i][s] * w[ALONG_K ? k + s : i] : raw.dW.v[i][s];
                result.v[i][s] = raw.W.v[i][s] - factor * gradient;
            }
        return result;
    }
};

// ---- the product: sum[p][c] belongs to rows 2p and 2p + 1 of each lane's A and column c of its B

#if __CUDA_ARCH__ >= 800
#include "tf32.cuh"

// An accumulator adds up SPAN = 8 or 16 terms, from 0, and float32 additions the accumulators (tf32.cuh). With 8, both
// operands are rounded when they are split: y is within 2e-7 of float64 for k up to 2048, and layers.cu is faster for it, since
// fewer mma wait for the one before (0.87 to 0.98 of the time, NVIDIA H100). With 16, B is rounded: within 7e-7, where 8
// would take grid.cu up to 5% longer, and 16 takes it 2%.
template <int SPAN, int A_ROWS, int B_COLS>
__device__ void multiply(float (&sum)[A_ROWS / 2][B_COLS][4], const Share<A_ROWS>& a, const Share<B_COLS>& b)
{
    constexpr int STEPS = SPAN / 4;   // values of k that a lane has of an accumulator's terms: two for each mma
#pragma unroll
    for (int from = 0; from < 4; from += STEPS) {
        unsigned big[B_COLS][STEPS], small[B_COLS][STEPS];
#pragma unroll
        for (int c = 0; c < B_COLS; ++c)
#pragma unroll
            for (int i = 0; i < STEPS; ++i) {
                const Split<true> x(b.v[c][from + i]);
                big[c][i] = x.big, small[c][i] = x.small;
            }
#pragma unroll
        for (int p = 0; p < A_ROWS / 2; ++p) {
            float part[B_COLS][4] = {};
#pragma unroll
            for (int i = 0; i < STEPS; i += 2) {
                Parts<4, SPAN == 8> left;
#pragma unroll
                for (int j = 0; j < 4; ++j) left.set(j, a.v[2 * p + j % 2][from + i + j / 2]);
#pragma unroll
                for (int which = 0; which < 3; ++which)
#pragma unroll
                    for (int c = 0; c < B_COLS; ++c) {
                        const unsigned right[] = {which == 1 ? small[c][i] : big[c][i], which == 1 ? small[c][i + 1] : big[c][i + 1]};
                        mma_m16n8k8_tf32(part[c], which == 0 ? left.small : left.big, right);
                    }
            }
#pragma unroll
            for (int c = 0; c < B_COLS; ++c)
#pragma unroll
                for (int i = 0; i < 4; ++i) sum[p][c][i] += part[c][i];
        }
    }
}
#else  // no TF32 before sm_80: lanes exchange operands by shuffles
template <int SPAN, int A_ROWS, int B_COLS>
__device__ void multiply(float (&sum)[A_ROWS / 2][B_COLS][4], const Share<A_ROWS>& a, const Share<B_COLS>& b)
{
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll 1
    for (int from = 0; from < 4; ++from)
#pragma unroll
        for (int s = 0; s < 4; ++s) {
            float left[A_ROWS], right[2][B_COLS];
            for (int i = 0; i < A_ROWS; ++i) left[i] = __shfl_sync(0xffffffff, a.v[i][s], 4 * g + from);
            for (int which = 0; which < 2; ++which)
                for (int c = 0; c < B_COLS; ++c)
                    right[which][c] = __shfl_sync(0xffffffff, b.v[c][s], 4 * (2 * t + which) + from);
            for (int i = 0; i < A_ROWS; ++i)
                for (int c = 0; c < B_COLS; ++c)
                    for (int which = 0; which < 2; ++which)
                        sum[i / 2][c][i % 2 * 2 + which] += left[i] * right[which][c];
        }
}
#endif
