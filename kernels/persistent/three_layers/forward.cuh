// The forward pass, from H_1 to y. Two groups together take 32 rows of the batch, and wait for H_1 of these rows.
// Each block computes an equal share of the columns of H_2, then their contribution to all of Z_3: two products
// whose weights each lane loads for itself. Each block then adds up the contributions for 16 rows and some columns
// of Z_3, which gives H_3, a contribution to y, and a bit for each element of H_3 > 0.

struct Forward : Norms {
    // Loaded in advance: two tiles of W_2 for half of k; W_3.
    float w2[N1 / 16][4], w3[GROUPS][4];

    __device__ auto W2_at(int step) const
    {
        const int first = (member * HALF + warp / 2 * 2) * (N1 / 16) + warp % 2 * (N1 / 32);
        const float* const from = of_W2.of(step) + first * PART + t % 32 * 4;
        return [=](int i) { return from + (i / (N1 / 32) * (N1 / 16) + i % (N1 / 32)) * PART; };
    }
    __device__ auto W3_at(int step) const
    {
        const float* const from = of_W3.of(step) + (member * HALF * (N3 / 16) + 2 * warp) * PART + t % 32 * 4;
        return [=](int i) { return from + (i / 2 * (N3 / 16) + i % 2) * PART; };
    }
    __device__ bool has_W2(int i) const { return HALF == WARPS || warp / 2 * 2 + i / (N1 / 32) < HALF; }
    __device__ void look_for_W2(int step)
    {
        look_for(w2, turn_of(step), [&](int i) { return has_W2(i); }, W2_at(step));
    }

    __device__ void fetch_X(int step, int batch)
    {
        const float* const from = X + (size_t)batch * ROWS * F;
        for (int i = t; i < ROWS * F / 4; i += THREADS) {
            const int row = i / (F / 4), at = row / 16 * 16 + row % 8 * 2 + row / 8 % 2;
            copy_async(shared_address(&s.X[step % 2][at][4 * (i % (F / 4))]), from + 4 * i);
        }
    }

    __device__ bool has_H2() const { return HALF == WARPS || warp < HALF; }

    // Publishes the block's share of H_2 for 32 rows.
    __device__ void tell_H2()
    {
        const Lane lane;
        const Places place;
        const unsigned turn = turn_of(step);
        {
            float h1[OWN_H1_LOADS][4];
            const auto h1_at = [&](int i) {
                const int v = t + i * THREADS, tile = v / 32 % (N1 / 8), sixteen = 2 * couple + v / (4 * N1);
                const int from = (tile / TILES1 * GROUPS + sixteen) * TILES1 + tile % TILES1;
                return of_H1.of(step) + from * PART + v % 32 * 4;
            };
            let_come(PAUSE);
            look_for(h1, turn, [](int) { return true; }, h1_at);
            await(h1, step, h1_at, "H_1");
#pragma unroll
            for (int i = 0; i < OWN_H1_LOADS; ++i) write_words(&s.of_rows.H1[0][0][0] + 4 * (t + i * THREADS), h1[i]);
        }
        __syncthreads();

        tell_largest();
        look_for(w3, turn, [](int) { return true; }, W3_at(step));
        fetch_X(step + 1, next);
        await(w2, step, W2_at(step), "W_2");
        float z[2][2][2][4] = {};   // two tiles for half of k; another warp has the other half
        if (has_W2(0)) {
#pragma unroll
            for (int k = 0; k < N1 / 32; ++k) {
                const int tile = warp % 2 * (N1 / 16) + 2 * k;
                const HalfParts<4> a[] = {left_across(s.of_rows.H1[0][tile], place),
                                           left_across(s.of_rows.H1[1][tile], place)};
                HalfParts<2> b[2];
                for (int n = 0; n < 2; ++n)
                    for (int i = 0; i < 2; ++i) {
                        b[n].big[i] = __float_as_uint(w2[n * (N1 / 32) + k][i]);
                        b[n].small[i] = __float_as_uint(w2[n * (N1 / 32) + k][2 + i]);
                    }
                multiply(z, a, b);
            }
            for (int m = 0; m < 2; ++m) {
                float other[4];
                for (int i = 0; i < 4; ++i) other[i] = warp % 2 ? total_of(z[m][0], i) : total_of(z[m][1], i);
                if ((warp ^ 1) < HALF) write4(reinterpret_cast<float*>(s.of_rows.H2[m][warp ^ 1]) + lane.at, other);
            }
        }
        __syncthreads();
        const float of_z = scales(step).H1.times * scales(step).W2.times, over = scales(step).H2.over;
        if (has_H2())
            for (int m = 0; m < 2; ++m) {
                const float4 other = take4(reinterpret_cast<const float*>(s.of_rows.H2[m][warp]) + lane.at);
                float h[4] = {other.x, other.y, other.z, other.w};
                for (int i = 0; i < 4; ++i)
                    h[i] = of_z * positive(h[i] + (warp % 2 ? total_of(z[m][1], i) : total_of(z[m][0], i)));
                __syncwarp();
                const float in_order[] = {h[0], h[2], h[1], h[3]};
                const float scaled[] = {h[0] * over, h[1] * over, h[2] * over, h[3] * over};
                write_place(s.of_rows.H2[m][warp], scaled);
                of_H2.put(step, ((member * HALF + warp) * GROUPS + 2 * couple + m) * PART + lane.at, in_order);
            }
        __syncthreads();
    }

