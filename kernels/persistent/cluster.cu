// The whole training of a network with one hidden layer, all epochs, in one launch.
//
//   Z = X W1, H = max(Z, 0), y = H w2, e = y - Y, g = scale e        forward, equations (1) and (2)
//   w2 -= rate H^T g, then W1 -= rate X^T (g w2^T where H > 0)       backward, in the paper's order
//
// CLUSTERS clusters (usually one) of CLUSTER blocks train one network. Each block owns NEURONS hidden neurons: their
// columns of W1 and elements of w2 never leave its registers. Each of its warps takes SLICE rows of the batch, and
// holds all of the block's W1 and w2.
//
//   forward    Z^T = W1^T X^T on tensor cores (tf32.cuh). A lane's accumulators of Z^T, for rows 2 q and 2 q + 1, are
//              exactly what the backward product needs from it, if that product takes the rows in this order. So Z > 0
//              becomes a bit in the lane, and neither Z nor H is ever stored.
//   exchange   y is the sum of contributions of all blocks. Block b adds up those of its ROWS / CLUSTER rows, always
//              in the same order, so that the bits are the same, and sends g of these rows to all blocks: two short
//              messages (st.async, completed on an mbarrier). With several clusters, those that add up the same rows
//              first exchange their sums through global memory, in words that also hold the step: a reader that sees
//              the step has the sum.
//   backward   U^T = B^T diag(g) X with B = 1 where Z > 0, which TF32 represents exactly; each warp over its rows. Then
//              dw2[j] is the sum over f of W1[f][j] U[f][j], since H = X W1 where H is not 0, and dW1 = w2 U after the
//              update of w2.
//   update     A lane's elements of U^T are the same as its elements of W1^T. So each warp adds up the contributions
//              of all warps, in one order, and updates its own copy: the copies stay identical, at one barrier per
//              step.
//   data       The batch after the next is copied to shared memory (cp.async) while this one trains; the first
//              operands of a product are in registers before the block waits for the rest.
//
// Layout: the batch, features and hidden neurons are padded with zeros to multiples of 16; each batch of X and Y is
// stored contiguously. `weights` is W1, then w2.
// Members: MEMBERS networks train on the same X and Y, each with its own weights and learning rate, stored one after
// the other in `weights`, E and, where there are several, `workspace`. They are independent: those that do not fit on
// the device start when others have finished.
// Launch: MEMBERS times CLUSTERS clusters of CLUSTER blocks of 32 WARPS threads (`shared_bytes` of dynamic shared
// memory); the device must be able to run the CLUSTERS clusters of one network at the same time. Needs sm_90.

#include "cluster.cuh"
#include "copies.cuh"
#include "tf32.cuh"
#include "messages.cuh"

constexpr int THREADS = 32 * WARPS;
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
__device__ constexpr int smaller(int a, int b) { return a < b ? a : b; }
constexpr int J = power_of_two(2 * ((PADDED + 8 * WARPS - 1) / (8 * WARPS)) - 1);   // rows per warp, in eights
constexpr int SLICE = 8 * J, ROWS = SLICE * WARPS, OWN = ROWS / CLUSTER; // OWN: rows that a block adds up
constexpr int REGISTERS = 176;                                           // of a thread, for rows, W1 and U
constexpr int TOGETHER = smaller(J, power_of_two(smaller((REGISTERS - 8 * M * K) / (4 * K), 8 / M)));  // of J, at a time
constexpr int STRIDE = FEATURES + 4;                                     // of a row of X, padded: no bank conflicts
constexpr unsigned ONE = 0x3f800000;                                     // 1.0f
constexpr int SUMS = M * K <= 4 ? 2 : 1;                                 // accumulators of U: no mma waits for the last
constexpr int COPIES = OWN < 32 ? 32 / OWN : 1;                          // lanes that hold the same row's sum
static_assert(sizeof WIDTH / sizeof *WIDTH == 2, "one hidden layer");
static_assert(J <= 8 && M * K <= 16 && OWN >= 2 && (CLUSTER & (CLUSTER - 1)) == 0, "this shape is for another kernel");
static_assert(MEMBERS == 1 || CLUSTERS == 1, "the workspace is of the one or of the other");

