// Updates by an optimiser, row-major float32: W a parameter, G its gradient, M and V what the optimiser keeps.
// snn/models/optimizers.py has the formulae.
//
//   zero              Z = 0
//   clip              G scaled to a norm of at most max_norm; partial holds shares of its sum of squares
//   unscale           G = scale G
//   start_steps       T of n elements when a run starts: 0, but T[1] to T[4] are 1
//   count_step        T of the next steps, 8 elements each, from that of the last one: T[0] is its number t from 1 on,
//                     T[1] = 1 / (1 - beta1^t), T[2] = 1 / sqrt(1 - beta2^t), T[3] the factor of its rate, T[4] = 1
//   add_squares       T[8 + b] += block b's share of the sum of squares of G
//   clip_together     T[4] = min(1, max_norm / (norm + 1e-6)) with the root of the sum of T[8] to T[263], which
//                     are 0 afterwards
//   decay_update      W = W - rate (G + decay W)
//   momentum_update   M = momentum M + (G + decay W), W = W - rate M
//   nesterov_update   the same M, W = W - rate ((G + decay W) + momentum M)
//   adam_update       M and V are means of G + decay W and of its square, W = W - rate T[1] M / (sqrt(V) T[2] + eps)
//   adamw_update      W = W - rate decay W, then the same with means of G
//
// In updates rate is rate T[3], and G is T[4] G. gain is 1 - beta, of which float32 has more digits than of beta.
// What changes from step to step is in memory, so that a graph that is captured once goes on; it is computed in
// double precision, since 1 - beta2 is small.
//
// Launch, with 256 threads per block, a thread per element; count_step and clip_together with one block,
// add_squares with 256.

#include "../adam.cuh"
#include "../rate_factor.cuh"

constexpr int THREADS = 256;
constexpr int PARTIALS = 256;

__device__ size_t own_element() { return (size_t)blockIdx.x * THREADS + threadIdx.x; }

// The sum over a block, for each of its threads.
__device__ float sum_of_block(float value)
{
    __shared__ float sums[THREADS];
    sums[threadIdx.x] = value;
    for (int half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    }
    __syncthreads();
    return sums[0];
}

extern "C" __global__ void zero(float* __restrict__ Z, int n)
{
    const size_t i = own_element();
    if (i < n) Z[i] = 0.0f;
}

extern "C" __global__ void clip(float* __restrict__ G, const float* __restrict__ partial, int n, float max_norm)
{
    static_assert(PARTIALS == THREADS, "a thread takes one partial sum");
    const float norm = sqrtf(sum_of_block(partial[threadIdx.x]));
    const size_t i = own_element();
    if (i < n && norm > max_norm) G[i] *= max_norm / (norm + 1e-6f);
}

extern "C" __global__ void unscale(float* __restrict__ G, int n, float scale)
{
    const size_t i = own_element();
    if (i < n) G[i] *= scale;
}

extern "C" __global__ void start_steps(float* __restrict__ T, int n)
{
    const size_t i = own_element();
    if (i < n) T[i] = i >= 1 && i <= 4 ? 1.0f : 0.0f;
}

extern "C" __global__ void count_step(float* T, int steps, float gain1, float gain2, int form, int warmup,
                                      int length, float end)
{
    const double last = T[8 * (size_t)(steps - 1)];
    __syncthreads();
    for (int i = threadIdx.x; i < steps; i += THREADS) {
        float* of_step = T + 8 * (size_t)i;
        const double t = last + i + 1.0;
        of_step[0] = (float)t;
        of_step[1] = (float)(1.0 / (1.0 - pow(1.0 - (double)gain1, t)));
        of_step[2] = (float)(1.0 / sqrt(1.0 - pow(1.0 - (double)gain2, t)));
        of_step[3] = (float)rate_factor(t - 1.0, form, warmup, length, (double)end);
        of_step[4] = 1.0f;
    }
}

constexpr int SUMS = 8;  // where they begin in T

extern "C" __global__ void add_squares(const float* __restrict__ G, float* __restrict__ T, int n)
{
    float sum = 0.0f;
    for (size_t i = own_element(); i < n; i += PARTIALS * THREADS) sum += G[i] * G[i];
    sum = sum_of_block(sum);
    if (threadIdx.x == 0) T[SUMS + blockIdx.x] += sum;
}

extern "C" __global__ void clip_together(float* __restrict__ T, float max_norm)
{
    const float sum = sum_of_block(T[SUMS + threadIdx.x]);
    T[SUMS + threadIdx.x] = 0.0f;
    if (threadIdx.x > 0) return;
    const float scale = max_norm / (sqrtf(sum) + 1e-6f);
    T[4] = scale > 1.0f ? 1.0f : scale;  // a NaN stays
}

extern "C" __global__ void decay_update(float* __restrict__ W, const float* __restrict__ G,
                                        const float* __restrict__ T, int n, float rate, float decay)
{
    const size_t i = own_element();
    if (i < n) W[i] -= rate * T[3] * followed(W[i], G[i], T, decay);
}

extern "C" __global__ void momentum_update(float* __restrict__ W, const float* __restrict__ G,
                                           float* __restrict__ M, const float* __restrict__ T, int n, float rate,
                                           float momentum, float decay)
{
    const size_t i = own_element();
    if (i >= n) return;
    const float m = M[i] = momentum * M[i] + followed(W[i], G[i], T, decay);
    W[i] -= rate * T[3] * m;
}

extern "C" __global__ void nesterov_update(float* __restrict__ W, const float* __restrict__ G,
                                           float* __restrict__ M, const float* __restrict__ T, int n, float rate,
                                           float momentum, float decay)
{
    const size_t i = own_element();
    if (i >= n) return;
    const float gradient = followed(W[i], G[i], T, decay);
    const float m = M[i] = momentum * M[i] + gradient;
    W[i] -= rate * T[3] * (gradient + momentum * m);
}

extern "C" __global__ void adam_update(float* __restrict__ W, const float* __restrict__ G, float* __restrict__ M,
                                       float* __restrict__ V, const float* __restrict__ T, int n, float rate,
                                       float gain1, float gain2, float eps, float decay)
{
    const size_t i = own_element();
    if (i < n) W[i] = stepped(W[i], followed(W[i], G[i], T, decay), M + i, V + i, T, rate, gain1, gain2, eps);
}

extern "C" __global__ void adamw_update(float* __restrict__ W, const float* __restrict__ G, float* __restrict__ M,
                                        float* __restrict__ V, const float* __restrict__ T, int n, float rate,
                                        float gain1, float gain2, float eps, float decay)
{
    const size_t i = own_element();
    if (i >= n) return;
    const float w = W[i] - rate * T[3] * decay * W[i];
    W[i] = stepped(w, T[4] * G[i], M + i, V + i, T, rate, gain1, gain2, eps);
}
