// Rounding to TF32 (-DTF32: 10 bits of mantissa) or BF16 (-DBF16: 7 bits), and the tensor-core instructions that multiply
// such numbers, from sm_80 on. The accumulators of mma.m16n8 are those of rows g and g + 8, columns 2t and 2t + 1, with
// g = lane / 4 and t = lane % 4.

#if defined(TF32)
constexpr int PACK = 1;  // numbers per register
#elif defined(BF16)
constexpr int PACK = 2;
#else
#error "define TF32 or BF16"
#endif

__device__ float rounded(float x)  // the rounding of the tensor cores' inputs, in integer arithmetic
{
    const unsigned bits = __float_as_uint(x);
    if ((bits & 0x7f800000) == 0x7f800000) return x;  // infinity or NaN
#ifdef TF32
    return __uint_as_float((bits + 0x1000) & 0xffffe000);  // to nearest, ties away from 0
#else
    return __uint_as_float((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000);  // to nearest, ties to even
#endif
}

#if __CUDA_ARCH__ >= 800
#ifndef CUDA_ON_CPU  // the CPU emulator of the tests defines its own
__device__ unsigned cvt_rna_tf32(float x)
{
    unsigned bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
    return bits;
}

__device__ unsigned cvt_rn_bf16x2(float high, float low)
{
    unsigned bits;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
    return bits;
}

#define MMA(shape_and_types)                                                                      \
    asm volatile("mma.sync.aligned." shape_and_types " {%0, %1, %2, %3}, {%4, %5, %6, %7}, "      \
                 "{%8, %9}, {%0, %1, %2, %3};"                                                    \
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])                         \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))

__device__ void mma_m16n8k8_tf32(float (&sum)[4], const unsigned (&a)[4], const unsigned (&b)[2])
{
    MMA("m16n8k8.row.col.f32.tf32.tf32.f32");
}

__device__ void mma_m16n8k16_bf16(float (&sum)[4], const unsigned (&a)[4], const unsigned (&b)[2])
{
    MMA("m16n8k16.row.col.f32.bf16.bf16.f32");
}
#endif
#endif
