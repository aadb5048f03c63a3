// A whole training of a network with three hidden layers, all epochs, in one kernel: three barriers of the grid a step.
//
//   H_i = max(H_{i-1} W_i, 0), H_0 = X;  y = H_3 w;  e = y - Y;  g = 2/rows e                      forward
//   w -= rate H_3^T g;  dZ_3 = g w^T where H_3 > 0                                               backward, where
//   W_i -= rate H_{i-1}^T dZ_i;  dZ_{i-1} = dZ_i W_i^T where H_{i-1} > 0                           i = 3, 2, 1
//
// CLUSTERS clusters of CLUSTER blocks share the work in another way in each phase, so that most of what follows from
// another product is where it is needed. Of a cluster, block r, all on tensor cores (tf32.cuh):
//
//   forward    A cluster has 16 rows of the batch. Every block computes all of their H_1, then a part of their H_2's
//              columns, then from these what they add to all of Z_3. Blocks send each other these sums: each adds up a
//              part of the columns, for H_3, y, and a bit for each element of H_3 above 0.
//   backward   A block has 8 neurons of layer 2, with their rows of W_3. dW_3 = U diag(w), U = H_2^T (g where H_3 > 0),
//              is H_2^T diag(g) times bits, and dZ_3 W_3^T is diag(g) times bits times (W_3 diag(w))^T. Bits are exact
//              in BF16, the other factor is the sum of three such numbers: half of TF32's time. Each block makes the new
//              w of some columns for its cluster. All blocks of a cluster get its dZ_2; each updates N1 / CLUSTER rows of
//              W_2 in the cluster's columns, and multiplies the two: the cluster's part of these columns of dH_1.
//   layer 1    A block adds up all clusters' parts of two columns of dH_1, and updates these columns of W_1. On their
//              way meanwhile: what it will read of W_2 and W_3, which cp.async puts where the same lane will look for it.
//
// Fragments: an accumulator of mma.m16n8k8 has, in a lane with p = lane / 4 and q = lane % 4, columns 2 q and 2 q + 1 of
// rows p and p + 8. If the next product takes k in the order 0, 2, 4, 6, 1, 3, 5, 7, the lane has what it must bring as
// the left operand: H_1, H_2 and dZ_2 are stored and sent like this, four floats a lane. If the next product has k down
// the 16 rows, a lane takes rows 4 s + q and 4 s + q + 8 of column p, two neighbouring floats. That lanes do not meet in
// a bank, some swap places. W_1, W_2 and W_3 are, besides, in `workspace` in the order in which lanes read them.
// Layout: widths and the batch are padded with 0 to multiples of 16, and each batch of X and Y by itself.
// Launch: CLUSTERS clusters of CLUSTER blocks of 256 threads, all at the same time, `shared_bytes` of dynamic shared
// memory. Needs sm_90.

// Variants, to be measured.
#ifndef MESSAGES  // dZ_2 goes to the cluster's blocks as messages, else by way of memory
#define MESSAGES 1
#endif
#ifndef WIDE      // tiles of Z_3 that a warp sums up at once, 2 or 4
#define WIDE 2
#endif
#ifndef DH_TILES  // tiles of dH_1 that a warp sums up at once, 2 or 4
#define DH_TILES 2
#endif
#ifndef UNROLL    // sixteens of rows at once, in dW_2 and dW_3
#define UNROLL 4
#endif
#ifndef EARLY_PIECES  // of W_2's four, on their way while W_1 is updated; others come behind W_1
#define EARLY_PIECES 3
#endif
#ifndef ONE_FENCE // of a block, before a barrier of the cluster, else of each thread; without MESSAGES
#define ONE_FENCE 0
#endif

#include "barrier.cuh"
#include "cluster.cuh"
#include "tf32.cuh"

__device__ constexpr int smaller(int a, int b) { return a < b ? a : b; }
__device__ constexpr int larger(int a, int b) { return a > b ? a : b; }
__device__ constexpr int up(int a, int b) { return (a + b - 1) / b; }

constexpr int THREADS = 256, WARPS = THREADS / 32;
constexpr int WIDTH[] = {WIDTHS};                                // features, hidden layers
constexpr int F = WIDTH[0], N1 = WIDTH[1], N2 = WIDTH[2], N3 = WIDTH[3];
constexpr int ROWS = (BATCH + 15) / 16 * 16;                     // of a batch, padded
constexpr int BLOCKS = CLUSTERS * CLUSTER;
static_assert(sizeof WIDTH / sizeof *WIDTH == 4 && BLOCKS == GRID, "three hidden layers");
static_assert(ROWS == 16 * CLUSTERS && N2 == 8 * BLOCKS, "16 rows a cluster, 8 neurons a block");
static_assert(CLUSTERS % 2 == 0 && CLUSTERS <= 16 && CLUSTER % 2 == 0 && CLUSTER <= 8, "this shape is for another kernel");
static_assert(F <= 32 && N1 <= smaller(256, 64 * CLUSTER) && N3 <= smaller(256, 64 * CLUSTER), "as is this");
static_assert(N1 % (16 * CLUSTER) == 0 && N3 % (32 * CLUSTER) == 0, "a block has as much as another");

