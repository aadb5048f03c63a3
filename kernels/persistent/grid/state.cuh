// What every phase of a step needs: where matrices are in memory, and what a thread keeps in registers of each layer.

template <int I>
struct Kept : Kept<I - 1> {
    static_assert(Forward<I>::ELEMENTS <= 32, "a bit for each");
    float W[Descend<I>::ELEMENTS];   // its elements of W_i
    unsigned positive;               // the bits of its elements of H_i > 0
};
template <>
struct Kept<0> {};

struct State {
    Shared& shared;
    Barrier barrier;
    const float *X, *Y;
    float *weights, *E, *workspace;
    float rate, max_norm;
    int step = 0, batch = 0, rows = 0;   // rows: of this batch
    bool first = true, last = false;
    int now = 0;                   // CLIP: which copy of W_i the forward pass reads
    float factor = 0.0f;           // CLIP: of the gradient that is not applied in memory yet
    Kept<L> kept;
    Place at;

    template <int I> __device__ const float* H() const
    {
        if constexpr (I == 0) return X + (size_t)batch * ROWS * WIDTH[0];
        else return in_workspace(AT_H + ROWS * sum_of_widths(I - 1));
    }
    template <int I> __device__ float* dZ() const { return in_workspace(AT_DZ + ROWS * sum_of_widths(I - 1)); }
    template <int I> __device__ float* W(int which) const
    {
        return which ? in_workspace(AT_SECOND + sum_of_weights(I - 1)) : weights + sum_of_weights(I - 1);
    }
    template <int I> __device__ float* dW() const { return in_workspace(AT_DW + sum_of_weights(I - 1)); }
    template <int I> __device__ float* norms() const { return in_workspace(AT_NORMS + (I - 1) * GRID * 4); }
    __device__ float* y_parts() const { return in_workspace(AT_Y); }
    __device__ float* dw() const { return in_workspace(AT_DW_OUT); }
    __device__ float* in_workspace(int offset) const { return workspace + offset; }
    __device__ float* w_in_memory() const { return weights + WEIGHTS; }
};
