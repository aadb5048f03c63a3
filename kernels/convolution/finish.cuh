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
    using Over = Spread<D::BAND * D::STRIP, D::OUT_BLOCK, D::THREADS>;
    const size_t first = (((size_t)band.r * D::PLANES + band.plane) * D::OUT_HIGH + band.row) * D::OUT_WIDE + band.col;
    for (int step = 0; step < Over::STEPS; ++step) {
        const int i = Over::element(step), row = i / D::STRIP, col = i % D::STRIP;
        if (!Over::inside(step) || band.row + row >= D::OUT_HIGH || band.col + col >= D::OUT_WIDE) continue;
        const size_t at = first + row * D::OUT_WIDE + col;
#pragma unroll 8
        for (int pass = 0; pass < Over::PASSES; ++pass) {
            const int o = Over::line(0) + pass * Over::HIGH_;
            if (o < D::OUT_BLOCK && band.plane + o < D::PLANES)
                store(at + o * D::OUT_HIGH * D::OUT_WIDE, band.plane + o, values[o * D::PLANE + i]);
        }
    }
}

// store(at, largest, which) of the largest activate(value, plane) of each window of SIZE x SIZE, the first of equal ones.
template <class D, class Activate, class Store>
__device__ void write_windows(const float* values, Band band, Activate activate, Store store)
{
    constexpr int ACROSS = D::STRIP / SIZE, HIGH_ = D::OUT_HIGH / SIZE, WIDE_ = D::OUT_WIDE / SIZE;
    using Over = Spread<D::BAND / SIZE * ACROSS, D::OUT_BLOCK, D::THREADS>;
#pragma unroll 2
    for (int n = 0; n < Over::COPIES; ++n) {
        const int down = Over::element(n) / ACROSS, across = Over::element(n) % ACROSS, plane = band.plane + Over::line(n);
        const int row = band.row / SIZE + down, col = band.col / SIZE + across;
        if (!Over::inside(n) || plane >= D::PLANES || row >= HIGH_ || col >= WIDE_) continue;
        const float* window = values + Over::line(n) * D::PLANE + (down * D::STRIP + across) * SIZE;
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
