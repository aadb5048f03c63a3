// Products for networks with biases, activation functions and Adam, of a source that is compiled with -DTRAINING: what follows
// a product is applied to each of its sums. The including source defines KERNEL, the block's tile of C (TILE_ROWS, TILE_COLS,
// tile_row(), tile_col()), and product, as entry_points.cuh says. snn/backends/ops.py describes the operations.
//
// With -DGROUPED as well, it has instead the gradients of several layers in one launch; blocks are counted in x, layer by
// layer, by rows of tiles.

#include "activation_functions.cuh"
#include "adam.cuh"
#include "column_sums.cuh"

#define A_AND_W const Stored *A, const float *B   // activations or error signals, and weights
#define A_AND_D const Stored *A, const Stored *B  // activations, and error signals
#define NOTHING (const float*)nullptr
#define SIZES int m, int k, int n
#define ADAM float rate, float gain1, float gain2, float eps, float decay, float shrink

// A^T B and, if there is a row of blocks below, the sums of the columns of B as one more row: the gradients of a layer's
// weights and of its biases. finish(at, sum) writes an element.
template <class Finish>
__device__ void gradients(A_AND_D, SIZES, Finish finish)
{
    if ((int)tile_row() * TILE_ROWS < m)
        product<true, false>(A, B, m, k, n, NOTHING, nullptr,
                             [=](size_t at, float sum, float) { return finish(at, sum); });
    else
        sum_columns(B, k, n, (int)tile_col() * TILE_COLS, TILE_COLS,
                    [=](int column, float sum) { finish((size_t)m * n + column, sum); });
}

// W with Adam's step along the gradient of an element, and its means.
__device__ float adam(size_t at, float sum, float* W, float* M, float* V, const float* T, ADAM)
{
    const float w = W[at], gradient = followed(w, sum, T, decay);
    return W[at] = stepped(w - rate * T[3] * shrink * w, gradient, M + at, V + at, T, rate, gain1, gain2, eps);
}

#ifndef GROUPED

KERNEL matmul_bias_activation(A_AND_W, Stored* C, const float* b, SIZES, int f)
{
    product<false, false>(A, B, m, k, n, NOTHING, nullptr,
                          [=](size_t at, float sum, float) { return C[at] = activated(f, sum + b[at % n]); });
}

KERNEL matmul_bias_activation_kept(A_AND_W, Stored* Z, const float* b, Stored* C, SIZES, int f)
{
    product<false, false>(A, B, m, k, n, NOTHING, nullptr, [=](size_t at, float sum, float) {
        const float z = sum + b[at % n];
        Z[at] = z;
        return C[at] = activated(f, z);
    });
}

KERNEL matmul_bias_error(A_AND_W, Stored* D, const float* b, const float* Y, float* E, SIZES, float scale)
{
    product<false, false>(A, B, m, k, n, Y, nullptr, [=](size_t at, float sum, float y) {
        E[at] = sum + b[at % n] - y;
        return D[at] = scale * E[at];
    });
}

template <bool B_TRANSPOSED>
__device__ void derived(A_AND_W, Stored* C, const Stored* H, SIZES, int f)
{
    product<false, B_TRANSPOSED>(A, B, m, k, n, H, nullptr, [=](size_t at, float sum, float h) {
        return C[at] = differentiated(f, sum, h);
    });
}

KERNEL matmul_derivative(A_AND_W, Stored* C, const Stored* H, SIZES, int f) { derived<false>(A, B, C, H, m, k, n, f); }
KERNEL matmul_nt_derivative(A_AND_W, Stored* C, const Stored* H, SIZES, int f)
{
    derived<true>(A, B, C, H, m, k, n, f);
}

KERNEL matmul_tn_sum(A_AND_D, float* G, SIZES, int)
{
    gradients(A, B, m, k, n, [=](size_t at, float sum) { return G[at] = sum; });
}

KERNEL matmul_tn_adam(A_AND_D, float* W, float* M, float* V, const float* T, SIZES, int, ADAM)
{
    gradients(A, B, m, k, n, [=](size_t at, float sum) {
        return adam(at, sum, W, M, V, T, rate, gain1, gain2, eps, decay, shrink);
    });
}

#else

struct Layer {
    const Stored *A, *B;
    int m, n, bias, at;  // at: where its gradient begins in the buffer of all gradients
};

#define OPERANDS \
    const Stored *A0, const Stored *B0, const Stored *A1, const Stored *B1, const Stored *A2, const Stored *B2, \
        const Stored *A3, const Stored *B3
#define SIZES_OF_EACH \
    int m0, int n0, int bias0, int at0, int m1, int n1, int bias1, int at1, int m2, int n2, int bias2, int at2, int m3, \
        int n3, int bias3, int at3, int k
#define EACH \
    {A0, B0, m0, n0, bias0, at0}, {A1, B1, m1, n1, bias1, at1}, {A2, B2, m2, n2, bias2, at2}, \
        {A3, B3, m3, n3, bias3, at3}

__device__ int tiles(int elements, int of_tile) { return (elements + of_tile - 1) / of_tile; }

// The gradients of the layer to which this block belongs.
template <class Finish>
__device__ void gradients_of(Layer a, Layer b, Layer c, Layer d, int k, Finish finish)
{
    Layer own = a;
    int block = blockIdx.x;
    bool found = false;
    const auto take = [&](const Layer& layer) {
        if (found) return;
        const int own_tiles = tiles(layer.n, TILE_COLS) * (tiles(layer.m, TILE_ROWS) + layer.bias);
        if (block < own_tiles) own = layer, found = true;
        else block -= own_tiles;
    };
    take(a), take(b), take(c), take(d);
    if (threadIdx.x == 0 && threadIdx.y == 0) {
        own_tile[0] = block / tiles(own.n, TILE_COLS);
        own_tile[1] = block % tiles(own.n, TILE_COLS);
    }
    __syncthreads();
    const int from = own.at;
    gradients(own.A, own.B, own.m, k, own.n, [=](size_t at, float sum) { return finish(from + at, sum); });
}

KERNEL matmul_tn_sum_layers(OPERANDS, float* G, SIZES_OF_EACH)
{
    gradients_of(EACH, k, [=](size_t at, float sum) { return G[at] = sum; });
}

KERNEL matmul_tn_adam_layers(OPERANDS, float* W, float* M, float* V, const float* T, SIZES_OF_EACH, ADAM)
{
    gradients_of(EACH, k, [=](size_t at, float sum) {
        return adam(at, sum, W, M, V, T, rate, gain1, gain2, eps, decay, shrink);
    });
}

#endif
