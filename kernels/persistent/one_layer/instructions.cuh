// Single instructions that the compiler would not choose, and what hides a value from it; their meaning for a CPU.

#ifdef CUDA_ON_CPU
__device__ void block_barrier() { named_barrier(1, THREADS); }
template <class T>
__device__ T now(T x) { return x; }
__device__ float positive_part(float z) { return z < 0.0f ? 0.0f : z; }
__device__ float is_positive(float z) { return z > 0.0f ? 1.0f : 0.0f; }
template <int COUNT>
__device__ void send_if(bool sends, unsigned to, const float (&v)[COUNT], unsigned mbarrier)
{
    if (sends) send(to, v, mbarrier);
}
#else
// Of both kinds of warps, which reach it in different lines, and whose lanes may come from a wait one by one:
// __syncthreads() and bar.sync must be reached in one line by whole warps. Barrier 0 is that of __syncthreads().
__device__ void block_barrier() { asm volatile("barrier.sync 1, %0;" :: "n"(THREADS) : "memory"); }

// Hides a value from the compiler, which would otherwise precompute what depends on it and keep that in scarce
// registers.
__device__ float now(float x)
{
    asm volatile("" : "+f"(x));
    return x;
}
__device__ int now(int x)
{
    asm volatile("" : "+r"(x));
    return x;
}

__device__ float positive_part(float z)  // NaN remains
{
    float h;
    asm("max.NaN.f32 %0, %1, 0f00000000;" : "=f"(h) : "f"(z));
    return h;
}

__device__ float is_positive(float z)
{
    float one;
    asm("set.gt.f32.f32 %0, %1, 0f00000000;" : "=f"(one) : "f"(z));
    return one;
}

// Without a branch, so that products are scheduled around it; and without a memory clobber, since this thread reads
// nothing of what is sent.
__device__ void send_if(bool sends, unsigned to, const float (&v)[4], unsigned mbarrier)
{
    asm volatile("{\n.reg .pred sends;\nsetp.ne.u32 sends, %6, 0;\n"
                 "@sends st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];\n}"
                 :: "r"(to), "f"(v[0]), "f"(v[1]), "f"(v[2]), "f"(v[3]), "r"(mbarrier), "r"((unsigned)sends));
}

__device__ void send_if(bool sends, unsigned to, const float (&v)[2], unsigned mbarrier)
{
    asm volatile("{\n.reg .pred sends;\nsetp.ne.u32 sends, %4, 0;\n"
                 "@sends st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%1, %2}, [%3];\n}"
                 :: "r"(to), "f"(v[0]), "f"(v[1]), "r"(mbarrier), "r"((unsigned)sends));
}
#endif
