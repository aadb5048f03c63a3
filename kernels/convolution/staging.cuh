// Copies of parts of images to shared memory, in two halves: `fetch` reads global memory into registers, `put` writes
// them to shared memory. Between the two a block computes, so that nobody waits for global memory. Where a thread has too
// much to hold, `put` does both.
//
// What is staged is LINES lines of COUNT planes (channels or filters), the first at (row, col) of the image, which may
// lie outside of it: there is 0. A line takes STRIDE floats, a plane PLANE, both at least what is needed.

// COUNT lines of LINE elements each, spread over a block's threads: neighbouring threads take neighbouring elements,
// and every thread takes the same elements of several lines. So where an element is has to be computed once, and is a
// constant apart in the next line.

template <int LINE, int COUNT, int THREADS>
struct Spread {
    static constexpr int WIDE_ = smaller(LINE, THREADS);          // elements of a line at once
    static constexpr int HIGH_ = smaller(THREADS / WIDE_, COUNT);  // lines at once
    static constexpr int STEPS = up(LINE, WIDE_), PASSES = up(COUNT, HIGH_), COPIES = STEPS * PASSES;

    static __device__ int element(int n) { return threadIdx.x % WIDE_ + n % STEPS * WIDE_; }  // of copy n of the thread
    static __device__ int line(int n) { return threadIdx.x / WIDE_ + n / STEPS * HIGH_; }
    static __device__ bool inside(int n)
    {
        return (WIDE_ * HIGH_ == THREADS || threadIdx.x < WIDE_ * HIGH_) && (LINE % WIDE_ == 0 || element(n) < LINE) &&
               (COUNT % HIGH_ == 0 || line(n) < COUNT);
    }
};

template <class Over, class Value>
struct Held {
    static constexpr bool EARLY = Over::COPIES * sizeof(Value) <= 16 * sizeof(float);
    Value values[EARLY ? Over::COPIES : 1];

    template <class Read>
    __device__ void fetch(Read read)  // read(n), n = 0 to COPIES - 1
    {
        if (!EARLY) return;
#pragma unroll
        for (int n = 0; n < Over::COPIES; ++n) values[n] = read(n);
    }
    template <class Read, class Write>
    __device__ void put(Read read, Write write) const  // write(n, value)
    {
        if (EARLY) {
#pragma unroll
            for (int n = 0; n < Over::COPIES; ++n) write(n, values[EARLY ? n : 0]);
        } else {
#pragma unroll 4
            for (int n = 0; n < Over::COPIES; ++n) write(n, read(n));
        }
    }
};

struct Exact {  // values are staged as they are; tensor cores stage rounded ones
    static __device__ float of(float x) { return x; }
};

// The largest number that both are multiples of; of 0, everything is.
__device__ constexpr int common_factor(int a, int b) { return b == 0 ? a < 0 ? -a : a : common_factor(b, a % b); }

// Planes of dense images: (planes, HIGH_, WIDE_). PAIRS: two neighbouring floats are copied at once, so that `col`, STRIDE
// and WIDE_ must be even.
template <bool PAIRS, int COUNT, int LINES, int STRIDE, int PLANE, int HIGH_, int WIDE_, int THREADS, class Round = Exact>
struct Dense {
    static constexpr int VECTOR = PAIRS ? 2 : 1;
    using Over = Spread<LINES * STRIDE / VECTOR, COUNT, THREADS>;
    struct Value {
        float v[VECTOR];
    };
    Held<Over, Value> held;
    const float* images;
    int row, col, lines, planes;

