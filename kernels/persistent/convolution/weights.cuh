// The convolutions' weights, as messages. Each belongs to a block, which sends it to all; they are in the order of the
// gradients (image_strips.cuh). A block writes what it hears in the order in which conv1 reads its weights, and as the
// right operands of conv2's forward and backward products.

struct Weights : State {
    // Which weight a published gradient belongs to; null for padding.
    __device__ float* parameter(int at) const
    {
        if (at >= AT_DB2 && at < AT_DW1) return at - AT_DB2 < FILTERS2 ? b2 + at - AT_DB2 : nullptr;
        const int tile = at < AT_DB2 ? at / 128 : (at - AT_DW1) / 128, place = at < AT_DB2 ? at % 128 : (at - AT_DW1) % 128;
        const int across = place / 16 + place % 4 / 2 * 8, along = place % 16 / 4 * 2 + place % 2;   // in an accumulator
        if (at < AT_DB2) {
            const int unit = tile / K2, tap = unit % K2 * K2 + tile % K2;
            const int f = unit / K2 / C8 * 16 + across, c = unit / K2 % C8 * 8 + along;
            if (f >= FILTERS2 || c >= FILTERS1) return nullptr;
            return W2 + (f * FILTERS1 + c) * TAPS2 + tap;
        }
        const int c = tile / N1 * 16 + across, tap = tile % N1 * 8 + along;
        if (tile >= PAIRS1 || c >= FILTERS1 || tap > TAPS1) return nullptr;
        return tap == TAPS1 ? b1 + c : W1 + c * TAPS1 + tap;
    }

    __device__ void tell_weight(int of_step, int own, float weight) const
    {
        const float one[1] = {weight};
        of_weights.put(of_step, blockIdx.x * OWN_G + own, one);
    }

    // Waits for the convolutions' weights of this step.
    __device__ void hear_weights()
    {
        constexpr int LOADS = up(GRADIENTS / 4, THREADS);
        constexpr unsigned PAUSE = 900;   // cycles
        const unsigned turn = turn_of(step);
        const float* const from = of_weights.of(step) + 4 * t;
        const auto has = [&](int i) { return t + i * THREADS < GRADIENTS / 4; };
        const auto where = [&](int i) { return from + 4 * i * THREADS; };
        float w[LOADS][4];
        let_come(PAUSE);
        look_for(w, turn, has, where);
        await(w, step, where, "weights");
#pragma unroll
        for (int i = 0; i < LOADS; ++i) {
            if (!has(i)) continue;
            const int at = 4 * (t + i * THREADS);
            if (at >= AT_DB2 && at < AT_DW1) {
                for (int j = 0; j < 4; ++j) s.b2[at - AT_DB2 + j] = w[i][j];
                continue;
            }
            const int tile = (at < AT_DB2 ? at : at - AT_DW1) / 128, place = (at < AT_DB2 ? at : at - AT_DW1) % 128;
            const int across = place / 16, along = place % 16 / 2;
            if (at < AT_DB2) {
                const int unit = tile / K2, tap = unit % K2 * K2 + tile % K2, c = unit / K2 % C8, f = unit / K2 / C8 * 2;
                for (int half = 0; half < 2; ++half) {
                    float* const forward = s.Wf + ((tap * C8 + c) * N8 + f + half) * 64 + across * 8 + along;
                    float* const backward = s.Wb + ((tap * N8 + f + half) * C8 + c) * 64 + along * 8 + across;
                    *reinterpret_cast<float2*>(forward) = make_float2(w[i][2 * half], w[i][2 * half + 1]);
                    backward[0] = w[i][2 * half], backward[8] = w[i][2 * half + 1];
                }
            } else {
                for (int j = 0; j < 4; ++j) {
                    const int c = tile / N1 * 16 + across + j / 2 * 8, tap = tile % N1 * 8 + along + j % 2;
                    if (tap < TAPS1) s.W1[tap][c] = w[i][j];
                    if (tap == TAPS1) s.b1[c] = w[i][j];
                }
            }
        }
    }
};
