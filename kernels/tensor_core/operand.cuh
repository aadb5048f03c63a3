// A lane's share of a matrix: loaded several slabs of k ahead, as vectors where it can, and rounded in registers.

constexpr int WORDS = 4 / PACK;  // registers that hold a lane's four values of k

#if __CUDA_ARCH__ >= 800
template <int SIZE>
struct Rounded {
    unsigned v[SIZE][WORDS];
};

// A lane's share of a slab: SIZE neighbouring rows of A or columns of B, times four neighbouring values of k.
// ALONG_K: k runs along a row in memory (A, and the B of A B^T); otherwise down the rows (A^T, and B).
template <bool ALONG_K, int SIZE>
struct Operand {
    const float* from;    // the lane's share of the next slab
    size_t line, step;    // floats from row to row, and from slab to slab
    int rows, first_k;    // rows or columns left in the matrix; the lane's first k within a slab
    bool whole;           // the warp's share is inside the matrix and aligned for vector loads
    float held[STAGES][SIZE][4] = {};

    // first: the warp's first row or column; first_slab: its first slab.
    __device__ Operand(const float* __restrict__ matrix, int extent, int k, int first, int first_slab)
    {
        const int own = SIZE * (thread_in_block() % 32 / 4);
        first_k = 4 * (thread_in_block() % 4);
        line = ALONG_K ? k : extent;
        step = GROUPS * SLAB * (ALONG_K ? 1 : line);
        rows = extent - first - own;
        whole = (size_t)matrix % 16 == 0 && line % 4 == 0 && (ALONG_K || first % SIZE == 0) &&
                first + 8 * SIZE <= extent;
        from = matrix + (ALONG_K ? (first + own) * line + first_slab * SLAB + first_k
                                 : (first_slab * SLAB + first_k) * line + first + own);
    }

    // Global memory -> registers. left: values of k that remain, this slab included.
    __device__ void fetch(int stage, int left)
    {
        auto& share = held[stage];
        if (!whole || left < SLAB) {
            for (int i = 0; i < SIZE; ++i)
                for (int s = 0; s < 4; ++s) {
                    const bool inside = i < rows && first_k + s < left;
                    share[i][s] = inside ? from[ALONG_K ? i * line + s : s * line + i] : 0.0f;
                }
        } else if constexpr (ALONG_K) {
            for (int i = 0; i < SIZE; ++i) {
                const auto four = *reinterpret_cast<const Floats<4>*>(from + i * line);
                for (int s = 0; s < 4; ++s) share[i][s] = four.v[s];
            }
        } else {
            for (int s = 0; s < 4; ++s) {
                const auto neighbours = *reinterpret_cast<const Floats<SIZE>*>(from + s * line);
                for (int i = 0; i < SIZE; ++i) share[i][s] = neighbours.v[i];
            }
        }
        from += step;
    }

    __device__ Rounded<SIZE> rounded(int stage) const
    {
        Rounded<SIZE> result;
        for (int i = 0; i < SIZE; ++i)
            for (int w = 0; w < WORDS; ++w)
#ifdef TF32
                result.v[i][w] = cvt_rna_tf32(held[stage][i][w]);
#else
                result.v[i][w] = cvt_rn_bf16x2(held[stage][i][2 * w + 1], held[stage][i][2 * w]);
#endif
        return result;
    }
};
#endif
