// A whole training of a network with two hidden layers, all epochs, in one launch of CLUSTERS clusters of 8 blocks.
//
//   H1 = max(X W1, 0), H2 = max(H1 W2, 0), y = H2 w, e = y - Y, g = 2/rows e                       forward
//   w -= rate H2^T g;  W2 -= rate H1^T (g w^T where H2 > 0);  dZ1 = g w^T W2^T where H1 > 0;       backward, in
//   W1 -= rate X^T dZ1                                                                             the paper's order
//
// A step waits for the whole grid twice: a cluster's part of the forward pass is 16 rows of the batch, for which it reads
// all weights, its part of the backward one 16 neurons of the first layer, for which it reads all rows of what forward
// passes have left. Block r of a cluster has the same COLS2 columns of W2 and H2 in both.
//
//   forward    Each warp computes H1 of the 16 rows for an eighth of the columns: all that it needs of k for its part of
//              H1 W2, and in the registers where the second product wants it, if that takes k in another order. So
//              blocks do it eight times, and tell each other nothing. The warps' parts of H2 meet in shared memory.
//   backward   Each warp has an eighth of the rows. With B = 1 where H2 > 0, U = (diag(g) H1)^T B need not know w; then
//              dW2 = U diag(w), and a block has its 16 x COLS2 of W2. dZ1 = diag(g) B (W2 diag(w))^T where H1 > 0: a
//              block makes what its columns add, for all rows, and each pair of neurons is summed up by another block of
//              the cluster (st.async, with an mbarrier to wait at), which needs nothing else for their columns of W1.
//   kept       What a block updates never leaves its registers; it is written for the others to read.
//   3 x TF32   on tensor cores (tf32.cuh), or 2 x where an operand is B, which is exact.
//
// Layout: widths and the batch are padded with 0 to multiples of 16, and each batch of X and Y by itself. `weights` is
// W1, W2, w. Launch: CLUSTERS clusters of 8 blocks of 256 threads, all at the same time, `shared_bytes` of dynamic
// shared memory. Needs sm_90.

constexpr int WARPS = 8, THREADS = 32 * WARPS;

#include "barrier.cuh"
#include "cluster.cuh"
#include "l2.cuh"
#include "tf32.cuh"

constexpr int WIDTH[] = {WIDTHS};
constexpr int FEATURES = WIDTH[0], N1 = WIDTH[1], N2 = WIDTH[2];
constexpr int PADDED = (BATCH + 15) / 16 * 16;          // rows of a batch in memory
constexpr int J = (PADDED + 8 * WARPS - 1) / (8 * WARPS), SLICE = 8 * J, ROWS = SLICE * WARPS;  // SLICE: rows of a warp
constexpr int COLS1 = N1 / WARPS, T1 = COLS1 / 8;       // columns of H1 of a warp; tiles of a product
constexpr int COLS2 = N2 / CLUSTER, T2 = COLS2 / 8;     // columns of W2 and H2 of a block
constexpr int SLABS = FEATURES / 16;
constexpr int STRIDE = COLS2 + 4;
constexpr unsigned ONE = 0x3f800000;                    // 1.0f
static_assert(sizeof WIDTH / sizeof *WIDTH == 3 && CLUSTER == 8, "two hidden layers");
static_assert(N1 % 64 == 0 && N2 % 64 == 0 && T1 <= 4 && T2 <= 4, "all warps and blocks have columns, and not too many");
static_assert(FEATURES <= 32 && ROWS <= THREADS && PADDED <= 16 * CLUSTERS && N1 <= 16 * CLUSTERS, "this is for another kernel");

// ---- memory of the device, in floats from `workspace` on
constexpr int AT_H1 = BARRIER_FLOATS, AT_H2 = AT_H1 + ROWS * N1, AT_POSITIVE = AT_H2 + ROWS * N2, AT_Y = AT_POSITIVE + CLUSTER * ROWS;

