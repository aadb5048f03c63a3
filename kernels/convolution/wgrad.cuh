// The gradient of the weights as partial sums: the part of it that does not depend on how a block multiplies.
//
// The output lines of all images, in strips of columns, are divided among PARTS blocks along the grid's x; along its y
// the grid covers the weights in blocks of IN_BLOCK channels x OUT_BLOCK filters. A block stages some lines of G and X
// at a time, fetching the next while it multiplies.

// As many of the channels wanted as fit in shared memory, with the lines of one window and with all sums of the block.
__device__ constexpr int fitting_channels(int wanted, int out_block, int step)
{
    const int strip = to_multiple(up(WIDE, up(WIDE, 64)), step * SIZE), g = SIZE * strip + 8;
    const int x = (SIZE + KERNEL - 1) * to_multiple(strip + KERNEL - 1, 4) + 8;
    while (wanted > 1 && (wanted * x + out_block * g > SHARED_FLOATS || out_block * wanted * TAPS > SHARED_FLOATS)) --wanted;
    return wanted;
}

// POOLED: G is that behind a pooling. The rest is a choice of the including kernel: see `Sums` there.
template <bool POOLED, int IN_BLOCK_, int OUT_BLOCK_, int THREADS_, int STEP, int PLANE_STEP>
struct Parts {
    static constexpr int IN_BLOCK = IN_BLOCK_, OUT_BLOCK = OUT_BLOCK_, THREADS = THREADS_;
    static constexpr int IN_BLOCKS = up(CHANNELS, IN_BLOCK), OUT_BLOCKS = up(FILTERS, OUT_BLOCK);
    static constexpr int ALIGN = POOLED ? SIZE : 1;  // lines of a unit
    static constexpr int STRIPS = up(WIDE, 64), UNITS = HIGH / ALIGN;  // of a strip
    static constexpr int STRIP = to_multiple(up(WIDE, STRIPS), STRIPS == 1 ? STEP : STEP * ALIGN);  // STEP: columns at once
    static constexpr int COL = STRIPS == 1 ? 0 : STRIP;  // what the first column of a strip is a multiple of
    static constexpr int ALL_UNITS = ROWS * STRIPS * UNITS;
    static constexpr int X_STRIDE = to_multiple(STRIP + KERNEL - 1, 4);

    // Planes PLANE_STEP floats apart, modulo twice that: neighbouring threads read the same place of neighbouring ones.
    static __device__ constexpr int plane(int floats)
    {
        return to_multiple(floats, 2 * PLANE_STEP) - PLANE_STEP >= floats ? to_multiple(floats, 2 * PLANE_STEP) - PLANE_STEP
                                                                          : to_multiple(floats, 2 * PLANE_STEP) + PLANE_STEP;
    }
    static __device__ constexpr int x_plane(int units) { return plane((units * ALIGN + KERNEL - 1) * X_STRIDE); }
    static __device__ constexpr int g_plane(int units) { return plane(units * ALIGN * STRIP); }
    static __device__ constexpr int floats(int units) { return IN_BLOCK * x_plane(units) + OUT_BLOCK * g_plane(units); }
    static __device__ constexpr int held(int units)  // registers of a thread between fetching and storing
    {
        return up(IN_BLOCK * (units * ALIGN + KERNEL - 1) * X_STRIDE, THREADS) +
               up(OUT_BLOCK * units * STRIP * (POOLED ? 2 : ALIGN), THREADS * ALIGN);
    }
    static __device__ constexpr int units_at_once()
    {
        int units = 1;
        while (units < smaller(UNITS, up(ALL_UNITS, PARTS)) && floats(units + 1) <= SHARED_FLOATS && held(units + 1) <= 16) ++units;
        return units;
    }
    static constexpr int AT_ONCE = units_at_once(), LINES = AT_ONCE * ALIGN;
    static constexpr int X_PLANE = x_plane(AT_ONCE), G_PLANE = g_plane(AT_ONCE), FLOATS = floats(AT_ONCE);
    static_assert(FLOATS <= SHARED_FLOATS, "the kernel is too large for shared memory");
};

