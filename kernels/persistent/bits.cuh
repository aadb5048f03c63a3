// Products of a 0/1 matrix and a float32 matrix on BF16 tensor cores. A bit becomes 2 or 0; a float becomes the sum of
// three BF16 numbers, each with 8 of its 24 bits of precision, so that nothing is rounded. Needs sm_80.

#ifndef CUDA_ON_CPU  // the CPU emulator of the tests defines these
__device__ void mma_m16n8k16_bf16(float (&sum)[4], const unsigned (&a)[4], const unsigned (&b)[2])
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__device__ unsigned prmt(unsigned a, unsigned b, unsigned which)
{
    unsigned result;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(which));
    return result;
}
#endif

// Bit `which` of each byte of a word, moved to bit 6 of that byte: the upper byte of the BF16 number 2.0.
__device__ unsigned each_byte(unsigned word, int which) { return __funnelshift_l(word, word, 6 - which) & 0x40404040; }

// Two BF16 numbers: byte i of `low` and byte j of `high`, each the upper byte of its half, above a byte of 0.
__device__ unsigned both(unsigned low, int i, unsigned high, int j)
{
    return prmt(low, high, (4 + j) << 12 | 0x808 | i << 4);
}

__device__ void write_parts(unsigned (&to)[3][64], int at, float low, float high)
{
    for (int i = 0; i < 3; ++i) {
        const unsigned bits[] = {__float_as_uint(low), __float_as_uint(high)};
        to[i][at] = prmt(bits[0], bits[1], 0x7632);
        low -= __uint_as_float(bits[0] & 0xffff0000), high -= __uint_as_float(bits[1] & 0xffff0000);
    }
}

__device__ void multiply_bits(float (&sum)[3][4], const unsigned (&a)[4], const unsigned (&b)[3][2])
{
    for (int i = 2; i >= 0; --i) mma_m16n8k16_bf16(sum[i], a, b[i]);
}

__device__ void take_parts(unsigned (&b)[3][2], const unsigned (&from)[3][64], int at)
{
    for (int i = 0; i < 3; ++i) {
        const uint2 v = *reinterpret_cast<const uint2*>(&from[i][at]);
        b[i][0] = v.x, b[i][1] = v.y;
    }
}
