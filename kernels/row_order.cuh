// The order of an epoch's rows, which snn/models/row_order.py defines. Each place is found by itself, without sorting: a
// Feistel network of Philox4x32-10 permutes the numbers of so many bits, and a number that is not a row is permuted again.

#include "philox.cuh"

// The row that an epoch trains on in this place.
__device__ unsigned row_in_place(unsigned place, int rows, unsigned seed, unsigned epoch)
{
    constexpr unsigned ROUNDS = 8;
    int bits = 8;
    while (rows - 1 >> bits) ++bits;
    const int right = bits - bits / 2;
    const unsigned of_L = (1u << bits / 2) - 1, of_R = (1u << right) - 1;
    do {
        unsigned L = place >> right, R = place & of_R;
        for (unsigned round = 0; round < ROUNDS; round += 2) {
            L ^= philox(R, round, epoch, seed, 0).of[0] & of_L;
            R ^= philox(L, round + 1, epoch, seed, 0).of[0] & of_R;
        }
        place = L << right | R;
    } while (place >= rows);
    return place;
}