struct Shared {
    float X[ROWS * FEATURES];
    float x[16][FEATURES + 16];                  // rows of the forward pass
    float parts[WARPS][16][STRIDE];              // of Z2, and of U, from each warp
    float V[16][STRIDE];                         // W2 diag(w)
    float dH[CLUSTER][ROWS / 2][4];              // of two rows and this block's neurons of H1, from each block
    float dZ[ROWS][2];
    float dW1[WARPS][2][FEATURES];
    float dw[WARPS][COLS2], w[2][COLS2];         // w: of even and odd steps
    float g[ROWS];
    unsigned positive[ROWS];                     // which of H2 are
    alignas(8) unsigned long long dH_there;
};
extern "C" __device__ const int shared_bytes = sizeof(Shared);

// ---- the training. Of a lane, p = lane / 4 and q = lane % 4.

extern "C" __global__ __launch_bounds__(THREADS, 1) void train_persistent(
    const float* __restrict__ X, const float* __restrict__ Y, float* weights, float* E, float* workspace, int rows,
    int epochs, float rate, float)
{
    extern __shared__ __align__(16) float dynamic[];
    Shared& s = *reinterpret_cast<Shared*>(dynamic);
    const int t = threadIdx.x, lane = t % 32, warp = t / 32, p = lane / 4, q = lane % 4;
    const int rank = cluster_rank(), cluster = blockIdx.x / CLUSTER;
    const int batches = (rows + BATCH - 1) / BATCH, steps = epochs * batches;
    float *const W1 = weights, *const W2 = W1 + FEATURES * N1, *const w = W2 + N1 * N2;
    float *const H1 = workspace + AT_H1, *const H2 = workspace + AT_H2, *const y_parts = workspace + AT_Y;
    unsigned* const positive = reinterpret_cast<unsigned*>(workspace + AT_POSITIVE);
    const unsigned dH_there = shared_address(&s.dH_there);

    // Forward: rows from `row` on. Backward: neurons from `neuron` on; where there are too few, several clusters do the same.
    const int row = 16 * cluster, neuron = row % N1, col = rank * COLS2;
    const bool has_rows = row < PADDED, has_neurons = row < N1;
    const auto neuron_of = [&](int i) { return neuron + (i < 8 ? 2 * i : 2 * i - 15); };   // in U's order: 0, 2, ..., 1, 3, ...

    // Where a lane's parts of operands are.
    const float *const from_W1 = W1 + 4 * q * N1 + warp * COLS1 + T1 * p, *const from_W2 = W2 + (warp * COLS1 + 2 * T1 * q) * N2 + col + T2 * p;
    const float *const from_H1 = H1 + (warp * SLICE + q) * N1 + neuron + 2 * p, *const from_H2 = H2 + (warp * SLICE + q) * N2 + col + T2 * p;

    // Elements of this thread: W2's and U's rows warp and warp + 8, in U's order, column lane; W1's feature t / 2, neuron t % 2.
    float kept2[2] = {}, kept1 = 0.0f;
    float* const mine1 = W1 + t / 2 * N1 + neuron + 2 * rank + t % 2;
    float* mine2[2];
    for (int e = 0; e < 2; ++e) {
        mine2[e] = W2 + neuron_of(warp + 8 * e) * N2 + col + lane;
        if (lane < COLS2) kept2[e] = *mine2[e];
    }
    if (t < 2 * FEATURES) kept1 = *mine1;
    if (t < COLS2) s.w[0][t] = w[col + t];
    for (int i = t + PADDED * FEATURES; i < ROWS * FEATURES; i += THREADS) s.X[i] = 0.0f;
    if (t == 0) mbarrier_init(dH_there);
    mbarriers_made();
    __syncthreads();
    cluster_barrier();  // every block's mbarrier is there
    Barrier barrier{reinterpret_cast<unsigned*>(workspace)};
    barrier.arrive();

    int batch = 0;
    for (int step = 0; step < steps; ++step) {
        const float* const of_X = X + (size_t)batch * PADDED * FEATURES;
        const int count = min(BATCH, rows - batch * BATCH);
        const float *const old_w = s.w[step % 2];
        float* const new_w = s.w[1 - step % 2];
        if (t == 0) mbarrier_expect(dH_there, sizeof s.dH);

        // ---- forward. Of each 16 features, a lane has four neighbours, two for each mma.
        if (has_rows && t < 4 * FEATURES)
            *reinterpret_cast<float4*>(s.x[4 * t / FEATURES] + 4 * t % FEATURES) = reinterpret_cast<const float4*>(of_X + row * FEATURES)[t];
        barrier.wait();
        if (has_rows) {
            float w1[SLABS][4][T1], w2[2 * T1][T2];
#pragma unroll
            for (int k = 0; k < SLABS; ++k)
#pragma unroll
                for (int i = 0; i < 4; ++i) read(from_W1 + (16 * k + i) * N1, w1[k][i]);
#pragma unroll
            for (int i = 0; i < 2 * T1; ++i) read(from_W2 + i * N2, w2[i]);
            __syncthreads();   // or else compilers put off what they need last
            float x[SLABS][2][4];
#pragma unroll
            for (int k = 0; k < SLABS; ++k)
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    const float4 v = *reinterpret_cast<const float4*>(&s.x[p + 8 * i][16 * k + 4 * q]);
                    x[k][i][0] = v.x, x[k][i][1] = v.y, x[k][i][2] = v.z, x[k][i][3] = v.w;
                }
            float h[T1][4] = {};   // rows p (0 and 1) and p + 8 (2 and 3), columns 2 T1 q + j (0 and 2), and T1 further
#pragma unroll
            for (int k = 0; k < SLABS; ++k)
#pragma unroll
                for (int i = 0; i < 4; i += 2) {
                    Parts<4> a;
                    Parts<2> b[T1];
#pragma unroll
                    for (int of = 0; of < 4; ++of) a.set(of, x[k][of % 2][i + of / 2]);
#pragma unroll
                    for (int j = 0; j < T1; ++j) b[j].set(0, w1[k][i][j]), b[j].set(1, w1[k][i + 1][j]);
#pragma unroll
                    for (int which = 0; which < 3; ++which)
#pragma unroll
                        for (int j = 0; j < T1; ++j)
                            mma_m16n8k8_tf32(h[j], which == 0 ? a.small : a.big, which == 1 ? b[j].small : b[j].big);
                }
#pragma unroll
            for (int j = 0; j < T1; ++j)
#pragma unroll
                for (int i = 0; i < 4; ++i) h[j][i] = h[j][i] < 0.0f ? 0.0f : h[j][i];  // a NaN is not < 0 and stays
            if (warp == rank)
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    float line[2 * T1];
#pragma unroll
                    for (int j = 0; j < T1; ++j) line[j] = h[j][2 * i], line[T1 + j] = h[j][2 * i + 1];
                    write(H1 + (row + p + 8 * i) * N1 + warp * COLS1 + 2 * T1 * q, line);
                }

            float z[T2][4] = {};
#pragma unroll
            for (int j = 0; j < T1; ++j) {
                Parts<4> a;
                Parts<2> b[T2];
#pragma unroll
                for (int of = 0; of < 4; ++of) a.set(of, h[j][of / 2 + of % 2 * 2]);
#pragma unroll
                for (int n = 0; n < T2; ++n) b[n].set(0, w2[j][n]), b[n].set(1, w2[T1 + j][n]);
#pragma unroll
                for (int which = 0; which < 3; ++which)
#pragma unroll
                    for (int n = 0; n < T2; ++n)
                        mma_m16n8k8_tf32(z[n], which == 0 ? a.small : a.big, which == 1 ? b[n].small : b[n].big);
            }
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                float line[2 * T2];
#pragma unroll
                for (int n = 0; n < T2; ++n) line[n] = z[n][2 * i], line[T2 + n] = z[n][2 * i + 1];
                write(&s.parts[warp][p + 8 * i][2 * T2 * q], line);
            }
            __syncthreads();
            float value[2] = {}, part[2];   // of H2, rows warp and warp + 8, column lane
