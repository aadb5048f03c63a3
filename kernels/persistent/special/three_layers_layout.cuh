// The shape of the network and how blocks share it, what they exchange through the workspace, and what a block holds
// in shared memory.
//
// H_1, H_2 and dZ_2 are exchanged as tiles (halves.cuh), which serve a product over their columns and one over their
// rows; W_2 and W_3 in the order in which lanes read them.

#include "../../integers.cuh"

constexpr int WIDTH[] = {WIDTHS};                                // features, hidden layers
constexpr int F = WIDTH[0], N1 = WIDTH[1], N2 = WIDTH[2], N3 = WIDTH[3];
constexpr int ROWS = (BATCH + 15) / 16 * 16;                     // rows of a batch, padded
static_assert(sizeof WIDTH / sizeof *WIDTH == 4, "three hidden layers");
static_assert(ROWS == 16 * GROUPS && N2 == 8 * GRID && GROUPS % 2 == 0 && GROUPS <= 16,
              "16 rows a group, 8 neurons a block");
static_assert(F <= 32 && (N1 == 128 || N1 == 256) && N3 == THREADS, "this shape is for another kernel");

constexpr int PART = 128;                                        // floats in a fragment, 16 rows x 8 columns
constexpr int TILES1 = N1 / 64;                                  // a block's columns of H_1, in eights
constexpr int OWN3 = 32, WORDS = N3 / OWN3;                      // a block's columns of H_3; words of bits per row
constexpr int DOWN = up(GROUPS, WARPS);                          // rows per warp, in sixteens
constexpr int PAIRS = up(4 * TILES1, GROUPS);                    // pairs of columns of W_1 per block
constexpr int H1_LOADS = up(ROWS * TILES1 * 2, THREADS), OWN_H1_LOADS = N1 / 32;
constexpr int BIT_LOADS = up(ROWS * WORDS / 2, THREADS), DZ_LOADS = GROUPS;
constexpr int HALF = GROUPS / 2;                                 // a block's columns of H_2, in eights
constexpr int COUPLE = 2 * BLOCKS;                               // blocks of two groups
constexpr unsigned PAUSE = 800;                                  // cycles; 600 to 1,000 are within 1% of each other
constexpr bool LATE = CLIP && !SEQUENTIAL;                       // W_2 and W_3 are multiplied, then updated

// ---- the workspace, as offsets in floats

typedef Messages<ROWS * N1> OfH1;                                // [BLOCKS][GROUPS][TILES1][PART]
typedef Messages<ROWS * N2> OfH2;                                // [GRID][GROUPS][PART]
typedef Messages<N1 * N2> OfW2;                                  // [N2 / 8][N1 / 16][lane][4]
typedef Messages<N2 * N3> OfW3;                                  // [N2 / 8][N3 / 16][lane][4]
typedef Messages<ROWS * N3 * COUPLE> OfZ3;                       // [GROUPS][to][from][16 * OWN3]
typedef Messages<ROWS * BLOCKS> OfY;                             // [ROWS][BLOCKS]
typedef Messages<GROUPS * N3> OfDW;                              // dw, one partial sum per group
typedef Messages<ROWS * N2> OfDZ;                                // [GROUPS][GROUPS][BLOCKS][PART]
typedef Messages<GROUPS * ROWS * N1> OfDH;                       // [GROUPS][N1 / 2][GROUPS][8][4]
typedef Messages<4 * GRID> OfLargest;                            // of a block's W_1, W_2, W_3 and its share of X
typedef Messages<GRID> OfSquares;                                // CLIP: a squared norm, one partial sum per block
constexpr int AT_BITS = HEAD_FLOATS;                             // the step, above 32 bits; [GROUPS][WORDS][8][2]
constexpr int AT_W2 = AT_BITS + 2 * ROWS * WORDS, AT_W3 = AT_W2 + OfW2::FLOATS;
constexpr int AT_H1 = AT_W3 + OfW3::FLOATS, AT_H2 = AT_H1 + OfH1::FLOATS, AT_Z3 = AT_H2 + OfH2::FLOATS;
constexpr int AT_Y = AT_Z3 + OfZ3::FLOATS, AT_DW = AT_Y + OfY::FLOATS, AT_DZ = AT_DW + OfDW::FLOATS;
constexpr int AT_DH = AT_DZ + OfDZ::FLOATS;
constexpr int AT_LARGEST = AT_DH + OfDH::FLOATS;
constexpr int AT_SQUARES = AT_LARGEST + OfLargest::FLOATS;       // of the gradients of W_1, W_2, W_3
constexpr int AT_KEPT = AT_SQUARES + CLIP * 3 * OfSquares::FLOATS;   // for the next launch: scales, and largest weights
extern "C" __device__ const int workspace_floats = AT_KEPT + 11;

