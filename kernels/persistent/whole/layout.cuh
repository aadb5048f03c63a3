// Sizes of the network, of a block's share of each product, and of shared memory.

#include "../../integers.cuh"

constexpr int WIDTH[] = {WIDTHS};      // features, then each layer's outputs: multiples of 16
constexpr int REAL_WIDTH[] = {0, OUTPUTS_OF_LAYERS};   // of layer i, from 1: without padding
constexpr int IDENTITY = -1;
constexpr int F[] = {IDENTITY, ACTIVATIONS};
constexpr bool BIAS[] = {false, BIASES};
constexpr int L = sizeof WIDTH / sizeof *WIDTH - 1;
constexpr int OUTPUTS = REAL_WIDTH[L];
constexpr bool CROSS_ENTROPY = Loss::LOSS == Loss::softmax_cross_entropy;
constexpr int WORKERS = 32 * WARPS, OWNERS = 32 * OWNER_WARPS, THREADS = WORKERS + OWNERS;
static_assert((CLUSTER > 1) == (OWNERS > 0), "owners serve clusters");
constexpr int ROWS = to_multiple(up(BATCH, CLUSTER), CHUNK);   // of a batch, in one block
constexpr int CHUNKS = ROWS / CHUNK;
constexpr int ROW_TILES = CHUNK / 8;

__device__ constexpr int m_tiles(int i) { return WIDTH[i] / 16; }       // of Z_i, and of W_i
__device__ constexpr int k_tiles(int i) { return WIDTH[i - 1] / 8; }    // of W_i

// Few outputs are computed without tensor cores, from the layer before in registers.
constexpr bool NARROW = OUTPUTS <= 4 && L > 1 && !CROSS_ENTROPY && !SEQUENTIAL;
constexpr int LAST = NARROW ? L - 1 : L;   // layer whose gradient alone is stored
constexpr int OPERANDS = CLUSTER > 1 ? L : LAST;   // weights of layers up to this one are operands of products
// In a cluster the owners find the gradients of later layers, and of few outputs, while the workers go on to earlier ones.
constexpr int OWN_FROM = LAST / 2 + 1 > 2 ? LAST / 2 + 1 : 2;

// How M x N tiles are divided among warps: M_EACH x N_EACH for each. WHOLE: a warp has all tiles down. TURNS: blocks begin with
// different ones of a warp's tiles, so that they do not send all first results to the same blocks.
// A warp that has all tiles down leaves out halves of tiles that are padding (is_padding).
__device__ constexpr int cost_of(int halves, int m, int n, int down, int warps)
{
    return 32 * (down > 1 ? 2 * up(m, down) : halves) * up(n, warps / down) + 2 * up(m, down) + up(n, warps / down);
}
__device__ constexpr int best_down(int halves, int m, int n, int warps)
{
    int best = 1;
    for (int down = 2; down <= warps; down *= 2)
        if (cost_of(halves, m, n, down, warps) < cost_of(halves, m, n, best, warps)) best = down;
    return best;
}
template <int M_, int N_, bool WHOLE, int COUNT = WARPS, bool TURNS = false, int HALVES = 2 * M_>
struct Share {
    static constexpr int DOWN = WHOLE ? 1 : best_down(HALVES, M_, N_, COUNT), ACROSS = COUNT / DOWN;
    static constexpr int M = up(M_, DOWN), N = up(N_, ACROSS);

    int down, across, turn;

    __device__ explicit Share(unsigned warp, int turn = 0) : down(warp % DOWN), across(warp / DOWN), turn(turn) {}

