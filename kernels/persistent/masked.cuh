// Products of float32 numbers in three TF32 products, as in tf32.cuh, for operands that lie in shared memory in any order.
// Of these a lane loads two neighbours, k = 2 q and 2 q + 1, where mma expects k = q and q + 4: any order of k is right if
// both operands have it.

#include "tf32.cuh"

// A lane's share of an operand, split. Tensor cores ignore the bits that `high` clears. A compiler that knew its value
// would leave the clearing out, and then move each big part from where a vector load left it to where mma needs it; the
// moves took almost half of the instructions of convolution.cu's products. So `high` depends on an argument.
template <int N>
struct Masked {
    unsigned big[N], small[N];

    __device__ void set(int i, float x, unsigned high)
    {
        big[i] = __float_as_uint(x) & high;
        small[i] = __float_as_uint(x - __uint_as_float(big[i]));
    }
};
__device__ unsigned high_bits(int rows) { return 0xffffe000 ^ (unsigned)rows >> 31; }   // rows are not negative

// The three products of the split, so that consecutive mma are independent.
template <int M, int N>
__device__ void multiply(float (&sum)[M][N][4], const Masked<4> (&a)[M], const Masked<2> (&b)[N])
{
#pragma unroll
    for (int which = 2; which >= 0; --which)
#pragma unroll
        for (int m = 0; m < M; ++m)
#pragma unroll
            for (int n = 0; n < N; ++n)
                mma_m16n8k8_tf32(sum[m][n], which == 1 ? a[m].small : a[m].big, which == 2 ? b[n].small : b[n].big);
}

// Accumulators of a few terms, to a float32 sum (tf32.cuh).
template <int M, int N>
__device__ void add(float (&sum)[M][N][4], const float (&part)[M][N][4])
{
#pragma unroll
    for (int m = 0; m < M; ++m)
#pragma unroll
        for (int n = 0; n < N; ++n)
#pragma unroll
            for (int i = 0; i < 4; ++i) sum[m][n][i] += part[m][n][i];
}

__device__ float2 pair_at(const float* from) { return *reinterpret_cast<const float2*>(from); }

// A left operand of two rows, and a right one.
__device__ Masked<4> left_at(const float* top, const float* bottom, unsigned high)
{
    const float2 v = pair_at(top), w = pair_at(bottom);
    Masked<4> a;
    a.set(0, v.x, high), a.set(1, w.x, high), a.set(2, v.y, high), a.set(3, w.y, high);
    return a;
}
__device__ Masked<2> right_at(const float* from, unsigned high)
{
    const float2 v = pair_at(from);
    Masked<2> b;
    b.set(0, v.x, high), b.set(1, v.y, high);
    return b;
}
