// The update of a bias beside that of its layer's weights: b -= rate times the sum of the rows of G, (rows, width), by the
// first block of a launch. A warp adds up a column, its lanes every 32nd row, then each other, in one fixed order; in blocks
// that are no whole warps, a thread adds up a column.

__device__ void update_bias(const Stored* __restrict__ G, float* __restrict__ b, int rows, int width, float rate)
{
    if (blockIdx.x > 0 || blockIdx.y > 0) return;
    const int threads = blockDim.x * blockDim.y, lanes = threads % 32 == 0 ? 32 : 1;
    const int thread = threadIdx.y * blockDim.x + threadIdx.x, lane = thread % lanes;
    for (int column = thread / lanes; column < width; column += threads / lanes) {
        float sum = 0.0f;
        for (int i = lane; i < rows; i += lanes) sum += G[(size_t)i * width + column];
        for (int apart = lanes / 2; apart > 0; apart /= 2) sum += __shfl_xor_sync(0xffffffff, sum, apart);
        if (lane == 0) b[column] = __fsub_rn(b[column], __fmul_rn(rate, sum));  // rounded twice, as in NumPy
    }
}
