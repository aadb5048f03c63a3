// Fragments of an mma: a lane's share of 16 x SLAB numbers of the left matrix, and of SLAB x 8 of the right one; rounded
// for tensor cores, or multiplied by FP32 units where these do not support the format.

constexpr int SLAB = 8 * PACK;  // values of k of an mma

__device__ int row_of_lane() { return threadIdx.x % 32 / 4; }
__device__ int quarter_of_lane() { return threadIdx.x % 4; }

#if __CUDA_ARCH__ >= 800
__device__ float nearest(float x)
{
#ifdef TF32
    return __uint_as_float(cvt_rna_tf32(x));
#else
    return __uint_as_float(cvt_rn_bf16x2(x, 0.0f));
#endif
}

// The registers of an mma from value(octet, k), k = 0 to 7 of each octet of the slab.
template <class Value>
__device__ void fragment(unsigned (&v)[2], Value value)
{
    const int t = quarter_of_lane();
#ifdef TF32
    v[0] = __float_as_uint(value(0, t)), v[1] = __float_as_uint(value(0, t + 4));
#else
    for (int octet = 0; octet < 2; ++octet) v[octet] = cvt_rn_bf16x2(value(octet, 2 * t + 1), value(octet, 2 * t));
#endif
}

struct Left {
    unsigned v[2][2];  // of rows g and g + 8

    template <class Value>
    __device__ void load(Value value)  // value(half, octet, k)
    {
        for (int half = 0; half < 2; ++half) fragment(v[half], [=](int octet, int k) { return value(half, octet, k); });
    }
};
struct Right {
    unsigned v[2];  // of column g

    template <class Value>
    __device__ void load(Value value)  // value(column, octet, k)
    {
        const int g = row_of_lane();
        fragment(v, [=](int octet, int k) { return value(g, octet, k); });
    }
};

__device__ void multiply(float (&sum)[4], const Left& left, const Right& right)
{
    const unsigned a[] = {left.v[0][0], left.v[1][0], left.v[0][1], left.v[1][1]};
#ifdef TF32
    mma_m16n8k8_tf32(sum, a, right.v);
#else
    mma_m16n8k16_bf16(sum, a, right.v);
#endif
}
#else  // before sm_80
__device__ float nearest(float x) { return rounded(x); }

struct Left {
    float v[2][SLAB];

    template <class Value>
    __device__ void load(Value value)
    {
        for (int half = 0; half < 2; ++half)
            for (int k = 0; k < SLAB; ++k) v[half][k] = value(half, k / 8, k % 8);
    }
};
struct Right {
    float v[2][SLAB];  // of columns 2t and 2t + 1

    template <class Value>
    __device__ void load(Value value)
    {
        for (int which = 0; which < 2; ++which)
            for (int k = 0; k < SLAB; ++k) v[which][k] = value(2 * quarter_of_lane() + which, k / 8, k % 8);
    }
};

__device__ void multiply(float (&sum)[4], const Left& left, const Right& right)
{
    for (int i = 0; i < 4; ++i)
        for (int k = 0; k < SLAB; ++k) sum[i] += left.v[i / 2][k] * right.v[i % 2][k];
}
#endif

struct Nearest {
    static __device__ float of(float x) { return nearest(x); }
};
