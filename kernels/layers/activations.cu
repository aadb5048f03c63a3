// Activation functions f, and gradients multiplied by their derivatives, element by element, float32. The
// definitions and parameters are PyTorch's defaults.
//
//   leaky_relu, tanh, sigmoid, elu   ..._forward   Z = f(Z), in place
//                                    ..._gradient  D = D f', computed from the output H = f(Z)
//   silu, gelu                       ..._forward   Z = f(X)
//                                    ..._gradient  D = D f'(X)
//
// Launch: a thread per element, 256 threads per block.

constexpr int THREADS = 256;
constexpr float LEAK = 0.01f;

template <class Function>
__device__ void each(int n, Function function)
{
    const unsigned i = blockIdx.x * THREADS + threadIdx.x;
    if (i < n) function(i);
}

__device__ float logistic(float x) { return 1.0f / (1.0f + expf(-x)); }
__device__ float normal(float x) { return 0.5f * (1.0f + erff(x * 0.70710678f)); }  // 1 / sqrt(2)

#define KERNEL extern "C" __global__ void

// ---- in place

KERNEL leaky_relu_forward(float* Z, int n)
{
    each(n, [=](unsigned i) { Z[i] = Z[i] > 0.0f ? Z[i] : LEAK * Z[i]; });
}

KERNEL leaky_relu_gradient(float* D, const float* H, int n)
{
    each(n, [=](unsigned i) { D[i] = H[i] > 0.0f ? D[i] : LEAK * D[i]; });
}

KERNEL tanh_forward(float* Z, int n)
{
    each(n, [=](unsigned i) { Z[i] = tanhf(Z[i]); });
}

KERNEL tanh_gradient(float* D, const float* H, int n)
{
    each(n, [=](unsigned i) { D[i] *= 1.0f - H[i] * H[i]; });
}

KERNEL sigmoid_forward(float* Z, int n)
{
    each(n, [=](unsigned i) { Z[i] = logistic(Z[i]); });
}

KERNEL sigmoid_gradient(float* D, const float* H, int n)
{
    each(n, [=](unsigned i) { D[i] *= H[i] * (1.0f - H[i]); });
}

KERNEL elu_forward(float* Z, int n)
{
    each(n, [=](unsigned i) { Z[i] = Z[i] > 0.0f ? Z[i] : expm1f(Z[i]); });
}

KERNEL elu_gradient(float* D, const float* H, int n)
{
    each(n, [=](unsigned i) { D[i] *= H[i] > 0.0f ? 1.0f : H[i] + 1.0f; });
}

// ---- to another buffer

KERNEL silu_forward(const float* X, float* Z, int n)
{
    each(n, [=](unsigned i) { Z[i] = X[i] * logistic(X[i]); });
}

KERNEL silu_gradient(float* D, const float* X, int n)
{
    each(n, [=](unsigned i) {
        const float s = logistic(X[i]);
        D[i] *= s * (1.0f + X[i] * (1.0f - s));
    });
}

KERNEL gelu_forward(const float* X, float* Z, int n)
{
    each(n, [=](unsigned i) { Z[i] = X[i] * normal(X[i]); });
}

KERNEL gelu_gradient(float* D, const float* X, int n)
{
    each(n, [=](unsigned i) {
        const float density = expf(-0.5f * X[i] * X[i]) * 0.39894228f;  // 1 / sqrt(2 pi)
        D[i] *= normal(X[i]) + X[i] * density;
    });
}
