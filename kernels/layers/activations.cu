// Activation functions f, and gradients multiplied by their derivatives, element by element, float32.
//
//   leaky_relu, tanh, sigmoid, elu   ..._forward   Z = f(Z), in place
//                                    ..._gradient  D = D f', computed from the output H = f(Z)
//   silu, gelu                       ..._forward   Z = f(X)
//                                    ..._gradient  D = D f'(X)
//
// Launch: a thread per element, 256 threads per block.

#include "../activation_functions.cuh"
#include "../stored.cuh"

constexpr int THREADS = 256;

#define KERNEL extern "C" __global__ void

template <int F>
__device__ void forward(const Stored* X, Stored* Z, int n)
{
    const unsigned i = blockIdx.x * THREADS + threadIdx.x;
    if (i < n) Z[i] = activated(F, X[i]);
}

template <int F>
__device__ void gradient(Stored* D, const Stored* H, int n)
{
    const unsigned i = blockIdx.x * THREADS + threadIdx.x;
    if (i < n) D[i] = differentiated(F, D[i], H[i]);
}

KERNEL leaky_relu_forward(Stored* Z, int n) { forward<LEAKY_RELU>(Z, Z, n); }
KERNEL leaky_relu_gradient(Stored* D, const Stored* H, int n) { gradient<LEAKY_RELU>(D, H, n); }
KERNEL tanh_forward(Stored* Z, int n) { forward<TANH>(Z, Z, n); }
KERNEL tanh_gradient(Stored* D, const Stored* H, int n) { gradient<TANH>(D, H, n); }
KERNEL sigmoid_forward(Stored* Z, int n) { forward<SIGMOID>(Z, Z, n); }
KERNEL sigmoid_gradient(Stored* D, const Stored* H, int n) { gradient<SIGMOID>(D, H, n); }
KERNEL elu_forward(Stored* Z, int n) { forward<ELU>(Z, Z, n); }
KERNEL elu_gradient(Stored* D, const Stored* H, int n) { gradient<ELU>(D, H, n); }
KERNEL silu_forward(const Stored* X, Stored* Z, int n) { forward<SILU>(X, Z, n); }
KERNEL silu_gradient(Stored* D, const Stored* X, int n) { gradient<SILU>(D, X, n); }
KERNEL gelu_forward(const Stored* X, Stored* Z, int n) { forward<GELU>(X, Z, n); }
KERNEL gelu_gradient(Stored* D, const Stored* X, int n) { gradient<GELU>(D, X, n); }
