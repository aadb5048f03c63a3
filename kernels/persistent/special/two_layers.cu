// The training of a network with two hidden layers, all steps of a launch (steps.cuh) of GROUPS groups of 8 blocks.
//
//   H1 = max(X W1, 0), H2 = max(H1 W2, 0), y = H2 w, e = y - Y, g = 2/rows e                       forward
//   w -= rate H2^T g;  W2 -= rate H1^T (g w^T where H2 > 0);  dZ1 = g w^T W2^T where H1 > 0;       backward, in
//   W1 -= rate X^T dZ1                                                                             the paper's order
//
// Blocks exchange data three times per step, by self-validating messages (messages.cuh), without a barrier or a fence.
// In the forward pass a group computes 16 rows of the batch, in the backward pass 16 neurons of the first layer. Block
// r of a group works on the same COLS2 columns of W2 and H2 in both passes. It also owns neurons 2 r and 2 r + 1 of
// the group's first-layer neurons. A step has three parts, below in this order:
//
//   forward       A group computes 16 rows of H2, each block some columns, and their contribution to y.
//   second_layer  A block updates w and some of W2, and publishes its columns' contribution to dH1.
//   first_layer   A block updates two columns of W1, and publishes these columns of the next batch's H1.
//
// The weights that a block updates never leave its registers; other blocks read published copies of W2 and w. Products
// are three TF32 ones on tensor cores (tf32.cuh), or two where one operand is bits, which TF32 represents exactly.
//
// Why a message of two steps ago may be overwritten: a block that publishes H1, or anything of a backward pass, has
// received every y of the step. Each y came from a block with rows, after it had read the weights and had received
// every H1; and each H1 came from a block with neurons, after it had read everything of the step before. A block that
// publishes H2's bits or y has received every H1.
//
// Layout: widths and the batch are padded with zeros to multiples of 16; each batch of X and Y is stored contiguously.
// `weights` is W1, W2, w. Launch: cooperative, GRID = 8 GROUPS blocks of 256 threads, `shared_bytes` of dynamic shared
// memory. Needs sm_80.

#include "../clipping.cuh"
#include "../copies.cuh"
#include "../fragments.cuh"
#include "../groups.cuh"
#include "../messages.cuh"
#include "two_layers_layout.cuh"

struct Training : Groups {
    Shared& s;
    float max_norm;
    int lane = t % 32, warp = t / 32, p = lane / 4, q = lane % 4;
    int row = 16 * group, neuron = row, col = rank * COLS2;
    bool has_rows = row < PADDED, has_neurons = neuron < N1, has_row = has_neurons && t < PADDED;

    // The elements that this thread owns. Of W2 and U: row t / 16, in U's order, columns 2 (t % 16) and the next one.
    // Of W1: feature t % 32 of both of the block's neurons, held by every warp.
    int row2 = t / 16, col2 = t % 16 * 2;
    bool has2 = has_neurons && col2 < COLS2, has1 = has_neurons && lane < FEATURES, has_w = group == 0 && t < COLS2;
    float kept2[2] = {}, kept1[2] = {};
    float h[2] = {};                      // H1 of the block's two neurons in this thread's row
    float next_x[FEATURES];               // this thread's row of X of the next batch
    float w2[2 * T1][T2], w[1][1], h1[J][4];   // loaded in advance
    Word word = 0;                        // the bits of this thread's row
    const OfW2 of_W2{workspace + AT_W2};
    const OfW of_w{workspace + AT_W};
    const OfH1 of_H1{workspace + AT_H1};
    const OfDW of_dw{workspace + AT_DW};
    const OfY of_y{workspace + AT_Y};
    const OfDH of_dH{workspace + AT_DH};

