// The sums of a tile: on tensor cores, each group's to shared memory; before sm_80 one by one, on FP32 units.

#if __CUDA_ARCH__ >= 800
// sum[p][c] belongs to rows 2p and 2p + 1 of each lane's A and column c of its B. TF32: two mma, of 8 k each.
__device__ void multiply(float (&sum)[ROWS / 2][COLS][4], const Rounded<ROWS>& a, const Rounded<COLS>& b)
{
    for (int w = 0; w < WORDS; w += 2)
        for (int p = 0; p < ROWS / 2; ++p)
            for (int c = 0; c < COLS; ++c) {
                const auto &g = a.v[2 * p], &g8 = a.v[2 * p + 1];  // the mma's rows g and g + 8
                const unsigned left[] = {g[w], g8[w], g[w + 1], g8[w + 1]};
                const unsigned right[] = {b.v[c][w], b.v[c][w + 1]};
#ifdef TF32
                mma_m16n8k8_tf32(sum[p][c], left, right);
#else
                mma_m16n8k16_bf16(sum[p][c], left, right);
#endif
            }
}

// The index of the sum at row r, column c of the tile, among those of its group. A lane stores COLS columns at
// once, two such widths apart from its neighbour; the xor moves every other g into the banks between.
__device__ int place(int r, int c) { return r * SUM_STRIDE + (c ^ (r / ROWS % 2 * COLS)); }

template <bool A_TRANSPOSED, bool B_TRANSPOSED>
__device__ void tile_sums(const float* __restrict__ A, const float* __restrict__ B, int m, int k, int n,
                          float* sums)
{
    const int warp = thread_in_block() / 32, group = warp / (DOWN * ACROSS), part = warp % (DOWN * ACROSS);
    const int down = part / ACROSS * WARP_ROWS, across = part % ACROSS * WARP_COLS;  // in the tile
    if (group >= GROUPS) return;

    Operand<!A_TRANSPOSED, ROWS> a(A, m, k, tile_row() * TILE_ROWS + down, group);
    Operand<B_TRANSPOSED, COLS> b(B, n, k, tile_col() * TILE_COLS + across, group);
    float sum[ROWS / 2][COLS][4] = {};
    const int left = k - group * SLAB, step = GROUPS * SLAB;  // left: of k, from its first slab on; step: to its next
#pragma unroll 1
    for (int done = -STAGES * step; done < left; done += STAGES * step)  // the first iteration only fetches
#pragma unroll
        for (int s = 0; s < STAGES; ++s) {
            const int multiplied = done + s * step, fetched = multiplied + STAGES * step;
            const bool ready = 0 <= multiplied && multiplied < left;
            Rounded<ROWS> rows;
            Rounded<COLS> cols;
            if (ready) rows = a.rounded(s), cols = b.rounded(s);  // frees the registers for the next fetch
            if (fetched < left) a.fetch(s, left - fetched), b.fetch(s, left - fetched);
            if (ready) multiply(sum, rows, cols);
        }

    // Of each mma a lane holds rows g and g + 8 (half 0 and 1) and columns 2t and 2t + 1 (which).
    const int g = thread_in_block() % 32 / 4, t = thread_in_block() % 4;
    for (int p = 0; p < ROWS / 2; ++p)
        for (int half = 0; half < 2; ++half)
            for (int which = 0; which < 2; ++which) {
                Floats<COLS> line;
                for (int c = 0; c < COLS; ++c) line.v[c] = sum[p][c][2 * half + which];
                const int at = place(down + ROWS * g + 2 * p + half, across + COLS * (2 * t + which));
                *reinterpret_cast<Floats<COLS>*>(sums + group * SUMS + at) = line;
            }
}
#else  // before sm_80
template <bool A_TRANSPOSED, bool B_TRANSPOSED>
__device__ float dot(const float* __restrict__ A, const float* __restrict__ B, int row, int col, int m, int k,
                     int n)
{
    float sum = 0.0f;
    for (int i = 0; i < k; ++i)
        sum += rounded(A[A_TRANSPOSED ? (size_t)i * m + row : (size_t)row * k + i]) *
               rounded(B[B_TRANSPOSED ? (size_t)col * k + i : (size_t)i * n + col]);
    return sum;
}
#endif
