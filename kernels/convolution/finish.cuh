// What a convolution's outputs become, once a block has them in shared memory: a band of D::BAND lines and D::STRIP
// columns of D::OUT_BLOCK planes, a plane every D::PLANE floats. From there global memory is written in order, whichever
// thread computed what. The outputs are (rows, D::PLANES, D::OUT_HIGH, D::OUT_WIDE).

struct Band {  // the band's image, first plane, line and column
    int r, plane, row, col;
};

// store(at, plane, value) of each element; `at` is its index in the outputs.
template <class D, class Store>
__device__ void write_band(const float* values, Band band, Store store)
{
#pragma unroll 4
    for (int i = threadIdx.x; i < D::OUT_BLOCK * D::BAND * D::STRIP; i += D::THREADS) {
        const int o = i / (D::BAND * D::STRIP), in_plane = i % (D::BAND * D::STRIP);
        const int row = band.row + in_plane / D::STRIP, col = band.col + in_plane % D::STRIP, plane = band.plane + o;
        if (plane < D::PLANES && row < D::OUT_HIGH && col < D::OUT_WIDE)
            store((((size_t)band.r * D::PLANES + plane) * D::OUT_HIGH + row) * D::OUT_WIDE + col, plane,
                  values[o * D::PLANE + in_plane]);
    }
}

// store(at, largest, which) of the largest activate(value, plane) of each window of SIZE x SIZE, the first of equal ones.
template <class D, class Activate, class Store>
__device__ void write_windows(const float* values, Band band, Activate activate, Store store)
{
    constexpr int DOWN = D::BAND / SIZE, ACROSS = D::STRIP / SIZE, HIGH_ = D::OUT_HIGH / SIZE, WIDE_ = D::OUT_WIDE / SIZE;
    for (int i = threadIdx.x; i < D::OUT_BLOCK * DOWN * ACROSS; i += D::THREADS) {
        const int o = i / (DOWN * ACROSS), down = i / ACROSS % DOWN, across = i % ACROSS, plane = band.plane + o;
        const int row = band.row / SIZE + down, col = band.col / SIZE + across;
        if (plane >= D::PLANES || row >= HIGH_ || col >= WIDE_) continue;
        const float* window = values + o * D::PLANE + (down * D::STRIP + across) * SIZE;
        float largest = activate(window[0], plane);
        int which = 0;
#pragma unroll
        for (int e = 1; e < SIZE * SIZE; ++e) {
            const float value = activate(window[e / SIZE * D::STRIP + e % SIZE], plane);
            if (value > largest) largest = value, which = e;
        }
        store((((size_t)band.r * D::PLANES + plane) * HIGH_ + row) * WIDE_ + col, largest, which);
    }
}

__device__ float rectified(float z) { return z < 0.0f ? 0.0f : z; }  // a NaN is not < 0 and stays
