// The forward pass. Each warp multiplies an eighth of the columns of the 16 rows of H1 with its rows of W2, loaded from
// global memory into registers. The warps' partial sums of H2 are combined in shared memory.

struct Forward : Norms {
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
};