    __device__ int neuron_of(int i) const { return neuron + (i < 8 ? 2 * i : 2 * i - 15); }   // U's order: 0, 2, ..., 1, 3, ...
    __device__ int at2() const { return neuron_of(row2) * N2 + col + col2; }
    __device__ int at1() const { return lane * N1 + neuron + 2 * rank; }
    __device__ Word* word_of_bits(int r) const { return reinterpret_cast<Word*>(workspace + AT_WORDS) + rank * PADDED + r; }
    __device__ int dH_at(int pair, int from, int r) const { return (((neuron / 2 + pair) * BLOCKS + from) * PADDED + r) * 2; }
    __device__ bool has_rows_of(int j) const { return PADDED == ROWS || warp * SLICE + 8 * j + 2 * q < PADDED; }
    __device__ const float* old_w() const { return s.w[step % 2]; }
    __device__ float* new_w() const { return s.w[1 - step % 2]; }

    // Stores a warp's sums: of rows p (0 and 1) and p + 8 (2 and 3), columns 2 T2 q + n (0 and 2) and T2 further (1
    // and 3).
    __device__ void leave_parts(const float (&sum)[T2][4])
    {
#pragma unroll
        for (int i = 0; i < 2; ++i)
#pragma unroll
            for (int e = 0; e < 2; ++e)
#pragma unroll
                for (int n = 0; n < T2; ++n) s.parts[warp][p + 8 * i][2 * T2 * q + e * T2 + n] = sum[n][2 * i + e];
    }

    // ---- norms
    //
    // CLIP: squared norms of gradients, over all blocks.

