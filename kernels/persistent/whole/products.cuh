// Products of float32 matrices on FP16 tensor cores (special/halves.cuh), each matrix with its own scale: x times a
// power of two is big + small, both FP16. The scale maps the largest number that the matrix had a step before to
// between 2^10 and 2^11. If it maps the largest number now to below 2^4 or above 2^16, the scale follows from that number
// instead. So the error of x is 2^-23 of x, or 2^-29 of the largest number.

__device__ float up_for(int largest)   // its bits
{
    const unsigned exponent = min(max(largest & 0x7f800000u, 64u << 23), 190u << 23);
    return __uint_as_float((254u + 10u << 23) - exponent);
}
__device__ float down_for(float up) { return __uint_as_float((254u << 23) - __float_as_uint(up)); }
__device__ bool is_usual(int largest, float up)   // mapped to between 2^4 and 2^16
{
    constexpr unsigned LEAST = 131u << 23, MOST = 0x477de800u;   // bits of 16 and 65000
    const unsigned scaled = (unsigned)largest + __float_as_uint(up) - (127u << 23);   // bits of the product
    return scaled - LEAST < MOST - LEAST;
}
__device__ bool fits(int largest, float up)   // or a number that no scale makes fit
{
    return is_usual(largest, up) || largest == 0 || largest >= 0x7f800000;
}
__device__ float scale_for(int largest, int before)
{
    const float up = up_for(before);
    return fits(largest, up) ? up : up_for(largest);
}

struct Parts16 {
    unsigned big, small;

    __device__ Parts16(float low, float high)
    {
        big = cvt_rn_f16x2(high, low);
        const float2 v = floats_of(big);
        small = cvt_rn_f16x2(high - v.y, low - v.x);
    }
};

// Four numbers for each lane's place in a tile. By a whole warp, or else not WHOLE.
template <bool WHOLE = true>
__device__ void write_tile(unsigned* tile, int lane, const float (&v)[4], float up)
{
    const Parts16 first(v[0] * up, v[1] * up), second(v[2] * up, v[3] * up);
    const unsigned words[4] = {first.big, second.big, first.small, second.small};
#if defined CUDA_ON_CPU || __CUDA_ARCH__ >= 900
    if constexpr (WHOLE) return store_matrices(tile + 4 * lane, words);
#endif
    for (int i = 0; i < 4; ++i) tile[lane + 32 * i] = words[i];
}
__device__ void read_tile(const unsigned* own, float (&v)[4], float down)
{
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const float2 big = floats_of(own[32 * i]), small = floats_of(own[64 + 32 * i]);
        v[2 * i] = (big.x + small.x) * down, v[2 * i + 1] = (big.y + small.y) * down;
    }
}

// Eight lines of two neighbouring tiles as a right operand over the columns, of which a lane supplies one; of one tile if SINGLE.
__device__ int right_place(unsigned lane) { return lane / 8 % 2 * TILE + lane / 16 * (TILE / 2) + lane % 8 * 4; }
template <bool SINGLE>
__device__ HalfParts<2> right_across(const unsigned* line, unsigned lane)
{
    unsigned v[4];
    load_matrices(v, line - (SINGLE ? lane / 8 % 2 * TILE : 0));
    return {{v[0], SINGLE ? 0 : v[1]}, {v[2], SINGLE ? 0 : v[3]}};
}

// Sums of M x N tiles. If there are few, each has several sums, which do not wait for each other.
template <int M, int N>
struct Sums {
    static constexpr int CHAINS = M * N == 1 ? 6 : M * N == 2 ? 3 : 1;
    float v[CHAINS][M][N][4];

    __device__ Sums()
    {
        for (int c = 0; c < CHAINS; ++c)
            for (int m = 0; m < M; ++m)
                for (int n = 0; n < N; ++n)
                    for (int i = 0; i < 4; ++i) v[c][m][n][i] = 0.0f;
    }
    // Small terms first.
    __device__ void add(int k, const HalfParts<4> (&a)[M], const HalfParts<2> (&b)[N])
    {
        const int chain = CHAINS == 6 ? k % 2 * 3 : 0;
#pragma unroll
        for (int which = 2; which >= 0; --which)
#pragma unroll
            for (int m = 0; m < M; ++m)
#pragma unroll
                for (int n = 0; n < N; ++n)
                    mma_m16n8k16_fp16(v[CHAINS == 1 ? 0 : chain + which][m][n], which == 1 ? a[m].small : a[m].big,
                                      which == 2 ? b[n].small : b[n].big);
    }
    __device__ float total(int m, int n, int i) const
    {
        float sum = v[CHAINS - 1][m][n][i];
#pragma unroll
        for (int c = CHAINS - 2; c >= 0; --c) sum += v[c][m][n][i];
        return sum;
    }
};

template <int K, int M, int N, class A, class B>
__device__ void multiply(Sums<M, N>& sums, A left, B right)
{
#pragma unroll
    for (int k = 0; k < K; ++k) {
        HalfParts<4> a[M];
        HalfParts<2> b[N];
#pragma unroll
        for (int m = 0; m < M; ++m) a[m] = left(k, m);
#pragma unroll
        for (int n = 0; n < N; ++n) b[n] = right(k, n);
        sums.add(k, a, b);
    }
}