constexpr int PART = 128;                                        // floats of a fragment, 16 rows of 8 columns
constexpr int K1 = F / 8;                                        // features by eight
constexpr int TILES1 = N1 / CLUSTER / 8;                         // of a block: its columns of H_1, by eight
constexpr int OWN3 = N3 / CLUSTER, WORDS = N3 / 32;              // columns of H_3, whose w it makes; words of bits of a row
constexpr int PER_WARP1 = up(N1 / 8, WARPS), DOWN = up(CLUSTERS, WARPS);   // tiles of H_1; sixteens of rows
constexpr int PAIRS = up(N1 / 2, BLOCKS);                        // of columns of W_1
constexpr int H3_LOADS = up(ROWS * OWN3 / 4, THREADS), AHEAD = smaller(H3_LOADS, 8);
constexpr int PIECES = CLUSTERS % 4 ? 2 : 4;                     // in which a warp's strips of W_2 and W_3 come
constexpr int EARLY = smaller(EARLY_PIECES, PIECES);
constexpr int STEPS2 = N1 / 8 / PIECES, STEPS3 = CLUSTERS / PIECES;
constexpr int AT_ONCE = smaller(DH_TILES, TILES1);
constexpr int SLOT = larger(STEPS2 * PART, STEPS3 * 2 * PART);

// ---- memory of the device, in floats from `workspace` on

constexpr int AT_W1 = BARRIER_FLOATS;                            // [N1 / 8][K1 / 2][lane][4]
constexpr int AT_W2 = AT_W1 + F * N1;                            // [N2 / 16][N1 / 8][lane][4]
constexpr int AT_W3 = AT_W2 + N1 * N2;                           // [N2 / 8][N3 / 16][lane][4]
constexpr int AT_H1 = AT_W3 + N2 * N3;                           // [CLUSTER][CLUSTERS][TILES1][PART]
constexpr int AT_H2 = AT_H1 + ROWS * N1;                         // [BLOCKS][CLUSTERS][PART]
constexpr int AT_H3 = AT_H2 + ROWS * N2;                         // [CLUSTER][ROWS][OWN3]
constexpr int AT_BITS = AT_H3 + ROWS * N3;                       // [CLUSTERS][WORDS][8][2]
constexpr int AT_Y = AT_BITS + ROWS * WORDS;                     // [CLUSTER][ROWS]
constexpr int AT_DZ = AT_Y + ROWS * CLUSTER;                     // [CLUSTERS][CLUSTERS][CLUSTER][PART]
constexpr int AT_DH = AT_DZ + ROWS * N2;                         // [CLUSTERS][N1 / 2][CLUSTERS][8][4]
extern "C" __device__ const int workspace_floats = AT_DH + CLUSTERS * ROWS * N1;

struct Backward {
    float H1[CLUSTERS][TILES1][PART], dZ[CLUSTERS][CLUSTER][PART];
    unsigned Hg[CLUSTERS][3][64], Ww[N3 / 16][3][64];            // H_2 diag(g) / 2 and W_3 diag(w) of the block's neurons
    unsigned bits[CLUSTERS][WORDS][16];
    float W2[CLUSTER][TILES1][64];
};
struct Shared {
    union alignas(16) {
        float strips[WARPS][PIECES + 1][SLOT];                   // of W_2 and W_3
        Backward back;
    };
    alignas(16) float H1[N1 / 8][PART], H2[CLUSTERS][PART];      // of the cluster's rows; H2: the block's columns
    float Z3[CLUSTER][16 * OWN3];                                // from each block
    float w[2][N3], g[ROWS], dw[WARPS][OWN3];
    float dZ1[THREADS][2], dW1[WARPS][2][F];
    alignas(8) Word Z3_there, w_there, dZ_there[2];
};
extern "C" __device__ const int shared_bytes = sizeof(Shared);

// ---- fragments

struct Lane {
    int p, q, at;        // at: where its four floats of a fragment are
    int down[2];         // and where its two floats are of rows 4 s + q and 4 s + q + 8 of column p

    __device__ Lane()
    {
        const int lane = threadIdx.x % 32;
        p = lane / 4, q = lane % 4, at = 4 * (lane ^ (lane >> 2 & 2));
        for (int s = 0; s < 2; ++s) down[s] = 64 * s + 16 * q + (2 * p ^ 8 * (q / 2));
    }
};

// Where in a right operand of 8 x 8 stands its element; a lane takes k = 2 q and 2 q + 1 of n = p.
__device__ int right(int n, int k) { return 8 * n + k ^ n / 4 * 8; }

__device__ float4 read4(const float* from) { return __ldcg(reinterpret_cast<const float4*>(from)); }
__device__ float4 take4(const float* from) { return *reinterpret_cast<const float4*>(from); }
__device__ float2 take2(const float* from) { return *reinterpret_cast<const float2*>(from); }
__device__ void write4(float* to, float4 v) { *reinterpret_cast<float4*>(to) = v; }
__device__ float positive(float z) { return z < 0.0f ? 0.0f : z; }  // a NaN is not < 0 and stays

__device__ Parts<4> left_of(float4 v)
{
    Parts<4> a;
    a.set(0, v.x), a.set(1, v.y), a.set(2, v.z), a.set(3, v.w);
    return a;
}
__device__ Parts<2> right_of(float x, float y)
{
    Parts<2> b;
    b.set(0, x), b.set(1, y);
    return b;
}

// In several sums, of which none waits for itself.
template <int M, int N, int SUMS>
__device__ void multiply(float (&sum)[M][N][SUMS][4], const Parts<4> (&a)[M], const Parts<2> (&b)[N])
{
    for (int which = 2; which >= 0; --which)
        for (int m = 0; m < M; ++m)
            for (int n = 0; n < N; ++n)
                mma_m16n8k8_tf32(sum[m][n][which % SUMS], which == 1 ? a[m].small : a[m].big, which == 2 ? b[n].small : b[n].big);
}
template <int SUMS>
__device__ float total(const float (&sum)[SUMS][4], int i)
{
    float result = sum[SUMS - 1][i];
    for (int which = SUMS - 2; which >= 0; --which) result += sum[which][i];
    return result;
}

