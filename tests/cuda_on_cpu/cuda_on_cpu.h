// What a CUDA source needs so that g++ compiles it, unchanged, for the CPU: the built-in variables,
// the qualifiers and those intrinsics that this project's kernels use. runtime.cpp runs the result.
//
// Shared memory is thread_local: one block at a time runs on an operating-system thread. Inline PTX does
// not compile: a kernel wraps an instruction in a function of its name, under #ifndef CUDA_ON_CPU, and
// here stands what the function does.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#define CUDA_ON_CPU 1
#ifndef __CUDA_ARCH__
#define __CUDA_ARCH__ 900
#endif
#define __global__ __attribute__((noinline))
#define __device__
#define __host__
#define __constant__
#define __shared__ thread_local
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __launch_bounds__(...)

// ---------------------------------------------------------------------------------------------
// Vectors

struct __align__(8) float2 { float x, y; };
struct float3 { float x, y, z; };
struct __align__(16) float4 { float x, y, z, w; };
struct __align__(8) int2 { int x, y; };
struct __align__(16) int4 { int x, y, z, w; };
struct __align__(8) uint2 { unsigned x, y; };
struct uint3 { unsigned x, y, z; };
struct __align__(16) uint4 { unsigned x, y, z, w; };

inline float2 make_float2(float x, float y) { return {x, y}; }
inline float3 make_float3(float x, float y, float z) { return {x, y, z}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline int2 make_int2(int x, int y) { return {x, y}; }
inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

// ---------------------------------------------------------------------------------------------
// What the running thread asks of runtime.cpp. A thread's place never changes while its kernel
// runs, hence `const`.

namespace cuda_on_cpu {

__attribute__((const)) uint3 thread_index();
__attribute__((const)) uint3 block_index();
__attribute__((const)) uint3 block_dim();
__attribute__((const)) uint3 grid_dim();

enum class Shuffle { from, up, down, across };

void block_barrier(int line);
void named_barrier(int number, int threads);  // reached in any line, by so many threads of the block
void named_arrive(int number, int threads);   // counts as one of them, without waiting
void grid_barrier(int line = __builtin_LINE());  // of a cooperative launch; no intrinsic of CUDA does it
void warp_barrier(unsigned mask, int line);
uint64_t shuffle(Shuffle how, unsigned mask, uint64_t value, int argument, int width, int line);
// Waits for all 32 lanes of the warp; then `work` is done once, with what each lane brought.
void warp_work(void (*work)(void* const (&lanes)[32]), void* mine, int line);
uint32_t atomic(uint32_t* address, uint32_t (*change)(uint32_t, uint32_t), uint32_t operand);

template <class T>
T shuffle(Shuffle how, unsigned mask, T value, int argument, int width, int line)
{
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "a shuffle moves 4 or 8 bytes");
    uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof value);
    bits = shuffle(how, mask, bits, argument, width, line);
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

template <class To, class From>
To bits_as(From value)
{
    static_assert(sizeof(To) == sizeof(From), "the same bits");
    To result;
    std::memcpy(&result, &value, sizeof result);
    return result;
}

}  // namespace cuda_on_cpu

#define threadIdx (::cuda_on_cpu::thread_index())
#define blockIdx (::cuda_on_cpu::block_index())
#define blockDim (::cuda_on_cpu::block_dim())
#define gridDim (::cuda_on_cpu::grid_dim())
constexpr int warpSize = 32;

// __builtin_LINE as a default is the caller's line.
inline void __syncthreads(int line = __builtin_LINE()) { cuda_on_cpu::block_barrier(line); }
inline void __syncwarp(unsigned mask = ~0u, int line = __builtin_LINE())
{
    cuda_on_cpu::warp_barrier(mask, line);
}

#define CUDA_ON_CPU_SHUFFLE(name, how)                                                             \
    template <class T>                                                                             \
    T name(unsigned mask, T value, int argument, int width = 32, int line = __builtin_LINE())      \
    {                                                                                              \
        using cuda_on_cpu::Shuffle;                                                                \
        return cuda_on_cpu::shuffle(how, mask, value, argument, width, line);                      \
    }
CUDA_ON_CPU_SHUFFLE(__shfl_sync, Shuffle::from)
CUDA_ON_CPU_SHUFFLE(__shfl_up_sync, Shuffle::up)
CUDA_ON_CPU_SHUFFLE(__shfl_down_sync, Shuffle::down)
CUDA_ON_CPU_SHUFFLE(__shfl_xor_sync, Shuffle::across)

namespace cuda_on_cpu {

struct Ballot {
    bool mine;
    unsigned all;
};

__attribute__((no_sanitize("thread"))) inline void count_votes(void* const (&lanes)[32])
{
    unsigned all = 0;
    for (int lane = 0; lane < 32; ++lane) all |= unsigned(static_cast<Ballot*>(lanes[lane])->mine) << lane;
    for (int lane = 0; lane < 32; ++lane) static_cast<Ballot*>(lanes[lane])->all = all;
}

}  // namespace cuda_on_cpu

inline unsigned __ballot_sync(unsigned, bool mine, int line = __builtin_LINE())  // of a whole warp
{
    cuda_on_cpu::Ballot ballot{mine, 0};
    cuda_on_cpu::warp_work(cuda_on_cpu::count_votes, &ballot, line);
    return ballot.all;
}

namespace cuda_on_cpu {

__attribute__((no_sanitize("thread"))) inline void find_largest(void* const (&lanes)[32])
{
    unsigned most = 0;
    for (void* lane : lanes) most = *static_cast<unsigned*>(lane) > most ? *static_cast<unsigned*>(lane) : most;
    for (void* lane : lanes) *static_cast<unsigned*>(lane) = most;
}

}  // namespace cuda_on_cpu