    // CLIP: sums four values over all blocks with neurons, in one fixed order.
    __device__ void sum_up(const OfSquares& places, float (&value)[4])
    {
        const unsigned turn = turn_of(step);
        const auto place = [&](int) { return places.of(step) + 4 * t; };
        float of_block[1][4];
#pragma unroll 1
        for (int of = 0; of < 2; ++of) {  // over the block, then over the grid
#pragma unroll
            for (int i = 0; i < 4; ++i)
                for (int apart = 16; apart > 0; apart /= 2) value[i] += __shfl_xor_sync(0xffffffffu, value[i], apart);
            if (lane == 0) write4(s.sums[of][warp], value);
            __syncthreads();
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                value[i] = 0.0f;
                for (int from = 0; from < WARPS; ++from) value[i] += s.sums[of][from][i];
            }
            if (of == 1) return;
            if (t == 0) places.put(step, 4 * blockIdx.x, value);
            let_come(PAUSE);
            const auto has = [&](int) { return t < BLOCKS * N1 / 16; };
            look_for(of_block, turn, has, place);
            await(of_block, step, place, "norms");
#pragma unroll
            for (int i = 0; i < 4; ++i) value[i] = of_block[0][i];
        }
    }

    // ---- forward
    //
    // The forward pass. Each warp multiplies an eighth of the columns of the 16 rows of H1 with its rows of W2, loaded from
    // global memory into registers. The warps' partial sums of H2 are combined in shared memory.

    __device__ auto W2_at(int step) const
    {
        const float* const from = of_W2.of(step) + (warp * COLS1 + 2 * T1 * q) * N2 + col + T2 * p;
        return [=](int i) { return from + i * N2; };
    }
    __device__ auto w_at(int step) const
    {
        const float* const from = of_w.of(step) + col + lane;
        return [=](int) { return from; };
    }
    __device__ void look_for_weights(int step)
    {
        look_for(w2, turn_of(step), [&](int) { return has_rows; }, W2_at(step));
        look_for(w, turn_of(step), [&](int) { return has_rows && lane < COLS2; }, w_at(step));
    }

    __device__ void fetch_X(int step, int batch)
    {
        if (!has_neurons) return;
        const float* const from = X + (size_t)batch * PADDED * FEATURES;
        for (int i = t; i < PADDED * FEATURES / 4; i += THREADS)
            copy_async(shared_address(&s.X[step % 2][i / (FEATURES / 4)][4 * (i % (FEATURES / 4))]), from + 4 * i);
    }

    __device__ auto H1_at() const   // neurons 2 p and 2 p + 1, rows 8 j + 2 q and the next one of the warp's slice
    {
        const float* const from = of_H1.of(step) + ((neuron / 2 + p) * PADDED + warp * SLICE + 2 * q) * 2;
        return [=](int j) { return from + 16 * j; };
    }

    // Publishes, for the group's rows, the contribution of the block's columns of H2 to y, and the bits of H2 > 0. Row
    // m of the product is row 2 m of the group, or, from m = 8 on, row 2 m - 15. Loads X and H1 for the backward pass
    // in the meantime.
    __device__ void tell_y()
    {
        const unsigned turn = turn_of(step);
        float own[T1][4];   // H1 of rows 2 p (0 and 1) and 2 p + 1 (2 and 3), columns 2 (T1 q + j) and the next one
        const float* const H1 = of_H1.of(step) + ((warp * COLS1 / 2 + T1 * q) * PADDED + row + 2 * p) * 2;
        const auto own_at = [&](int j) { return H1 + j * PADDED * 2; };
        if (has_rows) {
            look_for(own, turn, [](int) { return true; }, own_at);
            await(w2, step, W2_at(step), "W2");
            await(w, step, w_at(step), "w");
            await(own, step, own_at, "H1");
        }
        fetch_X(step + 1, next);
        if (has_rows) {
            float z[T2][4] = {};
#pragma unroll
            for (int j = 0; j < T1; ++j) {
                Parts<4> a;
                Parts<2> b[T2];
#pragma unroll
                for (int of = 0; of < 4; ++of) a.set(of, own[j][of % 2 * 2 + of / 2]);
#pragma unroll
                for (int n = 0; n < T2; ++n) b[n].set(0, w2[2 * j][n]), b[n].set(1, w2[2 * j + 1][n]);
#pragma unroll
                for (int which = 0; which < 3; ++which)
#pragma unroll
                    for (int n = 0; n < T2; ++n)
                        mma_m16n8k8_tf32(z[n], which == 0 ? a.small : a.big, which == 1 ? b[n].small : b[n].big);
            }
            leave_parts(z);
            __syncthreads();
            float value[2] = {}, part[2];   // H2 of rows 2 warp and 2 warp + 1, column lane
#pragma unroll
            for (int e = 0; e < 2; ++e)
                if (lane < COLS2)
#pragma unroll
                    for (int from = 0; from < WARPS; ++from) value[e] += s.parts[from][warp + 8 * e][lane];
#pragma unroll
            for (int e = 0; e < 2; ++e) {
                value[e] = positive(value[e]);
                part[e] = lane < COLS2 ? value[e] * w[0][0] : 0.0f;
                s.H2[2 * warp + e][lane] = value[e];
            }
#pragma unroll
            for (int apart = 16; apart > 0; apart /= 2)
#pragma unroll
                for (int e = 0; e < 2; ++e) part[e] += __shfl_xor_sync(0xffffffffu, part[e], apart);
#pragma unroll
            for (int e = 0; e < 2; ++e) {
                const unsigned bits = __ballot_sync(0xffffffffu, value[e] > 0.0f);
                const int r = row + 2 * warp + e;
                const float one[1] = {part[e]};
                if (lane == 0) {
                    publish(word_of_bits(r), (Word)(step + 1) << 32 | bits);
                    of_y.put(step, r * BLOCKS + rank, one);
                }
            }
            __syncthreads();   // all of H2
        }
        look_for(h1, turn, [&](int j) { return has_neurons && has_rows_of(j); }, H1_at());
    }

    // ---- second layer
    //
    // The backward pass through layer 2. Each warp takes an eighth of the rows. With B = 1 where H2 > 0,
    // U = (diag(g) H1)^T B does not depend on w; then dW2 = U diag(w), of which a block owns 16 x COLS2.
    // dZ1 = diag(g) B (W2 diag(w))^T where H1 > 0: a block computes the contribution of its columns, for all rows, and sends
    // it to the block that owns the neurons. B is exact in TF32: two products are enough.

    __device__ void tell_weights(int step, const float* w_of_block) const
    {
        if (has2) of_W2.put(step, at2(), kept2);
        if (has_w) {
            const float mine[1] = {w_of_block[t]};
            of_w.put(step, col + t, mine);
        }
    }

    // Every block computes all errors from the partial sums of y. One warp publishes the contribution of the group's
    // rows to dw.
    __device__ void hear_errors()
    {
        const unsigned turn = turn_of(step);
        float y[1][BLOCKS];
        const auto y_at = [&](int) { return of_y.of(step) + t * BLOCKS; };
        const float target = t < PADDED ? Y[(size_t)batch * PADDED + t] : 0.0f;
        let_come(PAUSE);
        look_for(y, turn, [&](int) { return t < PADDED; }, y_at);
        word = has_row ? look(word_of_bits(t)) : (Word)(step + 1) << 32;
        for (WaitLimit limit;; limit.after_failed_look("y, bits", step)) {
            const bool word_has_come = word >> 32 == step + 1;
            if (all_have(word_has_come & have_come(y, turn))) break;
            look_again(y, turn, y_at);
            if (!word_has_come) word = look(word_of_bits(t));
        }
        without_turn(y);
        float sum = 0.0f, sum_dw[1] = {};
#pragma unroll
        for (int i = 0; i < BLOCKS; ++i) sum += y[0][i];
        const float error = t < count ? sum - target : 0.0f, g = 2.0f / count * error;
        if (t < ROWS) s.g[t] = g, s.positive[t] = (unsigned)word;
        if (last && blockIdx.x == 0 && t < PADDED) E[t] = error;
        if (has_rows && warp == row / 32) {
#pragma unroll
            for (int i = 0; i < 16; ++i) sum_dw[0] += s.H2[i][lane] * __shfl_sync(0xffffffffu, g, row % 32 + i);
            if (lane < COLS2) of_dw.put(step, group * N2 + col + lane, sum_dw);
        }
        __syncthreads();
    }

    // Updates W2 and w, and publishes the contribution of the block's columns to dH1. A lane holds rows 8 j + 2 q and
    // the next one of its warp's slice, neurons 2 p and 2 p + 1, columns T2 p + n.
    __device__ void second_layer()
    {
        const unsigned turn = turn_of(step);
        await(h1, step, H1_at(), "H1");
        float u[T2][4] = {}, dw[2][1];
#pragma unroll
        for (int j = 0; j < J; ++j) {
            Parts<4> a;
            unsigned b[T2][2];
            const float2 both = take2(&s.g[warp * SLICE + 8 * j + 2 * q]);
            const float g[2] = {both.x, both.y};
#pragma unroll
            for (int of = 0; of < 4; ++of) a.set(of, h1[j][of] * g[of / 2]);
            const uint2 bits = *reinterpret_cast<const uint2*>(&s.positive[warp * SLICE + 8 * j + 2 * q]);
#pragma unroll
            for (int n = 0; n < T2; ++n) {
                b[n][0] = bits.x >> T2 * p >> n & 1 ? ONE : 0;
                b[n][1] = bits.y >> T2 * p >> n & 1 ? ONE : 0;
            }
#pragma unroll
            for (int which = 0; which < 2; ++which)
#pragma unroll
                for (int n = 0; n < T2; ++n) mma_m16n8k8_tf32(u[n], which == 0 ? a.small : a.big, b[n]);
        }
        leave_parts(u);
        const int of_four = 4 * warp + lane % 4;   // a column, of which eight lanes add up the groups' partial sums
        const auto dw_at = [&](int i) { return of_dw.of(step) + (p + 8 * i) * N2 + col + of_four; };
        const auto has_dw = [&](int i) { return of_four < COLS2 && (PADDED == 256 || p + 8 * i < PADDED / 16); };
        look_for(dw, turn, has_dw, dw_at);
        await(dw, step, dw_at, "dw");
        dw[0][0] += dw[1][0];
        for (int apart = 4; apart < 32; apart *= 2) dw[0][0] += __shfl_xor_sync(0xffffffffu, dw[0][0], apart);
        if (p == 0 && of_four < COLS2) s.dw[of_four] = dw[0][0];
        copies_done();
        __syncthreads();

        float sum_dw[2] = {}, of_u[2] = {}, before[2] = {}, rate_w = rate, rate_2 = rate;
        if (has2)
#pragma unroll
            for (int e = 0; e < 2; ++e) {
                before[e] = old_w()[col2 + e], sum_dw[e] = s.dw[col2 + e];
#pragma unroll
                for (int from = 0; from < WARPS; ++from) of_u[e] += s.parts[from][row2][col2 + e];
            }
        if constexpr (CLIP) {  // the squared norm of U diag(w - f dw), f the rate of w, is a polynomial in f
            float squares[4] = {};
#pragma unroll
            for (int e = 0; e < 2; ++e) {
                const float with_w = of_u[e] * before[e], with_dw = of_u[e] * sum_dw[e];
                squares[0] += with_w * with_w, squares[1] += with_w * with_dw, squares[2] += with_dw * with_dw;
                if (group == 0 && row2 == 0) squares[3] += sum_dw[e] * sum_dw[e];
            }
            sum_up(OfSquares{workspace + AT_SQUARES2}, squares);
            rate_w = rate * clipped(squares[3], max_norm);
            const float after = squares[0] - 2.0f * rate_w * squares[1] + rate_w * rate_w * squares[2];
            rate_2 = rate * clipped(SEQUENTIAL ? after : squares[0], max_norm);
        }
        if (has2)
#pragma unroll
            for (int e = 0; e < 2; ++e) {
                const float after = before[e] - rate_w * sum_dw[e], was = kept2[e];
                if (row2 == 0) new_w()[col2 + e] = after;
                kept2[e] -= rate_2 * (of_u[e] * (SEQUENTIAL ? after : before[e]));
                s.V[row2][col2 + e] = SEQUENTIAL ? kept2[e] * after : was * before[e];
            }
        __syncthreads();
        tell_weights(step + 1, new_w());

        float d[J][4] = {};   // neurons 2 p (0 and 1) and 2 p + 1 (2 and 3), rows 2 q and 2 q + 1
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
#pragma unroll
        for (int j = 0; j < J; ++j) {
            const int r = warp * SLICE + 8 * j + 2 * q;
            const float2 g = take2(&s.g[r]);
            const float both[4] = {d[j][0] * g.x, d[j][2] * g.x, d[j][1] * g.y, d[j][3] * g.y};
            if (has_rows_of(j)) of_dH.put(step, dH_at(p, rank, r), both);
        }
    }

    // ---- first layer
    //
    // Layer 1, backward and then forward. A block adds up what its group's blocks contribute to dH1 of its two neurons,
    // updates their columns of W1, and publishes their H1 of the next batch.

    __device__ void take_row(int step) { take(s.X[step % 2][t % ROWS], next_x); }

    // Publishes H1 of the block's neurons. Each thread computes one row, and keeps it: the backward pass needs where
    // it is > 0.
    __device__ void tell_H1(int step)
    {
        if (has1) *reinterpret_cast<float2*>(s.W1[warp][lane]) = make_float2(kept1[0], kept1[1]);
        __syncwarp();
        if (!has_row) return;
        h[0] = h[1] = 0.0f;
        multiply_row(h, next_x, s.W1[warp]);
        for (int n = 0; n < 2; ++n) h[n] = positive(h[n]);
        of_H1.put(step, ((neuron / 2 + rank) * PADDED + t) * 2, h);
    }

    // Updates W1, and publishes H1 of the next batch.
    __device__ void first_layer()
    {
        const unsigned turn = turn_of(step);
        float x[SLICE], parts[BLOCKS][2];
#pragma unroll
        for (int i = 0; i < SLICE; ++i) x[i] = lane < FEATURES ? s.X[step % 2][warp * SLICE + i][lane] : 0.0f;
        const auto part_at = [&](int from) { return of_dH.of(step) + dH_at(rank, from, t); };
        let_come(PAUSE);
        const auto has_part = [&](int) { return has_row; };
        look_for(parts, turn, has_part, part_at);
        take_row(step + 1);
        await(parts, step, part_at, "dH1");
        if (t < ROWS)
#pragma unroll
            for (int n = 0; n < 2; ++n) {
                float sum = 0.0f;
#pragma unroll
                for (int from = 0; from < BLOCKS; ++from) sum += parts[from][n];
                s.dZ[t][n] = h[n] > 0.0f ? sum : 0.0f;
            }
        __syncthreads();
        float sum[2] = {};
#pragma unroll
        for (int i = 0; i < SLICE; i += 2) {
            const float4 dz = take4(s.dZ[warp * SLICE + i]);
            sum[0] += x[i] * dz.x + x[i + 1] * dz.z, sum[1] += x[i] * dz.y + x[i + 1] * dz.w;
        }
        if (lane < FEATURES) s.dW1[warp][lane][0] = sum[0], s.dW1[warp][lane][1] = sum[1];
        __syncthreads();
        float gradient[2] = {}, rate_1 = rate;
        if (has1)
#pragma unroll
            for (int from = 0; from < WARPS; ++from) gradient[0] += s.dW1[from][lane][0], gradient[1] += s.dW1[from][lane][1];
        if constexpr (CLIP) {
            float squares[4] = {warp == 0 ? gradient[0] * gradient[0] + gradient[1] * gradient[1] : 0.0f};
            sum_up(OfSquares{workspace + AT_SQUARES1}, squares);
            rate_1 = rate * clipped(squares[0], max_norm);
        }
        for (int n = 0; n < 2; ++n) kept1[n] -= rate_1 * gradient[n];
        if (!last) tell_H1(step + 1);
    }

    template <class Do> __device__ void for_weights(bool with_W1, Do f)  // f(kept, its address)
    {
        float* const W2 = weights + FEATURES * N1;
        for (int i = 0; i < 2; ++i) {
            if (has2) f(kept2[i], W2 + at2() + i);
            if (with_W1 && has1) f(kept1[i], weights + at1() + i);
        }
    }

    __device__ void start()
    {
        for_weights(true, [](float& kept, const float* from) { kept = *from; });
        if (t < COLS2) s.w[0][t] = weights[FEATURES * N1 + N1 * N2 + col + t];
        for (int i = t; i < (ROWS - PADDED) * STRIDE_X; i += THREADS)
            for (auto& of_X : s.X) of_X[PADDED + i / STRIDE_X][i % STRIDE_X] = 0.0f;
        fetch_X(0, first);
        forget(AT_WORDS, workspace_floats);
        copies_done();
        all_meet();
        tell_weights(0, s.w[0]);
        take_row(0);
        tell_H1(0);
        look_for_weights(0);
    }
    __device__ void finish()
    {
        for_weights(warp == 0, [](const float& kept, float* to) { *to = kept; });
        if (has_w) weights[FEATURES * N1 + N1 * N2 + col + t] = old_w()[t];
        all_meet();
        leave();
    }
};

extern "C" __global__ __launch_bounds__(THREADS, 1) void train_persistent(
    const float* __restrict__ X, const float* __restrict__ Y, float* weights, float* E, float* workspace, int rows,
    int first, int steps, float rate, float max_norm)
{
    extern __shared__ __align__(16) float dynamic[];
    Shared& s = *reinterpret_cast<Shared*>(dynamic);
    const Barrier barrier{reinterpret_cast<unsigned*>(workspace)};
    Training training{{barrier, X, Y, weights, E, workspace, rate, (unsigned)first}, s, max_norm};
    const int batches = (rows + BATCH - 1) / BATCH;
    training.start();
    for (; training.step < steps; ++training.step) {
        training.look_ahead(batches);
        training.turn_to_batch(steps, batches, rows);
        training.tell_y();
        training.hear_errors();
        if (training.has_neurons) training.second_layer();
        training.look_for_weights(training.step + 1);
        if (training.has_neurons) training.first_layer();
    }
    training.finish();
}
