// Communication within a cluster of blocks, in PTX: asynchronous stores to another block's shared memory, completed on
// an mbarrier there, which counts the bytes that have arrived. Needs sm_90.

#include "waits.cuh"

#ifdef CUDA_ON_CPU  // the CPU emulator of the tests defines the others
using namespace cuda_on_cpu;
__device__ void mbarrier_wait(unsigned mbarrier, unsigned parity)
{
    while (!mbarrier_try_wait(mbarrier, parity)) pause();
}

__device__ void mbarrier_wait(unsigned mbarrier, unsigned parity, const Awaited& awaited, unsigned step)
{
    for (WaitLimit limit; !mbarrier_try_wait(mbarrier, parity);) limit.after_failed_look(awaited, step);
}
#else
__device__ unsigned cluster_rank()
{
    unsigned rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

__device__ void cluster_barrier()
{
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

__device__ unsigned in_block(unsigned address, unsigned rank)
{
    unsigned there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
    return there;
}

__device__ void send(unsigned to, const float (&v)[1], unsigned mbarrier)
{
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.f32 [%0], %1, [%2];"
                 :: "r"(to), "f"(v[0]), "r"(mbarrier) : "memory");
}

__device__ void send(unsigned to, const float (&v)[2], unsigned mbarrier)
{
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%1, %2}, [%3];"
                 :: "r"(to), "f"(v[0]), "f"(v[1]), "r"(mbarrier) : "memory");
}

__device__ void send(unsigned to, const float (&v)[4], unsigned mbarrier)
{
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];"
                 :: "r"(to), "f"(v[0]), "f"(v[1]), "f"(v[2]), "f"(v[3]), "r"(mbarrier) : "memory");
}

__device__ void mbarrier_init(unsigned mbarrier)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(mbarrier) : "memory");
}

__device__ void mbarrier_expect(unsigned mbarrier, unsigned bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(mbarrier), "r"(bytes) : "memory");
}

// Without a time limit, for warps with many registers in use: another warp of the block must wait for the same.
__device__ void mbarrier_wait(unsigned mbarrier, unsigned parity)
{
    asm volatile("{\n.reg .pred done;\n"
                 "again: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;\n}" :: "r"(mbarrier), "r"(parity) : "memory");
}

// The first attempt stands alone, so that the compiler places other instructions between it and its result.
#define TRY_WAIT "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"

__device__ void mbarrier_wait(unsigned mbarrier, unsigned parity, const Awaited& awaited, unsigned step)
{
    asm volatile("{\n.reg .pred done;\n" FAILED_LOOK_REGISTERS
                 TRY_WAIT "@done bra come;\nmov.u32 looks, 0;\nmov.u32 last, 0;\n"
                 "again:\n" AFTER_FAILED_LOOK("%2", "%3", "%4", "%5", "%6") TRY_WAIT "@!done bra again;\ncome:\n}"
                 :: "r"(mbarrier), "r"(parity), "l"(awaited.name), "r"(awaited.layer), "r"(step), "n"(MOST_PER_LOOK),
                    "n"(WAIT_LIMIT) : "memory");
}

__device__ void mbarriers_made() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
#endif