    // Publishes the contribution of the block's columns of H_2 to Z_3, and loads H_1 for the backward pass.
    __device__ void tell_Z3()
    {
        const Places place;
        const unsigned turn = turn_of(step);
        await(w3, step, W3_at(step), "W_3");
        float z[2][4][2][4] = {};
#pragma unroll
        for (int k = 0; k < HALF; k += 2) {
            const bool both = k + 1 < HALF;   // else the last eight columns alone
            HalfParts<4> a[2];
            HalfParts<2> b[4];
            for (int m = 0; m < 2; ++m) {
                a[m] = left_across(s.of_rows.H2[m][k], both ? place : place.of_one_tile());
                for (int i = 2; i < 4 && !both; ++i) a[m].big[i] = a[m].small[i] = 0;
            }
            for (int n = 0; n < 4; ++n)
                for (int i = 0; i < 2; ++i) {
                    b[n].big[i] = i == 0 || both ? __float_as_uint(w3[2 * (k + i) + n / 2][n % 2]) : 0;
                    b[n].small[i] = i == 0 || both ? __float_as_uint(w3[2 * (k + i) + n / 2][2 + n % 2]) : 0;
                }
            multiply(z, a, b);
        }
        const float of_z = scales(step).H2.times * scales(step).W3.times;
        for (int m = 0; m < 2; ++m) {
            const int to = (((2 * couple + m) * BLOCKS + warp) * COUPLE + member) * 16 * OWN3;
#pragma unroll
            for (int n = 0; n < 4; ++n) {
                float sum[4];
                for (int i = 0; i < 4; ++i) sum[i] = of_z * total_of(z[m][n], i);
                of_Z3.put(step, to + n * PART + t % 32 * 4, sum);
            }
        }
        float h1[H1_LOADS][4];
        const auto has_h1 = [&](int i) { return has(i, ROWS * TILES1 * 2); };
        const float* const H1 = of_H1.of(step) + rank * GROUPS * TILES1 * PART + 4 * t;
        const auto h1_at = [&](int i) { return H1 + 4 * i * THREADS; };
        look_for(h1, turn, has_h1, h1_at);
        await(h1, step, h1_at, "H_1");
#pragma unroll
        for (int i = 0; i < H1_LOADS; ++i)
            if (has_h1(i)) write_words(&s.H1[0][0][0] + 4 * (t + i * THREADS), h1[i]);
    }

    // Computes the block's columns of H_3 for 16 rows, and publishes their contribution to y.
    __device__ void tell_y()
    {
        const unsigned turn = turn_of(step);
        // Half a warp adds up the partial sums of half of the blocks for rows `warp` and warp + 8, then holds one of
        // these rows.
        const int half = t % 32 / 16, n = t % 16 / 4, row = 16 * group + warp + 8 * half;
        const float* const Z3 = of_Z3.of(step) + ((group * BLOCKS + rank) * COUPLE + half * BLOCKS) * 16 * OWN3 +
                                n * PART + (4 * warp + t % 4) * 4;
        float z3[BLOCKS][4], y = 0.0f;
        const auto z3_at = [&](int i) { return Z3 + i * 16 * OWN3; };
        look_for(z3, turn, [](int) { return true; }, z3_at);
        await(z3, step, z3_at, "Z_3");
        float z[4] = {};
#pragma unroll
        for (int from = 0; from < BLOCKS; ++from)
#pragma unroll
            for (int i = 0; i < 4; ++i) z[i] += z3[from][i];
        float h[2] = {half ? z[2] : z[0], half ? z[3] : z[1]};
        h[0] += __shfl_xor_sync(0xffffffff, half ? z[0] : z[2], 16);
        h[1] += __shfl_xor_sync(0xffffffff, half ? z[1] : z[3], 16);
        const int column = 8 * n + 2 * (t % 4);
        unsigned bits = 0;
        for (int i = 0; i < 2; ++i) {
            h[i] = positive(h[i]);
            bits |= (unsigned)(h[i] > 0.0f) << (column + i) % 32;
            y += h[i] * w_of(step)[rank * OWN3 + column + i];
        }
        *reinterpret_cast<float2*>(&s.H3[row % 16][column]) = make_float2(h[0], h[1]);
        for (int apart = 1; apart < 16; apart *= 2) bits |= __shfl_xor_sync(0xffffffff, bits, apart);
        const int of_row = (group * WORDS + rank) * 16 + 2 * warp + half;
        if (t % 16 == 0) publish(word_of_bits(of_row), (Word)(step + 1) << 32 | bits);
        for (int apart = 1; apart < 16; apart *= 2) y += __shfl_xor_sync(0xffffffff, y, apart);
        const float one[1] = {y};
        if (t % 16 == 0) of_y.put(step, row * BLOCKS + rank, one);
        __syncthreads();  // all of H_3
    }
};