    // Aims at lines_ of the LINES, and planes_ of the COUNT planes from `plane` on; the others are 0.
    __device__ void aim(const float* images_, const float*, int plane, int row_, int col_, int lines_ = LINES,
                        int planes_ = COUNT)
    {
        images = images_ + (size_t)plane * HIGH_ * WIDE_;
        row = row_, col = col_, lines = lines_, planes = planes_;
    }
    __device__ Value read(int n) const
    {
        const int i = Over::element(n) * VECTOR, x = i % STRIDE + col, line = i / STRIDE, y = line + row;
        const bool inside = Over::inside(n) && line < lines && y >= 0 && y < HIGH_ && x >= 0 && x < WIDE_;
        const float* from = images + (Over::line(n) * HIGH_ + y) * WIDE_ + x;
        if (!inside || Over::line(n) >= planes) return {};
        if constexpr (PAIRS) {
            const float2 two = *reinterpret_cast<const float2*>(from);
            return {two.x, two.y};
        } else {
            return {*from};
        }
    }
    __device__ void fetch()
    {
        held.fetch([=](int n) { return read(n); });
    }
    __device__ void put(float* to) const
    {
        held.put([=](int n) { return read(n); }, [=](int n, Value value) {
            if (!Over::inside(n)) return;
            float* own = to + Over::line(n) * PLANE + Over::element(n) * VECTOR;
            if constexpr (PAIRS)
                *reinterpret_cast<float2*>(own) = make_float2(Round::of(value.v[0]), Round::of(value.v[1]));
            else
                own[0] = Round::of(value.v[0]);
        });
    }
};

// The same planes of a gradient behind a max pooling: G, of the windows of SIZE x SIZE, is that of the element that I
// names; of the others, and where no window is, the gradient is 0. HIGH_ and WIDE_ are those of the planes before pooling.
// ROWS, COLS: whether `row` and LINES, `col` and STRIDE are multiples of SIZE.
template <bool ROWS_, bool COLS_, int COUNT, int LINES, int STRIDE, int PLANE, int HIGH_, int WIDE_, int THREADS, class Round = Exact>
struct Pooled {
    static constexpr int DOWN = HIGH_ / SIZE, ACROSS = WIDE_ / SIZE;  // windows of a plane
    static constexpr int WINDOWS_DOWN = ROWS_ ? LINES / SIZE : (LINES + SIZE - 2) / SIZE + 1;  // that LINES lines touch
    static constexpr int WINDOWS_ACROSS = COLS_ ? STRIDE / SIZE : (STRIDE + SIZE - 2) / SIZE + 1;
    using Over = Spread<WINDOWS_DOWN * WINDOWS_ACROSS, COUNT, THREADS>;
    struct Value {
        float gradient, largest;
    };
    Held<Over, Value> held;
    const float *G, *I;
    int row, col, lines, planes;

    __device__ void aim(const float* G_, const float* I_, int plane, int row_, int col_, int lines_ = LINES,
                        int planes_ = COUNT)
    {
        G = G_ + (size_t)plane * DOWN * ACROSS, I = I_ + (size_t)plane * DOWN * ACROSS;
        row = row_, col = col_, lines = lines_, planes = planes_;
    }
    static __device__ int window(int element) { return element >= 0 ? element / SIZE : -((SIZE - 1 - element) / SIZE); }

    __device__ Value read(int n) const
    {
        const int down = window(row) + Over::element(n) / WINDOWS_ACROSS;
        const int across = window(col) + Over::element(n) % WINDOWS_ACROSS;
        const int at = (Over::line(n) * DOWN + down) * ACROSS + across;
        const bool inside = Over::inside(n) && down >= 0 && down < DOWN && across >= 0 && across < ACROSS;
        if (!inside || Over::line(n) >= planes) return {};
        return {G[at], I[at]};
    }
    __device__ void fetch()
    {
        held.fetch([=](int n) { return read(n); });
    }
    __device__ void put(float* to) const
    {
        held.put([=](int n) { return read(n); }, [=](int n, Value value) {
            if (!Over::inside(n)) return;
            const int down = Over::element(n) / WINDOWS_ACROSS * SIZE, line = ROWS_ ? down : window(row) * SIZE - row + down;
            const int across = Over::element(n) % WINDOWS_ACROSS * SIZE, x = COLS_ ? across : window(col) * SIZE - col + across;
            const float gradient = Round::of(value.gradient);
            float* own = to + Over::line(n) * PLANE + line * STRIDE + x;
#pragma unroll
            for (int i = 0; i < SIZE; ++i) {
                if (!ROWS_ && (line + i < 0 || line + i >= LINES)) continue;
                float of_line[SIZE];
#pragma unroll
                for (int j = 0; j < SIZE; ++j)
                    of_line[j] = line + i < lines && value.largest == i * SIZE + j ? gradient : 0.0f;
                if constexpr (COLS_ && SIZE == 2) {
                    *reinterpret_cast<float2*>(own + i * STRIDE) = make_float2(of_line[0], of_line[1]);
                } else {
#pragma unroll
                    for (int j = 0; j < SIZE; ++j)
                        if (COLS_ || x + j >= 0 && x + j < STRIDE) own[i * STRIDE + j] = of_line[j];
                }
            }
        });
    }
};