// As an accumulator's floats go on as a left operand: H, from Z.
template <int SUMS>
__device__ float4 activated(const float (&z)[SUMS][4])
{
    return make_float4(positive(total(z, 0)), positive(total(z, 2)), positive(total(z, 1)), positive(total(z, 3)));
}

// Bits, as numbers in BF16, 2 or 0. A float is the sum of three such, the 8 bits of each cut off from what is left.
#ifndef CUDA_ON_CPU  // whose emulator has these
__device__ void mma_m16n8k16_bf16(float (&sum)[4], const unsigned (&a)[4], const unsigned (&b)[2])
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__device__ unsigned prmt(unsigned a, unsigned b, unsigned which)
{
    unsigned result;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(which));
    return result;
}
#endif

// Of each byte of a word the bit `which`, at place 6.
__device__ unsigned each_byte(unsigned word, int which) { return __funnelshift_l(word, word, 6 - which) & 0x40404040; }
// Byte i of `low` and byte j of `high`, each above a byte of 0.
__device__ unsigned both(unsigned low, int i, unsigned high, int j) { return prmt(low, high, (4 + j) << 12 | 0x808 | i << 4); }
__device__ void write_parts(unsigned (&to)[3][64], int at, float low, float high)
{
    for (int i = 0; i < 3; ++i) {
        const unsigned bits[] = {__float_as_uint(low), __float_as_uint(high)};
        to[i][at] = prmt(bits[0], bits[1], 0x7632);
        low -= __uint_as_float(bits[0] & 0xffff0000), high -= __uint_as_float(bits[1] & 0xffff0000);
    }
}
__device__ void multiply_bits(float (&sum)[3][4], const unsigned (&a)[4], const unsigned (&b)[3][2])
{
    for (int i = 2; i >= 0; --i) mma_m16n8k16_bf16(sum[i], a, b[i]);
}
__device__ void take_parts(unsigned (&b)[3][2], const unsigned (&from)[3][64], int at)
{
    for (int i = 0; i < 3; ++i) {
        const uint2 v = *reinterpret_cast<const uint2*>(&from[i][at]);
        b[i][0] = v.x, b[i][1] = v.y;
    }
}

__device__ void wait_for_all_but(int groups)  // of copies; a constant, after unrolling
{
    if (groups == 0) copies_wait<0>();
    if (groups == 1) copies_wait<1>();
    if (groups == 2) copies_wait<2>();
    if (groups == 3) copies_wait<3>();
}

// To another block's `to`, for its `there` to count.
template <int COUNT>
__device__ void send_to(int block, const float* to, const float (&v)[COUNT], const Word& there)
{
    send(in_block(shared_address(to), block), v, in_block(shared_address(&there), block));
}