    static constexpr bool EVEN = DOWN * M == M_ && ACROSS * N == N_ && DOWN * ACROSS == COUNT;
    __device__ bool has_some() const
    {
        return EVEN || (down * M < M_ && across * N < N_ && (COUNT % DOWN == 0 || across < ACROSS));
    }
    // The first tile, and others from there.
    static constexpr bool PAIRED = EVEN && !TURNS && N % 2 == 0;
    __device__ int m_first() const { return down * M; }
    __device__ int n_first() const { return across * N; }
    __device__ int m_step(int m) const { return EVEN && !TURNS ? m : m_tile(m) - m_first(); }
    __device__ int n_step(int n) const { return EVEN && !TURNS ? n : n_tile(n) - n_first(); }
    __device__ bool has(int m, int n) const { return has_m(m) && has_n(n); }
    __device__ bool has_m(int m) const { return M_ % M == 0 || down * M + m_turned(m) < M_; }
    __device__ bool has_n(int n) const { return N_ % N == 0 || across * N + n_turned(n) < N_; }
    __device__ int m_tile(int m) const
    {
        const int tile = down * M + m_turned(m);
        return M_ % M == 0 ? tile : smaller(tile, M_ - 1);
    }
    __device__ int n_tile(int n) const
    {
        const int tile = across * N + n_turned(n);
        return N_ % N == 0 ? tile : smaller(tile, N_ - 1);
    }
    __device__ int m_turned(int m) const { return TURNS && M > 1 ? (m + turn) % M : m; }
    __device__ int n_turned(int n) const { return TURNS && N > 1 ? (n + turn / M) % N : n; }
};
template <int I> using Neurons = Share<m_tiles(I), ROW_TILES, I == L, WARPS, false, up(REAL_WIDTH[I], 8)>;
template <int I = L> __device__ constexpr int most_down()   // most tiles of neurons that a warp has in any layer
{
    if constexpr (I > 1) return larger(Neurons<I>::M, most_down<I - 1>());
    else return Neurons<I>::M;
}
template <int I>
using Weights = Share<m_tiles(I), k_tiles(I), false, (CLUSTER > 1 && I >= OWN_FROM ? OWNER_WARPS : WARPS), (CLUSTER > 1)>;

// An item is the four weights at a lane's place in a tile. In a narrow output layer only some lanes have one.
__device__ constexpr int lanes_of(int i) { return i == L && OUTPUTS < 8 ? 4 * OUTPUTS : 32; }
__device__ constexpr int items_of(int i) { return m_tiles(i) * k_tiles(i) * lanes_of(i); }
__device__ constexpr int first_item(int i) { return i > 1 ? first_item(i - 1) + items_of(i - 1) : 0; }
__device__ constexpr int first_bias(int i) { return i > 1 ? first_bias(i - 1) + WIDTH[i - 1] : 0; }
constexpr int ITEMS = first_item(L) + items_of(L), NEURONS = first_bias(L) + WIDTH[L];
__device__ constexpr int first_parameter(int i)
{
    return i > 1 ? first_parameter(i - 1) + (WIDTH[i - 2] + BIAS[i - 1]) * WIDTH[i - 1] : 0;
}
constexpr int PARAMETERS = first_parameter(L) + (WIDTH[L - 1] + BIAS[L]) * WIDTH[L];

// In a cluster each block owns a part of every layer's items, and of the biases (layer 0), four at a time; with SENDS_ROWS whole
// tiles, next to each other, of the same neurons. A slot is a warp's part of one layer. A warp that has several updates them in
// turn. Biases and the first layer then come first (ASCENDING), as the next step waits for them. With SENDS_ROWS, and if no warp
// has several, the last layer comes first, as its errors do.
__device__ constexpr int all_of(int i) { return i > 0 ? items_of(i) : NEURONS / 4; }
__device__ constexpr int tiles_each(int i) { return up(m_tiles(i) * k_tiles(i), CLUSTER); }
__device__ constexpr int blocks_across(int i) { return k_tiles(i) / tiles_each(i); }   // that own the weights of some neurons
__device__ constexpr int owned_of(int i)
{
    return SENDS_ROWS && i > 0 ? tiles_each(i) * lanes_of(i) : to_multiple(up(all_of(i), CLUSTER), 4);
}
__device__ constexpr int slots_of(int i) { return up(owned_of(i), 32); }
__device__ constexpr int slots_to(int i) { return slots_of(i) + (i > 0 ? slots_to(i - 1) : 0); }   // of layer i and those before
constexpr int SLOTS = slots_to(L), SLOTS_EACH = up(SLOTS, larger(OWNER_WARPS, 1));
constexpr bool ASCENDING = !SENDS_ROWS && SLOTS_EACH > 1;
__device__ constexpr int first_slot(int i) { return ASCENDING ? slots_to(i) - slots_of(i) : SLOTS - slots_to(i); }
constexpr int FIRST_SUMMED = SENDS_ROWS ? first_slot(0) : 0;   // the first slot whose gradients the blocks send
__device__ constexpr bool tiles_fit(int i = L)   // whether each block owns equally many whole tiles, of the same neurons
{
    return i == 0 || (k_tiles(i) % tiles_each(i) == 0 && (tiles_each(i) == 1 || tiles_each(i) % 2 == 0) && tiles_fit(i - 1));
}
static_assert(!SENDS_ROWS || (CHUNKS == 1 && ROW_TILES == 1 && NARROW && tiles_each(L) == 1 && tiles_fit()), "_Plan in snn/backends/launches/whole.py");
constexpr bool HAS_ALL_X = SENDS_ROWS && !SENDS_X;   // whether each block has X's rows of the whole batch
constexpr int FIRST_SENT = HAS_ALL_X ? 2 : 1;        // the first layer whose inputs are sent
// Tiles of H_{i-1}, 16 inputs each, that a block receives with SENDS_ROWS; half a tile, if it owns one of weights.
__device__ constexpr int received_of(int i) { return up(tiles_each(i), 2); }
__device__ constexpr int first_received(int i) { return i > FIRST_SENT ? first_received(i - 1) + received_of(i - 1) : 0; }
constexpr int RECEIVED = first_received(L + 1);

