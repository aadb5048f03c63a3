// Fragments of consecutive products, chained without a transposition. In an accumulator of mma.m16n8k8, a lane with p
// = lane / 4 and q = lane % 4 holds columns 2 q and 2 q + 1 of rows p and p + 8. If the next product takes k in the
// order 0, 2, 4, 6, 1, 3, 5, 7, these four floats are what the lane must supply as the left operand. If the next
// product runs its k down the 16 rows, a lane needs rows 4 s + q and 4 s + q + 8 of column p: two neighbouring floats
// in memory. Some lanes swap places in shared memory to avoid bank conflicts.

#include "tf32.cuh"

struct Lane {
    int p, q, at;        // at: index of the lane's four floats in a fragment
    int down[2];         // index of its two floats, rows 4 s + q and 4 s + q + 8 of column p

    __device__ Lane()
    {
        const int lane = threadIdx.x % 32;
        p = lane / 4, q = lane % 4, at = 4 * (lane ^ (lane >> 2 & 2));
        for (int s = 0; s < 2; ++s) down[s] = 64 * s + 16 * q + (2 * p ^ 8 * (q / 2));
    }
};

// Index of element (k, n) in a right operand of 8 x 8; a lane reads k = 2 q and 2 q + 1 of column n = p.
__device__ int right(int n, int k) { return 8 * n + k ^ n / 4 * 8; }

__device__ float4 take4(const float* from) { return *reinterpret_cast<const float4*>(from); }
__device__ float2 take2(const float* from) { return *reinterpret_cast<const float2*>(from); }

template <int COUNT>
__device__ void take(const float* from, float (&to)[COUNT])
{
#pragma unroll
    for (int i = 0; i < COUNT; i += 4) {
        const float4 v = take4(from + i);
        to[i] = v.x, to[i + 1] = v.y, to[i + 2] = v.z, to[i + 3] = v.w;
    }
}

// z += x W for one row x and two columns of W.
template <int COUNT>
__device__ void multiply_row(float (&z)[2], const float (&x)[COUNT], const float (&W)[COUNT][2])
{
#pragma unroll
    for (int k = 0; k < COUNT; k += 2) {
        const float4 v = take4(W[k]);
        z[0] += x[k] * v.x, z[1] += x[k] * v.y;
        z[0] += x[k + 1] * v.z, z[1] += x[k + 1] * v.w;
    }
}

__device__ void write4(float* to, const float (&v)[4])
{
    *reinterpret_cast<float4*>(to) = make_float4(v[0], v[1], v[2], v[3]);
}
__device__ float positive(float z) { return z < 0.0f ? 0.0f : z; }  // a NaN is not < 0 and stays

__device__ Parts<4> left_of(float4 v)
{
    Parts<4> a;
    a.set(0, v.x), a.set(1, v.y), a.set(2, v.z), a.set(3, v.w);
    return a;
}
__device__ Parts<2> right_of(float x, float y)
{
    Parts<2> b;
    b.set(0, x), b.set(1, y);
    return b;
}

// The three products of the split (tf32.cuh), in SUMS independent accumulators, so that no mma waits for the last one.
template <int M, int N, int SUMS>
__device__ void multiply(float (&sum)[M][N][SUMS][4], const Parts<4> (&a)[M], const Parts<2> (&b)[N])
{
    for (int which = 2; which >= 0; --which)
        for (int m = 0; m < M; ++m)
            for (int n = 0; n < N; ++n)
                mma_m16n8k8_tf32(
                    sum[m][n][which % SUMS], which == 1 ? a[m].small : a[m].big, which == 2 ? b[n].small : b[n].big);
}
template <int SUMS>
__device__ float total(const float (&sum)[SUMS][4], int i)
{
    float result = sum[SUMS - 1][i];
    for (int which = SUMS - 2; which >= 0; --which) result += sum[which][i];
    return result;
}

// H = max(Z, 0), with an accumulator's floats reordered into a left operand.
template <int SUMS>
__device__ void activate(const float (&z)[SUMS][4], float (&h)[4])
{
    for (int i = 0; i < 4; ++i) h[i] = positive(total(z, i % 2 * 2 + i / 2));
}
