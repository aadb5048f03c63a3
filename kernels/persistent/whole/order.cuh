// The order of an epoch's rows (snn/models/row_order.py), from tables: F of every half of a place, for each round of the
// Feistel network.

constexpr int ROUNDS = 8;

// Writes numbers first, first + apart, ... of a table of 8 << right numbers.
template <int BITS>
__device__ void make_tables(unsigned short* F, unsigned seed, unsigned epoch, int first, int end, int apart)
{
    constexpr int RIGHT = BITS - BITS / 2;
    for (int i = first; i < end; i += apart) {
        const int round = i >> RIGHT;
        F[i] = philox(i & (1 << RIGHT) - 1, round, epoch, seed, 0).of[0] & ((1u << (round % 2 ? RIGHT : BITS / 2)) - 1);
    }
}

// Where a place goes in one way through the network.
template <int BITS>
__device__ unsigned permuted(const unsigned short* F, unsigned at)
{
    constexpr int RIGHT = BITS - BITS / 2;
    unsigned left = at >> RIGHT, right = at & (1 << RIGHT) - 1;
#pragma unroll
    for (int round = 0; round < ROUNDS; round += 2) {
        left ^= F[(round << RIGHT) + right];
        right ^= F[(round + 1 << RIGHT) + left];
    }
    return left << RIGHT | right;
}

// Replaces places by their rows. A number that is not a row is permuted again.
template <int BITS, int COUNT>
__device__ void find_rows_at(const unsigned short* F, unsigned (&at)[COUNT], int rows)
{
    bool found[COUNT] = {}, all;
    do {
        all = true;
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            if (found[i]) continue;
            at[i] = permuted<BITS>(F, at[i]);
            found[i] = at[i] < rows;
            all &= found[i];
        }
    } while (!all);
}
