// Products of a 0/1 matrix and a float32 matrix on FP16 tensor cores. A bit becomes 2 or 0; a float becomes two halves
// (halves.cuh). Needs sm_80.

#include "halves.cuh"

#ifndef CUDA_ON_CPU  // the CPU emulator of the tests defines it
__device__ unsigned prmt(unsigned a, unsigned b, unsigned which)
{
    unsigned result;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(which));
    return result;
}
#endif

// Bit `which` of each byte of a word, moved to bit 6 of that byte: the upper byte of the FP16 number 2.0.
__device__ unsigned each_byte(unsigned word, int which) { return __funnelshift_l(word, word, 6 - which) & 0x40404040; }

// Two FP16 numbers: byte i of `low` and byte j of `high`, each the upper byte of its half, above a byte of 0.
__device__ unsigned both(unsigned low, int i, unsigned high, int j)
{
    return prmt(low, high, (4 + j) << 12 | 0x808 | i << 4);
}

__device__ void write_halves(unsigned (&to)[2][64], int at, float low, float high)
{
    const Halves x(low, high);
    to[0][at] = x.big, to[1][at] = x.small;
}
__device__ void take_halves(unsigned (&b)[2][2], const unsigned (&from)[2][64], int at)
{
    for (int i = 0; i < 2; ++i) {
        const uint2 v = *reinterpret_cast<const uint2*>(&from[i][at]);
        b[i][0] = v.x, b[i][1] = v.y;
    }
}
__device__ void multiply_bits(float (&sum)[2][4], const unsigned (&a)[4], const unsigned (&b)[2][2])
{
    for (int i = 1; i >= 0; --i) mma_m16n8k16_fp16(sum[i], a, b[i]);
}