// ---- shared memory

struct Scales {
    Scale H1, W2, H2, W3;
};

struct Shared {
    union {
        unsigned H1[GROUPS][TILES1][TILE];                       // the block's columns, all rows
        float dW2[4][BLOCKS / 2][TILES1][PART];                  // partial sums, each over a quarter of the rows
    };
    union {
        struct {
            unsigned H1[2][N1 / 8][TILE], H2[2][HALF][TILE];     // 32 rows; H2: the block's columns
        } of_rows;
        unsigned dZ[GROUPS][BLOCKS][TILE];
    };
    unsigned Hg[GROUPS][2][64], Ww[N3 / 16][2][64];              // H_2 diag(g) / 2, W_3 diag(w) of its neurons, scaled
    unsigned largest_g[WARPS], largest_w[2][WARPS];              // as bits; of w for even and odd steps
    unsigned largest[4][WARPS];                                  // as in OfLargest
    Scales scales[2];                                            // for even and odd steps
    unsigned bits[GROUPS][WORDS][16];
    unsigned W2[BLOCKS][TILES1][TILE / 2];                       // rows: neurons, from eight of them; columns of W_2^T
    float X[2][ROWS][F + 4];                                     // for even and odd steps, in the order of the threads
    float H3[16][OWN3], w[2 - SEQUENTIAL][N3], g[ROWS];
    float dZ1[THREADS][2], dW1[WARPS][F][2], W1[WARPS][F][2];
    float squares[WARPS], clipped_rate;
    bool grown;                                                  // weights, out of their scales: the launch stops
    float most[3];                                               // of W_1, W_2 and W_3, of the last step heard of
};
extern "C" __device__ const int shared_bytes = sizeof(Shared);

// Splitting float32 numbers into halves (halves.cuh), into messages or into shared memory. Whoever computes H_1,
// H_2, dZ_2, W_2 or W_3 splits them, once.

// Publishes four numbers as the words of their halves: two of each.
template <class Of>
__device__ void put_words(const Of& of, int step, int at, const float (&v)[4], const Scale& scale)
{
    unsigned words[4];
    const float scaled[] = {v[0] * scale.over, v[1] * scale.over, v[2] * scale.over, v[3] * scale.over};
    words_of(scaled, words);
    const float bits[] = {__uint_as_float(words[0]), __uint_as_float(words[1]), __uint_as_float(words[2]),
                          __uint_as_float(words[3])};
    of.put(step, at, bits);
}

// The same for a lane's place in a tile.
template <class Of> __device__ void put_place(const Of& of, int step, int tile, const float (&v)[4])
{
    unsigned words[4];
    words_of(v, words);
    for (int i = 0; i < 4; ++i) {
        const float one[] = {__uint_as_float(words[i])};
        of.put(step, tile + 32 * i + threadIdx.x % 32, one);
    }
}

// Writes four numbers of a lane's place in a tile as halves.
__device__ void write_place(unsigned* tile, const float (&v)[4])
{
    unsigned words[4];
    words_of(v, words);
    for (int i = 0; i < 4; ++i) tile[32 * i + threadIdx.x % 32] = words[i];
}

// Writes four words that a message brought.
__device__ void write_words(unsigned* to, const float (&v)[4])
{
    *reinterpret_cast<uint4*>(to) = make_uint4(
        __float_as_uint(v[0]), __float_as_uint(v[1]), __float_as_uint(v[2]), __float_as_uint(v[3]));
}
