// What every part of a step needs: a thread's place, the weights that it owns, what it loads in advance, the messages.

struct State : Groups {
    Shared& s;
    float max_norm;
    int lane = t % 32, warp = t / 32, p = lane / 4, q = lane % 4;
    int row = 16 * group, neuron = row, col = rank * COLS2;
    bool has_rows = row < PADDED, has_neurons = neuron < N1, has_row = has_neurons && t < PADDED;

    // The elements that this thread owns. Of W2 and U: row t / 16, in U's order, columns 2 (t % 16) and the next one.
    // Of W1: feature t % 32 of both of the block's neurons, held by every warp.
    int row2 = t / 16, col2 = t % 16 * 2;
    bool has2 = has_neurons && col2 < COLS2, has1 = has_neurons && lane < FEATURES, has_w = group == 0 && t < COLS2;
    float kept2[2] = {}, kept1[2] = {};
    float h[2] = {};                      // H1 of the block's two neurons in this thread's row
    float next_x[FEATURES];               // this thread's row of X of the next batch
    float w2[2 * T1][T2], w[1][1], h1[J][4];   // loaded in advance
    Word word = 0;                        // the bits of this thread's row
    const OfW2 of_W2{workspace + AT_W2};
    const OfW of_w{workspace + AT_W};
    const OfH1 of_H1{workspace + AT_H1};
    const OfDW of_dw{workspace + AT_DW};
    const OfY of_y{workspace + AT_Y};
    const OfDH of_dH{workspace + AT_DH};

    __device__ int neuron_of(int i) const { return neuron + (i < 8 ? 2 * i : 2 * i - 15); }   // U's order: 0, 2, ..., 1, 3, ...
    __device__ int at2() const { return neuron_of(row2) * N2 + col + col2; }
    __device__ int at1() const { return lane * N1 + neuron + 2 * rank; }
    __device__ Word* word_of_bits(int r) const { return reinterpret_cast<Word*>(workspace + AT_WORDS) + rank * PADDED + r; }
    __device__ int dH_at(int pair, int from, int r) const { return (((neuron / 2 + pair) * BLOCKS + from) * PADDED + r) * 2; }
    __device__ bool has_rows_of(int j) const { return PADDED == ROWS || warp * SLICE + 8 * j + 2 * q < PADDED; }
    __device__ const float* old_w() const { return s.w[step % 2]; }
    __device__ float* new_w() const { return s.w[1 - step % 2]; }

    // Stores a warp's sums: of rows p (0 and 1) and p + 8 (2 and 3), columns 2 T2 q + n (0 and 2) and T2 further (1
    // and 3).
    __device__ void leave_parts(const float (&sum)[T2][4])
    {
#pragma unroll
        for (int i = 0; i < 2; ++i)
#pragma unroll
            for (int e = 0; e < 2; ++e)
#pragma unroll
                for (int n = 0; n < T2; ++n) s.parts[warp][p + 8 * i][2 * T2 * q + e * T2 + n] = sum[n][2 * i + e];
    }
};