// Where the gradient of Z is staged, from (row, col) of a plane: COL is what `col` is a multiple of, at least, ROW `row`.
template <bool POOLED, int ROW, int COL, int COUNT, int LINES, int STRIDE, int PLANE, int THREADS, class Round>
struct Gradient {
    static constexpr bool PAIRS = COL % 2 == 0 && STRIDE % 2 == 0 && WIDE % 2 == 0;
    using Stage = Dense<PAIRS, COUNT, LINES, STRIDE, PLANE, HIGH, WIDE, THREADS, Round>;
};
template <int ROW, int COL, int COUNT, int LINES, int STRIDE, int PLANE, int THREADS, class Round>
struct Gradient<true, ROW, COL, COUNT, LINES, STRIDE, PLANE, THREADS, Round> {
    static constexpr bool ROWS_ = ROW % SIZE == 0 && LINES % SIZE == 0, COLS_ = COL % SIZE == 0 && STRIDE % SIZE == 0;
    using Stage = Pooled<ROWS_, COLS_, COUNT, LINES, STRIDE, PLANE, HIGH, WIDE, THREADS, Round>;
};
template <bool POOLED, int ROW, int COL, int COUNT, int LINES, int STRIDE, int PLANE, int THREADS, class Round = Exact>
using StageOfGradient = typename Gradient<POOLED, ROW, COL, COUNT, LINES, STRIDE, PLANE, THREADS, Round>::Stage;

// The weights of a chunk of D::CHUNK inputs and D::OUT_BLOCK outputs, as they lie in memory: for each output those of the
// inputs, or, TURNED, for each input those of the outputs. D::place(c, tap, o) says where they go. TURNED: for the gradient
// of X, whose kernels are turned by 180 degrees and whose inputs are W's filters.
template <class D, int IN, int OUT, bool TURNED, class Round = Exact>
struct ChunkOfWeights {
    using Over = Spread<(TURNED ? D::OUT_BLOCK : D::CHUNK) * TAPS, TURNED ? D::CHUNK : D::OUT_BLOCK, D::THREADS>;
    Held<Over, float> held;
    const float* from;
    int outputs;

    __device__ void aim(const float* W, int first_in, int first_out)
    {
        from = W + (TURNED ? first_in * OUT + first_out : first_out * IN + first_in) * TAPS;
        outputs = OUT - first_out;
    }
    static __device__ int output(int n) { return TURNED ? Over::element(n) / TAPS : Over::line(n); }
    static __device__ int input(int n) { return TURNED ? Over::line(n) : Over::element(n) / TAPS; }

    __device__ float read(int n) const
    {
        if (!Over::inside(n) || output(n) >= outputs) return 0.0f;
        return from[Over::line(n) * (TURNED ? OUT : IN) * TAPS + Over::element(n)];
    }
    __device__ void fetch()
    {
        held.fetch([=](int n) { return read(n); });
    }
    __device__ void put(float* to) const
    {
        held.put([=](int n) { return read(n); }, [=](int n, float value) {
            const int tap = Over::element(n) % TAPS;
            if (Over::inside(n)) to[D::place(input(n), TURNED ? TAPS - 1 - tap : tap, output(n))] = Round::of(value);
        });
    }
};