inline unsigned __reduce_max_sync(unsigned, unsigned mine, int line = __builtin_LINE())  // of a whole warp
{
    cuda_on_cpu::warp_work(cuda_on_cpu::find_largest, &mine, line);
    return mine;
}

inline bool __all_sync(unsigned mask, bool mine, int line = __builtin_LINE())
{
    return __ballot_sync(mask, mine, line) == ~0u;
}

// ---------------------------------------------------------------------------------------------
// Clusters and asynchronous copies, for which a source has PTX of its own. An address in shared memory is an
// offset, and above it the number of the block in its cluster plus 1, or 0 for the block that asks.

namespace cuda_on_cpu {

unsigned shared_address(const void* pointer);
unsigned cluster_rank();
void copy_async(unsigned to, const float* from);  // 16 bytes, on their way until copies_done()
void copies_done();
void send(unsigned to, const float* values, int count, unsigned mbarrier);
void mbarrier_init(unsigned mbarrier);
void mbarrier_expect(unsigned mbarrier, unsigned bytes);
bool mbarrier_try_wait(unsigned mbarrier, unsigned parity);
void publish(unsigned long long* to, unsigned long long value);
unsigned long long look(const unsigned long long* from);
void strong_read(const float* from, float* to, int count);  // float by float, each as a whole
void strong_write(float* to, const float* from, int count);
void pause();  // others go first
unsigned long long nanoseconds();
unsigned clock_milliseconds();  // that this block has run: a busy machine uses up no time limit
void give_up(uint64_t name, unsigned layer, unsigned step);  // what a trap is on a GPU
inline void mbarriers_made() {}
inline void cluster_barrier(int line = __builtin_LINE()) { grid_barrier(line); }  // of all clusters, here
inline unsigned in_block(unsigned address, unsigned rank) { return (address & 0xffffff) | (rank + 1) << 24; }

template <int COUNT>
void send(unsigned to, const float (&values)[COUNT], unsigned mbarrier)
{
    send(to, values, COUNT, mbarrier);
}

}  // namespace cuda_on_cpu

inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}

// ---------------------------------------------------------------------------------------------
// Arithmetic. Compiled with -ffp-contract=off, so a product and a sum are rounded apart unless
// fmaf is written; on a GPU they may be fused unless __fmul_rn is.

inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fsqrt_rn(float a) { return std::sqrt(a); }
inline float __fdividef(float a, float b) { return a / b; }
inline float __expf(float a) { return std::exp(a); }
inline float __frcp_rn(float a) { return 1.0f / a; }
inline float rsqrtf(float a) { return 1.0f / std::sqrt(a); }
inline double cospi(double a) { return std::cos(3.14159265358979324 * a); }
inline float __saturatef(float a) { return a > 0.0f ? (a < 1.0f ? a : 1.0f) : 0.0f; }

inline unsigned __float_as_uint(float a) { return cuda_on_cpu::bits_as<unsigned>(a); }
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned by)
{
    return ((uint64_t)high << 32 | low) << (by & 31) >> 32;
}

inline int __float_as_int(float a) { return cuda_on_cpu::bits_as<int>(a); }
inline float __uint_as_float(unsigned a) { return cuda_on_cpu::bits_as<float>(a); }
inline float __int_as_float(int a) { return cuda_on_cpu::bits_as<float>(a); }
inline double __longlong_as_double(long long a) { return cuda_on_cpu::bits_as<double>(a); }

template <class A, class B>
constexpr std::common_type_t<A, B> min(A a, B b)
{
    if constexpr (std::is_floating_point_v<std::common_type_t<A, B>>) return std::fmin(a, b);
    else return std::common_type_t<A, B>(a) < std::common_type_t<A, B>(b) ? a : b;
}

template <class A, class B>
constexpr std::common_type_t<A, B> max(A a, B b)
{
    if constexpr (std::is_floating_point_v<std::common_type_t<A, B>>) return std::fmax(a, b);
    else return std::common_type_t<A, B>(a) > std::common_type_t<A, B>(b) ? a : b;
}

// ---------------------------------------------------------------------------------------------
// Memory: the cache hints are hints only.

template <class T> T __ldg(const T* address) { return *address; }
template <class T> T __ldcg(const T* address) { return *address; }
template <class T> T __ldcs(const T* address) { return *address; }
template <class T> void __stcg(T* address, T value) { *address = value; }
template <class T> void __stcs(T* address, T value) { *address = value; }

template <class T, T (*change)(T, T)>
T cuda_on_cpu_atomic(T* address, T operand)
{
    using cuda_on_cpu::bits_as;
    const auto on_bits = [](uint32_t old, uint32_t by) {
        return bits_as<uint32_t>(change(bits_as<T>(old), bits_as<T>(by)));
    };
    return bits_as<T>(cuda_on_cpu::atomic((uint32_t*)address, on_bits, bits_as<uint32_t>(operand)));
}

template <class T> T cuda_on_cpu_sum(T a, T b) { return a + b; }
template <class T> T cuda_on_cpu_larger(T a, T b) { return a > b ? a : b; }

inline float atomicAdd(float* a, float by) { return cuda_on_cpu_atomic<float, cuda_on_cpu_sum>(a, by); }
inline int atomicAdd(int* a, int by) { return cuda_on_cpu_atomic<int, cuda_on_cpu_sum>(a, by); }
inline unsigned atomicAdd(unsigned* a, unsigned by)
{
    return cuda_on_cpu_atomic<unsigned, cuda_on_cpu_sum>(a, by);
}
inline int atomicMax(int* a, int by) { return cuda_on_cpu_atomic<int, cuda_on_cpu_larger>(a, by); }

#include "tensor_cores.h"
#include "exports.h"
