// The shape of the network and how warps and blocks share it, what blocks exchange through the workspace, and what a
// block holds in shared memory.

constexpr int WIDTH[] = {WIDTHS};
constexpr int FEATURES = WIDTH[0], N1 = WIDTH[1], N2 = WIDTH[2];
constexpr int PADDED = (BATCH + 15) / 16 * 16;          // rows of a batch in memory, padded
constexpr int J = (PADDED + 8 * WARPS - 1) / (8 * WARPS), SLICE = 8 * J, ROWS = SLICE * WARPS;  // SLICE: rows per warp
constexpr int COLS1 = N1 / WARPS, T1 = COLS1 / 8;       // columns of H1 per warp; tiles of a product
constexpr int COLS2 = N2 / BLOCKS, T2 = COLS2 / 8;      // columns of W2 and H2 per block
constexpr int STRIDE = COLS2 + 4, STRIDE_X = FEATURES + 4;
constexpr unsigned ONE = 0x3f800000;                    // 1.0f
constexpr unsigned PAUSE = 600;                         // cycles; 500 to 700 are within 2% of each other
static_assert(sizeof WIDTH / sizeof *WIDTH == 3, "two hidden layers");
static_assert(N1 % 64 == 0 && N2 % 64 == 0 && T1 <= 4 && T2 <= 4, "all warps and blocks have columns, and not too many");
static_assert(FEATURES <= 32 && ROWS <= THREADS && PADDED <= 16 * GROUPS && N1 <= 16 * GROUPS, "this is for another kernel");

// ---- layout of the workspace, as offsets in floats
typedef Messages<N1 * N2> OfW2;
typedef Messages<N2> OfW;
typedef Messages<PADDED * N1> OfH1;                     // [N1 / 2][PADDED][2]
typedef Messages<16 * N2> OfDW;                         // dw, one partial sum per group
typedef Messages<PADDED * BLOCKS> OfY;                  // the prediction of each row, one partial sum per block
typedef Messages<N1 / 2 * BLOCKS * PADDED * 2> OfDH;    // dH1 of two neurons, one partial sum per block of their group
typedef Messages<GRID * 4> OfSquares;                   // CLIP: squared norms of gradients, one partial sum per block
constexpr int AT_WORDS = HEAD_FLOATS;                   // words: the step, above the bits of H2 > 0; [BLOCKS][PADDED]
constexpr int AT_W2 = AT_WORDS + 2 * BLOCKS * PADDED, AT_W = AT_W2 + OfW2::FLOATS, AT_H1 = AT_W + OfW::FLOATS;
constexpr int AT_DW = AT_H1 + OfH1::FLOATS, AT_Y = AT_DW + OfDW::FLOATS, AT_DH = AT_Y + OfY::FLOATS;
constexpr int AT_SQUARES2 = AT_DH + OfDH::FLOATS, AT_SQUARES1 = AT_SQUARES2 + CLIP * OfSquares::FLOATS;
extern "C" __device__ const int workspace_floats = AT_SQUARES1 + CLIP * OfSquares::FLOATS;

struct Shared {
    float X[2][ROWS][STRIDE_X];                  // for even and odd steps
    union {
        float parts[WARPS][16][STRIDE];          // partial sums of Z2, and of U, from each warp
        float dZ[ROWS][2];
    };
    union {
        float V[16][STRIDE];                     // W2 diag(w)
        float W1[WARPS][FEATURES][2];
    };
    float dW1[WARPS][FEATURES][2];
    float H2[16][32];                            // the group's rows
    float dw[COLS2], w[2][COLS2];                // w: for even and odd steps
    float g[ROWS];
    unsigned positive[ROWS];                     // bits: H2 > 0
    float sums[2][WARPS][4];
};
extern "C" __device__ const int shared_bytes = sizeof(Shared);