__device__ constexpr bool NEEDS_Z(int i) { return F[i] == SILU || F[i] == GELU; }
__device__ constexpr int tiles_before(int i) { return i > 0 ? tiles_before(i - 1) + m_tiles(i - 1) : 0; }
__device__ constexpr int weights_before(int i) { return i > 1 ? weights_before(i - 1) + m_tiles(i - 1) * k_tiles(i - 1) : 0; }
__device__ constexpr int slopes_before(int i) { return i > 1 ? slopes_before(i - 1) + NEEDS_Z(i - 1) * m_tiles(i - 1) : 0; }

constexpr int DZ_APART = APART ? (tiles_before(LAST) + m_tiles(LAST) - tiles_before(1)) * ROW_TILES * TILE : 0;   // from H_i
using Hidden = Neurons<larger(L - 1, 1)>;   // of which NARROW outputs are sums
constexpr int X_LINE = WIDTH[0] + 4, Y_LINE = to_multiple(OUTPUTS, 4);
constexpr int LINES_OF_X = HAS_ALL_X ? CLUSTER * CHUNK : CHUNK;
constexpr int TABLES = CLUSTER == 1 ? 1 : SENDS_X ? 3 : 2;   // of orders that a block has at a time
constexpr int RIGHT_BITS = ORDER_BITS - ORDER_BITS / 2;
constexpr int ERRORS = CROSS_ENTROPY ? 1 : OUTPUTS;   // of a row, in E
constexpr int OF_HELD = 3, TURNS = 3 + WATCHED;   // turns of chunks, and one for rows held out
constexpr int PACES = 32;                   // paces are found for so many steps at a time
constexpr int MEMBER_FLOATS = WATCHED ? 8 : 4;
static_assert(!CLIPPED || !SEQUENTIAL, "a gradient that is clipped with all others waits for them");
static_assert(!WATCHED || ALL_ERRORS, "an epoch's loss is of all its rows");

#if WATCHED
// What the epochs of a member have come to, the same in all blocks of its cluster.
struct Watch {
    double lowest, sums[WARPS];    // the least loss of held-out rows; sums of a warp
    unsigned long long since;      // when the epoch began, in nanoseconds
    int best_epoch, epochs;        // from 1; that have ended
    int verdict, padding;
};
#endif

constexpr int MBARRIERS = SENDS_ROWS ? 4 : 2;   // of a layer
constexpr int AWAITED = L + SENDS_ROWS;         // layers and, with SENDS_ROWS, the gradients of all biases

