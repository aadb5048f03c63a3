// The training of a network with one hidden layer, all steps of a launch (steps.cuh).
//
//   Z = X W1, H = max(Z, 0), y = H w2, e = y - Y, g = scale e        forward, equations (1) and (2)
//   w2 -= rate H^T g, then W1 -= rate X^T (g w2^T where H > 0)       backward, in the paper's order
//
// CLUSTERS clusters (usually one) of CLUSTER blocks train one network. Each block owns NEURONS hidden neurons: their
// columns of W1 and elements of w2 never leave its registers. Each of its WARPS computing warps takes SLICE rows of the
// batch, and holds all of the block's W1 and w2. One more warp, the exchanging one, copies the next batch to shared
// memory and adds up predictions, so that what others wait for is not queued behind loads: exchange.cuh.
//
// The headers of one_layer/ have the parts that stand alone. What a computing warp does is one function, below: as
// several, some plans' registers were allocated differently.
//
//   forward    Z^T = W1^T X^T on tensor cores (tf32.cuh). A lane's accumulators of Z^T, for rows 2 q and 2 q + 1, are
//              exactly what the backward product needs from it, if that product takes the rows in this order. So Z > 0
//              becomes 1.0f or 0.0f in its register, or a bit where there are few of those, and neither Z nor H is ever
//              stored.
//   exchange   y is the sum of contributions of all blocks. A block adds up some rows of it, and sends g of these rows
//              to all blocks: two short messages.
//   parts      With PARTS = 2, the sums of the first half of each warp's rows are sent and added up while the products
//              of the second half run, and the backward product begins with the first half.
//   backward   U^T = B^T diag(g) X with B = 1 where Z > 0, which TF32 represents exactly; each warp over its rows. Then
//              dw2[j] is the sum over f of W1[f][j] U[f][j], since H = X W1 where H is not 0, and dW1 = w2 U after the
//              update of w2.
//   update     A lane's elements of U^T are the same as its elements of W1^T. So each warp adds up the contributions
//              of all warps, in one order, and updates its own copy: the copies stay identical.
//   data       The next batch is copied to shared memory (cp.async) during the forward product, and each lane's first
//              operands of it are loaded while the block waits for g.
//   barriers   Two per step: one after the forward product, when everyone waits anyway (the next batch has arrived), and
//              one between backward and update.
//
// Layout: the batch, features and hidden neurons are padded with zeros to multiples of 16; each batch of X and Y is
// stored contiguously. `weights` is W1, then w2.
// Members: MEMBERS networks train on the same X and Y, each with its own weights and learning rate, stored one after
// the other in `weights`, E and, where there are several, behind the head of `workspace`. They are independent: those
// that do not fit on the device start when others have finished.
// Launch: MEMBERS times CLUSTERS clusters of CLUSTER blocks of 32 (WARPS + 1) threads (`shared_bytes` of dynamic shared
// memory); the device must be able to run the CLUSTERS clusters of one network at the same time. Needs sm_90.

#include "cluster.cuh"
#include "copies.cuh"
#include "masked.cuh"
#include "messages.cuh"
#include "steps.cuh"
#include "one_layer/layout.cuh"
#include "one_layer/instructions.cuh"
#include "one_layer/rows.cuh"
#include "one_layer/sums.cuh"
#include "one_layer/exchange.cuh"
#include "one_layer/weights.cuh"

