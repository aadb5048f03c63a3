// finish(column, sum) for the sums of ``columns`` columns of B, k x n, from column ``first`` on, by one block. The lanes of a
// warp share its columns, in turns along k, then add up each other's sums, in one fixed order.

template <class Finish>
__device__ void sum_columns(const Stored* __restrict__ B, int k, int n, int first, int columns, Finish finish)
{
    const int threads = blockDim.x * blockDim.y, lanes = threads % 32 == 0 ? 32 : 1, warps = threads / lanes;
    const int thread = threadIdx.y * blockDim.x + threadIdx.x, lane = thread % lanes;
    columns = min(columns, n - first);
    int side = 1;  // columns of a warp
    while (side < lanes && side * warps < columns) side *= 2;
    for (int from = thread / lanes * side; from < columns; from += warps * side) {
        const int column = from + lane % side;
        float sum = 0.0f;
        if (column < columns) {
#pragma unroll 8
            for (int i = lane / side; i < k; i += lanes / side) sum += B[(size_t)i * n + first + column];
        }
        for (int apart = side; apart < lanes; apart *= 2) sum += __shfl_xor_sync(0xffffffff, sum, apart);
        if (lane < side && column < columns) finish(first + column, sum);
    }
}
