// Products of float32 numbers on TF32 tensor cores, which multiply 11 bits of mantissa. With x = big + small, both
// TF32, the product of two numbers is big big + big small + small big: close to float32 accuracy with three mma ("3 x
// TF32"; Ootomo and Yokota 2022). Tensor cores ignore the last 13 bits of their inputs, so big and small need no
// explicit rounding. Needs sm_80.
//
// Two errors are towards 0, and add up where the terms of a sum have one sign (NVIDIA H100, relative to y, positive
// data):
//
//   the split   Where big is x without its last bits, small has the sign of x, and both what tensor cores ignore of it
//               and the product small small that is left out are losses. Where big is rounded, small has any sign.
//               Truncated, both operands: 3e-7 at any length of a sum.
//   the sum     Tensor cores truncate each addition to the accumulator: 5e-8 for each 8 terms that one accumulator adds
//               up. A kernel with long sums adds accumulators of a few terms to a float32 sum: slab.cuh.

#ifndef CUDA_ON_CPU  // the CPU emulator of the tests defines it
__device__ void mma_m16n8k8_tf32(float (&sum)[4], const unsigned (&a)[4], const unsigned (&b)[2])
{
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#endif

template <bool ROUNDS = false>   // big: one instruction more
struct Split {
    unsigned big, small;

    __device__ explicit Split(float x)
    {
        big = __float_as_uint(x) + (ROUNDS ? 0x1000 : 0);
        small = __float_as_uint(x - __uint_as_float(big & 0xffffe000));
    }
};

// A lane's share of an operand of mma.m16n8k8, split: N = 4 values of the left operand, 2 of the right one.
template <int N, bool ROUNDS = false>
struct Parts {
    unsigned big[N], small[N];

    __device__ void set(int i, float x)
    {
        const Split<ROUNDS> split(x);
        big[i] = split.big, small[i] = split.small;
    }
};
