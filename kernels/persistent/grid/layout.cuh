// The layout of the workspace, as offsets in floats, the head first; and of shared memory.

constexpr int SPAN = smaller(Forward<L>::tile.cols, 32);   // columns of H_L in one partial sum of y
constexpr int Y_PARTS = LAST / SPAN;

__device__ constexpr int sum_of_weights(int layers)
{
    int sum = 0;
    for (int i = 1; i <= layers; ++i) sum += WIDTH[i - 1] * WIDTH[i];
    return sum;
}
__device__ constexpr int sum_of_widths(int layers)
{
    int sum = 0;
    for (int i = 1; i <= layers; ++i) sum += WIDTH[i];
    return sum;
}
constexpr int WEIGHTS = sum_of_weights(L), NEURONS = sum_of_widths(L);
constexpr int AT_H = HEAD_FLOATS, AT_DZ = AT_H + ROWS * NEURONS, AT_Y = AT_DZ + ROWS * NEURONS;
constexpr int AT_DW_OUT = AT_Y + ROWS * Y_PARTS, AT_SECOND = AT_DW_OUT + LAST;
constexpr int AT_DW = AT_SECOND + CLIP * WEIGHTS, AT_NORMS = AT_DW + CLIP * WEIGHTS;
extern "C" __device__ const int workspace_floats = AT_NORMS + CLIP * L * GRID * 4;

template <class S> __device__ constexpr int floats() { return S::GROUPS * S::PART; }
template <int I> __device__ constexpr int most_floats()
{
    const int here = larger(larger(floats<Forward<I>>(), floats<Descend<I>>()), floats<Propagate<I>>());
    return larger(most_floats<I - 1>(), here);
}
template <> __device__ constexpr int most_floats<0>() { return 0; }

template <int I>
__device__ constexpr int most_elements() { return larger(most_elements<I - 1>(), Descend<I>::ELEMENTS); }
template <> __device__ constexpr int most_elements<0>() { return 1; }

template <int I>   // of all W that a thread owns, in registers
__device__ constexpr int all_elements() { return all_elements<I - 1>() + Descend<I>::ELEMENTS; }
template <> __device__ constexpr int all_elements<0>() { return 0; }

struct Shared {
    float parts[most_floats<L>()];                 // partial sums of a tile, from each group of warps
    float g[ROWS];
    float w[LAST];
    float dw[WARPS][Descend<L>::tile.cols];        // partial sums of w's gradient, from each group
    float sums[4][WARPS];
    float dW[CLIP ? most_elements<L>() : 1][THREADS];   // CLIP: this block's tile of the last gradient
};
extern "C" __device__ const int shared_bytes = sizeof(Shared);
