// The backward pass through layer 2. All blocks of a group receive the group's dZ_2; each updates N1 / 8 rows of W_2
// in the group's columns and multiplies the two: the group's share of dH_1 in these columns.

struct SecondLayer : ThirdLayer {
    // W_2 is owned as in the accumulators of its transposed gradient.
    __device__ bool has2() const { return N1 == 32 * WARPS || warp < N1 / 32; }
    __device__ int neurons2() const { return warp % (BLOCKS / 2); }      // which sixteen of the group's neurons
    __device__ int tile1(int n) const { return warp / (BLOCKS / 2) * 2 + n; }
    __device__ int place2(int n, int i, Lane lane) const
    {
        const int row = 8 * (rank * TILES1 + tile1(n)) + 2 * lane.q + i % 2;
        return row * N2 + 8 * BLOCKS * group + 16 * neurons2() + lane.p + i / 2 * 8;
    }
    __device__ void put2(int step) const
    {
        const int tile = group * BLOCKS + 2 * neurons2(), pair = (rank * TILES1 + tile1(0)) / 2;
        for (int i = 0; i < 2; ++i) {
            const float v[] = {W2[0][2 * i], W2[0][2 * i + 1], W2[1][2 * i], W2[1][2 * i + 1]};
            if (has2()) put_words(of_W2, step, ((tile + i) * (N1 / 16) + pair) * PART + t % 32 * 4, v, scales(step).W2);
        }
        leave_largest(s.largest[1], W2[0], W2[1]);
    }

    // Updates W_2, and publishes the contribution of the group's neurons to dH_1 in the block's columns.
    __device__ void second_layer()
    {
        const Places place;
        const unsigned turn = turn_of(step);
        {
            float dz[DZ_LOADS][4];
            const float* const of_group = of_dZ.of(step) + 4 * (group * ROWS * BLOCKS * 2 + t);
            const auto dz_at = [&](int i) { return of_group + 4 * i * THREADS; };
            let_come(PAUSE);
            look_for(dz, turn, [](int) { return true; }, dz_at);
            await(dz, step, dz_at, "dZ_2");
#pragma unroll
            for (int i = 0; i < DZ_LOADS; ++i) write_words(&s.dZ[0][0][0] + 4 * (t + i * THREADS), dz[i]);
        }
        __syncthreads();

        {  // dW_2^T: a warp takes half of the neurons and a quarter of the rows
            const int half = warp % 2, fourth = warp / 2;
            float dw2[2][TILES1][2][4] = {};
#pragma unroll
            for (int i = 0; i < up(GROUPS, 4); ++i) {
                const int down = fourth + 4 * i;
                if (GROUPS % 4 && down >= GROUPS) break;
                HalfParts<4> a[2];
                HalfParts<2> b[TILES1];
                for (int m = 0; m < 2; ++m) a[m] = left_down(s.dZ[down][4 * half + 2 * m], place);
                for (int n = 0; n < TILES1; ++n) b[n] = right_down(s.H1[down][n] + place.one);
                multiply(dw2, a, b);
            }
            __syncthreads();
            for (int m = 0; m < 2; ++m)
                for (int n = 0; n < TILES1; ++n) {
                    float sum[4];
                    total_of(dw2[m][n], sum);
                    write4(&s.dW2[fourth][2 * half + m][n][t % 32 * 4], sum);
                }
        }
        __syncthreads();
        float dw2[2][4] = {}, rate_2 = rate;
        if (has2())
            for (int n = 0; n < 2; ++n)
                for (int from = 0; from < 4; ++from) {
                    const float4 v = take4(&s.dW2[from][neurons2()][tile1(n)][t % 32 * 4]);
                    dw2[n][0] += v.x, dw2[n][1] += v.y, dw2[n][2] += v.z, dw2[n][3] += v.w;
                }
        const Scale of_H1 = scales(step).H1, of_multiplied = scales(step + SEQUENTIAL).W2;
        for (int n = 0; n < 2; ++n)
            for (int i = 0; i < 4; ++i) dw2[n][i] *= dZ_scale * of_H1.times;
        if (CLIP) {
            leave_square(square_of(dw2));
            __syncthreads();
            tell_square(2, block_square());
        }
        if (CLIP && !LATE) rate_2 = hear_rate(2);
        if (has2()) {
            for (int n = 0; n < 2; ++n) {
                float multiplied[4];
                for (int i = 0; i < 4; ++i) {
                    const float before = W2[n][i];
                    if (!LATE) W2[n][i] -= rate_2 * dw2[n][i];
                    multiplied[i] = (SEQUENTIAL ? W2[n][i] : before) * of_multiplied.over;
                }
                for (int i = 0; i < 2; ++i) {
                    const Halves x(multiplied[2 * i], multiplied[2 * i + 1]);
                    unsigned* const tile = s.W2[2 * neurons2() + i][tile1(n)] + t % 32;
                    tile[0] = x.big, tile[TILE / 4] = x.small;
                }
            }
            if (!LATE) put2(step + 1);
        }
        copies_done();
        __syncthreads();

        if (has_rows(0)) {  // the contribution of the group's neurons to dH_1
            float dh[DOWN][TILES1][2][4] = {};
            const unsigned* const W2_of_lane = s.W2[t / 8 % 2][0] + t % 32 / 16 * 32 + t % 8 * 4;
#pragma unroll
            for (int k = 0; k < BLOCKS; k += 2) {
                HalfParts<4> a[DOWN];
                HalfParts<2> b[TILES1];
                for (int i = 0; i < DOWN; ++i)
                    a[i] = left_across(s.dZ[smaller(warp * DOWN + i, GROUPS - 1)][k], place);
                for (int n = 0; n < TILES1; ++n) b[n] = right_down(W2_of_lane + (k * TILES1 + n) * (TILE / 2));
                multiply(dh, a, b);
            }
#pragma unroll
            for (int i = 0; i < DOWN; ++i)
#pragma unroll
                for (int n = 0; n < TILES1; ++n) {
                    const int columns = group * (N1 / 2) + (rank * TILES1 + n) * 4 + t % 4;
                    float sum[4];
                    for (int j = 0; j < 4; ++j) sum[j] = dZ_scale * of_multiplied.times * total_of(dh[i][n], j);
                    if (has_rows(i)) of_dH.put(step, ((columns * GROUPS + warp * DOWN + i) * 8 + t % 32 / 4) * 4, sum);
                }
        }
        if (LATE) {
            rate_2 = hear_rate(2);
            for (int n = 0; n < 2; ++n)
                for (int i = 0; i < 4; ++i) W2[n][i] -= rate_2 * dw2[n][i];
            put2(step + 1);
        }
    }
};
