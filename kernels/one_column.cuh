// The sums of C where n = 1, on FP32 units: a block of whole warps computes TILE_ROWS rows of C; B is a vector of
// k values. Who includes this says with rounded(x) what becomes of a value before it is multiplied.

template <class OfB, class Finish>
__device__ void row_sums(const Stored* __restrict__ A, const OfB* __restrict__ B, int m, int k,
                         Finish finish)
{
    constexpr int WARPS = (THREADS + 31) / 32, OWN = (TILE_ROWS + WARPS - 1) / WARPS;  // OWN: rows per warp
    const int lane = thread_in_block() % 32, first = thread_in_block() / 32 * OWN;
    const int tile = tile_row() * TILE_ROWS, end = min(m - tile, TILE_ROWS);

    float sum[OWN] = {};
#pragma unroll (OWN < 16 ? 16 / OWN : 1)
    for (int i = lane; i < k; i += 32) {
        const float b = rounded(B[i]);
        for (int r = 0; r < OWN; ++r)
            if (first + r < end) sum[r] += rounded(A[(size_t)(tile + first + r) * k + i]) * b;
    }
    for (int r = 0; r < OWN; ++r) {
        for (int apart = 16; apart > 0; apart /= 2) sum[r] += __shfl_xor_sync(0xffffffff, sum[r], apart);
        if (lane == 0 && first + r < end) finish(tile + first + r, sum[r]);
    }
}

template <class OfB, class Finish>
__device__ void column_sums(const Stored* __restrict__ A, const OfB* __restrict__ B, int m, int k,
                            float* partial, Finish finish)
{
    constexpr int SPLITS = THREADS / TILE_ROWS > 0 ? THREADS / TILE_ROWS : 1;  // parts of k
    const int tile = tile_row() * TILE_ROWS, end = min(m - tile, TILE_ROWS);
    for (int i = thread_in_block(); i < SPLITS * TILE_ROWS; i += THREADS) {
        float sum = 0.0f;
#pragma unroll 8
        for (int j = i / TILE_ROWS; j < k; j += SPLITS)
            if (i % TILE_ROWS < end) sum += rounded(A[(size_t)j * m + tile + i % TILE_ROWS]) * rounded(B[j]);
        partial[i] = sum;
    }
    __syncthreads();
    for (int i = thread_in_block(); i < end; i += THREADS) {
        float sum = 0.0f;
        for (int s = 0; s < SPLITS; ++s) sum += partial[s * TILE_ROWS + i];
        finish(tile + i, sum);
    }
}
