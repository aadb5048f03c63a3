// The update. Each block sums a share of the convolutions' gradients over all blocks, in their order, updates these
// weights and sends them to all; gradients are messages as well. It also computes the gradient of its own rows of the
// linear layer's matrix from all images' pooled features, and updates them.

struct Update : Backward {
    __device__ void update()
    {
        constexpr int COLUMNS = OWN_G / 4, FOURS = OWN_FC / 4, OWN = up(OWN_G, THREADS);
        const float* const own_pooled = S + AT_POOLED + blockIdx.x * OWN_FC;
        for (int i = t; i < BATCH * FOURS; i += THREADS)
            copy_async(shared_address(s.all.pooled + 4 * i), own_pooled + (size_t)(i / FOURS) * ALL_FC + 4 * (i % FOURS));
        for (int i = 4 * t; i < BATCH * OUTPUTS; i += 4 * THREADS) copy_async(shared_address(s.all.dl + i), S + AT_DL + i);
        // The last threads own weights of the convolutions.
        float *w[OWN], old[OWN];
#pragma unroll
        for (int i = 0; i < OWN; ++i) {
            const int at = THREADS - 1 - t + i * THREADS;
            w[i] = at < OWN_G ? parameter(blockIdx.x * OWN_G + at) : nullptr;
            if (w[i]) old[i] = from_l2(w[i]);
        }
        // Chunks of blocks, in their order, for each four gradients.
        const unsigned turn = turn_of(step);
        const float* const own = of_gradients.of(step) + blockIdx.x * OWN_G;
#pragma unroll 1
        for (int first = 0; first < COLUMNS * CHUNKS; first += THREADS) {   // all lanes of a warp
            const int i = first + t, column = i % COLUMNS, chunk = i / COLUMNS;
            const bool any = i < COLUMNS * CHUNKS && blockIdx.x * OWN_G + 4 * column < GRADIENTS;
            const auto has = [&](int j) { return any && chunk * CHUNK + j < GRID; };
            const auto where = [&](int j) { return own + (size_t)(chunk * CHUNK + j) * ALL_G + 4 * column; };
            float v[CHUNK][4], sum[4] = {};
            look_for(v, turn, has, where);
            await(v, step, where, "gradient");
#pragma unroll
            for (int j = 0; j < CHUNK; ++j)
                for (int k = 0; k < 4; ++k) sum[k] += v[j][k];
            if (i < COLUMNS * CHUNKS)
                *reinterpret_cast<float4*>(s.all.sums + chunk * OWN_G + 4 * column) =
                    make_float4(sum[0], sum[1], sum[2], sum[3]);
        }
        copies_done();
        __syncthreads();
#pragma unroll
        for (int i = 0; i < OWN; ++i) {
            const int at = THREADS - 1 - t + i * THREADS;
            if (at >= OWN_G) continue;
            float updated = 0.0f;
            if (w[i]) {
                float sum = 0.0f;
                for (int chunk = 0; chunk < CHUNKS; ++chunk) sum += s.all.sums[chunk * OWN_G + at];
                *w[i] = updated = old[i] - rate * sum;
            }
            tell_weight(step + 1, at, updated);
        }
        update_linear();
    }

    // The block's rows of the linear layer's matrix: 16 rows x 8 outputs at a time, summed over the batch. And every
    // block keeps the bias for itself.
    __device__ void update_linear()
    {
        constexpr int N = up(OUTPUTS, 8), UNITS = up(OWN_FC, 16) * N;
        float* const FC = S + AT_FC + blockIdx.x * OWN_FC * OUTPUTS;
        for (int unit = warp; unit < UNITS; unit += WARPS) {
            const int row = unit / N * 16 + p, output = unit % N * 8;
            float old[2][2], sum[1][1][4] = {};
            for (int half = 0; half < 2; ++half)
                for (int j = 0; j < 2; ++j)
                    if (row + 8 * half < OWN_FC && output + 2 * q + j < OUTPUTS)
                        old[half][j] = from_l2(FC + (row + 8 * half) * OUTPUTS + output + 2 * q + j);
            const int rows[2] = {smaller(row, OWN_FC - 1), smaller(row + 8, OWN_FC - 1)}, o = smaller(output + p, OUTPUTS - 1);
#pragma unroll 2
            for (int k = 0; k < BATCH; k += 8) {
                Masked<4> a[1];
                Masked<2> b[1];
                for (int j = 0; j < 2; ++j) {
                    const int of_batch = k + 2 * q + j, has = smaller(of_batch, BATCH - 1);
                    for (int half = 0; half < 2; ++half)
                        a[0].set(2 * j + half, s.all.pooled[has * OWN_FC + rows[half]], high);
                    b[0].set(j, of_batch < BATCH ? s.all.dl[has * OUTPUTS + o] : 0.0f, high);
                }
                multiply(sum, a, b);
            }
            for (int half = 0; half < 2; ++half)
                for (int j = 0; j < 2; ++j)
                    if (row + 8 * half < OWN_FC && output + 2 * q + j < OUTPUTS)
                        FC[(row + 8 * half) * OUTPUTS + output + 2 * q + j] = old[half][j] - rate * sum[0][0][2 * half + j];
        }
        if (warp == WARPS - 1 && lane < OUTPUTS) {
            float sum = 0.0f;
#pragma unroll 8
            for (int b = 0; b < BATCH; ++b) sum += s.all.dl[b * OUTPUTS + lane];
            s.b3[lane] -= rate * sum;
        }
    }
};
