// The cross-entropy of a softmax and its gradient, row-major float32. P, Y and D are (rows, width), E is (rows);
// Y holds one-hot rows.
//
//   softmax_cross_entropy   E[i] = -log softmax(P[i])[label], D = scale (softmax(P) - Y)
//
// The largest of a row is subtracted first, so that no exponential overflows; the logarithm is taken of the sum
// and not of the quotient, so that no small probability becomes log 0.
//
// Launch: a thread per row, 256 threads per block.

#include "../stored.cuh"

constexpr int THREADS = 256;

extern "C" __global__ void softmax_cross_entropy(const Stored* __restrict__ P, const float* __restrict__ Y,
                                                 float* __restrict__ E, Stored* __restrict__ D, int rows, int width,
                                                 float scale)
{
    const size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= rows) return;
    P += i * width, Y += i * width, D += i * width;
    float largest = P[0], sum = 0.0f, loss = 0.0f;
    for (int j = 1; j < width; ++j) largest = P[j] > largest ? P[j] : largest;
    for (int j = 0; j < width; ++j) sum += expf(P[j] - largest);
    const float log_sum = logf(sum);
    for (int j = 0; j < width; ++j) {
        loss += Y[j] * (log_sum - (P[j] - largest));
        D[j] = scale * (expf(P[j] - largest) / sum - Y[j]);
    }
    E[i] = loss;
}