struct Shared {
    float X[3][ROWS * STRIDE];
    float4 U[2][WARPS][M][K][32];
    float parts[2][CLUSTER][OWN];                // contributions of each block to y of this block's rows
    float g[2][ROWS];
    alignas(8) unsigned long long parts_there[2], g_there[2];
};

extern "C" __device__ const int shared_bytes = sizeof(Shared);

// Hides a value from the compiler, which would otherwise precompute what depends on it and keep that in scarce
// registers.
__device__ float now(float x)
{
#ifndef CUDA_ON_CPU
    asm volatile("" : "+f"(x));
#endif
    return x;
}

// ---- data

__device__ void fetch(float* slab, const float* __restrict__ X)
{
    constexpr int CHUNKS = PADDED * FEATURES / 4, LINE = FEATURES / 4, AT_ONCE = THREADS / LINE * LINE;
    const unsigned row = threadIdx.x / LINE, c = threadIdx.x % LINE;
    const unsigned to = shared_address(slab) + 4 * (row * STRIDE + 4 * c);
    const float* const from = X + 4 * threadIdx.x;
    if (AT_ONCE < THREADS && threadIdx.x >= AT_ONCE) return;
#pragma unroll
    for (int i = 0; i < (CHUNKS + AT_ONCE - 1) / AT_ONCE; ++i)
        if (CHUNKS % AT_ONCE == 0 || threadIdx.x + i * AT_ONCE < CHUNKS)
            copy_async(to + 4 * i * (AT_ONCE / LINE) * STRIDE, from + 4 * i * AT_ONCE);
}

// The right operand of a product, N tiles of eight rows: two values per lane for each tile and each eight features.
// They are loaded as single floats, since both must be in neighbouring registers; there are no bank conflicts.
template <int N> using Rows = float[N][K][2];

template <int N>
__device__ void take_forward(Rows<N>& x, const float* from, int group)  // from: row p, feature q
{
#pragma unroll
    for (int j = 0; j < N; ++j)
#pragma unroll
        for (int k = 0; k < K; ++k)
#pragma unroll
            for (int i = 0; i < 2; ++i) x[j][k][i] = from[8 * (group * N + j) * STRIDE + 8 * k + 4 * i];
}

template <int N>
__device__ void take_backward(Rows<N>& x, const float* from, int group)  // from: row 2 q, feature p / 2 + p % 2 * 4
{
#pragma unroll
    for (int j = 0; j < N; ++j)
#pragma unroll
        for (int k = 0; k < K; ++k)
#pragma unroll
            for (int i = 0; i < 2; ++i) x[j][k][i] = from[(8 * (group * N + j) + i) * STRIDE + 8 * k];
}

// ---- the training. With p = lane / 4 and q = lane % 4, a lane holds of W1 and U, for m < M and k < K, neurons
// 16 m + p and 16 m + p + 8 of features 8 k + q (elements 0 and 1) and 8 k + q + 4 (elements 2 and 3).

