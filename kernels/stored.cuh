// How inputs, activations and error signals lie in memory: as float32 or, compiled with -DSTORED_BF16 or -DSTORED_FP16, in
// 16 bits. A kernel reads and writes such an array as if it were float32: reading is exact, writing rounds to the nearest
// number, of two to the even one. Weights, their gradients, targets and sums are float32 in any case.

#if defined(STORED_BF16) || defined(STORED_FP16)
#if defined(STORED_BF16)
__device__ float value_of(unsigned short bits) { return __uint_as_float((unsigned)bits << 16); }

__device__ unsigned short nearest(float x)
{
    const unsigned bits = __float_as_uint(x);
    return x != x ? 0x7fff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}
#elif defined(CUDA_ON_CPU)  // the CPU emulator of the tests
inline float value_of(unsigned short bits) { return cuda_on_cpu::fp16_value(bits); }
inline unsigned short nearest(float x) { return cuda_on_cpu::nearest_fp16(x); }
#else
__device__ float value_of(unsigned short bits)
{
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
    return x;
}

__device__ unsigned short nearest(float x)
{
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
}
#endif

struct Stored {
    unsigned short bits;

    __device__ operator float() const { return value_of(bits); }
    __device__ Stored& operator=(float x)
    {
        bits = nearest(x);
        return *this;
    }
    __device__ Stored& operator+=(float x) { return *this = *this + x; }
};

template <int SIZE>
struct __align__(2 * SIZE) Halves {
    Stored v[SIZE];
};

// Neighbouring elements, as one vector: Vector has the float32 array v.
template <class Vector>
__device__ Vector loaded(const Stored* from)
{
    constexpr int SIZE = sizeof(Vector) / sizeof(float);
    const Halves<SIZE> halves = *reinterpret_cast<const Halves<SIZE>*>(from);
    Vector vector;
    for (int i = 0; i < SIZE; ++i) vector.v[i] = halves.v[i];
    return vector;
}
#else
using Stored = float;
#endif

template <class Vector>
__device__ const Vector& loaded(const float* from) { return *reinterpret_cast<const Vector*>(from); }