#pragma unroll
            for (int e = 0; e < 2; ++e)
                if (lane < COLS2)
#pragma unroll
                    for (int from = 0; from < WARPS; ++from) value[e] += s.parts[from][warp + 8 * e][lane];
#pragma unroll
            for (int e = 0; e < 2; ++e) {
                value[e] = value[e] < 0.0f ? 0.0f : value[e];
                part[e] = lane < COLS2 ? value[e] * old_w[lane] : 0.0f;
                if (lane < COLS2) H2[(row + warp + 8 * e) * N2 + col + lane] = value[e];
            }
#pragma unroll
            for (int apart = 16; apart > 0; apart /= 2)
#pragma unroll
                for (int e = 0; e < 2; ++e) part[e] += __shfl_xor_sync(0xffffffffu, part[e], apart);
#pragma unroll
            for (int e = 0; e < 2; ++e) {
                const unsigned bits = __ballot_sync(0xffffffffu, value[e] > 0.0f);
                const int r = row + warp + 8 * e;
                if (lane == 0) positive[rank * ROWS + r] = bits, y_parts[r * CLUSTER + rank] = part[e];
            }
        }
        barrier.arrive();
        for (int i = 4 * t; i < PADDED * FEATURES; i += 4 * THREADS) copy_async(shared_address(s.X + i), of_X + i);
        const float target = t < PADDED ? Y[(size_t)batch * PADDED + t] : 0.0f;
        barrier.wait();

        // ---- backward. A lane has rows 8 j + q and 4 further of its warp's, neurons 2 p and 2 p + 1, columns T2 p + n.
        float y[CLUSTER] = {}, own[2] = {}, h1[J][2][2] = {}, h2[J][2][T2] = {};
        unsigned bits = 0;
        if (t < PADDED) {
            read(y_parts + t * CLUSTER, y);
            bits = __ldcg(positive + rank * ROWS + t);
        }