extern "C" __global__ __launch_bounds__(THREADS, 1) void train_persistent(
    const float* __restrict__ X, const float* __restrict__ Y, float* weights, float* E, float* workspace, int rows,
    int epochs, float rate, float)
{
    extern __shared__ __align__(16) float dynamic[];
    Shared& s = *reinterpret_cast<Shared*>(dynamic);
    const int t = threadIdx.x, lane = t % 32, warp = t / 32, p = lane / 4, q = lane % 4;
    const unsigned rank = cluster_rank();
    const int batches = (rows + BATCH - 1) / BATCH;
    const int member = blockIdx.x / BLOCKS, cluster = blockIdx.x / CLUSTER % CLUSTERS;
    float *W1 = weights + (size_t)member * (FEATURES + 1) * HIDDEN, *W2 = W1 + FEATURES * HIDDEN;
    E += member * PADDED;
    if (MEMBERS > 1) rate = workspace[member];

    const auto neuron = [&](int m, int half) { return (cluster * CLUSTER + (int)rank) * NEURONS + 16 * m + 8 * half + p; };
    const auto feature = [&](int k, int half) { return 8 * k + 4 * half + q; };
    float w1[M][K][4], w2[M][2];
#pragma unroll
    for (int m = 0; m < M; ++m)
#pragma unroll
        for (int n = 0; n < 2; ++n) {
            const int column = neuron(m, n);
            w2[m][n] = column < HIDDEN ? W2[column] : 0.0f;
#pragma unroll
            for (int k = 0; k < K; ++k)
#pragma unroll
                for (int f = 0; f < 2; ++f)
                    w1[m][k][2 * f + n] = column < HIDDEN ? W1[(size_t)feature(k, f) * HIDDEN + column] : 0.0f;
        }
    if (t == 0) mbarrier_init(shared_address(&s.parts_there[0])), mbarrier_init(shared_address(&s.g_there[0]));
    if (t == 32) mbarrier_init(shared_address(&s.parts_there[1])), mbarrier_init(shared_address(&s.g_there[1]));
    mbarriers_made();
    for (int i = t + PADDED * STRIDE; i < ROWS * STRIDE; i += THREADS) s.X[0][i] = s.X[1][i] = s.X[2][i] = 0.0f;
    __syncthreads();

    const auto of = [&](int batch) { return X + (size_t)batch * PADDED * FEATURES; };
    const auto target = [&](int batch, int row) { return row < PADDED ? Y[(size_t)batch * PADDED + row] : 0.0f; };
    fetch(s.X[0], X);
    fetch(s.X[1], of(batches > 1 ? 1 : 0));
    copies_done();
    __syncthreads();
    cluster_barrier();  // every block has initialised its mbarriers
    Rows<TOGETHER> forward_rows;
    Rows<TOGETHER> backward_rows;
    const int forward_from = (warp * SLICE + p) * STRIDE + q;
    const int backward_from = (warp * SLICE + 2 * q) * STRIDE + p / 2 + p % 2 * 4;
    take_forward(forward_rows, s.X[0] + forward_from, 0);

    // The rows that this thread adds up: one, or, in a small cluster, every THREADS-th.
    const bool adds_up = OWN >= THREADS || 32 * warp < OWN;
    const int own = OWN < 32 ? t % OWN : t, copy = OWN < 32 ? lane / OWN : 0;
    constexpr int OF_THREAD = (OWN + THREADS - 1) / THREADS;
    float y[OF_THREAD];
#pragma unroll
    for (int i = 0; i < OF_THREAD; ++i) y[i] = adds_up ? target(0, (int)rank * OWN + own + i * THREADS) : 0.0f;

    // What clusters exchange: for each half, cluster and row, a sum and, in the upper half of the word, its step.
    // Steps are counted on from the last launch, whose last step is in this cluster's own words.
    Word* const words = reinterpret_cast<Word*>(workspace);
    const auto word_of = [&](int half, int cluster, int row) { return words + (half * CLUSTERS + cluster) * ROWS + row; };
    unsigned before = 0;
    if (CLUSTERS > 1 && adds_up) {
        const unsigned even = *word_of(0, cluster, (int)rank * OWN + own) >> 32, odd = *word_of(1, cluster, (int)rank * OWN + own) >> 32;
        before = (int)(even - odd) > 0 ? even : odd;
    }

    int batch = 0, buffer = 0;
    for (int step = 0, steps = epochs * batches; step < steps; ++step) {
        const int half = step % 2, parity = step / 2 % 2, next = batch + 1 < batches ? batch + 1 : 0;
        const int after = next + 1 < batches ? next + 1 : 0, count = min(BATCH, rows - batch * BATCH);
        const unsigned parts_there = shared_address(&s.parts_there[half]), g_there = shared_address(&s.g_there[half]);
        const int next_buffer = buffer == 2 ? 0 : buffer + 1, free_buffer = buffer == 0 ? 2 : buffer - 1;
        if (t == 0) mbarrier_expect(parts_there, ROWS * sizeof(float)), mbarrier_expect(g_there, ROWS * sizeof(float));

        // forward
        unsigned positive[M] = {};
#pragma unroll 1
        for (int group = 0; group < J / TOGETHER; ++group) {
            float z[M][TOGETHER][4] = {};
#pragma unroll
            for (int k = 0; k < K; ++k) {
                Parts<2> x[TOGETHER];
                Parts<4> w[M];
#pragma unroll
                for (int j = 0; j < TOGETHER; ++j)
#pragma unroll
                    for (int i = 0; i < 2; ++i) x[j].set(i, forward_rows[j][k][i]);
#pragma unroll
                for (int m = 0; m < M; ++m)
#pragma unroll
                    for (int i = 0; i < 4; ++i) w[m].set(i, now(w1[m][k][i]));
#pragma unroll
                for (int which = 0; which < 3; ++which)
#pragma unroll
                    for (int m = 0; m < M; ++m)
#pragma unroll
                        for (int j = 0; j < TOGETHER; ++j)
                            mma_m16n8k8_tf32(z[m][j], which == 0 ? w[m].small : w[m].big, which == 1 ? x[j].small : x[j].big);
            }
            if (group + 1 < J / TOGETHER) take_forward(forward_rows, s.X[buffer] + forward_from, group + 1);
            float part[TOGETHER][2] = {};
#pragma unroll
            for (int m = 0; m < M; ++m) {
                unsigned bits = 0;
#pragma unroll
                for (int j = 0; j < TOGETHER; ++j)
#pragma unroll
                    for (int i = 0; i < 4; ++i) {  // neuron p + 8 (i / 2), row 2 q + i % 2
                        const float h = z[m][j][i];
                        part[j][i % 2] += (h < 0.0f ? 0.0f : h) * w2[m][i / 2];
                        if (h > 0.0f) bits |= 1u << (4 * j + i);
                    }
                positive[m] |= bits << (4 * TOGETHER * group % 32);
            }
            // Lanes with the same q add up their parts; each keeps the sums of some tiles of rows, while there are
            // several.
            int tile = group * TOGETHER, twins = 0;
#pragma unroll
            for (int bit = 16, kept = TOGETHER; bit >= 4; bit /= 2) {
                const bool upper = lane & bit;
                if (kept > 1) {
                    kept /= 2;
                    tile += upper ? kept : 0;
                } else {
                    twins |= bit;
                }
#pragma unroll
                for (int j = 0; j < TOGETHER; ++j)
#pragma unroll
                    for (int i = 0; i < 2; ++i) {
                        if (twins & bit) {
                            if (j == 0) part[0][i] += __shfl_xor_sync(0xffffffffu, part[0][i], bit);
                        } else if (j < kept) {
                            const float mine = upper ? part[j + kept][i] : part[j][i];
                            const float other = upper ? part[j][i] : part[j + kept][i];
                            part[j][i] = mine + __shfl_xor_sync(0xffffffffu, other, bit);
                        }
                    }
            }
            if (!(lane & twins)) {
                const unsigned row = warp * SLICE + 8 * tile + 2 * q;
                const unsigned to = shared_address(&s.parts[half][rank][row % OWN]);
                send(in_block(to, row / OWN), part[0], in_block(parts_there, row / OWN));
            }
        }

        // the exchange
        take_backward(backward_rows, s.X[buffer] + backward_from, 0);
        take_forward(forward_rows, s.X[next_buffer] + forward_from, 0);
        fetch(s.X[free_buffer], of(after));
        if (adds_up) {
            mbarrier_wait(parts_there, parity);
#pragma unroll
            for (int i = 0; i < OF_THREAD; ++i) {
                const int at = own + i * THREADS, row = (int)rank * OWN + at;
                float sum[2] = {};
#pragma unroll
                for (int c = 0; c < CLUSTER; ++c) sum[c % 2] += s.parts[half][c][at];
                float prediction = sum[0] + sum[1];
                if constexpr (CLUSTERS > 1) {
                    const unsigned when = before + step + 1;
                    if (copy == 0) publish(word_of(half, cluster, row), (Word)when << 32 | __float_as_uint(prediction));
                    float all = 0.0f;
#pragma unroll
                    for (int c = 0; c < CLUSTERS; ++c)
                        all += c == cluster ? prediction : __uint_as_float((unsigned)await(word_of(half, c, row), when));
                    prediction = all;
                }
                const float error = row < count ? prediction - y[i] : 0.0f;
                const float g[1] = {2.0f / count * error};
                const unsigned to = shared_address(&s.g[half][row]);
#pragma unroll
                for (int c = copy; c < CLUSTER; c += COPIES) send(in_block(to, c), g, in_block(g_there, c));
                if (step == steps - 1 && cluster == 0 && copy == 0 && row < count) E[row] = error;
                y[i] = target(next, row);
            }
        }
        mbarrier_wait(g_there, parity);

        // backward
        const float* const of_g = &s.g[half][warp * SLICE + 2 * q];
        float u[SUMS][M][K][4] = {};
#pragma unroll 1
        for (int group = 0; group < J / TOGETHER; ++group) {
#pragma unroll
            for (int j = 0; j < TOGETHER; ++j) {
                const float2 g = *reinterpret_cast<const float2*>(of_g + 8 * (group * TOGETHER + j));
                Parts<2> x[K];
                unsigned on[M][4];
#pragma unroll
                for (int k = 0; k < K; ++k) x[k].set(0, backward_rows[j][k][0] * g.x), x[k].set(1, backward_rows[j][k][1] * g.y);
#pragma unroll
                for (int m = 0; m < M; ++m)
#pragma unroll
                    for (int i = 0; i < 4; ++i)  // neuron p + 8 (i % 2), row 2 q + i / 2
                        on[m][i] = positive[m] >> (4 * TOGETHER * group % 32) >> (4 * j + i % 2 * 2 + i / 2) & 1 ? ONE : 0;
#pragma unroll
                for (int which = 0; which < 2; ++which)
#pragma unroll
                    for (int m = 0; m < M; ++m)
#pragma unroll
                        for (int k = 0; k < K; ++k)
                            mma_m16n8k8_tf32(u[which == 1 ? 0 : SUMS - 1][m][k], on[m], which == 0 ? x[k].small : x[k].big);
            }
            if (group + 1 < J / TOGETHER) take_backward(backward_rows, s.X[buffer] + backward_from, group + 1);
        }
#pragma unroll
        for (int m = 0; m < M; ++m)
#pragma unroll
            for (int k = 0; k < K; ++k) {
                float sum[4];
#pragma unroll
                for (int i = 0; i < 4; ++i) sum[i] = SUMS == 2 ? u[0][m][k][i] + u[SUMS - 1][m][k][i] : u[0][m][k][i];
                s.U[half][warp][m][k][lane] = make_float4(sum[0], sum[2], sum[1], sum[3]);
            }
        copies_done();
        __syncthreads();  // also: the batch after the next is in shared memory

        // the update
#pragma unroll
        for (int m = 0; m < M; ++m) {
            float total[K][4] = {}, dw2[2] = {};
#pragma unroll
            for (int k = 0; k < K; ++k) {
#pragma unroll
                for (int from = 0; from < WARPS; ++from) {
                    const float4 v = s.U[half][from][m][k][lane];
                    total[k][0] += v.x, total[k][1] += v.y, total[k][2] += v.z, total[k][3] += v.w;
                }
#pragma unroll
                for (int i = 0; i < 4; ++i) dw2[i % 2] += w1[m][k][i] * total[k][i];
            }
#pragma unroll
            for (int n = 0; n < 2; ++n) {
                for (int apart = 1; apart < 4; apart *= 2) dw2[n] += __shfl_xor_sync(0xffffffffu, dw2[n], apart);
                w2[m][n] -= rate * dw2[n];
            }
#pragma unroll
            for (int k = 0; k < K; ++k)
#pragma unroll
                for (int i = 0; i < 4; ++i) w1[m][k][i] -= rate * (w2[m][i % 2] * total[k][i]);
        }
        batch = next, buffer = next_buffer;
    }

    if (warp == 0)
#pragma unroll
        for (int m = 0; m < M; ++m)
#pragma unroll
            for (int n = 0; n < 2; ++n) {
                const int column = neuron(m, n);
                if (column >= HIDDEN) continue;
                if (q == 0) W2[column] = w2[m][n];
#pragma unroll
                for (int k = 0; k < K; ++k)
#pragma unroll
                    for (int f = 0; f < 2; ++f) W1[(size_t)feature(k, f) * HIDDEN + column] = w1[m][k][2 * f + n];
            }
    copies_done();
    cluster_barrier();  // no block may exit while others still write to its shared memory
}
