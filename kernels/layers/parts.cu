// The sum of partial gradients, row-major float32. S is (parts, weights + biases): each part holds a share of the
// gradient of a layer's weights and, behind it, of its biases.
//
//   sum_parts      dW = sum over the parts of S, db likewise
//   update_parts   W -= rate times that sum, b likewise
//
// A block adds up 32 columns: eight threads of a column each add every eighth part, then their sums are added. The
// order is fixed, so the same input always gives the same bits.
//
// Launch: a block of 256 threads for each 32 columns.

constexpr int THREADS = 256, COLUMNS = 32, SHARES = THREADS / COLUMNS;

// finish(column, sum), of each column by one thread.
template <class Finish>
__device__ void column_sums(const float* __restrict__ S, int parts, int columns, Finish finish)
{
    __shared__ float sums[SHARES][COLUMNS];
    const int share = threadIdx.x / COLUMNS, own = threadIdx.x % COLUMNS, column = blockIdx.x * COLUMNS + own;
    float sum = 0.0f;
    if (column < columns) {
#pragma unroll 16
        for (int part = share; part < parts; part += SHARES) sum += S[(size_t)part * columns + column];
    }
    sums[share][own] = sum;
    __syncthreads();
    if (share > 0 || column >= columns) return;
    for (int i = 1; i < SHARES; ++i) sum += sums[i][own];
    finish(column, sum);
}

extern "C" __global__ void sum_parts(const float* S, float* dW, float* db, int parts, int weights, int biases)
{
    column_sums(S, parts, weights + biases, [=](int column, float sum) {
        (column < weights ? dW[column] : db[column - weights]) = sum;
    });
}

extern "C" __global__ void update_parts(const float* S, float* W, float* b, int parts, int weights, int biases,
                                        float rate)
{
    column_sums(S, parts, weights + biases, [=](int column, float sum) {
        float& parameter = column < weights ? W[column] : b[column - weights];
        parameter = __fsub_rn(parameter, __fmul_rn(rate, sum));  // rounded twice, as in NumPy
    });
}
