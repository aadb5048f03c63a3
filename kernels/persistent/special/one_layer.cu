// The training of a network with one hidden layer, all steps of a launch (steps.cuh).
//
//   Z = X W1, H = max(Z, 0), y = H w2, e = y - Y, g = scale e        forward, equations (1) and (2)
//   w2 -= rate H^T g, then W1 -= rate X^T (g w2^T where H > 0)       backward, in the paper's order
//
// CLUSTERS clusters (usually one) of CLUSTER blocks train one network. Each block owns NEURONS hidden neurons: their
// columns of W1 and elements of w2 never leave its registers. Each of its WARPS computing warps takes SLICE rows of the
// batch, and holds all of the block's W1 and w2. One more warp, the exchanging one, copies the next batch to shared
// memory and adds up predictions, so that what others wait for is not queued behind loads.
//
// What a computing warp does is one function: as several, some plans' registers were allocated differently.
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

#include "../cluster.cuh"
#include "../copies.cuh"
#include "../masked.cuh"
#include "../messages.cuh"
#include "../positive_part.cuh"
#include "../steps.cuh"
#include "one_layer_layout.cuh"

// ---- data
//
// The data: batches in global memory, the next one on its way to shared memory, and the rows of X that a lane takes
// from there as operands of products.

struct Data {
    const float *X, *Y;
    int rows, batches, first, steps;

    __device__ const float* of(int batch) const { return X + (size_t)batch * PADDED * FEATURES; }
    __device__ float target(int batch, int row) const { return row < PADDED ? Y[(size_t)batch * PADDED + row] : 0.0f; }
    __device__ int after(int batch) const { return batch_after(batch, batches); }
};

__device__ void fetch(float* slab, const float* __restrict__ X)  // by the 32 threads of a warp
{
    constexpr int CHUNKS = PADDED * FEATURES / 4, LINE = FEATURES / 4, AT_ONCE = 32 / LINE * LINE;
    const unsigned lane = threadIdx.x % 32, row = lane / LINE, c = lane % LINE;
    const unsigned to = shared_address(slab) + 4 * (row * STRIDE + 4 * c);
    const float* const from = X + 4 * lane;
    if (AT_ONCE < 32 && lane >= AT_ONCE) return;
#pragma unroll
    for (int i = 0; i < (CHUNKS + AT_ONCE - 1) / AT_ONCE; ++i)
        if (CHUNKS % AT_ONCE == 0 || lane + i * AT_ONCE < CHUNKS)
            copy_async(to + 4 * i * (AT_ONCE / LINE) * STRIDE, from + 4 * i * AT_ONCE);
}

// The right operand of a product, N tiles of eight rows: two values per lane for each tile and each eight features.
// In which order a product takes the features is free. Here, a lane has V neighbours: features V (2 q + i) .. + V - 1 of
// 8 V are element i of V eights, in the forward product, and V p .. + V - 1 in the backward product. V is 4, or 2 for
// the last 16 features if there is no whole 32.
template <int N> using Rows = float[N][K][2];

__device__ constexpr int eights_together(int k) { return k / 4 < K / 4 ? 4 : 2; }

__device__ int feature(int k, int i, int q)
{
    const int V = eights_together(k);
    return k / 4 * 32 + V * (2 * q + i) + k % 4 % V;
}

template <int N>
__device__ void take(float (&to)[N][K][2], int j, int i, const float* row, int nth)  // nth: 2 q + i, or p
{
#pragma unroll
    for (int k = 0; k < K; k += 4) {
        if (eights_together(k) == 4) {
            const float4 v = *reinterpret_cast<const float4*>(row + 8 * k + 4 * nth);
            to[j][k][i] = v.x, to[j][k + 1][i] = v.y;
            if (k + 3 < K) to[j][k + 2][i] = v.z, to[j][k + 3][i] = v.w;
        } else {
            const float2 v = *reinterpret_cast<const float2*>(row + 8 * k + 2 * nth);
            to[j][k][i] = v.x, to[j][k + 1][i] = v.y;
        }
    }
}

template <int N>
__device__ void take_forward(Rows<N>& x, const float* row, int q, int group)  // row: p of the warp's rows
{
#pragma unroll
    for (int j = 0; j < N; ++j)
#pragma unroll
        for (int i = 0; i < 2; ++i) take(x, j, i, row + 8 * (group * N + j) * STRIDE, 2 * q + i);
}

template <int N>
__device__ void take_backward(Rows<N>& x, const float* row, int p, int group)  // row: 2 q of the warp's rows
{
#pragma unroll
    for (int j = 0; j < N; ++j)
#pragma unroll
        for (int i = 0; i < 2; ++i) take(x, j, i, row + (8 * (group * N + j) + i) * STRIDE, p);
}