#pragma unroll
        for (int j = 0; j < J; ++j)
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const int r = 8 * j + 4 * i;
                if (PADDED < ROWS && warp * SLICE + q + r >= PADDED) continue;
                read(from_H1 + r * N1, h1[j][i]);
                read(from_H2 + r * N2, h2[j][i]);
            }
        if (t < PADDED) read(H1 + t * N1 + neuron + 2 * rank, own);
        if (t < ROWS) {
            float sum = 0.0f;
#pragma unroll
            for (int i = 0; i < CLUSTER; ++i) sum += y[i];
            const float error = t < count ? sum - target : 0.0f;
            s.g[t] = 2.0f / count * error;
            s.positive[t] = bits;
            if (step == steps - 1 && blockIdx.x == 0 && t < PADDED) E[t] = error;
        }
        __syncthreads();

        float u[T2][4] = {}, dw[T2] = {};
#pragma unroll
        for (int j = 0; j < J; ++j) {
            Parts<4> a;
            unsigned b[T2][2];
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const float g = s.g[warp * SLICE + 8 * j + q + 4 * i];
#pragma unroll
                for (int of = 0; of < 2; ++of) a.set(2 * i + of, h1[j][i][of] * g);
#pragma unroll
                for (int n = 0; n < T2; ++n) {
                    dw[n] += h2[j][i][n] * g;
                    b[n][i] = h2[j][i][n] > 0.0f ? ONE : 0;
                }
            }
#pragma unroll
            for (int which = 0; which < 2; ++which)
#pragma unroll
                for (int n = 0; n < T2; ++n) mma_m16n8k8_tf32(u[n], which == 0 ? a.small : a.big, b[n]);
        }
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            float line[2 * T2];
#pragma unroll
            for (int n = 0; n < T2; ++n) line[n] = u[n][2 * i], line[T2 + n] = u[n][2 * i + 1];
            write(&s.parts[warp][p + 8 * i][2 * T2 * q], line);
        }
