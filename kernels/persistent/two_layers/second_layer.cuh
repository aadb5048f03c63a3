// The backward pass through layer 2. Each warp takes an eighth of the rows. With B = 1 where H2 > 0,
// U = (diag(g) H1)^T B does not depend on w; then dW2 = U diag(w), of which a block owns 16 x COLS2.
// dZ1 = diag(g) B (W2 diag(w))^T where H1 > 0: a block computes the contribution of its columns, for all rows, and sends
// it to the block that owns the neurons. B is exact in TF32: two products are enough.

struct SecondLayer : Forward {
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
};
