// The rows of an epoch in the order that a seed and the epoch's number determine: snn/models/row_order.py defines
// it. C is the number of epochs before this one, I (rows) the order, both whole numbers.
//
//   row_order  I[i] = the row that epoch C trains on in place i
//   take_rows  U[i] = X[I[i]], V[i] = Y[I[i]] for each row i; C += 1
//
// X and U are (rows, features), Y and V (rows, outputs). C counts in take_rows, which no thread reads it in, so that a
// CUDA graph of an epoch takes a new order each time.
//
// Launch, with 256 threads per block: row_order a thread per row, take_rows a thread per element of U and V.

constexpr int THREADS = 256;
#include "../row_order.cuh"
#include "../stored.cuh"

extern "C" __global__ void row_order(const unsigned* __restrict__ C, unsigned* __restrict__ I, int rows, int seed)
{
    const unsigned i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= rows) return;
    I[i] = row_in_place(i, rows, seed, *C);
}

extern "C" __global__ void take_rows(const unsigned* __restrict__ I, const Stored* __restrict__ X,
                                     const float* __restrict__ Y, Stored* __restrict__ U, float* __restrict__ V,
                                     unsigned* __restrict__ C, int rows, int features, int outputs)
{
    const size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x, of_X = (size_t)rows * features;
    if (i < of_X) {
        U[i] = X[(size_t)I[i / features] * features + i % features];
    } else if (const size_t j = i - of_X; j < (size_t)rows * outputs) {
        V[j] = Y[(size_t)I[j / outputs] * outputs + j % outputs];
    }
    if (i == 0) ++*C;
}
