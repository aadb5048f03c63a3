// The backward pass through layer 3. A block owns 8 neurons of layer 2, with their rows of W_3. dW_3 = U diag(w)
// with U = H_2^T (g where H_3 > 0), that is H_2^T diag(g) times bits, and dZ_3 W_3^T is diag(g) times bits times
// (W_3 diag(w))^T: with bits (bits.cuh), two products are enough. All blocks hold w; each publishes the contribution
// of 16 rows to some of dw.

struct ThirdLayer : Forward {
    float scale = 0.0f;                   // g = scale e
    // Loaded in advance: H_2 of the block's neurons; the bits.
    float h2[DOWN][4];
    Word bits[BIT_LOADS][2];
    unsigned active = 0;                  // H_2 > 0, four bits per sixteen rows
    float half_g[DOWN][2] = {};           // g / 2, scaled, of rows p and p + 8 of these, since a bit is 2
    float dZ_scale = 0.0f;                // dZ_2 is published over this

    __device__ bool has_bits(int i) const { return has(i, ROWS * WORDS / 2); }

    // W_3 is owned as in the accumulators of its transposed gradient.
    __device__ int column3(int n, int i, Lane lane) const { return 32 * warp + 16 * n + i / 2 * 8 + lane.p; }
    __device__ int place3(int n, int i, Lane lane) const
    {
        return (8 * blockIdx.x + 2 * lane.q + i % 2) * N3 + column3(n, i, lane);
    }
    __device__ void put3(int step) const
    {
        for (int n = 0; n < 2; ++n)
            put_words(of_W3, step, (blockIdx.x * (N3 / 16) + 2 * warp + n) * PART + t % 32 * 4, W3[n], scales(step).W3);
        leave_largest(s.largest[2], W3[0], W3[1]);
    }

    // Receives y, and publishes the group's contribution to some of dw.
    __device__ void hear_errors()
    {
        const Lane lane;
        const float target = has_row() ? from_l2(Y + (size_t)batch * ROWS + t) : 0.0f;
        const auto has_y = [&](int) { return has_row(); };
        const auto y_at = [&](int) { return of_y.of(step) + t * BLOCKS; };
        const float* const H2 = of_H2.of(step) + (blockIdx.x * GROUPS + warp * DOWN) * PART + lane.at;
        const auto h2_at = [&](int i) { return H2 + i * PART; };
        const unsigned turn = turn_of(step);
        const Word now = step + 1;
        float y[1][BLOCKS];
        const auto has_h2 = [&](int i) { return has_rows(i); };
        look_for(h2, turn, has_h2, h2_at);
        let_come(PAUSE);
        look_for(y, turn, has_y, y_at);
#pragma unroll
        for (int i = 0; i < BIT_LOADS; ++i)
            if (has_bits(i)) look(word_of_bits(2 * (t + i * THREADS)), bits[i]);
            else bits[i][0] = bits[i][1] = now << 32;
        await(y, step, y_at, "y");
        await(h2, step, h2_at, "H_2");
        float sum = 0.0f;
        for (int r = 0; r < BLOCKS; ++r) sum += y[0][r];
        const float error = t < count ? sum - target : 0.0f, g = scale * error;
        if (has_row()) s.g[t] = g;
        const float of_row[] = {has_row() ? g : 0.0f};
        leave_largest(s.largest_g, of_row);
        if (last && blockIdx.x == 0 && has_row()) E[t] = error;
        if (warp == group / 2) {  // the warp that has the group's rows publishes their contribution to dw
            float one[1] = {};
#pragma unroll
            for (int i = 0; i < 16; ++i) one[0] += s.H3[i][t % 32] * __shfl_sync(0xffffffff, g, group % 2 * 16 + i);
            of_dw.put(step, group * N3 + rank * OWN3 + t % 32, one);
        }
        hear_scales(step + 1);
        __syncthreads();
    }