struct Shared {
    float4 pace[CLUSTER > 1 ? 1 : 2 * PACES];              // of steps, in turn
    float4 items[CLUSTER > 1 ? 1 : ITEMS];                 // weights in float32; with CLUSTER above 1 their owners hold them
    float4 gradients[CLUSTER > 1 ? CLUSTER : 1][CLUSTER > 1 ? 32 * (SLOTS - FIRST_SUMMED) : 1];   // from each block, for the items that this block owns
    float4 activations[2][SENDS_ROWS ? CLUSTER : 1][SENDS_ROWS ? 32 * RECEIVED : 1];   // from each block, of even and odd steps
    float4 errors[SENDS_ROWS ? L - 1 : 1][SENDS_ROWS ? CLUSTER : 1][SENDS_ROWS ? 32 : 1];   // dZ of 16 neurons, from each block
    float errors_of_outputs[SENDS_ROWS ? CLUSTER : 1][SENDS_ROWS ? OUTPUTS : 1][SENDS_ROWS ? 8 : 4];
    float4 outgoing[SENDS_ROWS ? larger(32 * (tiles_before(LAST) - tiles_before(1)), 1) : 1];   // H_1, ..., H_{LAST-1} by tiles and lanes
    float4 hidden[NARROW && CLUSTER > 1 && !SENDS_ROWS ? m_tiles(L - 1) * ROW_TILES * 32 : 1];   // H_{L-1} by tiles and lanes
    float X[SENDS_ROWS ? 4 : 1][LINES_OF_X][X_LINE], Y[CLUSTER > 1 ? 4 : 2][CHUNK][Y_LINE];   // of this chunk and the next ones
    unsigned found[2][LINES_OF_X];                         // rows of chunks to come
    unsigned W[CLUSTER > 1 ? 2 : 1][weights_before(OPERANDS + 1) * TILE];   // of even and odd steps
    unsigned H_0[CLUSTER > 1 ? 3 : 2][m_tiles(0) * ROW_TILES * TILE];   // of this chunk and the next
    unsigned H[((tiles_before(LAST) - tiles_before(1)) * (1 + APART) + m_tiles(LAST)) * ROW_TILES * TILE];   // H_1, ..., dZ_LAST; dZ_1, ...
    float outputs[NARROW ? WARPS : 1][NARROW ? CHUNK : 1][NARROW ? OUTPUTS : 1];   // sums over the neurons of some warps
    float narrow_dW[NARROW && CLUSTER == 1 ? WARPS : 1][NARROW ? OUTPUTS : 1][NARROW && CLUSTER == 1 ? WIDTH[larger(L - 1, 0)] : 1];   // sums over their rows
    float dz_of_outputs[NARROW && CLUSTER > 1 && !SENDS_ROWS ? CHUNK : 4][NARROW && CLUSTER > 1 && !SENDS_ROWS ? OUTPUTS : 1];
    float narrow_db[!NARROW ? 2 : CLUSTER > 1 ? 3 : WARPS][NARROW ? OUTPUTS : 1];
    float slopes[slopes_before(L) * ROW_TILES * 128 + 4];
    float biases[NEURONS];
    float largest_sent[2][CLUSTER > 1 ? CLUSTER : 1][CLUSTER > 1 ? SLOTS : 1];   // |weight| of each slot, of even and odd steps
    int largest_H[TURNS][L + 1], largest_dZ[TURNS][L + 1]; // bits of |.|: of the chunk before, of this and of the next
    int largest_W[3][L + 1];                               // of three steps
    int expected[SENDS_ROWS ? 3 : 2][AWAITED];             // bytes at each mbarrier
    int misfit[2];                                         // whether weights are beyond their scale, in even and odd steps
#if CLIPPED
    float squares[larger(WARPS, OWNER_WARPS)], squares_sent[2][CLUSTER];   // of gradients: of warps; of blocks, in even and odd steps
#endif
#if WATCHED
    Watch watch;
#endif
    unsigned long long arrived[MBARRIERS][AWAITED];        // mbarriers: gradients or errors; parameters; activations of even and odd steps
    unsigned long long looked[2];                          // others: an owner has looked at the weights, in even and odd steps
#if CLIPPED
    unsigned long long squares_arrived;                    // another
#endif
    unsigned short tables[TABLES][ORDER_BITS ? 8 << RIGHT_BITS : 4];   // of epochs' orders
    unsigned short places[HAS_ALL_X ? 2 : 1][HAS_ALL_X && ORDER_BITS ? 1 << ORDER_BITS : 4];   // of a permutation, for this epoch and the next
};
extern "C" __device__ const int shared_bytes = sizeof(Shared);

// M: the state of each member, then the numbers that scales follow from.
constexpr int STATE_FLOATS = STATES * (4 * ITEMS + NEURONS), MEMORY_FLOATS = STATE_FLOATS + 3 * CLUSTER * (L + 1);
extern "C" __device__ const int memory_floats = MEMORY_FLOATS;
// Without the orders of epochs and the rows of members, which depend on the rows.
extern "C" __device__ const int workspace_floats = HEAD_FLOATS + MEMBER_FLOATS * MEMBERS;