__device__ void compute(Shared& s, const Data& data, float* W1, float* W2, float rate, int cluster)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, p = lane / 4, q = lane % 4;
    const unsigned rank = cluster_rank();
    const int first = (cluster * CLUSTER + (int)rank) * NEURONS + p;
    OfW1 w1;
    OfW2 w2;
    load(w1, w2, W1, W2, first, q);

    const unsigned high = high_bits(data.rows);
    Rows<TOGETHER> forward_rows, backward_rows;
    const int forward_from = (warp * SLICE + p) * STRIDE, backward_from = (warp * SLICE + 2 * q) * STRIDE;
    take_forward(forward_rows, s.X[0] + forward_from, q, 0);

    for (int step = 0; step < data.steps; ++step) {
        const int half = step % 2, parity = step / 2 % 2;
        const float *const here = s.X[half], *const next = s.X[half ^ 1];

        // forward
        float ones[ONES ? M : 1][ONES ? J : 1][4];
        unsigned positive[M] = {};
        float sums[PARTS][RUN][2] = {};
        const auto tell = [&](int part) {
            const unsigned position = warp * 8 * RUN + 8 * tile_kept(lane) + VEC * q, block = position / PART_OWN;  // of the part's
            const unsigned parts_there = shared_address(&s.parts_there[half][part]);
            const unsigned to = shared_address(&s.parts[half][rank][part * PART_OWN + position % PART_OWN]);
            float message[VEC];
#pragma unroll
            for (int n = 0; n < VEC; ++n) message[n] = sums[part][n / 2][n % 2];
            send_if(!(lane & TWINS), in_block(to, block), message, in_block(parts_there, block));
        };
#pragma unroll
        for (int group = 0; group < GROUPS; ++group) {
            const int part = group / (GROUPS / PARTS);
            const bool follows = part > 0 && group % (GROUPS / PARTS) == 0;  // the part before is added up meanwhile
            float z[M][TOGETHER][4] = {};
#pragma unroll
            for (int k = 0; k < K; ++k) {
                Masked<2> x[TOGETHER];
                Parts<4, ROUNDS> w[M];
#pragma unroll
                for (int j = 0; j < TOGETHER; ++j)
#pragma unroll
                    for (int i = 0; i < 2; ++i) x[j].set(i, forward_rows[j][k][i], high);
#pragma unroll
                for (int m = 0; m < M; ++m)
#pragma unroll
                    for (int i = 0; i < 4; ++i) w[m].set(i, now(w1[m][k][i]));
#pragma unroll
                for (int which = 0; which < 3; ++which) {
#pragma unroll
                    for (int m = 0; m < M; ++m)
#pragma unroll
                        for (int j = 0; j < TOGETHER; ++j)
                            mma_m16n8k8_tf32(z[m][j], which == 0 ? w[m].small : w[m].big, which == 1 ? x[j].small : x[j].big);
                    if (follows) {
                        constexpr int FROM = K, EACH = (SHUFFLES + 2 * K - 2) / (2 * K - 1);
                        const int n = (3 * k + which - FROM) * EACH;
#pragma unroll
                        for (int i = 0; i < EACH; ++i)
                            if (n >= 0 && n + i < SHUFFLES) shuffle(sums[part > 0 ? part - 1 : 0], n + i, lane);
                        if (k == K - 1 && which == 2) tell(part - 1);
                    }
                }
            }
            if (group + 1 < GROUPS) take_forward(forward_rows, here + forward_from, q, group + 1);
#pragma unroll
            for (int m = 0; m < M; ++m) {
                unsigned bits = 0;
#pragma unroll
                for (int j = 0; j < TOGETHER; ++j)
#pragma unroll
                    for (int i = 0; i < 4; ++i) {  // neuron p + 8 (i / 2), row 2 q + i % 2
                        const float h = z[m][j][i];
                        sums[part][group * TOGETHER + j - part * RUN][i % 2] += positive_part(h) * w2[m][i / 2];
                        if (ONES) ones[m][group * TOGETHER + j][i % 2 * 2 + i / 2] = is_positive(h);
                        else bits |= (unsigned)(h > 0.0f) << (4 * j + i);
                    }
                positive[m] |= bits << (4 * TOGETHER * group % 32);
            }
        }
#pragma unroll
        for (int n = 0; n < SHUFFLES; ++n) shuffle(sums[PARTS - 1], n, lane);
        tell(PARTS - 1);

        // the exchange
        if (BACKWARD_AHEAD) take_backward(backward_rows, here + backward_from, p, 0);
        block_barrier();  // the next batch is in shared memory
        if (FORWARD_AHEAD) take_forward(forward_rows, next + forward_from, q, 0);
        // backward
        float u[SUMS][M][K][4] = {};
#pragma unroll UNROLLED
        for (int group = 0; group < GROUPS; ++group) {
            const int part = group / (GROUPS / PARTS);
            if (group % (GROUPS / PARTS) == 0) mbarrier_wait(shared_address(&s.g_there[half][part]), parity);
            if (!BACKWARD_AHEAD) take_backward(backward_rows, here + backward_from, p, group);
            float g[TOGETHER][2];
#pragma unroll
            for (int j = 0; j < TOGETHER; j += VEC == 4 && TOGETHER > 1 ? 2 : 1) {
                const int eight = group * TOGETHER + j - part * RUN;  // of the part's
                const float* const from = &s.g[half][part * PART_ROWS + 8 * warp * RUN + 8 * (VEC == 4 ? eight & ~1 : eight) + VEC * q];
                if (VEC == 4 && TOGETHER > 1) {
                    const float4 v = *reinterpret_cast<const float4*>(from);
                    g[j][0] = v.x, g[j][1] = v.y;
                    g[j + 1 < TOGETHER ? j + 1 : j][0] = v.z, g[j + 1 < TOGETHER ? j + 1 : j][1] = v.w;
                } else {
                    const float2 v = *reinterpret_cast<const float2*>(from + (VEC == 4 ? eight % 2 * 2 : 0));
                    g[j][0] = v.x, g[j][1] = v.y;
                }
            }
#pragma unroll
            for (int j = 0; j < TOGETHER; ++j) {
                Parts<2> x[K];
                unsigned on[M][4];
#pragma unroll
                for (int k = 0; k < K; ++k)
#pragma unroll
                    for (int i = 0; i < 2; ++i) x[k].set(i, backward_rows[j][k][i] * g[j][i]);
#pragma unroll
                for (int m = 0; m < M; ++m)
#pragma unroll
                    for (int i = 0; i < 4; ++i)  // neuron p + 8 (i % 2), row 2 q + i / 2
                        if (ONES) on[m][i] = __float_as_uint(ones[m][group * TOGETHER + j][i]);
                        else on[m][i] = positive[m] >> (4 * TOGETHER * group % 32) >> (4 * j + i % 2 * 2 + i / 2) & 1 ? ONE : 0;
#pragma unroll
                for (int which = 0; which < 2; ++which)
#pragma unroll
                    for (int m = 0; m < M; ++m)
#pragma unroll
                        for (int k = 0; k < K; ++k)
                            mma_m16n8k8_tf32(u[which == 1 ? 0 : SUMS - 1][m][k], on[m], which == 0 ? x[k].small : x[k].big);
            }
            if (BACKWARD_AHEAD && group + 1 < GROUPS) take_backward(backward_rows, here + backward_from, p, group + 1);
        }
#pragma unroll
        for (int m = 0; m < M; ++m)
#pragma unroll
            for (int k = 0; k < K; ++k) {
                float sum[4];
#pragma unroll
                for (int i = 0; i < 4; ++i) sum[i] = SUMS == 2 ? u[0][m][k][i] + u[SUMS - 1][m][k][i] : u[0][m][k][i];
                s.U[warp][m][k][lane] = make_float4(sum[0], sum[2], sum[1], sum[3]);
            }
        block_barrier();

        // the update
#pragma unroll
        for (int m = 0; m < M; ++m) {
            float total[K][4] = {}, dw2[2] = {};
#pragma unroll
            for (int k = 0; k < K; ++k) {
#pragma unroll
                for (int from = 0; from < WARPS; ++from) {
                    const float4 v = s.U[from][m][k][lane];
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
        if (!FORWARD_AHEAD) take_forward(forward_rows, next + forward_from, q, 0);
    }

    const int there = now(first);  // so that addresses of the beginning are not kept
    if (warp == 0) store(w1, w2, W1, W2, there, q);
}

extern "C" __global__ __launch_bounds__(THREADS, 1) void train_persistent(
    const float* __restrict__ X, const float* __restrict__ Y, float* weights, float* E, float* workspace, int rows,
    int first, int steps, float rate, float)
{
    extern __shared__ __align__(16) float dynamic[];
    Shared& s = *reinterpret_cast<Shared*>(dynamic);
    const int t = threadIdx.x, batches = (rows + BATCH - 1) / BATCH;
    const int member = blockIdx.x / BLOCKS, cluster = blockIdx.x / CLUSTER % CLUSTERS;
    const Data data{X, Y, rows, batches, first, steps};
    float *W1 = weights + (size_t)member * (FEATURES + 1) * HIDDEN, *W2 = W1 + FEATURES * HIDDEN;
    if (MEMBERS > 1) rate = workspace[AT_RATES + member];

    if (t == 0)
        for (int i = 0; i < 2 * PARTS; ++i)
            mbarrier_init(shared_address(s.parts_there[0] + i)), mbarrier_init(shared_address(s.g_there[0] + i));
    mbarriers_made();
    for (int i = t + PADDED * STRIDE; i < ROWS * STRIDE; i += THREADS) s.X[0][i] = s.X[1][i] = 0.0f;
    if (t >= COMPUTING) fetch(s.X[0], data.of(first));
    copies_done();
    __syncthreads();
    cluster_barrier();  // every block has initialised its mbarriers

    const int warp = __shfl_sync(0xffffffffu, t / 32, 0);  // so that the compiler knows that a warp stays together
    if (warp == WARPS)
        exchange(s, data, E + (size_t)member * PADDED, workspace, cluster);
    else
        compute(s, data, W1, W2, rate, cluster);
    cluster_barrier();  // no block may exit while others still write to its shared memory
}
