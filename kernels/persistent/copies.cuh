// Asynchronous copies from global to shared memory (cp.async): the thread goes on while they run. `to` is an address in
// shared memory, as shared_address() returns it. Needs sm_80.

#ifdef CUDA_ON_CPU  // the CPU emulator of the tests defines these
using namespace cuda_on_cpu;
#else
__device__ unsigned shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }

__device__ void copy_async(unsigned to, const float* from)  // 16 bytes
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(to), "l"(from));
}

__device__ void copies_done() { asm volatile("cp.async.commit_group;\ncp.async.wait_group 0;" ::: "memory"); }
#endif
