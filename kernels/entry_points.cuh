// The kernels of a source whose blocks compute a product and apply the operation that follows to each sum at once.
//
// The including source defines THREADS, the block size, and
//
//   template <bool A_TRANSPOSED, bool B_TRANSPOSED, class Finish>
//   product(A, B, m, k, n, beside, WT, finish)
//
// where finish(at, sum, beside[at]) writes the element of C at index `at` and returns it; WT receives it too,
// transposed. beside and WT may be null. It also defines the block's tile of C, for the sums of columns: TILE_ROWS,
// TILE_COLS, tile_row() and tile_col().
//
// Compiled with -DTRAINING, a source has the kernels of training.cuh instead.

#define KERNEL extern "C" __global__ __launch_bounds__(THREADS, 1) void  // 1 block per SM: no limit on registers
#ifndef TRAINING
#define A_AND_W const Stored *A, const float *B   // activations or error signals, and weights
#define A_AND_D const Stored *A, const Stored *B  // activations, and error signals
#define NOTHING (const float*)nullptr
#define SIZES int m, int k, int n

#include "bias_update.cuh"

template <bool A_TRANSPOSED, bool B_TRANSPOSED, class OfB, class OfC>
__device__ void plain(const Stored* A, const OfB* B, OfC* C, SIZES)
{
    product<A_TRANSPOSED, B_TRANSPOSED>(A, B, m, k, n, NOTHING, nullptr,
                                        [=](size_t at, float sum, float) { return C[at] = sum; });
}

template <bool B_TRANSPOSED>
__device__ void masked(A_AND_W, Stored* C, const Stored* H, SIZES)
{
    product<false, B_TRANSPOSED>(A, B, m, k, n, H, nullptr, [=](size_t at, float sum, float h) {
        return C[at] = h > 0.0f ? sum : 0.0f;
    });
}

__device__ void updated(A_AND_D, float* W, float* WT, SIZES, float rate)
{
    product<true, false>(A, B, m, k, n, W, WT, [=](size_t at, float sum, float w) {
        return W[at] = __fsub_rn(w, __fmul_rn(rate, sum));  // rounded twice, as in NumPy
    });
}

KERNEL matmul(A_AND_W, Stored* C, SIZES) { plain<false, false>(A, B, C, m, k, n); }
KERNEL matmul_tn(A_AND_D, float* C, SIZES) { plain<true, false>(A, B, C, m, k, n); }
KERNEL matmul_nt(A_AND_W, Stored* C, SIZES) { plain<false, true>(A, B, C, m, k, n); }

KERNEL matmul_relu(A_AND_W, Stored* C, SIZES)
{
    product<false, false>(A, B, m, k, n, NOTHING, nullptr, [=](size_t at, float sum, float) {
        return C[at] = sum < 0.0f ? 0.0f : sum;  // a NaN is not < 0 and stays
    });
}

KERNEL matmul_bias(A_AND_W, Stored* C, const float* b, SIZES)
{
    product<false, false>(A, B, m, k, n, NOTHING, nullptr,
                          [=](size_t at, float sum, float) { return C[at] = sum + b[at % n]; });
}

KERNEL matmul_error(A_AND_W, Stored* D, const float* Y, float* E, SIZES, float scale)
{
    product<false, false>(A, B, m, k, n, Y, nullptr, [=](size_t at, float sum, float y) {
        E[at] = sum - y;
        return D[at] = scale * (sum - y);
    });
}

KERNEL matmul_mask(A_AND_W, Stored* C, const Stored* H, SIZES) { masked<false>(A, B, C, H, m, k, n); }
KERNEL matmul_nt_mask(A_AND_W, Stored* C, const Stored* H, SIZES) { masked<true>(A, B, C, H, m, k, n); }

KERNEL matmul_tn_update(A_AND_D, float* W, SIZES, float rate) { updated(A, B, W, nullptr, m, k, n, rate); }
KERNEL matmul_tn_update_both(A_AND_D, float* W, float* WT, SIZES, float rate)
{
    updated(A, B, W, WT, m, k, n, rate);
}
KERNEL matmul_tn_update_bias(A_AND_D, float* W, float* b, SIZES, float rate)
{
    updated(A, B, W, nullptr, m, k, n, rate);
    update_bias(B, b, k, n, rate);
}
KERNEL matmul_tn_update_both_bias(A_AND_D, float* W, float* WT, float* b, SIZES, float rate)
{
    updated(A, B, W, WT, m, k, n, rate);
    update_bias(B, b, k, n, rate);
}

#else
#include "training.cuh"
#endif
