// Inverted dropout, float32. Which elements are dropped follows from the seed, the layer, and the number of the step in
// C: snn/models/dropout.py says how, and why a launch reads C[turn] and writes the other one.
//
//   dropout           Z = 0 where an element is dropped, else X / (1 - drop)
//   dropout_gradient  D = 0 there, else D / (1 - drop), in place
//   count_dropout     C[0] = C[0] + 1
//
// The elements are n of a batch, from the one of number first on. A thread has four with one number of Philox.
//
// Launch, with 256 threads per block: a thread for each four elements, and one more; count_dropout one block.

#include "../philox.cuh"
#include "../stored.cuh"

constexpr int THREADS = 256;

template <class Function>
__device__ void each(int n, int first, int layer, int seed, int turn, float drop, unsigned* C, Function write)
{
    const unsigned t = blockIdx.x * THREADS + threadIdx.x, step = C[turn];
    if (t == 0) C[1 - turn] = step + turn;
    const unsigned group = first / 4 + t, least = (unsigned)(drop * 4294967296.0f);
    const float scale = 1.0f / (1.0f - drop);
    const Words words = philox(group, step, layer, seed, 1);
    for (int k = 0; k < 4; ++k) {
        const long long i = 4ll * group + k - first;
        if (i >= 0 && i < n) write(i, words.of[k] < least ? 0.0f : scale);
    }
}

extern "C" __global__ void dropout(const Stored* __restrict__ X, Stored* __restrict__ Z, unsigned* C, int n, int first,
                                   int layer, int seed, int turn, float drop)
{
    each(n, first, layer, seed, turn, drop, C, [=](size_t i, float scale) { Z[i] = scale ? X[i] * scale : 0.0f; });
}

extern "C" __global__ void dropout_gradient(Stored* __restrict__ D, unsigned* C, int n, int first, int layer, int seed,
                                            int turn, float drop)
{
    each(n, first, layer, seed, turn, drop, C, [=](size_t i, float scale) { D[i] = scale ? D[i] * scale : 0.0f; });
}

extern "C" __global__ void count_dropout(unsigned* C)
{
    if (threadIdx.x == 0) ++C[0];
}