    // Updates W_3, and publishes dZ_2 of the block's neurons.
    __device__ void third_layer()
    {
        const Lane lane;
        const unsigned turn = turn_of(step);
        const Word now = step + 1;
        const int slot = lane.p % 4 * 2 + lane.p / 4;  // lane q reads rows q and q + 8, then q + 4 and q + 12
        const Scale of_g(s.largest_g), of_H2 = scales(step).H2;
        active = 0;
        for (int i = 0; i < DOWN; ++i) {
            const int down = warp * DOWN + i;
            if (!has_rows(i)) continue;
            for (int u = 0; u < 2; ++u) half_g[i][u] = 0.5f * of_g.over * s.g[16 * down + lane.p + 8 * u];
            float h[4];
            for (int j = 0; j < 4; ++j) {
                active |= (unsigned)(h2[i][j] > 0.0f) << 4 * i + j;
                h[j] = h2[i][j] * of_H2.over * half_g[i][j % 2];
            }
            for (int j = 0; j < 2; ++j)
                write_halves(s.Hg[down], right(2 * lane.q + j, slot), h[2 * j], h[2 * j + 1]);
        }
        const auto bits_have_come = [&] {
            bool come = true;
#pragma unroll
            for (int i = 0; i < BIT_LOADS; ++i) come &= bits[i][0] >> 32 == now && bits[i][1] >> 32 == now;
            return all_have(come);
        };
        const auto look_for_bits = [&] {
#pragma unroll
            for (int i = 0; i < BIT_LOADS; ++i)
                if (has_bits(i)) look(word_of_bits(2 * (t + i * THREADS)), bits[i]);
        };
        for (WaitLimit limit; !bits_have_come(); look_for_bits()) limit.after_failed_look("bits", step);
#pragma unroll
        for (int i = 0; i < BIT_LOADS; ++i)
            if (has_bits(i)) reinterpret_cast<uint2*>(s.bits)[t + i * THREADS] = make_uint2(bits[i][0], bits[i][1]);
        __syncthreads();

        float dw[GROUPS][1], u[2][2][4] = {}, sum_dw = 0.0f;   // u: U^T
        const auto dw_at = [&](int from) { return of_dw.of(step) + from * N3 + t; };
        const auto sum_up_dw = [&] {
            await(dw, step, dw_at, "dw");
            for (int from = 0; from < GROUPS; ++from) sum_dw += dw[from][0];
        };
        look_for(dw, turn, [](int) { return true; }, dw_at);
#pragma unroll
        for (int down = 0; down < GROUPS; ++down) {
            if (CLIP && down == GROUPS / 2) sum_up_dw(), leave_square(sum_dw * sum_dw);
            if (CLIP && down == GROUPS - 1) {
                __syncthreads();
                w_of(step + 1)[t] = w_of(step)[t] - rate * clipped(block_square(), max_norm) * sum_dw;
            }
            const uint2 v[] = {*reinterpret_cast<const uint2*>(&s.bits[down][warp][2 * lane.q]),
                               *reinterpret_cast<const uint2*>(&s.bits[down][warp][2 * lane.q + 8])};
            const unsigned of[2][2] = {{each_byte(v[0].x, lane.p), each_byte(v[0].y, lane.p)},
                                       {each_byte(v[1].x, lane.p), each_byte(v[1].y, lane.p)}};
            unsigned b[2][2];
            take_halves(b, s.Hg[down], right(lane.p, 2 * lane.q));
            for (int n = 0; n < 2; ++n) {
                unsigned a[4];
                for (int i = 0; i < 4; ++i) a[i] = both(of[i / 2][0], 2 * n + i % 2, of[i / 2][1], 2 * n + i % 2);
                multiply_bits(u[n], a, b);
            }
        }
        if (!CLIP) {
            sum_up_dw();
            w_of(step + 1)[t] = w_of(step)[t] - rate * sum_dw;
        }
        const float new_w[] = {w_of(step + 1)[t]};
        leave_largest(s.largest_w[(step + 1) % 2], new_w);
        __syncthreads();
        const Scale of_w(s.largest_w[(step + SEQUENTIAL) % 2]), of_W3 = scales(step + SEQUENTIAL).W3;
        dZ_scale = of_g.times * of_w.times * of_W3.times;
        const float of_u = of_g.times * of_H2.times, of_ww = of_w.over * of_W3.over;
        float w[4], rate_3 = rate;
        for (int i = 0; i < 4; ++i) w[i] = w_of(step + SEQUENTIAL)[column3(i / 2, i % 2 * 2, lane)];
        float dw3[2][4];
        for (int n = 0; n < 2; ++n)
            for (int i = 0; i < 4; ++i) dw3[n][i] = total_of(u[n], i) * of_u * w[2 * n + i / 2];
        if (CLIP) {
            leave_square(square_of(dw3));
            __syncthreads();
            tell_square(3, block_square());
        }
        if (CLIP && !LATE) rate_3 = hear_rate(3);
        for (int n = 0; n < 2; ++n) {
            float ww[4];
            for (int i = 0; i < 4; ++i) {
                const float before = W3[n][i];
                if (!LATE) W3[n][i] -= rate_3 * dw3[n][i];
                ww[i] = (SEQUENTIAL ? W3[n][i] : before) * w[2 * n + i / 2] * of_ww;
            }
            for (int i = 0; i < 2; ++i) write_halves(s.Ww[2 * warp + n], right(2 * lane.q + i, slot), ww[i], ww[i + 2]);
        }
        if (!LATE) put3(step + 1);
        __syncthreads();

        float z[DOWN][2][4] = {};
#pragma unroll
        for (int word = 0; word < WORDS; ++word) {
            unsigned of[DOWN][4];
            for (int i = 0; i < DOWN; ++i) {
                const int down = smaller(warp * DOWN + i, GROUPS - 1);
                const uint2 v = *reinterpret_cast<const uint2*>(&s.bits[down][word][2 * lane.p]);
                of[i][0] = each_byte(v.x, lane.q), of[i][1] = each_byte(v.y, lane.q);
                of[i][2] = each_byte(v.x, lane.q + 4), of[i][3] = each_byte(v.y, lane.q + 4);
            }
            for (int k = 0; k < 2; ++k) {
                unsigned b[2][2];
                take_halves(b, s.Ww[2 * word + k], right(lane.p, 2 * lane.q));
                for (int i = 0; i < DOWN; ++i) {
                    unsigned a[4];
                    for (int j = 0; j < 4; ++j) a[j] = both(of[i][j], 2 * k, of[i][j], 2 * k + 1);
                    multiply_bits(z[i], a, b);
                }
            }
        }
        for (int i = 0; i < DOWN; ++i) {
            float dz[4];
            for (int j = 0; j < 4; ++j) {  // row p + 8 (j / 2), neuron 2 q + j % 2; `active` is in the order of H_2
                const int at = j % 2 * 2 + j / 2;
                dz[j] = active >> (4 * i + at) & 1 ? half_g[i][j / 2] * total_of(z[i], j) : 0.0f;
            }
            if (has_rows(i)) put_place(of_dZ, step, ((group * GROUPS + warp * DOWN + i) * BLOCKS + rank) * PART, dz);
        }
        if (LATE) {
            rate_3 = hear_rate(3);
            for (int n = 0; n < 2; ++n)
                for (int i = 0; i < 4; ++i) W3[n][i] -= rate_3 * dw3[n][i];
            put3(step + 1);
        }
    }
};
