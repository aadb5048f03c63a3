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
__device__ bool fits(int largest, float up)   // true also for a number that no scale makes fit
{
    const float scaled = __int_as_float(largest) * up;
    return largest == 0 || largest >= 0x7f800000 || (scaled >= 16.0f && scaled < 65000.0f);
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

// The four numbers of a lane's place in a tile, whose first word this is: words 0 and 1 are big.
__device__ void write_tile(unsigned* own, const float (&v)[4], float up)
{
    const Parts16 first(v[0] * up, v[1] * up), second(v[2] * up, v[3] * up);
    own[0] = first.big, own[32] = second.big, own[64] = first.small, own[96] = second.small;
}
__device__ void read_tile(const unsigned* own, float (&v)[4], float down)
{
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const float2 big = floats_of(own[32 * i]), small = floats_of(own[64 + 32 * i]);
        v[2 * i] = (big.x + small.x) * down, v[2 * i + 1] = (big.y + small.y) * down;
    }
}

// Eight lines of two neighbouring tiles as a right operand over the columns; of one tile if SINGLE.
template <bool SINGLE>
__device__ HalfParts<2> right_across(const unsigned* lines, int lane)
{
    unsigned v[4];
    load_matrices(v, lines + (SINGLE ? 0 : lane / 8 % 2 * TILE) + lane / 16 * (TILE / 2) + lane % 8 * 4);
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
        float sum = 0.0f;
#pragma unroll
        for (int c = CHAINS - 1; c >= 0; --c) sum += v[c][m][n][i];
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
