// Sizes and layouts for convolution.cu: what a block holds of an image, and where. Defines: CHANNELS, HEIGHT, WIDTH;
// FILTERS1, KERNEL1, PADDING1 and FILTERS2, KERNEL2, PADDING2; POOL of the pooling's windows; OUTPUTS; BATCH; PARTS.
//
// Part h of an image has the rows [h PR, h PR + PR) of its pooled features, those rows of conv2's output times POOL,
// and all of conv1's output that they read. Positions are numbered with one pitch P for X and A1. Where padding, a
// short last part or a row of filters beyond the last has nothing, there are zeros.

#include "../integers.cuh"

constexpr int GRID_BLOCKS = BATCH * PARTS, WARPS = 12, THREADS = 32 * WARPS;
constexpr int K1 = KERNEL1, K2 = KERNEL2, F1 = to_multiple(FILTERS1, 16), F2 = to_multiple(FILTERS2, 16);
constexpr int HIGH1 = HEIGHT + 2 * PADDING1 - K1 + 1, WIDE1 = WIDTH + 2 * PADDING1 - K1 + 1;   // conv1's output
constexpr int HIGH2 = HIGH1 + 2 * PADDING2 - K2 + 1, WIDE2 = WIDE1 + 2 * PADDING2 - K2 + 1;    // conv2's output
constexpr int HP = HIGH2 / POOL, WP = WIDE2 / POOL, PR = up(HP, PARTS);                        // pooled
static_assert(HP > 0 && WP > 0 && (PARTS - 1) * PR < HP, "every part has rows");
static_assert(OUTPUTS <= 32, "a lane per output");
constexpr int POWER = OUTPUTS > 16 ? 32 : OUTPUTS > 8 ? 16 : OUTPUTS > 4 ? 8 : OUTPUTS > 2 ? 4 : OUTPUTS;   // of two

constexpr int ROWS2 = PR * POOL, COLS2 = WP * POOL, STEPS2 = up(COLS2, 8);       // conv2's outputs; eights per row
constexpr int ROWS1 = ROWS2 + K2 - 1, COLS1 = COLS2 + K2 - 1;                    // conv1's outputs that they read
constexpr int ROWS0 = ROWS1 + K1 - 1, COLS0 = COLS1 + K1 - 1;                    // pixels that these read
constexpr int P = to_multiple(larger(8 * STEPS2 + K2 - 1, COLS0), 4);              // positions per row of X and A1
constexpr int CS = F1 + 4, FS = F2 + 4;   // floats per position: pairs of lanes' positions in different banks
constexpr int PIXELS = up(CHANNELS * ROWS0 * COLS0, THREADS);                                  // per thread
constexpr int PLANE0 = ROWS0 * P, TAPS1 = CHANNELS * K1 * K1, TAPS2 = K2 * K2;
constexpr int DROWS = ROWS2 + 2 * (K2 - 1), DP = to_multiple(larger(8 * STEPS2 + K2 - 1, COLS2 + 2 * (K2 - 1)), 4);

constexpr int WINDOWS = PR * WP, SLOTS = WINDOWS * F2;                           // pooled features of a part
constexpr int ELEMENTS = POOL * POOL, HALVES = up(ELEMENTS, 2);                  // of a window; pairs of them
constexpr int C8 = F1 / 8, N8 = F2 / 8, M1 = F1 / 16, M2 = F2 / 16;
constexpr int W2_FLOATS = TAPS2 * C8 * N8 * 64;

// The gradients that each block publishes: tiles of 128 floats, in the order of an mma's accumulators, and db2.
constexpr int UNITS2 = M2 * C8 * K2, N1 = up(TAPS1 + 1, 8), PAIRS1 = M1 * N1;
constexpr int AT_DB2 = UNITS2 * K2 * 128, AT_DW1 = AT_DB2 + F2, GRADIENTS = AT_DW1 + PAIRS1 * 128;
// A block sums OWN_G of them over all blocks, and updates OWN_FC rows of the linear layer's matrix.
constexpr int OWN_G = to_multiple(up(GRADIENTS, GRID_BLOCKS), 4);
constexpr int OWN_FC = to_multiple(up(PARTS * SLOTS, GRID_BLOCKS), 4);
constexpr int CHUNKS = larger(1, smaller(THREADS / (OWN_G / 4), GRID_BLOCKS)), CHUNK = up(GRID_BLOCKS, CHUNKS);

// The workspace, in floats from its beginning, behind the barrier. Rows are padded to what the last owner has.
constexpr int ALL_G = OWN_G * GRID_BLOCKS, ALL_FC = OWN_FC * GRID_BLOCKS;
typedef Messages<ALL_G> OfWeights;                                               // in the order of the gradients
typedef Messages<GRID_BLOCKS * ALL_G> OfGradients;                               // [block][GRADIENTS]
// Of five places behind the head, 0 to 28 floats, this was the fastest: behind 0 a step took 3.5% longer (NVIDIA H100).
constexpr int AT_LOGITS = HEAD_FLOATS + 28;                                      // words: [BATCH][PARTS][OUTPUTS]
constexpr int AT_WEIGHTS = to_multiple(AT_LOGITS + 2 * BATCH * PARTS * OUTPUTS, 4);
constexpr int AT_FC = AT_WEIGHTS + OfWeights::FLOATS;                            // [PARTS][SLOTS][OUTPUTS]
constexpr int AT_DL = AT_FC + ALL_FC * OUTPUTS;                                  // [BATCH][OUTPUTS]
constexpr int AT_POOLED = to_multiple(AT_DL + BATCH * OUTPUTS, 4);                 // [BATCH][PARTS][SLOTS]
constexpr int AT_GRADIENTS = AT_POOLED + BATCH * ALL_FC;
// What an optimiser keeps of the weights: in the order of the gradients, then of AT_FC, then of the linear layer's bias.
constexpr int STATE_SLOTS = ALL_G + ALL_FC * OUTPUTS + 32;
constexpr bool ADAM = STATES == 2;
extern "C" __device__ const int workspace_floats = AT_GRADIENTS + OfGradients::FLOATS;

struct Shared {
    float A1[(ROWS1 * P + 8) * CS];                       // conv1's output, later its gradient
    float X[to_multiple(CHANNELS * PLANE0 + 8 + K1, 4)];
    float Wf[W2_FLOATS], Wb[W2_FLOATS];                   // right operands of the forward and the backward product
    float W1[TAPS1][F1], b1[F1], b2[F2], b3[32];
    float pooled[SLOTS];                                  // later its gradient
    float logits[WARPS][32], all_logits[PARTS][32], dl[32], db2[WARPS][F2];
    unsigned char which[SLOTS];                           // the largest element of each window
#if STATES
    float b3_state[STATES][32];
#endif
#if STATES == 2 || SCHEDULED
    float of_steps[3][32];                                // OfStep's numbers in the next steps
#endif
    union {
        float FC[SLOTS * OUTPUTS];
        float dZ[DROWS * DP * FS];                        // gradient of conv2's output, with a border of zeros
        float dW1[PAIRS1][WARPS][128];
        struct {
            float pooled[BATCH * OWN_FC], sums[CHUNKS * OWN_G], dl[to_multiple(BATCH * OUTPUTS, 4)];
        } all;
    };
};
extern "C" __device__ const int shared_bytes = sizeof(Shared);
