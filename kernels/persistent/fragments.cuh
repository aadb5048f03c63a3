// Fragments of mma operands in memory. A lane's four floats of 16 x 8 are rows p and p + 8 of column 2 q, then of column 2 q
// + 1, with p = lane / 4 and q = lane % 4. Some lanes swap places in shared memory to avoid bank conflicts.

#include "tf32.cuh"

struct Lane {
    int p, q, at;        // at: index of the lane's four floats in a fragment

    __device__ Lane()
    {
        const int lane = threadIdx.x % 32;
        p = lane / 4, q = lane % 4, at = 4 * (lane ^ (lane >> 2 & 2));
    }
};

// Index of element (k, n) in a right operand of 8 x 8; a lane reads k = 2 q and 2 q + 1 of column n = p.
__device__ int right(int n, int k) { return 8 * n + k ^ n / 4 * 8; }

__device__ float4 take4(const float* from) { return *reinterpret_cast<const float4*>(from); }
__device__ float2 take2(const float* from) { return *reinterpret_cast<const float2*>(from); }

template <int COUNT>
__device__ void take(const float* from, float (&to)[COUNT])
{
#pragma unroll
    for (int i = 0; i < COUNT; i += 4) {
        const float4 v = take4(from + i);
        to[i] = v.x, to[i + 1] = v.y, to[i + 2] = v.z, to[i + 3] = v.w;
    }
}

// z += x W for one row x and two columns of W.
template <int COUNT>
__device__ void multiply_row(float (&z)[2], const float (&x)[COUNT], const float (&W)[COUNT][2])
{
#pragma unroll
    for (int k = 0; k < COUNT; k += 2) {
        const float4 v = take4(W[k]);
        z[0] += x[k] * v.x, z[1] += x[k] * v.y;
        z[0] += x[k + 1] * v.z, z[1] += x[k + 1] * v.w;
    }
}

__device__ void write4(float* to, const float (&v)[4])
{
    *reinterpret_cast<float4*>(to) = make_float4(v[0], v[1], v[2], v[3]);
}
__device__ float positive(float z) { return z < 0.0f ? 0.0f : z; }  // a NaN is not < 0 and stays