// multiply(x, g, lines) for all lines of this block's part, with X and G as staged: [plane][line][column].
template <class P, class StageX, class StageG, class Multiply>
__device__ void for_lines_of_part(float* shared, const float* G, const float* I, const float* X, Multiply multiply)
{
    const int first_in = blockIdx.y % P::IN_BLOCKS * P::IN_BLOCK, first_out = blockIdx.y / P::IN_BLOCKS * P::OUT_BLOCK;
    const int begin = (long long)blockIdx.x * P::ALL_UNITS / PARTS, end = (long long)(blockIdx.x + 1) * P::ALL_UNITS / PARTS;
    StageX stage_x;
    StageG stage_g;
    float *x = shared, *g = shared + P::IN_BLOCK * P::X_PLANE;

    const auto count = [=](int unit) { return smaller(smaller(end - unit, P::UNITS - unit % P::UNITS), P::AT_ONCE); };
    const auto fetch_from = [&](int unit) {
        const int r = unit / P::UNITS / P::STRIPS, row = unit % P::UNITS * P::ALIGN;
        const int col = unit / P::UNITS % P::STRIPS * P::STRIP;
        stage_x.aim(X, nullptr, r * CHANNELS + first_in, row - PADDING, col - PADDING, P::LINES + KERNEL - 1, CHANNELS - first_in);
        stage_g.aim(G, I, r * FILTERS + first_out, row, col, count(unit) * P::ALIGN, FILTERS - first_out);
        stage_x.fetch(), stage_g.fetch();
    };
    if (begin < end) fetch_from(begin);
#pragma unroll 1
    for (int unit = begin, units = 0; unit < end; unit += units) {
        units = count(unit);
        stage_x.put(x), stage_g.put(g);
        __syncthreads();
        if (unit + units < end) fetch_from(unit + units);
        multiply(x, g, units * P::ALIGN);
        __syncthreads();
    }
}

// Adds up the sums of GROUPS groups of threads, a power of two, in shared memory; group 0 gets the total.
template <int COUNT, int MEMBERS, int GROUPS>
__device__ void add_groups(float* shared, float (&sum)[COUNT])
{
    const int group = threadIdx.x / MEMBERS, member = threadIdx.x % MEMBERS;
#pragma unroll
    for (int half = GROUPS / 2; half > 0; half /= 2) {
        float* own = shared + (group >= half ? group - half : group) * MEMBERS + member;
        if (group >= half && group < 2 * half)
            for (int i = 0; i < COUNT; ++i) own[i * half * MEMBERS] = sum[i];
        __syncthreads();
        if (group < half)
            for (int i = 0; i < COUNT; ++i) sum[i] += own[i * half * MEMBERS];
        __syncthreads();
    }
}

// The gradient of the biases: each thread adds up some columns of one filter of what is staged.
template <class P>
struct BiasSums {
    static constexpr int SHARES = smaller(P::THREADS / P::OUT_BLOCK, 32);  // threads of a filter
    float sum = 0.0f;

    __device__ void add(const float* g, int lines)
    {
        const int f = threadIdx.x / SHARES;
        if (f >= P::OUT_BLOCK) return;
        for (int i = threadIdx.x % SHARES; i < lines * P::STRIP; i += SHARES) sum += g[f * P::G_PLANE + i];
    }
    __device__ void write(float* shared, float* to)  // to: the block's biases
    {
        shared[threadIdx.x] = sum;
        __syncthreads();
        const int f = threadIdx.x, first_out = blockIdx.y / P::IN_BLOCKS * P::OUT_BLOCK;
        if (blockIdx.y % P::IN_BLOCKS != 0 || f >= P::OUT_BLOCK || first_out + f >= FILTERS) return;
        float total = 0.0f;
        for (int i = 0; i < SHARES; ++i) total += shared[f * SHARES + i];
        to[first_out + f] = total;
    }
};

// The block's sums, [filter][channel][tap] in shared memory, to its part of S.
template <class P>
__device__ void write_weights(const float* values, float* part)
{
    const int first_in = blockIdx.y % P::IN_BLOCKS * P::IN_BLOCK, first_out = blockIdx.y / P::IN_BLOCKS * P::OUT_BLOCK;
    using Over = Spread<P::IN_BLOCK * TAPS, P::OUT_BLOCK, P::THREADS>;
#pragma unroll 4
    for (int n = 0; n < Over::COPIES; ++n) {
        const int f = Over::line(n), i = Over::element(n);
        if (Over::inside(n) && first_out + f < FILTERS && first_in * TAPS + i < CHANNELS * TAPS)
            part[((first_out + f) * CHANNELS + first_in) * TAPS + i] = values[f * P::IN_BLOCK * TAPS + i];
    }
}
