// What every part of a step needs: the weights that a thread owns, the messages, and which rows it has.

struct State : Groups {
    Shared& s;
    float max_norm;
    // Blocks with neighbouring numbers read the same W_2 and W_3: 52 bytes per cycle instead of 33 (NVIDIA H200).
    int warp = threadIdx.x / 32, couple = blockIdx.x % HALF, member = blockIdx.x / HALF;
    float W1[PAIRS][2] = {}, W2[2][4] = {}, W3[2][4] = {};   // the elements that this thread owns; W1: in every warp
    const OfH1 of_H1{workspace + AT_H1};
    const OfH2 of_H2{workspace + AT_H2};
    const OfW2 of_W2{workspace + AT_W2};
    const OfW3 of_W3{workspace + AT_W3};
    const OfZ3 of_Z3{workspace + AT_Z3};
    const OfY of_y{workspace + AT_Y};
    const OfDW of_dw{workspace + AT_DW};
    const OfDZ of_dZ{workspace + AT_DZ};
    const OfDH of_dH{workspace + AT_DH};
    const OfLargest of_largest{workspace + AT_LARGEST};

    // Whether this thread has an i-th vector, if the block's threads share out this many.
    __device__ bool has(int i, int vectors) const { return vectors % THREADS == 0 || t + i * THREADS < vectors; }
    __device__ bool has_row() const { return ROWS == THREADS || t < ROWS; }
    __device__ bool has_rows(int i) const { return DOWN * WARPS == GROUPS || warp * DOWN + i < GROUPS; }

    __device__ Word* word_of_bits(int i) const { return reinterpret_cast<Word*>(workspace + AT_BITS) + i; }
    __device__ float* w_of(int step) const { return s.w[SEQUENTIAL ? 0 : step % 2]; }
};
