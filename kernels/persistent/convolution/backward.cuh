// The backward pass: the gradient of the pooled features, spread to the windows' largest elements. dW2 and the gradient
// of conv1's output are implicit products as well, and so is dW1, whose bias is a further tap of ones.

struct Backward : Linear {
    template <int COUNT>
    __device__ void tell_gradients(int at, const float (&v)[COUNT]) const
    {
        of_gradients.put(step, blockIdx.x * ALL_G + at, v);
    }

    // The gradient of the pooled features where the ReLU passes it, and its sums over the windows, of each warp's.
    __device__ void differentiate_pooled()
    {
        for (int i = t; i < SLOTS; i += THREADS) {
            float w[OUTPUTS], sum = 0.0f;
            row_of_FC(i, w);
#pragma unroll
            for (int o = 0; o < OUTPUTS; ++o) sum += w[o] * s.dl[o];
            s.pooled[i] = s.pooled[i] > 0.0f ? sum : 0.0f;
        }
        __syncthreads();
        for (int i = t; i < DROWS * DP * (FS / 4); i += THREADS) {   // what is around the windows
            const int at = i / (FS / 4), r = at / DP - (K2 - 1), x = at % DP - (K2 - 1);
            if (r < 0 || r >= ROWS2 || x < 0 || x >= COLS2)
                *reinterpret_cast<float4*>(s.dZ + 4 * i) = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        }
        for (int i = t; i < SLOTS; i += THREADS) {
            const int w = i / F2, which = s.which[i];
            const float gradient = s.pooled[i];
            float* const to = s.dZ + ((w / WP * POOL + K2 - 1) * DP + w % WP * POOL + K2 - 1) * FS + i % F2;
#pragma unroll
            for (int e = 0; e < ELEMENTS; ++e) to[(e / POOL * DP + e % POOL) * FS] = e == which ? gradient : 0.0f;
        }
        for (int f = lane; f < F2; f += 32) {
            float sum = 0.0f;
            for (int w = warp; w < WINDOWS; w += WARPS) sum += s.pooled[w * F2 + f];
            s.db2[warp][f] = sum;
        }
        __syncthreads();
    }

    // dW2, filters x channels for each tap: a warp has a row of taps of 16 filters and 8 channels, and sums over
    // positions. Of 8 positions, lane q takes 2 q and 2 q + 1; its channel's values for the next tap are one further.
    __device__ void differentiate_second()
    {
        for (int unit = warp; unit < UNITS2; unit += WARPS) {
            const int kr = unit % K2, c = unit / K2 % C8 * 8, f = unit / K2 / C8 * 16;
            float sum[1][K2][4] = {};
            constexpr int AT_ONCE = __CUDA_ARCH__ >= 900 ? 3 : 2;   // before sm_90, three do not fit into registers
            for (int r = 0; r < ROWS2; ++r) {
                const float* const of_row = s.dZ + ((r + K2 - 1) * DP + K2 - 1 + 2 * q) * FS + f + p;
                const float* const inputs = s.A1 + ((r + kr) * P + 2 * q) * CS + c + p;
                float part[1][K2][4] = {};
#pragma unroll AT_ONCE
                for (int i = 0; i < STEPS2; ++i) {
                    const float *const dz = of_row + i * 8 * FS, *const x = inputs + i * 8 * CS;
                    Masked<4> a[1];
                    a[0].set(0, dz[0], high), a[0].set(1, dz[8], high);
                    a[0].set(2, dz[FS], high), a[0].set(3, dz[FS + 8], high);
                    Masked<2> b[K2];
#pragma unroll
                    for (int j = 0; j <= K2; ++j) {
                        const float value = x[j * CS];
                        if (j < K2) b[j].set(0, value, high);
                        if (j > 0) b[j - 1].set(1, value, high);
                    }
                    multiply(part, a, b);
                }
                add(sum, part);
            }
#pragma unroll
            for (int kc = 0; kc < K2; ++kc) tell_gradients((unit * K2 + kc) * 128 + 4 * lane, sum[0][kc]);
        }
    }