// ---- weights
//
// The weights that a computing warp holds, and where they are in memory. With p = lane / 4 and q = lane % 4, a lane holds
// of W1 and U, for m < M and k < K, neurons 16 m + p and 16 m + p + 8 of features feature(k, 0, q) (elements 0 and 1) and
// feature(k, 1, q) (elements 2 and 3). Its neurons are counted from `first`.

typedef float OfW1[M][K][4];
typedef float OfW2[M][2];

__device__ void load(OfW1& w1, OfW2& w2, const float* W1, const float* W2, int first, int q)
{
#pragma unroll
    for (int m = 0; m < M; ++m)
#pragma unroll
        for (int n = 0; n < 2; ++n) {
            const int column = first + 16 * m + 8 * n;
            w2[m][n] = column < HIDDEN ? W2[column] : 0.0f;
#pragma unroll
            for (int k = 0; k < K; ++k)
#pragma unroll
                for (int f = 0; f < 2; ++f)
                    w1[m][k][2 * f + n] = column < HIDDEN ? W1[feature(k, f, q) * HIDDEN + column] : 0.0f;
        }
}

__device__ void store(const OfW1& w1, const OfW2& w2, float* W1, float* W2, int first, int q)
{
#pragma unroll
    for (int m = 0; m < M; ++m)
#pragma unroll
        for (int n = 0; n < 2; ++n) {
            const int column = first + 16 * m + 8 * n;
            if (column >= HIDDEN) continue;
            if (q == 0) W2[column] = w2[m][n];
#pragma unroll
            for (int k = 0; k < K; ++k)
#pragma unroll
                for (int f = 0; f < 2; ++f) W1[feature(k, f, q) * HIDDEN + column] = w1[m][k][2 * f + n];
        }
}

// ---- sums
//
// Contributions to y: the order of the rows in messages, and how lanes of a warp add up what they have of each row.

// The place of a row in a batch, from that of its message: VEC = 4 takes rows 2 q, 2 q + 1 of two eights together.
__device__ int row_of(int position)
{
    const int part = position / PART_ROWS, of_part = position % PART_ROWS, warp = of_part / (8 * RUN);
    const int at = of_part % (8 * RUN), first = warp * SLICE + part * 8 * RUN;
    if (VEC == 2) return first + at;
    const int q = at / 4 % 4, eight = at / 2 % 2;
    return first + at / 16 * 16 + 8 * eight + 2 * q + at % 2;
}

// Lanes with the same q add up what they have of each row; each keeps the sums of some eights of a part's rows, while
// there are more than a message takes. SHUFFLES, one after the other; then lanes without a bit of TWINS send their sums.
struct Levels {
    int shuffles, twins;
};
__device__ constexpr Levels levels()
{
    Levels found = {0, 0};
    for (int bit = 16, kept = RUN; bit >= 4; bit /= 2) {
        if (kept > VEC / 2) kept /= 2;
        else found.twins |= bit;
        found.shuffles += 2 * kept;
    }
    return found;
}
constexpr int SHUFFLES = levels().shuffles, TWINS = levels().twins;

__device__ void shuffle(float (&sums)[RUN][2], int n, int lane)  // the n-th
{
#pragma unroll
    for (int bit = 16, kept = RUN; bit >= 4; bit /= 2) {
        const bool halves = kept > VEC / 2;
        if (halves) kept /= 2;
#pragma unroll
        for (int j = 0; j < RUN; ++j)
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                if (j >= kept || n != 2 * j + i) continue;
                const bool upper = lane & bit;
                const int far = halves ? j + kept : j;
                const float mine = upper ? sums[far][i] : sums[j][i], other = upper ? sums[j][i] : sums[far][i];
                sums[j][i] = mine + __shfl_xor_sync(0xffffffffu, other, bit);
            }
        n -= 2 * kept;
    }
}

__device__ int tile_kept(int lane)  // the first eight of the part's rows whose sums the lane has at the end
{
    int tile = 0;
    for (int bit = 16, kept = RUN; bit >= 4 && kept > VEC / 2; bit /= 2) {
        kept /= 2;
        tile += lane & bit ? kept : 0;
    }
    return tile;
}

// ---- exchange
//
// The exchanging warp. It copies the next batch to shared memory, adds up the blocks' contributions to y of its block's
// rows, and sends g of these rows to all blocks of the cluster.
//
// Block b adds up those of its ROWS / CLUSTER rows, always in the same order, so that the bits are the same: two short
// messages (st.async, completed on an mbarrier) of VEC rows each, in the order in which lanes have them (row_of()).
// With several clusters, those that add up the same rows first exchange their sums through global memory, in words that
// also hold the step: a reader that sees the step has the sum.

