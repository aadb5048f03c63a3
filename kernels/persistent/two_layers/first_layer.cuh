// Layer 1, backward and then forward. A block adds up what its group's blocks contribute to dH1 of its two neurons,
// updates their columns of W1, and publishes their H1 of the next batch.

struct FirstLayer : SecondLayer {
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
};