__device__ void fence_of_block()  // and a barrier of the cluster
{
#ifdef CUDA_ON_CPU
    cluster_barrier();
#else
    __syncthreads();
    if (threadIdx.x == 0) asm volatile("fence.acq_rel.gpu;" ::: "memory");
    __syncwarp();
    asm volatile("barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

template <int FLOATS>
__device__ void fetch(float* to, const float* from)  // by the block
{
    const unsigned place = shared_address(to) + 16 * threadIdx.x;
    from += 4 * threadIdx.x;
    for (int i = 0; i < FLOATS / 4; i += THREADS)
        if (i + THREADS <= FLOATS / 4 || i + threadIdx.x < FLOATS / 4) copy_async(place + 16 * i, from + 4 * i);
}

// ---- the training

struct Training {
    Shared& s;
    Barrier barrier;
    const float *X, *Y;
    float *weights, *E, *workspace;
    float rate;
    int cluster = blockIdx.x / CLUSTER, rank = blockIdx.x % CLUSTER, warp = threadIdx.x / 32, t = threadIdx.x;
    int batch = 0, count = 0, step = 0;   // count: rows of this batch
    float scale = 0.0f;                   // of e to g
    bool last = false;
    float W1[PAIRS] = {}, W2[2][4] = {}, W3[2][4] = {};   // of this block's, what this thread updates

    __device__ bool has_row() const { return ROWS == THREADS || t < ROWS; }
    __device__ bool has_rows(int i) const { return DOWN * WARPS == CLUSTERS || warp * DOWN + i < CLUSTERS; }

    __device__ void stamp(int i)  // TIMES: the clock, in the last step, behind the workspace: [GRID][16]
    {
#ifdef TIMES
        if (last && t == 0) reinterpret_cast<long long*>(workspace + workspace_floats)[blockIdx.x * 16 + i] = clock64();
#endif
    }

    // Which elements these are: W1 of thread t, W2 and W3 as a lane's accumulators of their transposed gradients.
    __device__ int pair(int i) const { return blockIdx.x + i * BLOCKS; }
    __device__ bool has_pair(int i) const { return PAIRS * BLOCKS == N1 / 2 || pair(i) < N1 / 2; }
    __device__ bool has1(int i) const { return t < 2 * F && has_pair(i); }
    __device__ int place1(int i) const { return t % F * N1 + 2 * pair(i) + t / F; }
    __device__ int in_order1(int i) const
    {
        constexpr int QUARTER = F / 4;
        const int column = 2 * pair(i) + t / F, f = t % F, k = f % QUARTER / 2;
        return ((column / 8 * (K1 / 2) + k / 2) * 32 + column % 8 * 4 + f / QUARTER) * 4 + k % 2 * 2 + f % 2;
    }
    __device__ bool has2() const { return N1 == 32 * WARPS || warp < N1 / 32; }
    __device__ int neurons2() const { return warp % (CLUSTER / 2); }     // which sixteen of the cluster's
    __device__ int tile1(int n) const { return warp / (CLUSTER / 2) * 2 + n; }
    __device__ int place2(int n, int i, Lane lane) const
    {
        const int row = 8 * (rank * TILES1 + tile1(n)) + 2 * lane.q + i % 2;
        return row * N2 + 8 * CLUSTER * cluster + 16 * neurons2() + lane.p + i / 2 * 8;
    }
    __device__ float* in_order2(int n) const
    {
        const int tile = rank * TILES1 + tile1(n);
        return workspace + AT_W2 + ((cluster * CLUSTER / 2 + neurons2()) * (N1 / 8) + tile) * PART + t % 32 * 4;
    }
    __device__ bool has3() const { return WORDS == WARPS || warp < WORDS; }
    __device__ bool has_H2() const { return CLUSTERS == 2 * WARPS || warp < CLUSTERS / 2; }
    __device__ bool has_H1(int tile) const { return PER_WARP1 * WARPS == N1 / 8 || tile < N1 / 8; }
    __device__ int column3(int n, int i, Lane lane) const { return 32 * warp + 16 * n + i / 2 * 8 + lane.p; }
    __device__ int place3(int n, int i, Lane lane) const
    {
        return (8 * blockIdx.x + 2 * lane.q + i % 2) * N3 + column3(n, i, lane);
    }
    __device__ float* in_order3(int n) const
    {
        return workspace + AT_W3 + (blockIdx.x * (N3 / 16) + 2 * warp + n) * PART + t % 32 * 4;
    }
    __device__ float* dZ_in_memory(int down) const
    {
        return workspace + AT_DZ + (cluster * CLUSTERS + down) * CLUSTER * PART;
    }
    __device__ float* W1_in_memory() const { return weights; }
    __device__ float* W2_in_memory() const { return weights + F * N1; }
    __device__ float* W3_in_memory() const { return weights + F * N1 + N1 * N2; }
    __device__ float* w_in_memory() const { return weights + F * N1 + N1 * N2 + N2 * N3; }

    template <class Do> __device__ void for_weights(Do f)  // f(kept, its place)
    {
        const Lane lane;
        for (int i = 0; i < PAIRS; ++i)
            if (has1(i)) f(W1[i], W1_in_memory() + place1(i));
        for (int n = 0; n < 2; ++n)
            for (int i = 0; i < 4; ++i) {
                if (has2()) f(W2[n][i], W2_in_memory() + place2(n, i, lane));
                if (has3()) f(W3[n][i], W3_in_memory() + place3(n, i, lane));
            }
    }
    __device__ void publish1()
    {
        for (int i = 0; i < PAIRS; ++i)
            if (has1(i)) workspace[AT_W1 + in_order1(i)] = W1[i];
    }
    __device__ void publish2(int n) { write4(in_order2(n), make_float4(W2[n][0], W2[n][1], W2[n][2], W2[n][3])); }
    __device__ void publish3(int n) { write4(in_order3(n), make_float4(W3[n][0], W3[n][1], W3[n][2], W3[n][3])); }

    __device__ void start()
    {
        for_weights([](float& kept, const float* from) { kept = *from; });
        for (int j = t; j < N3; j += THREADS) s.w[0][j] = w_in_memory()[j];
        publish1();
        for (int n = 0; n < 2; ++n) {
            if (has2()) publish2(n);
            if (has3()) publish3(n);
        }
        if (t < 4) mbarrier_init(shared_address(t == 0 ? &s.Z3_there : t == 1 ? &s.w_there : &s.dZ_there[t - 2]));
        mbarriers_made();
        __syncthreads();
        cluster_barrier();
        barrier.arrive();
        barrier.wait();
        fetch_pieces(0, EARLY);
        barrier.arrive();
    }
    __device__ void finish()
    {
        barrier.wait();
        copies_wait<0>();
        for_weights([](const float& kept, float* to) { *to = kept; });
        if (blockIdx.x == 0)
            for (int j = t; j < N3; j += THREADS) w_in_memory()[j] = s.w[step % 2][j];
        barrier.reset();
    }

    // What a lane will read of W_2 and W_3 in the forward phase, in PIECES each; a piece is a group of copies. The first
    // of W_3 has a place of its own, others come where W_2 was.
    __device__ int place_of(int piece) const { return piece <= PIECES ? piece : piece - PIECES - 1; }
    __device__ void fetch_piece(int piece)
    {
        const unsigned to = shared_address(s.strips[warp][place_of(piece)]) + t % 32 * 16;
        if (piece >= PIECES) {
            const int tile = (rank * CLUSTERS + (piece - PIECES) * STEPS3) * (N3 / 16) + 2 * warp;
            const float* const from = workspace + AT_W3 + tile * PART + t % 32 * 4;
            if (has3())
                for (int i = 0; i < 2 * STEPS3; ++i) copy_async(to + i * PART * 4, from + (i / 2 * (N3 / 16) + i % 2) * PART);
        } else if (has_H2()) {
            const int tile = (rank * CLUSTERS / 2 + warp) * (N1 / 8) + piece * STEPS2;
            const float* const from = workspace + AT_W2 + tile * PART + t % 32 * 4;
            for (int i = 0; i < STEPS2; ++i) copy_async(to + i * PART * 4, from + i * PART);
        }
        copies_end();
    }
    __device__ void fetch_pieces(int from, int to)  // a loop, since otherwise they overtake loads that are more urgent
    {
#pragma unroll 1
        for (int piece = from; piece < to; ++piece) fetch_piece(piece);
    }

    __device__ void forward()
    {
        const Lane lane;
        float x[2][F / 4];
        for (int half = 0; half < 2; ++half)
            for (int i = 0; i < F / 4; i += 4) {
                const float* const row = X + ((size_t)batch * ROWS + 16 * cluster + lane.p + 8 * half) * F;
                const float4 v = take4(row + lane.q * (F / 4) + i);
                x[half][i] = v.x, x[half][i + 1] = v.y, x[half][i + 2] = v.z, x[half][i + 3] = v.w;
            }
        stamp(0);
        barrier.wait();
        stamp(1);
        if (t == 0) mbarrier_expect(shared_address(&s.Z3_there), 16 * N3 * sizeof(float));

        {  // H_1
            float4 w1[PER_WARP1][K1 / 2];
            for (int n = 0; n < PER_WARP1; ++n)
                for (int k = 0; k < K1 / 2; ++k)
                    if (has_H1(warp * PER_WARP1 + n))
                        w1[n][k] = read4(workspace + AT_W1 + (((warp * PER_WARP1 + n) * (K1 / 2) + k) * 32 + t % 32) * 4);
            fetch_pieces(EARLY, PIECES + 1);
            if (has_H1(warp * PER_WARP1)) {
                float z[1][PER_WARP1][2][4] = {};
                for (int k = 0; k < K1; ++k) {
                    const Parts<4> a[] = {left_of(make_float4(x[0][2 * k], x[1][2 * k], x[0][2 * k + 1], x[1][2 * k + 1]))};
                    Parts<2> b[PER_WARP1];
                    for (int n = 0; n < PER_WARP1; ++n) {
                        const float4 v = w1[n][k / 2];
                        b[n] = k % 2 ? right_of(v.z, v.w) : right_of(v.x, v.y);
                    }
                    multiply(z, a, b);
                }
                for (int n = 0; n < PER_WARP1; ++n) {
                    const int tile = warp * PER_WARP1 + n;
                    const float4 h = activated(z[0][n]);
                    write4(&s.H1[tile][lane.at], h);
                    if (tile / TILES1 == rank)
                        write4(workspace + AT_H1 + ((rank * CLUSTERS + cluster) * TILES1 + tile % TILES1) * PART + lane.at, h);
                }
            }
        }
        __syncthreads();
        stamp(2);

        {  // H_2, this block's columns
            float z[1][2][3][4] = {};
#pragma unroll 1
            for (int piece = 0; piece < PIECES; ++piece) {
                copies_wait<PIECES>();  // behind this piece: others of W_2 and W_3
                if (has_H2())
#pragma unroll
                    for (int k = 0; k < STEPS2; ++k) {
                        const Parts<4> a[] = {left_of(take4(&s.H1[piece * STEPS2 + k][lane.at]))};
                        const float4 v = take4(&s.strips[warp][piece][k * PART + t % 32 * 4]);
                        const Parts<2> b[] = {right_of(v.x, v.y), right_of(v.z, v.w)};
                        multiply(z, a, b);
                    }
                __syncwarp();
                if (piece + 1 < PIECES) fetch_piece(PIECES + piece + 1);
            }
            if (has_H2())
                for (int n = 0; n < 2; ++n) {
                    const float4 h = activated(z[0][n]);
                    write4(&s.H2[2 * warp + n][lane.at], h);
                    write4(workspace + AT_H2 + ((rank * CLUSTERS + 2 * warp + n) * CLUSTERS + cluster) * PART + lane.at, h);
                }
        }
        __syncthreads();

        stamp(3);
#pragma unroll 1
        for (int base = 0; base < 4; base += WIDE) {  // what these add to Z_3
            float z[1][WIDE][2][4] = {};
#pragma unroll 1
            for (int piece = 0; piece < PIECES; ++piece) {
                if (base == 0) wait_for_all_but(PIECES - 1 - piece);
                const float* const strip = s.strips[warp][place_of(PIECES + piece)] + base / 2 * PART + t % 32 * 4;
                if (has3())
                    for (int k = 0; k < STEPS3; ++k) {
                        const Parts<4> a[] = {left_of(take4(&s.H2[piece * STEPS3 + k][lane.at]))};
                        Parts<2> b[WIDE];
                        for (int n = 0; n < WIDE; n += 2) {
                            const float4 v = take4(strip + (2 * k + n / 2) * PART);
                            b[n] = right_of(v.x, v.y), b[n + 1] = right_of(v.z, v.w);
                        }
                        multiply(z, a, b);
                    }
            }
            if (has3()) {
                constexpr int OF_BLOCK = OWN3 / 32;
                float* const to = &s.Z3[rank][warp % OF_BLOCK * 512 + base * PART + t % 32 * 4];
#pragma unroll
                for (int n = 0; n < WIDE; ++n) {
                    const float v[] = {total(z[0][n], 0), total(z[0][n], 1), total(z[0][n], 2), total(z[0][n], 3)};
                    send_to(warp / OF_BLOCK, to + n * PART, v, s.Z3_there);
                }
            }
        }
        stamp(4);
        mbarrier_wait(shared_address(&s.Z3_there), step % 2);
        stamp(5);

        // A half of a warp adds up half of the blocks' sums of rows `warp` and warp + 8; then it has one of these rows.
        const int half = t % 32 / 16, n = t % 16 / 4, row = 16 * cluster + warp + 8 * half;
        float y = 0.0f;
        for (int word = 0; word < OWN3 / 32; ++word) {
            float4 z = {0.0f, 0.0f, 0.0f, 0.0f};
            for (int from = 0; from < CLUSTER / 2; ++from) {
                const float4 v = take4(&s.Z3[half * (CLUSTER / 2) + from][word * 512 + n * PART + (4 * warp + t % 4) * 4]);
                z.x += v.x, z.y += v.y, z.z += v.z, z.w += v.w;
            }
            float h[2] = {half ? z.z : z.x, half ? z.w : z.y};
            h[0] += __shfl_xor_sync(0xffffffff, half ? z.x : z.z, 16);
            h[1] += __shfl_xor_sync(0xffffffff, half ? z.y : z.w, 16);
            const int column = 32 * word + 8 * n + 2 * (t % 4);
            unsigned bits = 0;
            for (int i = 0; i < 2; ++i) {
                h[i] = positive(h[i]);
                bits |= (unsigned)(h[i] > 0.0f) << (column + i) % 32;
                y += h[i] * s.w[step % 2][rank * OWN3 + column + i];
            }
            *reinterpret_cast<float2*>(workspace + AT_H3 + (rank * ROWS + row) * OWN3 + column) = make_float2(h[0], h[1]);
            for (int apart = 1; apart < 16; apart *= 2) bits |= __shfl_xor_sync(0xffffffff, bits, apart);
            const int of_row = (cluster * WORDS + rank * (OWN3 / 32) + word) * 16 + 2 * warp + half;
            if (t % 16 == 0) reinterpret_cast<unsigned*>(workspace + AT_BITS)[of_row] = bits;
        }
        for (int apart = 1; apart < 16; apart *= 2) y += __shfl_xor_sync(0xffffffff, y, apart);
        if (t % 16 == 0) workspace[AT_Y + rank * ROWS + row] = y;
        barrier.arrive();
    }

    __device__ void backward()
    {
        const Lane lane;
        const float target = has_row() ? Y[(size_t)batch * ROWS + t] : 0.0f;
        const int now = step % 2;
        stamp(6);
        barrier.wait();
        stamp(7);
        if (t == 0) mbarrier_expect(shared_address(&s.w_there), N3 * sizeof(float));
        if (MESSAGES && t < DOWN) mbarrier_expect(shared_address(&s.dZ_there[t]), ROWS / DOWN * 8 * CLUSTER * sizeof(float));
        float y = 0.0f;
        if (has_row())
            for (int r = 0; r < CLUSTER; ++r) y += __ldcg(workspace + AT_Y + r * ROWS + t);
        fetch<ROWS * WORDS>(reinterpret_cast<float*>(s.back.bits), workspace + AT_BITS);
        copies_end();
        float4 h2[DOWN], h3[AHEAD];
        for (int i = 0; i < DOWN; ++i)
            if (has_rows(i)) h2[i] = read4(workspace + AT_H2 + (blockIdx.x * CLUSTERS + warp * DOWN + i) * PART + lane.at);
        constexpr int LINE = OWN3 / 4;  // threads that read a row of H_3
        const auto row3 = [&](int i) { return t / LINE + i * (THREADS / LINE); };
        const float* const H3 = workspace + AT_H3 + rank * ROWS * OWN3 + 4 * t;
        const auto read3 = [&](int i, int to) {
            if (H3_LOADS * THREADS * 4 == ROWS * OWN3 || row3(i) < ROWS) h3[to] = read4(H3 + i * THREADS * 4);
        };
        if (has_row()) {
            const float error = t < count ? y - target : 0.0f;
            s.g[t] = scale * error;
            if (last && blockIdx.x == 0) E[t] = error;
        }
        __syncthreads();
        for (int i = 0; i < AHEAD; ++i) read3(i, i);
        fetch<ROWS * TILES1 * 8>(&s.back.H1[0][0][0], workspace + AT_H1 + rank * CLUSTERS * TILES1 * PART);
        copies_end();
        const int slot = lane.p % 4 * 2 + lane.p / 4;  // lane q takes rows or columns q and q + 8, then q + 4 and q + 12
        unsigned active = 0;            // H_2 > 0, four bits of each sixteen rows
        float half_g[DOWN][2] = {};     // of rows p and p + 8: bits count twice
        for (int i = 0; i < DOWN; ++i) {
            const int down = warp * DOWN + i;
            if (!has_rows(i)) continue;
            for (int u = 0; u < 2; ++u) half_g[i][u] = 0.5f * s.g[16 * down + lane.p + 8 * u];
            float h[4] = {h2[i].x, h2[i].y, h2[i].z, h2[i].w};
            for (int j = 0; j < 4; ++j) {
                active |= (unsigned)(h[j] > 0.0f) << 4 * i + j;
                h[j] *= half_g[i][j % 2];
            }
            for (int j = 0; j < 2; ++j) write_parts(s.back.Hg[down], right(2 * lane.q + j, slot), h[2 * j], h[2 * j + 1]);
        }
        copies_wait<1>();
        __syncthreads();

        stamp(8);
        float u[2][3][4] = {};  // U^T
#pragma unroll 1
        for (int half = 0; half < 2; ++half) {
            if (has3())
#pragma unroll UNROLL
                for (int down = half * (CLUSTERS / 2); down < (half + 1) * (CLUSTERS / 2); ++down) {
                    const uint2 v[] = {*reinterpret_cast<const uint2*>(&s.back.bits[down][warp][2 * lane.q]),
                                       *reinterpret_cast<const uint2*>(&s.back.bits[down][warp][2 * lane.q + 8])};
                    const unsigned of[2][2] = {{each_byte(v[0].x, lane.p), each_byte(v[0].y, lane.p)},
                                               {each_byte(v[1].x, lane.p), each_byte(v[1].y, lane.p)}};
                    unsigned b[3][2];
                    take_parts(b, s.back.Hg[down], right(lane.p, 2 * lane.q));
                    for (int n = 0; n < 2; ++n) {
                        unsigned a[4];
                        for (int i = 0; i < 4; ++i) a[i] = both(of[i / 2][0], 2 * n + i % 2, of[i / 2][1], 2 * n + i % 2);
                        multiply_bits(u[n], a, b);
                    }
                }
            if (half == 1) break;
            float dw[4] = {};
#pragma unroll 1
            for (int base = 0; base < H3_LOADS; base += AHEAD)
#pragma unroll
                for (int i = 0; i < AHEAD; ++i) {
                    if (H3_LOADS * THREADS * 4 != ROWS * OWN3 && row3(base + i) >= ROWS) continue;
                    const float g = s.g[row3(base + i)];
                    dw[0] += h3[i].x * g, dw[1] += h3[i].y * g, dw[2] += h3[i].z * g, dw[3] += h3[i].w * g;
                    if (H3_LOADS > AHEAD) read3(base + i + AHEAD, i);
                }
            for (int i = 0; i < 4; ++i) {
                for (int apart = LINE; apart < 32; apart *= 2) dw[i] += __shfl_xor_sync(0xffffffff, dw[i], apart);
                if (t % 32 < LINE) s.dw[warp][4 * (t % 32) + i] = dw[i];
            }
            __syncthreads();
            if (t < N3) {  // the new w, to every block
                const int column = rank * OWN3 + t % OWN3;
                float sum = 0.0f;
                for (int from = 0; from < WARPS; ++from) sum += s.dw[from][t % OWN3];
                const float fresh[] = {s.w[now][column] - rate * sum};
                send_to(t / OWN3, &s.w[1 - now][column], fresh, s.w_there);
            }
        }
        if (has3()) {
            mbarrier_wait(shared_address(&s.w_there), step % 2);
            for (int n = 0; n < 2; ++n) {
                float ww[4];
                for (int i = 0; i < 4; ++i) {
                    const float w = s.w[1 - now][column3(n, i, lane)];
                    W3[n][i] -= rate * (total(u[n], i) * w);
                    ww[i] = W3[n][i] * w;
                }
                for (int i = 0; i < 2; ++i) write_parts(s.back.Ww[2 * warp + n], right(2 * lane.q + i, slot), ww[i], ww[i + 2]);
                publish3(n);
            }
        }
        copies_wait<0>();
        __syncthreads();

        stamp(9);
#pragma unroll
        for (int i = 0; i < DOWN; ++i) {  // dZ_2 of the block's neurons
            const int down = warp * DOWN + i;
            if (has_rows(i)) {
                float z[3][4] = {};
#pragma unroll UNROLL
                for (int word = 0; word < WORDS; ++word) {
                    const uint2 v = *reinterpret_cast<const uint2*>(&s.back.bits[down][word][2 * lane.p]);
                    const unsigned of[] = {each_byte(v.x, lane.q), each_byte(v.y, lane.q), each_byte(v.x, lane.q + 4),
                                           each_byte(v.y, lane.q + 4)};
                    for (int k = 0; k < 2; ++k) {
                        unsigned a[4], b[3][2];
                        for (int j = 0; j < 4; ++j) a[j] = both(of[j], 2 * k, of[j], 2 * k + 1);
                        take_parts(b, s.back.Ww[2 * word + k], right(lane.p, 2 * lane.q));
                        multiply_bits(z, a, b);
                    }
                }
                float dz[4];
                for (int j = 0; j < 4; ++j) {  // as a left operand: row p + 8 (j % 2), neuron 2 q + j / 2
                    const int from = j % 2 * 2 + j / 2;
                    dz[j] = active >> (4 * i + j) & 1 ? half_g[i][j % 2] * total(z, from) : 0.0f;
                }
                if (MESSAGES)
                    for (int to = 0; to < CLUSTER; ++to)  // not all to one block at once
                        send_to((to + rank + warp) % CLUSTER, &s.back.dZ[down][rank][lane.at], dz, s.dZ_there[i]);
                else
                    write4(dZ_in_memory(down) + rank * PART + lane.at, make_float4(dz[0], dz[1], dz[2], dz[3]));
            }
        }
        if (!MESSAGES) {
            if (ONE_FENCE) fence_of_block();
            else cluster_barrier();
            for (int i = 0; i < DOWN; ++i) {
                for (int of = 0; of < CLUSTERS; of += DOWN)
                    fetch<CLUSTER * PART>(s.back.dZ[of + i][0], dZ_in_memory(of + i));
                copies_end();
            }
        }

        stamp(10);
        {  // dW_2^T
            float dw2[1][2][3][4] = {};
#pragma unroll 1
            for (int i = 0; i < DOWN; ++i) {
                if (MESSAGES) {
                    mbarrier_wait(shared_address(&s.dZ_there[i]), step % 2);
                } else {
                    wait_for_all_but(DOWN - 1 - i);
                    __syncthreads();
                }
                if (has2())
#pragma unroll UNROLL
                    for (int down = i; down < CLUSTERS; down += DOWN)
                        for (int k = 0; k < 2; ++k) {
                            const float2 v[] = {take2(&s.back.dZ[down][2 * neurons2()][lane.down[k]]),
                                                take2(&s.back.dZ[down][2 * neurons2() + 1][lane.down[k]])};
                            const Parts<4> a[] = {left_of(make_float4(v[0].x, v[1].x, v[0].y, v[1].y))};
                            Parts<2> b[2];
                            for (int n = 0; n < 2; ++n) {
                                const float2 h = take2(&s.back.H1[down][tile1(n)][lane.down[k]]);
                                b[n] = right_of(h.x, h.y);
                            }
                            multiply(dw2, a, b);
                        }
            }
            if (has2())
                for (int n = 0; n < 2; ++n) {
                    for (int i = 0; i < 4; ++i) {
                        W2[n][i] -= rate * total(dw2[0][n], i);
                        s.back.W2[2 * neurons2() + i / 2][tile1(n)][right(2 * lane.q + i % 2, lane.p)] = W2[n][i];
                    }
                    publish2(n);
                }
        }
        __syncthreads();

        stamp(11);
        if (has_rows(0)) {  // what the cluster's neurons add to dH_1
#pragma unroll 1
            for (int tile = 0; tile < TILES1; tile += AT_ONCE) {
                float dh[DOWN][AT_ONCE][AT_ONCE == 2 ? 2 : 1][4] = {};
#pragma unroll 2
                for (int k = 0; k < CLUSTER; ++k) {
                    Parts<4> a[DOWN];
                    Parts<2> b[AT_ONCE];
                    for (int i = 0; i < DOWN; ++i) {
                        const int down = smaller(warp * DOWN + i, CLUSTERS - 1);
                        a[i] = left_of(take4(&s.back.dZ[down][k][lane.at]));
                    }
                    for (int n = 0; n < AT_ONCE; ++n) {
                        const float2 v = take2(&s.back.W2[k][tile + n][right(lane.p, 2 * lane.q)]);
                        b[n] = right_of(v.x, v.y);
                    }
                    multiply(dh, a, b);
                }
#pragma unroll
                for (int i = 0; i < DOWN; ++i)
#pragma unroll
                    for (int n = 0; n < AT_ONCE; ++n) {
                        const int columns = cluster * (N1 / 2) + (rank * TILES1 + tile + n) * 4 + lane.q;
                        const auto& v = dh[i][n];
                        if (has_rows(i))
                            write4(workspace + AT_DH + ((columns * CLUSTERS + warp * DOWN + i) * 8 + lane.p) * 4,
                                   make_float4(total(v, 0), total(v, 1), total(v, 2), total(v, 3)));
                    }
            }
        }
        barrier.arrive();
    }

    // Of the batch, thread t has row 16 (t / 16) + t % 16 / 2 + 8 (t % 2).
    __device__ void first_layer()
    {
        const int lane = t % 32;
        const float* const of_warp = X + ((size_t)batch * ROWS + 32 * warp) * F + lane;
        float x[32], h[PAIRS][2] = {};
#pragma unroll
        for (int i = 0; i < 32; ++i) {
            const int down = i / 16 * 16 + i % 16 / 2 + i % 2 * 8;
            x[i] = lane < F && 32 * warp + down < ROWS ? of_warp[down * F] : 0.0f;
        }
        if (has_row())
#pragma unroll
            for (int i = 0; i < PAIRS; ++i) {
                const int tile = pair(i) / 4, of = 4 * (t % 16 / 2) + pair(i) % 4;
                const float* const from = workspace + AT_H1 + ((tile / TILES1 * CLUSTERS + t / 16) * TILES1 + tile % TILES1) * PART;
                if (has_pair(i))
                    for (int j = 0; j < 2; ++j) h[i][j] = __ldcg(from + 4 * (of ^ (of >> 2 & 2)) + 2 * j + t % 2);
            }
        stamp(12);
        barrier.wait();
        stamp(13);
#pragma unroll
        for (int i = 0; i < PAIRS; ++i) {
            const auto* const parts = reinterpret_cast<const float2*>(workspace + AT_DH + (pair(i) * ROWS + t) * 2);
            float2 part[CLUSTERS] = {};
            if (has_row() && has_pair(i))
                for (int c = 0; c < CLUSTERS; ++c) part[c] = __ldcg(parts + c * (N1 / 2) * ROWS);
            if (i == 0) fetch_pieces(0, EARLY);
            float dz[2] = {};
            for (int c = 0; c < CLUSTERS; ++c) dz[0] += part[c].x, dz[1] += part[c].y;
            for (int j = 0; j < 2; ++j) s.dZ1[t][j] = h[i][j] > 0.0f ? dz[j] : 0.0f;
            __syncwarp();
            float sum[2] = {};
#pragma unroll
            for (int r = 0; r < 32; ++r) {
                const float2 d = take2(s.dZ1[32 * warp + r]);
                sum[0] += x[r] * d.x, sum[1] += x[r] * d.y;
            }
            if (lane < F) s.dW1[warp][0][lane] = sum[0], s.dW1[warp][1][lane] = sum[1];
            __syncthreads();
            if (has1(i)) {
                float total = 0.0f;
                for (int from = 0; from < WARPS; ++from) total += s.dW1[from][t / F][t % F];
                W1[i] -= rate * total;
            }
            if (i + 1 < PAIRS) __syncthreads();
        }
        stamp(14);
        publish1();
        barrier.arrive();
    }
};

extern "C" __global__ __launch_bounds__(THREADS, 1) void train_persistent(
    const float* X, const float* Y, float* weights, float* E, float* workspace, int rows, int epochs, float rate, float)
{
    extern __shared__ __align__(16) float dynamic[];
    Shared& shared = *reinterpret_cast<Shared*>(dynamic);
    Training training{shared, Barrier{reinterpret_cast<unsigned*>(workspace)}, X, Y, weights, E, workspace, rate};
    const int batches = (rows + BATCH - 1) / BATCH, steps = epochs * batches;
    training.start();
    for (; training.step < steps; ++training.step) {
        training.batch = training.step % batches;
        training.count = smaller(BATCH, rows - training.batch * BATCH);
        training.scale = 2.0f / training.count;
        training.last = training.step == steps - 1;
        training.forward();
        training.backward();
        training.first_layer();
    }
    training.finish();
}