__device__ void exchange(Shared& s, const Data& data, float* E, float* workspace, int cluster)
{
    constexpr int PER = smaller(PART_OWN, 32), TIMES = PART_OWN / PER, VECTORS = PER / VEC, COPIES = 32 / VECTORS;
    const int lane = threadIdx.x % 32, rank = cluster_rank(), own = rank * PART_OWN + lane % PER;
    const int first = lane % VECTORS * VEC, copy = lane / VECTORS;  // of the message that this lane sends, and to whom
    float y[PARTS][TIMES];
#pragma unroll
    for (int part = 0; part < PARTS; ++part)
#pragma unroll
        for (int i = 0; i < TIMES; ++i) y[part][i] = data.target(data.first, row_of(part * PART_ROWS + own + 32 * i));

    // What clusters exchange: for each half, position and cluster, a sum and, in the upper half of the word, its step.
    // Steps are counted on from the last launch, whose last step is in this cluster's own words.
    Word* const words = reinterpret_cast<Word*>(workspace + AT_WORDS);
    const auto words_of = [&](int half, int position) { return words + (half * ROWS + position) * CLUSTERS; };
    unsigned before = 0;
    if constexpr (CLUSTERS > 1) {
        const unsigned even = words_of(0, own)[cluster] >> 32, odd = words_of(1, own)[cluster] >> 32;
        before = (int)(even - odd) > 0 ? even : odd;
        __syncwarp();  // lanes with the same row have read it
    }

    int batch = data.first, step = 0;
    for (; step < data.steps; ++step) {
        const int half = step % 2, parity = step / 2 % 2, next = data.after(batch);
        const int count = min(BATCH, data.rows - batch * BATCH);
        if (lane < PARTS) {
            mbarrier_expect(shared_address(&s.parts_there[half][lane]), PART_ROWS * sizeof(float));
            mbarrier_expect(shared_address(&s.g_there[half][lane]), PART_ROWS * sizeof(float));
        }
        fetch(s.X[(step + 1) % 2], data.of(next));
        const float scale = now(2.0f / count);
#pragma unroll
        for (int part = 0; part < PARTS; ++part) {
            const unsigned g_there = shared_address(&s.g_there[half][part]);
            if (part == PARTS - 1) {
                copies_done();
                __syncwarp();
                block_barrier();  // the next batch is in shared memory
            }
            mbarrier_wait(shared_address(&s.parts_there[half][part]), parity, "y", step);
#pragma unroll
            for (int i = 0; i < TIMES; ++i) {
                const int position = part * PART_ROWS + own + 32 * i, row = row_of(position);
                float sum[4] = {};
#pragma unroll
                for (int c = 0; c < CLUSTER; ++c) sum[c % 4] += s.parts[half][c][part * PART_OWN + lane % PER + 32 * i];
                float prediction = (sum[0] + sum[1]) + (sum[2] + sum[3]);
                if constexpr (CLUSTERS > 1) {
                    const unsigned when = before + step + 1;
                    Word* const from = words_of(half, position);
                    if (lane < PER) publish(from + cluster, (Word)when << 32 | __float_as_uint(prediction));
                    Word found[(CLUSTERS + 1) / 2][2];
                    const auto all_have_come = [&] {   // the words of all clusters together
#pragma unroll
                        for (int c = 0; c < CLUSTERS / 2; ++c) look(from + 2 * c, found[c]);
                        bool all = true;
#pragma unroll
                        for (int c = 0; c < CLUSTERS; ++c) all &= found[c / 2][c % 2] >> 32 == when;
                        return all;
                    };
                    for (unsigned looks = 0; !all_have_come();)
                        if (is_long(++looks)) {
                            await_long("clusters", step, all_have_come);
                            break;
                        }
                    prediction = 0.0f;
#pragma unroll
                    for (int c = 0; c < CLUSTERS; ++c) prediction += __uint_as_float((unsigned)found[c / 2][c % 2]);
                }
                const float error = row < count ? prediction - y[part][i] : 0.0f, g = scale * error;
                float message[VEC];
#pragma unroll
                for (int n = 0; n < VEC; ++n) message[n] = __shfl_sync(0xffffffffu, g, first + n);
                const unsigned to = shared_address(&s.g[half][part * PART_ROWS + rank * PART_OWN + 32 * i + first]);
#pragma unroll
                for (int c = 0; c < CLUSTER; c += COPIES)
                    send_if(CLUSTER % COPIES == 0 || copy + c < CLUSTER, in_block(to, copy + c), message, in_block(g_there, copy + c));
                if (step == data.steps - 1 && cluster == 0 && lane < PER && row < count) E[row] = error;
                y[part][i] = data.target(next, row);
            }
        }
        for (int part = 0; part < PARTS; ++part)   // with a time limit, for the computing warps as well
            mbarrier_wait(shared_address(&s.g_there[half][part]), parity, "g", step);
        __syncwarp();
        block_barrier();
        batch = next;
    }
    if (rank == 0 && cluster == 0 && lane == 0) count_steps(workspace, step);
}

// ---- a computing warp

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
