// The shape of the network, how blocks, warps and lanes share it, and what a block holds in shared memory.

#include "../../integers.cuh"

constexpr int WARPS = 4;                                                 // that compute: one per scheduler of an SM
constexpr int COMPUTING = 32 * WARPS, THREADS = COMPUTING + 32;
constexpr int WIDTH[] = {WIDTHS};                                        // features, hidden neurons: multiples of 16
constexpr int FEATURES = WIDTH[0], HIDDEN = WIDTH[1];
constexpr int PADDED = (BATCH + 15) / 16 * 16;                           // rows of a batch in memory, padded
constexpr int K = FEATURES / 8;                                          // features, in eights
constexpr int BLOCKS = CLUSTERS * CLUSTER;
constexpr int M = (HIDDEN + 16 * BLOCKS - 1) / (16 * BLOCKS);            // neurons per block, in sixteens
constexpr int NEURONS = 16 * M;

__device__ constexpr int power_of_two(int most)  // the largest that is at most `most`, at least 1
{
    int n = 1;
    while (2 * n <= most) n *= 2;
    return n;
}
constexpr int J = power_of_two(2 * ((PADDED + 8 * WARPS - 1) / (8 * WARPS)) - 1);   // rows per warp, in eights
constexpr int SLICE = 8 * J, ROWS = SLICE * WARPS, OWN = ROWS / CLUSTER; // OWN: rows that a block adds up
constexpr int REGISTERS = 152;                                           // of a thread, for rows, W1 and U
constexpr int MOST = 4;                                                  // eights at a time: more are slower
constexpr int FITTING = smaller((REGISTERS - 8 * M * K) / (4 * K), 8 / M);
constexpr int TOGETHER = smaller(smaller(J / PARTS, MOST), power_of_two(FITTING));   // of J, at a time
constexpr int GROUPS = J / TOGETHER;
constexpr bool ONES = 4 * M * J <= 32;                                   // the mask is in floats, not in bits
constexpr int UNROLLED = ONES || PARTS > 1 ? GROUPS : 1;                 // groups of the backward product
constexpr int RUN = J / PARTS;                                           // rows per warp and part, in eights
constexpr int PART_ROWS = ROWS / PARTS, PART_OWN = OWN / PARTS;          // of a part: of all blocks, of this block
constexpr int VEC = RUN >= 2 && PART_OWN % 4 == 0 ? 4 : 2;               // rows of a message
constexpr int STRIDE = FEATURES + 4;                                     // of a row of X, padded: no bank conflicts
constexpr unsigned ONE = 0x3f800000;                                     // 1.0f
constexpr bool ROUNDS = K > 4;            // W1, where it is split: of so many features y would be off by more than 1e-6
constexpr int SUMS = M * K <= 4 ? 2 : 1;                                 // accumulators of U: no mma waits for the last
constexpr bool BACKWARD_AHEAD = M * K < 16;                              // X is loaded while others are waited for,
constexpr bool FORWARD_AHEAD = 8 * M * K + 2 * TOGETHER * K + ROUNDS * 12 * M < 144;   // if there are registers
static_assert(sizeof WIDTH / sizeof *WIDTH == 2, "one hidden layer");
static_assert(J <= 8 && M * K <= 16 && OWN >= 2 && (CLUSTER & (CLUSTER - 1)) == 0, "this shape is for another kernel");
static_assert(MEMBERS == 1 || CLUSTERS == 1, "the workspace is of the one or of the other");
static_assert(CLUSTERS == 1 || CLUSTERS % 2 == 0, "words are read in pairs");
static_assert(J % PARTS == 0 && PART_OWN >= 2, "a part has whole groups of rows");

struct Shared {
    float X[2][ROWS * STRIDE];
    float4 U[WARPS][M][K][32];
    float parts[2][CLUSTER][OWN];                // contributions of each block to y of this block's rows
    float g[2][ROWS];
    alignas(8) unsigned long long parts_there[2][PARTS], g_there[2][PARTS];
};

extern "C" __device__ const int shared_bytes = sizeof(Shared);
// The workspace: the rates of several members, or the words that clusters exchange, 2 floats each. Those of a row lie in
// one sector of L2: in two, a step of four clusters took 9% longer (NVIDIA H100).
constexpr int AT_RATES = HEAD_FLOATS, AT_WORDS = HEAD_FLOATS;
extern "C" __device__ const int workspace_floats =
    MEMBERS > 1 ? AT_RATES + MEMBERS : CLUSTERS > 1 ? AT_WORDS + 2 * 2 * ROWS * CLUSTERS : HEAD_FLOATS;

// Single instructions that the compiler would not choose, and what hides a value from it; their meaning for a CPU.

#ifdef CUDA_ON_CPU
__device__ void block_barrier() { named_barrier(1, THREADS); }
template <class T>
__device__ T now(T x) { return x; }
__device__ float is_positive(float z) { return z > 0.0f ? 1.0f : 0.0f; }
template <int COUNT>
__device__ void send_if(bool sends, unsigned to, const float (&v)[COUNT], unsigned mbarrier)
{
    if (sends) send(to, v, mbarrier);
}
#else
// Of both kinds of warps, which reach it in different lines, and whose lanes may come from a wait one by one:
// __syncthreads() and bar.sync must be reached in one line by whole warps. Barrier 0 is that of __syncthreads().
__device__ void block_barrier() { asm volatile("barrier.sync 1, %0;" :: "n"(THREADS) : "memory"); }

// Hides a value from the compiler, which would otherwise precompute what depends on it and keep that in scarce
// registers.
__device__ float now(float x)
{
    asm volatile("" : "+f"(x));
    return x;
}
__device__ int now(int x)
{
    asm volatile("" : "+r"(x));
    return x;
}

__device__ float is_positive(float z)
{
    float one;
    asm("set.gt.f32.f32 %0, %1, 0f00000000;" : "=f"(one) : "f"(z));
    return one;
}

// Without a branch, so that products are scheduled around it; and without a memory clobber, since this thread reads
// nothing of what is sent.
__device__ void send_if(bool sends, unsigned to, const float (&v)[4], unsigned mbarrier)
{
    asm volatile("{\n.reg .pred sends;\nsetp.ne.u32 sends, %6, 0;\n"
                 "@sends st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];\n}"
                 :: "r"(to), "f"(v[0]), "f"(v[1]), "f"(v[2]), "f"(v[3]), "r"(mbarrier), "r"((unsigned)sends));
}

__device__ void send_if(bool sends, unsigned to, const float (&v)[2], unsigned mbarrier)
{
    asm volatile("{\n.reg .pred sends;\nsetp.ne.u32 sends, %4, 0;\n"
                 "@sends st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%1, %2}, [%3];\n}"
                 :: "r"(to), "f"(v[0]), "f"(v[1]), "r"(mbarrier), "r"((unsigned)sends));
}
#endif
