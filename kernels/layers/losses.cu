// Losses of single outputs and their gradients, row-major float32: P has the outputs, Y the targets, E the losses,
// D scale times their derivatives.
//
//   huber                  e = P - Y; E = e^2 / 2 and D = scale e if |e| <= 1, else E = |e| - 1/2, D = +-scale
//   binary_cross_entropy   E = -log sigmoid(P) if Y is 1, and -log(1 - sigmoid(P)) if it is 0,
//                          D = scale (sigmoid(P) - Y)
//
// The second is max(P, 0) - P Y + log(1 + exp(-|P|)), so that no exponential overflows and no logarithm is of 0.
// Comparisons are such that NaN stays NaN.
//
// Launch: a thread per output, 256 threads per block.

#include "../output_losses.cuh"
#include "../stored.cuh"

constexpr int THREADS = 256;

__device__ size_t own_output() { return (size_t)blockIdx.x * THREADS + threadIdx.x; }

extern "C" __global__ void huber(const Stored* __restrict__ P, const float* __restrict__ Y, float* __restrict__ E,
                                 Stored* __restrict__ D, int n, float scale)
{
    const size_t i = own_output();
    if (i >= n) return;
    const OfOutput its = of_output<Loss::huber>(P[i], Y[i]);
    E[i] = its.loss, D[i] = scale * its.slope;
}

extern "C" __global__ void binary_cross_entropy(const Stored* __restrict__ P, const float* __restrict__ Y,
                                                float* __restrict__ E, Stored* __restrict__ D, int n, float scale)
{
    const size_t i = own_output();
    if (i >= n) return;
    const OfOutput its = of_output<Loss::binary_cross_entropy>(P[i], Y[i]);
    E[i] = its.loss, D[i] = scale * its.slope;
}
