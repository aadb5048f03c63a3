// Layer 1, backward and then forward. A block adds up the groups' contributions to two of its columns of dH_1,
// updates these columns of W_1, and publishes these columns of the next batch's H_1.

struct FirstLayer : SecondLayer {
    float h[PAIRS][2] = {};               // H_1 of the block's columns in this thread's row

    // A thread owns W_1 of feature t % 32.
    __device__ int pair(int i) const { return rank * TILES1 * 4 + group + i * GROUPS; }
    __device__ bool has_pair(int i) const { return PAIRS * GROUPS == TILES1 * 4 || group + i * GROUPS < TILES1 * 4; }
    __device__ bool has1(int i) const { return t % 32 < F && has_pair(i); }
    __device__ int place1(int i) const { return t % 32 * N1 + 2 * pair(i); }

    __device__ void take_row(int step, float (&x)[F]) const { take(s.X[step % 2][t % ROWS], x); }
    __device__ float column_of_X(int row) const { return row < ROWS && t % 32 < F ? s.X[step % 2][row][t % 32] : 0.0f; }

    // Publishes two columns of H_1 of a batch. Threads t and t ^ 1 hold rows p and p + 8 of sixteen.
    __device__ void tell_H1(int step, int i, const float (&x)[F])
    {
        if (t % 32 < F) *reinterpret_cast<float2*>(s.W1[warp][t % 32]) = make_float2(W1[i][0], W1[i][1]);
        __syncwarp();
        float z[2] = {};
        multiply_row(z, x, s.W1[warp]);
        for (int n = 0; n < 2; ++n) h[i][n] = positive(z[n]);
        const float over = scales(step).H1.over;
        const Halves words(h[i][0] * over, h[i][1] * over);
        const float big[] = {__uint_as_float(words.big)}, small[] = {__uint_as_float(words.small)};
        const int own = group + i * GROUPS, at = t % 2 * 32 + t % 16 / 2 * 4 + own % 4;
        const int to = ((rank * GROUPS + t / 16) * TILES1 + own / 4) * PART + at;
        if (has_row() && has_pair(i)) of_H1.put(step, to, big), of_H1.put(step, to + PART / 2, small);
        if (i == PAIRS - 1) leave_largest_W1();
        __syncwarp();
    }

    // Updates W_1, and publishes H_1 of the next batch. Thread t takes row 16 (t / 16) + t % 16 / 2 + 8 (t % 2) of a
    // batch.
    __device__ void first_layer()
    {
        const int lane = t % 32;
        const unsigned turn = turn_of(step);
        if (!CLIP) look_for_W2(step + 1);
        float x[F], dw1[PAIRS][2] = {};
#pragma unroll
        for (int i = 0; i < PAIRS; ++i) {
            const float* const parts = of_dH.of(step) + (pair(i) * ROWS + t) * 2;
            const auto part_at = [&](int from) { return parts + from * N1 * ROWS; };
            float part[GROUPS][2], dz[2] = {};
            let_come(PAUSE);
            const auto has_part = [&](int) { return has_row() && has_pair(i); };
            look_for(part, turn, has_part, part_at);
            float column[32];
#pragma unroll
            for (int r = 0; r < 32; ++r) column[r] = column_of_X(32 * warp + r);
            await(part, step, part_at, "dH_1");
            for (int from = 0; from < GROUPS; ++from)
                for (int j = 0; j < 2; ++j) dz[j] += part[from][j];
            for (int j = 0; j < 2; ++j) s.dZ1[t][j] = h[i][j] > 0.0f ? dz[j] : 0.0f;
            __syncwarp();
            float sum[2] = {};
#pragma unroll
            for (int r = 0; r < 32; r += 2) {
                const float4 d = take4(s.dZ1[32 * warp + r]);
                sum[0] += column[r] * d.x + column[r + 1] * d.z, sum[1] += column[r] * d.y + column[r + 1] * d.w;
            }
            if (lane < F) *reinterpret_cast<float2*>(s.dW1[warp][lane]) = make_float2(sum[0], sum[1]);
            if (!LATE && i == 0) take_row(step + 1, x);
            __syncthreads();
            for (int from = 0; from < WARPS; ++from) {
                const float2 v = take2(s.dW1[from][smaller(lane, F - 1)]);
                dw1[i][0] += v.x, dw1[i][1] += v.y;
            }
            if (!CLIP)
                for (int n = 0; n < 2; ++n) W1[i][n] -= rate * dw1[i][n];
            if (!CLIP && !last) tell_H1(step + 1, i, x);
            if (i + 1 < PAIRS) __syncthreads();
        }
        if (!CLIP) return;
        float square = 0.0f;
        for (int i = 0; i < PAIRS; ++i)
            for (int n = 0; n < 2; ++n)
                if (has1(i)) square += dw1[i][n] * dw1[i][n];
        if (warp == 0) tell_square(1, warp_sum(square));
        const float rate_1 = hear_rate(1);
        if (LATE) take_row(step + 1, x);
        for (int i = 0; i < PAIRS; ++i) {
            for (int n = 0; n < 2; ++n) W1[i][n] -= rate_1 * dw1[i][n];
            if (!last) tell_H1(step + 1, i, x);
        }
        look_for_W2(step + 1);
    }
};
