// What the phases after a barrier do before their arithmetic: the updates that waited for it, and the errors.

struct AfterBarrier : State {
    // Sums COUNT values over the threads of the block, in one fixed order; every thread receives the sums.
    template <int COUNT> __device__ void sum_up(float (&value)[COUNT])
    {
        for (int i = 0; i < COUNT; ++i) {
            for (int apart = 16; apart > 0; apart /= 2) value[i] += __shfl_xor_sync(0xffffffff, value[i], apart);
            if (at.lane() == 0) shared.sums[i][at.warp()] = value[i];
        }
        __syncthreads();
        for (int i = 0; i < COUNT; ++i) {
            value[i] = 0.0f;
            for (int from = 0; from < WARPS; ++from) value[i] += shared.sums[i][from];
        }
    }

    // After the barrier that follows descend<I>: updates w, and with CLIP W_i, which waited for its gradient's norm.
    template <int I> __device__ void settle()
    {
        if (I == 1 && first) {  // no gradient yet: readers use W_1 - 0 dW_1
            factor = 0.0f;
        } else {
            float factor_of_w = rate;
            if constexpr (CLIP) {
                float sum[4] = {};
                if (at.thread < Descend<I>::TILES) read(norms<I>() + 4 * at.thread, sum);
                sum_up(sum);
                if (I == L) factor_of_w = rate * clipped(sum[3], max_norm);
                // The squared norm of U diag(w - f dw), with f the factor of w, is a polynomial in f.
                const float f = factor_of_w;
                factor = rate * clipped(TIMES_W<I> ? sum[0] - 2.0f * f * sum[1] + f * f * sum[2] : sum[0], max_norm);
            }
            if (I == L)
                for (int j = at.thread; j < LAST; j += THREADS) shared.w[j] -= factor_of_w * __ldcg(dw() + j);
        }
        __syncthreads();
        if constexpr (CLIP) {
            Kept<I>& mine = kept;
            for_elements<Descend<I>>(at, [&](int e, int row, int col) {
                mine.W[e] -= factor * (TIMES_W<I> ? shared.dW[e][at.thread] * shared.w[col] : shared.dW[e][at.thread]);
                W<I>(1 - now)[row * WIDTH[I] + col] = mine.W[e];
            });
        }
    }

    // Computes e and g of the batch from the partial sums of y.
    __device__ void errors()
    {
        const float scale = 2.0f / rows;
        for (int r = at.thread; r < ROWS; r += THREADS) {
            const float target = Y[(size_t)batch * ROWS + r];
            float y = 0.0f;
#pragma unroll 16
            for (int p = 0; p < Y_PARTS; ++p) y += __ldcg(y_parts() + p * ROWS + r);
            const float error = r < rows ? y - target : 0.0f;
            shared.g[r] = scale * error;
            if (last && at.block == 0) E[r] = error;
        }
        __syncthreads();
    }
};
