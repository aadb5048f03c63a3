// The weights that a computing warp holds, and where they are in memory. With p = lane / 4 and q = lane % 4, a lane holds
// of W1 and U, for m < M and k < K, neurons 16 m + p and 16 m + p + 8 of features feature(k, 0, q) (elements 0 and 1) and
// feature(k, 1, q) (elements 2 and 3). Its neurons are counted from `first`.

typedef float OfW1[M][K][4];
typedef float OfW2[M][2];

__device__ void load(OfW1& w1, OfW2& w2, const float* W1, const float* W2, int first, int q)
{
#pragma unroll
    for (int m = 0; m < M; ++m)
#pragma unroll
        for (int n = 0; n < 2; ++n) {
            const int column = first + 16 * m + 8 * n;
            w2[m][n] = column < HIDDEN ? W2[column] : 0.0f;
#pragma unroll
            for (int k = 0; k < K; ++k)
#pragma unroll
                for (int f = 0; f < 2; ++f)
                    w1[m][k][2 * f + n] = column < HIDDEN ? W1[feature(k, f, q) * HIDDEN + column] : 0.0f;
        }
}

__device__ void store(const OfW1& w1, const OfW2& w2, float* W1, float* W2, int first, int q)
{
#pragma unroll
    for (int m = 0; m < M; ++m)
#pragma unroll
        for (int n = 0; n < 2; ++n) {
            const int column = first + 16 * m + 8 * n;
            if (column >= HIDDEN) continue;
            if (q == 0) W2[column] = w2[m][n];
#pragma unroll
            for (int k = 0; k < K; ++k)
#pragma unroll
                for (int f = 0; f < 2; ++f) W1[feature(k, f, q) * HIDDEN + column] = w1[m][k][2 * f + n];
        }
}
