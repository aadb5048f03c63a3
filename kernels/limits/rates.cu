// Peak rates of a device: each kernel does one kind of work and nothing else. Floors of a step are computed from them.
//
//   multiply_add, mma_*       products in registers. Every thread (or warp) has CHAINS independent sums, so that the
//                             unit never waits for a result. Operations per launch: rounds x CHAINS x 2 per thread,
//                             or rounds x CHAINS x 2 x 16 x 8 x 8 (TF32), x 2 x 16 x 8 x 16 (BF16) per warp.
//   read_memory, copy_memory  `count` float4, `rounds` times. A buffer larger than L2 comes from DRAM, a smaller one
//                             from L2 after the first round; L1 is bypassed.
//
// Launch: any number of blocks of whole warps. mma needs sm_80; on older devices the body is compiled out, and the
// kernel must not be launched.

constexpr int CHAINS = 8;

#define KERNEL extern "C" __global__ __launch_bounds__(512, 1) void

// ---- products

KERNEL multiply_add(float* out, int rounds, float factor, float term)
{
    float sum[CHAINS];
#pragma unroll
    for (int i = 0; i < CHAINS; ++i) sum[i] = threadIdx.x + i;
#pragma unroll 16
    for (int round = 0; round < rounds; ++round)
#pragma unroll
        for (int i = 0; i < CHAINS; ++i) sum[i] = fmaf(sum[i], factor, term);
    float total = 0.0f;
#pragma unroll
    for (int i = 0; i < CHAINS; ++i) total += sum[i];
    out[blockIdx.x * blockDim.x + threadIdx.x] = total;  // otherwise the compiler would remove the loop
}

#if __CUDA_ARCH__ >= 800
__device__ void mma(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], float /* a TF32 */)
{
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ void mma(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], short /* a BF16 */)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ void mma(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], char /* an FP16 */)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

template <class Input>
__device__ void multiply(float* out, int rounds, unsigned ones)
{
    const unsigned a[4] = {ones, ones, ones, ones}, b[2] = {ones, ones};
    float sum[CHAINS][4] = {};
#pragma unroll 4
    for (int round = 0; round < rounds; ++round)
#pragma unroll
        for (int i = 0; i < CHAINS; ++i) mma(sum[i], a, b, Input());
    float total = 0.0f;
#pragma unroll
    for (int i = 0; i < CHAINS; ++i) total += sum[i][0] + sum[i][1] + sum[i][2] + sum[i][3];
    out[blockIdx.x * blockDim.x + threadIdx.x] = total;
}
#endif

KERNEL mma_tf32(float* out, int rounds)
{
#if __CUDA_ARCH__ >= 800
    multiply<float>(out, rounds, 0x3f800000u);  // 1.0f, a TF32 in each word
#endif
}

KERNEL mma_fp16(float* out, int rounds)
{
#if __CUDA_ARCH__ >= 800
    multiply<char>(out, rounds, 0x3c003c00u);  // 1.0, an FP16 in each half
#endif
}

KERNEL mma_bf16(float* out, int rounds)
{
#if __CUDA_ARCH__ >= 800
    multiply<short>(out, rounds, 0x3f803f80u);  // 1.0, a BF16 in each half
#endif
}

// ---- memory

constexpr int AT_ONCE = 8;  // float4 that a thread has in flight

template <class Use>
__device__ void walk(const float4* from, unsigned count, int rounds, Use use)
{
    const unsigned stride = gridDim.x * blockDim.x, first = blockIdx.x * blockDim.x + threadIdx.x;
    for (int round = 0; round < rounds; ++round) {
        for (unsigned at = first; at < count; at += AT_ONCE * stride) {
            float4 v[AT_ONCE];
#pragma unroll
            for (int i = 0; i < AT_ONCE; ++i)
                if (at + i * stride < count) v[i] = __ldcg(from + at + i * stride);
#pragma unroll
            for (int i = 0; i < AT_ONCE; ++i)
                if (at + i * stride < count) use(at + i * stride, v[i]);
        }
        asm volatile("" : "+l"(from) :: "memory");  // the next round loads again
    }
}

KERNEL read_memory(const float4* from, float* out, unsigned count, int rounds)
{
    float total = 0.0f;
    walk(from, count, rounds, [&](unsigned, float4 v) { total += v.x + v.y + v.z + v.w; });
    out[blockIdx.x * blockDim.x + threadIdx.x] = total;
}

KERNEL copy_memory(const float4* from, float4* to, unsigned count, int rounds)
{
    walk(from, count, rounds, [&](unsigned at, float4 v) { __stcg(to + at, v); });
}