#pragma unroll
        for (int n = 0; n < T2; ++n) {
            for (int apart = 1; apart < 4; apart *= 2) dw[n] += __shfl_xor_sync(0xffffffffu, dw[n], apart);
            if (q == 0) s.dw[warp][T2 * p + n] = dw[n];
        }
        __syncthreads();

        if (lane < COLS2) {
            float sum = 0.0f, of_u[2] = {};
#pragma unroll
            for (int from = 0; from < WARPS; ++from) {
                sum += s.dw[from][lane];
                of_u[0] += s.parts[from][warp][lane], of_u[1] += s.parts[from][warp + 8][lane];
            }
            const float before = old_w[lane], after = before - rate * sum;
            if (warp == 0) new_w[lane] = after;
#pragma unroll
            for (int e = 0; e < 2; ++e) {
                const float was = kept2[e];
                kept2[e] -= rate * (of_u[e] * (SEQUENTIAL ? after : before));
                s.V[warp + 8 * e][lane] = SEQUENTIAL ? kept2[e] * after : was * before;
                if (has_neurons) *mine2[e] = kept2[e];
            }
        }
        __syncthreads();

        float d[J][4] = {};   // neurons 2 p (0 and 1) and 2 p + 1 (2 and 3), rows 2 q and 2 q + 1
        {
            unsigned of_row[J];
#pragma unroll
            for (int j = 0; j < J; ++j) of_row[j] = s.positive[warp * SLICE + 8 * j + p] >> q;
#pragma unroll
            for (int k = 0; k < T2; ++k) {
                Parts<4> a;
#pragma unroll
                for (int of = 0; of < 4; ++of) a.set(of, s.V[p + of % 2 * 8][8 * k + of / 2 * 4 + q]);
#pragma unroll
                for (int which = 0; which < 2; ++which)
#pragma unroll
                    for (int j = 0; j < J; ++j) {
                        const unsigned b[2] = {of_row[j] >> 8 * k & 1 ? ONE : 0, of_row[j] >> (8 * k + 4) & 1 ? ONE : 0};
                        mma_m16n8k8_tf32(d[j], which == 0 ? a.small : a.big, b);
                    }
            }
        }
#pragma unroll
        for (int j = 0; j < J; ++j)
#pragma unroll
            for (int i = 0; i < 4; ++i) d[j][i] *= s.g[warp * SLICE + 8 * j + 2 * q + i % 2];
#pragma unroll
        for (int j = 0; j < J; ++j)
            send(in_block(shared_address(s.dH[rank][(warp * SLICE + 8 * j) / 2 + q]), p), d[j], in_block(dH_there, p));
        copies_done();
        mbarrier_wait(dH_there, step % 2);
        if (t < ROWS) {
            float sum[2] = {};
#pragma unroll
            for (int from = 0; from < CLUSTER; ++from)
#pragma unroll
                for (int n = 0; n < 2; ++n) sum[n] += s.dH[from][t / 2][2 * n + t % 2];
#pragma unroll
            for (int n = 0; n < 2; ++n) s.dZ[t][n] = own[n] > 0.0f ? sum[n] : 0.0f;
        }
        __syncthreads();

        float sum[2] = {};
        if (lane < FEATURES)
#pragma unroll
            for (int i = 0; i < SLICE; ++i) {
                const float value = s.X[(warp * SLICE + i) * FEATURES + lane];
#pragma unroll
                for (int n = 0; n < 2; ++n) sum[n] += value * s.dZ[warp * SLICE + i][n];
            }
        if (lane < FEATURES) s.dW1[warp][0][lane] = sum[0], s.dW1[warp][1][lane] = sum[1];
        __syncthreads();
        if (t < 2 * FEATURES) {
            float gradient = 0.0f;
#pragma unroll
            for (int from = 0; from < WARPS; ++from) gradient += s.dW1[from][t % 2][t / 2];
            kept1 -= rate * gradient;
            if (has_neurons) *mine1 = kept1;
        }
        barrier.arrive();
        batch = batch + 1 < batches ? batch + 1 : 0;
    }
    barrier.wait();
    if (cluster == 0 && t < COLS2) w[col + t] = s.w[steps % 2][t];
    barrier.reset();
}