    // The gradient of conv1's output, in its place, where it is > 0: positions x channels, summed over taps and filters.
    __device__ void propagate()
    {
        constexpr int POSITIONS = ROWS1 * COLS1, TILES = up(POSITIONS, 16), BOTH = up(TILES, 2);
        for (int unit = warp; unit < BOTH; unit += WARPS) {
            int from[2][2], to[2][2];
            for (int i = 0; i < 2; ++i)
                for (int half = 0; half < 2; ++half) {
                    const int at = 16 * (unit + i * BOTH) + 2 * p + half, clamped = smaller(at, POSITIONS - 1);
                    const int r = clamped / COLS1, x = clamped % COLS1;
                    from[i][half] = ((r + K2 - 1) * DP + x + K2 - 1) * FS + 2 * q;
                    to[i][half] = at < POSITIONS ? (r * P + x) * CS + 2 * q : -1;
                }
            float sum[2][C8][4] = {};
#pragma unroll 1
            for (int kr = 0; kr < K2; ++kr) {
                float part[2][C8][4] = {};
#pragma unroll
                for (int kc = 0; kc < K2; ++kc)
#pragma unroll
                    for (int f = 0; f < N8; ++f) {
                        const int at = 8 * f - (kr * DP + kc) * FS;
                        Masked<4> a[2];
                        Masked<2> b[C8];
#pragma unroll
                        for (int i = 0; i < 2; ++i) a[i] = left_at(s.dZ + from[i][0] + at, s.dZ + from[i][1] + at, high);
#pragma unroll
                        for (int c = 0; c < C8; ++c)
                            b[c] = right_at(s.Wb + (((kr * K2 + kc) * N8 + f) * C8 + c) * 64 + 2 * lane, high);
                        multiply(part, a, b);
                    }
                add(sum, part);
            }
#pragma unroll
            for (int i = 0; i < 2; ++i)
#pragma unroll
                for (int half = 0; half < 2; ++half)
#pragma unroll
                    for (int c = 0; c < C8; ++c) {
                        if (to[i][half] < 0) continue;
                        float2& value = *reinterpret_cast<float2*>(s.A1 + to[i][half] + 8 * c);
                        value = make_float2(value.x > 0.0f ? sum[i][c][2 * half] : 0.0f,
                                            value.y > 0.0f ? sum[i][c][2 * half + 1] : 0.0f);
                    }
        }
        __syncthreads();
    }

    // dW1 and db1, channels x taps, of each warp's positions; then their sums over the warps, which are published.
    __device__ void differentiate_first()
    {
        constexpr int STEPS = up(ROWS1 * P, 8), N = N1 % 2 ? 1 : 2;   // N: tiles of 8 taps at a time
        for (int pair = 0; pair < PAIRS1; pair += N) {
            const int c = pair / N1 * 16, first = pair % N1 * 8 + p;
            float sum[1][N][4] = {};
#pragma unroll 2
            for (int i = warp; i < STEPS; i += WARPS) {
                const float* const dz = s.A1 + (8 * i + 2 * q) * CS + c + p;
                Masked<4> a[1];
                Masked<2> b[N];
                a[0].set(0, dz[0], high), a[0].set(1, dz[8], high), a[0].set(2, dz[CS], high), a[0].set(3, dz[CS + 8], high);
#pragma unroll
                for (int n = 0; n < N; ++n) {
                    const int tap = first + 8 * n, used = tap < TAPS1 ? tap : 0;
                    const float* const x = s.X + 8 * i + 2 * q + used / (K1 * K1) * PLANE0 + used / K1 % K1 * P + used % K1;
                    for (int j = 0; j < 2; ++j) b[n].set(j, tap < TAPS1 ? x[j] : tap == TAPS1 ? 1.0f : 0.0f, high);
                }
                multiply(sum, a, b);
            }
#pragma unroll
            for (int n = 0; n < N; ++n) {
                const float(&v)[4] = sum[0][n];
                *reinterpret_cast<float4*>(&s.dW1[pair + n][warp][4 * lane]) = make_float4(v[0], v[1], v[2], v[3]);
            }
        }
        __syncthreads();
        for (int i = t; i < F2 + PAIRS1 * 128; i += THREADS) {
            float sum[1] = {};
            for (int from = 0; from < WARPS; ++from)
                sum[0] += i < F2 ? s.db2[from][i] : s.dW1[(i - F2) / 128][from][(i - F2) % 128];
            tell_gradients(AT_DB2 + i, sum);
        }
    }
};
