// Products of float32 on tensor cores, which multiply TF32, 11 bits. With x = big + small, both of them TF32, a
// product is big big + big small + small big: about what float32 has. Needs sm_80. Of what they are given, tensor cores
// ignore the last 13 bits.

#ifndef CUDA_ON_CPU  // whose emulator has it
__device__ void mma_m16n8k8_tf32(float (&sum)[4], const unsigned (&a)[4], const unsigned (&b)[2])
{
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#endif

struct Split {
    unsigned big, small;

    __device__ explicit Split(float x)
    {
        big = __float_as_uint(x);
        small = __float_as_uint(x - __uint_as_float(big & 0xffffe000));
    }
};

// What a lane gives to mma.m16n8k8: N values of an operand, 4 of the left one, 2 of the right one.
template <int N>
struct Parts {
    unsigned big[N], small[N];

    __device__ void set(int i, float x)
    {
        const Split split(x);
        big[i] = split.big, small[i] = split.small;
    }
};
