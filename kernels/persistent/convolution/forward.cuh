// The forward pass, from the pixels to the pooled features. conv1 by ordinary multiply-adds. conv2 as an implicit
// product on tensor cores (tf32.cuh): rows are positions, so ordered that a lane holds all elements of a window, and
// pools them in registers.

__device__ float rectified(float z) { return z < 0.0f ? 0.0f : z; }  // a NaN is not < 0 and stays

struct Forward : Weights {
    // Loads the pixels and the target of the block's image of a batch; of a row that the batch does not have, zeros.
    __device__ void fetch_image(int rows, int of_batch, float (&pixels)[PIXELS])
    {
        const int row = of_batch * BATCH + image;
        const bool has = row < rows;
        const int top = first_row2() - PADDING2 - PADDING1, left = -PADDING2 - PADDING1;
#pragma unroll
        for (int i = 0; i < PIXELS; ++i) {
            const int at = t + i * THREADS, c = at / (ROWS0 * COLS0), y = top + at / COLS0 % ROWS0, x = left + at % COLS0;
            const bool inside = has && c < CHANNELS && y >= 0 && y < HEIGHT && x >= 0 && x < WIDTH;
            pixels[i] = inside ? X[(((size_t)row * CHANNELS + c) * HEIGHT + y) * WIDTH + x] : 0.0f;
        }
        if (warp == 0) target = has && lane < OUTPUTS ? Y[(size_t)row * OUTPUTS + lane] : 0.0f;
    }

    __device__ void store_image(const float (&pixels)[PIXELS])
    {
#pragma unroll
        for (int i = 0; i < PIXELS; ++i) {
            const int at = t + i * THREADS, c = at / (ROWS0 * COLS0);
            if (c < CHANNELS) s.X[c * PLANE0 + at / COLS0 % ROWS0 * P + at % COLS0] = pixels[i];
        }
    }

    __device__ void convolve_first()
    {
        constexpr int POSITIONS = ROWS1 * COLS1;
        for (int i = t; i < POSITIONS * (F1 / 4); i += THREADS) {
            const int c = i / POSITIONS * 4, r = i % POSITIONS / COLS1, x = i % COLS1;
            const int y = first_row2() + r - PADDING2, z = x - PADDING2;
            float sum[4] = {};
            const float* const from = s.X + r * P + x;
#pragma unroll
            for (int tap = 0; tap < TAPS1; ++tap) {
                const float pixel = from[tap / (K1 * K1) * PLANE0 + tap / K1 % K1 * P + tap % K1];
                const float4 w = *reinterpret_cast<const float4*>(&s.W1[tap][c]);
                sum[0] += pixel * w.x, sum[1] += pixel * w.y, sum[2] += pixel * w.z, sum[3] += pixel * w.w;
            }
            const bool inside = y >= 0 && y < HIGH1 && z >= 0 && z < WIDE1;
            for (int j = 0; j < 4; ++j) sum[j] = inside ? rectified(sum[j] + s.b1[c + j]) : 0.0f;
            *reinterpret_cast<float4*>(s.A1 + (r * P + x) * CS + c) = make_float4(sum[0], sum[1], sum[2], sum[3]);
        }
    }

    // conv2, ReLU and the pooling. A warp computes 8 filters of GROUPS groups of 8 windows at a time. Rows p and p + 8
    // of tile i are elements 2 i and 2 i + 1 of window p, column by column: of windows of 2 x 2 the first tile for one
    // column of taps is the second tile for the column before, and is read once.
    __device__ void convolve_second()
    {
        constexpr int ALL = up(WINDOWS, 8);
        constexpr int GROUPS = smaller(larger(1, 6 / HALVES), up(ALL * N8, WARPS)), SETS = up(ALL, GROUPS);
        const int valid = WP * (smaller(HP, (part + 1) * PR) - part * PR);   // windows that the last part has
        for (int unit = warp; unit < SETS * N8; unit += WARPS) {
            const int n = unit % N8, first = unit / N8 * GROUPS * 8 + p;
            int from[GROUPS][2 * HALVES];
            for (int g = 0; g < GROUPS; ++g) {
                const int w = first + 8 * g < WINDOWS ? first + 8 * g : 0;
                for (int e = 0; e < 2 * HALVES; ++e) {
                    const int element = smaller(e, ELEMENTS - 1);
                    const int r = w / WP * POOL + element % POOL, x = w % WP * POOL + element / POOL;
                    from[g][e] = (r * P + x) * CS + 2 * q;
                }
            }
            float sum[GROUPS * HALVES][1][4] = {};
#pragma unroll 1
            for (int kr = 0; kr < K2; ++kr) {
                float part[GROUPS * HALVES][1][4] = {};
#pragma unroll
                for (int kc = 0; kc < K2; ++kc)
#pragma unroll 2
                    for (int c = 0; c < C8; ++c) {
                        const int at = (kr * P + kc) * CS + 8 * c;
                        Masked<4> a[GROUPS * HALVES];
#pragma unroll
                        for (int i = 0; i < GROUPS * HALVES; ++i) {
                            const int(&rows)[2 * HALVES] = from[i / HALVES];
                            a[i] = left_at(s.A1 + rows[i % HALVES * 2] + at, s.A1 + rows[i % HALVES * 2 + 1] + at, high);
                        }
                        const Masked<2> b[1] = {right_at(s.Wf + (((kr * K2 + kc) * C8 + c) * N8 + n) * 64 + 2 * lane, high)};
                        multiply(part, a, b);
                    }
                add(sum, part);
            }
#pragma unroll
            for (int g = 0; g < GROUPS; ++g)
#pragma unroll
                for (int j = 0; j < 2; ++j) {
                    const int w = first + 8 * g, f = 8 * n + 2 * q + j;
                    const float bias = s.b2[f];
                    float best = sum[g * HALVES][0][j] + bias;
                    int which = 0;
#pragma unroll
                    for (int e = 1; e < ELEMENTS; ++e) {
                        const int at = e % POOL * POOL + e / POOL;
                        const float value = sum[g * HALVES + at / 2][0][at % 2 * 2 + j] + bias;
                        if (value > best || value != value) best = value, which = e;
                    }
                    if (w >= WINDOWS) continue;
                    s.pooled[w * F2 + f] = w < valid ? rectified(best) : 0.0f;
                    s.which[w * F2 + f] = which;
                }
        }
    }
};
