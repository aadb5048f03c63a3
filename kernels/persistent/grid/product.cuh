// The product of a phase. ready() waits for the barrier, once what is ready earlier has been loaded. After the barrier and
// before the arithmetic, meanwhile() prepares what operands need in shared memory. Element e of a thread is in row
// (threadIdx.x + e THREADS) / cols of the tile, column (threadIdx.x + e THREADS) % cols.

template <class S, class A, class B, class Ready, class Meanwhile>
__device__ void product(Place at, Shared& shared, A& a, B& b, float (&element)[S::ELEMENTS], Ready ready,
                        Meanwhile meanwhile)
{
    const int g = at.lane() / 4, t = at.lane() % 4;
    constexpr int REGISTERS = (sizeof(typename A::Raw) + sizeof(typename B::Raw)) / sizeof(float);
    constexpr int STAGES = smaller(S::OWN, larger(1, (MOST_REGISTERS - 8 * (all_elements<L>() > 16)) / REGISTERS));
    typename A::Raw raw_a[STAGES];
    typename B::Raw raw_b[STAGES];
    const auto k_of = [&](int n) { return (S::group(at) + S::GROUPS * n) * SLAB + 4 * t; };   // of the warp's n-th slab
    const auto has = [&](int n) {
        constexpr bool ALL = S::SLABS % S::GROUPS == 0 && S::GROUPS * S::WARPS_DOWN * S::WARPS_ACROSS == WARPS;
        return ALL ? n < S::OWN : S::group(at) < S::GROUPS && S::group(at) + S::GROUPS * n < S::SLABS;
    };
    if (!S::has_tile(at)) {
        ready();
        meanwhile();
        return;
    }

#pragma unroll
    for (int n = 0; n < STAGES; ++n)
        if (has(n)) a.read_early(k_of(n), raw_a[n]), b.read_early(k_of(n), raw_b[n]);
    ready();
#pragma unroll
    for (int n = 0; n < STAGES; ++n)
        if (has(n)) a.read_late(k_of(n), raw_a[n]), b.read_late(k_of(n), raw_b[n]);
    meanwhile();

    float sum[S::A_ROWS / 2][S::B_COLS][4] = {};
#pragma unroll 1
    for (int base = 0; base < S::OWN; base += STAGES)
#pragma unroll
        for (int stage = 0; stage < STAGES; ++stage) {
            const int n = base + stage, next = n + STAGES;
            if (!has(n)) break;
            const auto left = a.value(raw_a[stage], k_of(n));
            const auto right = b.value(raw_b[stage], k_of(n));
            if (has(next)) {
                a.read_early(k_of(next), raw_a[stage]), b.read_early(k_of(next), raw_b[stage]);
                a.read_late(k_of(next), raw_a[stage]), b.read_late(k_of(next), raw_b[stage]);
            }
            multiply<16, S::A_ROWS, S::B_COLS>(sum, left, right);
        }

    if (S::group(at) < S::GROUPS) {  // of each mma a lane holds rows g and g + 8, columns 2t and 2t + 1
        const int row = S::lane_row(at), col = S::lane_col(at) + S::B_COLS * (2 * t - g);
        float* const part = shared.parts + S::group(at) * S::PART + row * S::STRIDE + col;
#pragma unroll
        for (int i = 0; i < S::A_ROWS; ++i)
#pragma unroll
            for (int which = 0; which < 2; ++which)
#pragma unroll
                for (int c = 0; c < S::B_COLS; ++c)
                    part[i * S::STRIDE + S::B_COLS * which + c] = sum[i / 2][c][i % 2 * 2 + which];
    }
    __syncthreads();
#pragma unroll
    for (int e = 0; e < S::ELEMENTS; ++e) {
        const unsigned i = at.thread + e * THREADS;
        element[e] = 0.0f;
        if (S::SIZE % THREADS == 0 || i < S::SIZE)
#pragma unroll
            for (int p = 0; p < S::GROUPS; ++p)
                element[e] += shared.parts[p * S::PART + i / S::tile.cols * S::STRIDE + i % S::tile.cols];
    }
}
