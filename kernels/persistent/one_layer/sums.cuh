// Contributions to y: the order of the rows in messages, and how lanes of a warp add up what they have of each row.

// The place of a row in a batch, from that of its message: VEC = 4 takes rows 2 q, 2 q + 1 of two eights together.
__device__ int row_of(int position)
{
    const int part = position / PART_ROWS, of_part = position % PART_ROWS, warp = of_part / (8 * RUN);
    const int at = of_part % (8 * RUN), first = warp * SLICE + part * 8 * RUN;
    if (VEC == 2) return first + at;
    const int q = at / 4 % 4, eight = at / 2 % 2;
    return first + at / 16 * 16 + 8 * eight + 2 * q + at % 2;
}

// Lanes with the same q add up what they have of each row; each keeps the sums of some eights of a part's rows, while
// there are more than a message takes. SHUFFLES, one after the other; then lanes without a bit of TWINS send their sums.
struct Levels {
    int shuffles, twins;
};
__device__ constexpr Levels levels()
{
    Levels found = {0, 0};
    for (int bit = 16, kept = RUN; bit >= 4; bit /= 2) {
        if (kept > VEC / 2) kept /= 2;
        else found.twins |= bit;
        found.shuffles += 2 * kept;
    }
    return found;
}
constexpr int SHUFFLES = levels().shuffles, TWINS = levels().twins;

__device__ void shuffle(float (&sums)[RUN][2], int n, int lane)  // the n-th
{
#pragma unroll
    for (int bit = 16, kept = RUN; bit >= 4; bit /= 2) {
        const bool halves = kept > VEC / 2;
        if (halves) kept /= 2;
#pragma unroll
        for (int j = 0; j < RUN; ++j)
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                if (j >= kept || n != 2 * j + i) continue;
                const bool upper = lane & bit;
                const int far = halves ? j + kept : j;
                const float mine = upper ? sums[far][i] : sums[j][i], other = upper ? sums[j][i] : sums[far][i];
                sums[j][i] = mine + __shfl_xor_sync(0xffffffffu, other, bit);
            }
        n -= 2 * kept;
    }
}

__device__ int tile_kept(int lane)  // the first eight of the part's rows whose sums the lane has at the end
{
    int tile = 0;
    for (int bit = 16, kept = RUN; bit >= 4 && kept > VEC / 2; bit /= 2) {
        kept /= 2;
        tile += lane & bit ? kept : 0;
    }
    return tile;
}
