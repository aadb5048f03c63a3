// Updates by an optimiser, row-major float32: W a parameter, G its gradient, M and V what the optimiser keeps.
// snn/models/optimizers.py has the formulae.
//
//   zero              Z = 0
//   clip              G scaled to a norm of at most max_norm; partial holds shares of its sum of squares
//   decay_update      W = W - rate (G + decay W)
//   momentum_update   M = momentum M + (G + decay W), W = W - rate M
//   nesterov_update   the same M, W = W - rate ((G + decay W) + momentum M)
//   count_step        T of the next steps, from that of the last one: for each its number t, 1 / (1 - beta1^t),
//                     1 / sqrt(1 - beta2^t) and an unused one
//   adam_update       M and V are means of G + decay W and of its square, W = W - rate T[1] M / (sqrt(V) T[2] + eps)
//   adamw_update      W = W - rate decay W, then the same with means of G
//
// gain is 1 - beta, of which float32 has more digits than of beta. The number of the step is in memory, so that
// a graph that is captured once counts on; powers are in double precision, since 1 - beta2 is small.
//
// Launch, with 256 threads per block, a thread per element; count_step with one block.

#include "../adam.cuh"

constexpr int THREADS = 256;
constexpr int PARTIALS = 256;

__device__ size_t own_element() { return (size_t)blockIdx.x * THREADS + threadIdx.x; }

extern "C" __global__ void zero(float* __restrict__ Z, int n)
{
    const size_t i = own_element();
    if (i < n) Z[i] = 0.0f;
}

extern "C" __global__ void clip(float* __restrict__ G, const float* __restrict__ partial, int n, float max_norm)
{
    __shared__ float sums[PARTIALS];
    sums[threadIdx.x] = partial[threadIdx.x];
    for (int half = PARTIALS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    }
    __syncthreads();
    const float norm = sqrtf(sums[0]);
    const size_t i = own_element();
    if (i < n && norm > max_norm) G[i] *= max_norm / (norm + 1e-6f);
}

extern "C" __global__ void decay_update(float* __restrict__ W, const float* __restrict__ G, int n, float rate,
                                        float decay)
{
    const size_t i = own_element();
    if (i < n) W[i] -= rate * (G[i] + decay * W[i]);
}

extern "C" __global__ void momentum_update(float* __restrict__ W, const float* __restrict__ G,
                                           float* __restrict__ M, int n, float rate, float momentum, float decay)
{
    const size_t i = own_element();
    if (i >= n) return;
    const float m = M[i] = momentum * M[i] + (G[i] + decay * W[i]);
    W[i] -= rate * m;
}

extern "C" __global__ void nesterov_update(float* __restrict__ W, const float* __restrict__ G,
                                           float* __restrict__ M, int n, float rate, float momentum, float decay)
{
    const size_t i = own_element();
    if (i >= n) return;
    const float gradient = G[i] + decay * W[i];
    const float m = M[i] = momentum * M[i] + gradient;
    W[i] -= rate * (gradient + momentum * m);
}

extern "C" __global__ void count_step(float* T, int steps, float gain1, float gain2)
{
    const double last = T[4 * (size_t)(steps - 1)];
    __syncthreads();
    for (int i = threadIdx.x; i < steps; i += THREADS) {
        const double t = last + i + 1.0;
        T[4 * (size_t)i] = (float)t;
        T[4 * (size_t)i + 1] = (float)(1.0 / (1.0 - pow(1.0 - (double)gain1, t)));
        T[4 * (size_t)i + 2] = (float)(1.0 / sqrt(1.0 - pow(1.0 - (double)gain2, t)));
    }
}

extern "C" __global__ void adam_update(float* __restrict__ W, const float* __restrict__ G, float* __restrict__ M,
                                       float* __restrict__ V, const float* __restrict__ T, int n, float rate,
                                       float gain1, float gain2, float eps, float decay)
{
    const size_t i = own_element();
    if (i < n) W[i] = stepped(W[i], G[i] + decay * W[i], M + i, V + i, T, rate, gain1, gain2, eps);
}

extern "C" __global__ void adamw_update(float* __restrict__ W, const float* __restrict__ G, float* __restrict__ M,
                                        float* __restrict__ V, const float* __restrict__ T, int n, float rate,
                                        float gain1, float gain2, float eps, float decay)
{
    const size_t i = own_element();
    if (i >= n) return;
    const float w = W[i] - rate * decay * W[i];
    W[i] = stepped(w, G[i], M + i, V + i, T, rate, gain1, gain2, eps);
}
