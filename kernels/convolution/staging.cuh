// Copies of parts of images to shared memory, in two halves: `fetch` reads global memory into registers, `put` writes
// them to shared memory. Between the two a block computes, so that nobody waits for global memory. Where a thread has too
// much to hold, `put` does both.
//
// What is staged is LINES lines of COUNT planes (channels or filters), the first at (row, col) of the image, which may
// lie outside of it: there is 0. A line takes STRIDE floats, a plane PLANE, both at least what is needed.

template <int COPIES, class Value>
struct Held {
    static constexpr bool EARLY = COPIES * sizeof(Value) <= 12 * sizeof(float);
    Value values[EARLY ? COPIES : 1];

    template <class Read>
    __device__ void fetch(Read read)  // read(n), n = 0 to COPIES - 1
    {
        if (!EARLY) return;
#pragma unroll
        for (int n = 0; n < COPIES; ++n) values[n] = read(n);
    }
    template <class Read, class Write>
    __device__ void put(Read read, Write write) const  // write(n, value)
    {
        if (EARLY) {
#pragma unroll
            for (int n = 0; n < COPIES; ++n) write(n, values[EARLY ? n : 0]);
        } else {
#pragma unroll 4
            for (int n = 0; n < COPIES; ++n) write(n, read(n));
        }
    }
};

struct Exact {  // values are staged as they are; tensor cores stage rounded ones
    static __device__ float of(float x) { return x; }
};

// Whether two neighbouring floats may be copied at once: the columns of a strip of STRIP from the MARGIN on, and the
// lines of an image of WIDE_ columns, lie two by two.
__device__ constexpr bool in_pairs(int margin, int strips, int strip, int stride, int wide)
{
    return margin % 2 == 0 && (strips == 1 || strip % 2 == 0) && stride % 2 == 0 && wide % 2 == 0;
}

// Planes of dense images: (planes, HIGH_, WIDE_).
template <bool PAIRS, int COUNT, int LINES, int STRIDE, int PLANE, int HIGH_, int WIDE_, int THREADS, class Round = Exact>
struct Dense {
    static constexpr int VECTOR = PAIRS ? 2 : 1, SIZE_ = COUNT * LINES * STRIDE / VECTOR, COPIES = up(SIZE_, THREADS);
    struct Value {
        float v[VECTOR];
    };
    Held<COPIES, Value> held;
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
        const int i = (threadIdx.x + n * THREADS) * VECTOR, x = i % STRIDE + col, line = i / STRIDE % LINES;
        const int y = line + row, plane = i / (STRIDE * LINES);
        const float* from = images + (plane * HIGH_ + y) * WIDE_ + x;
        if (plane >= planes || line >= lines || y < 0 || y >= HIGH_ || x < 0 || x >= WIDE_) return {};
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
            const int i = (threadIdx.x + n * THREADS) * VECTOR;
            if (SIZE_ % THREADS != 0 && i >= SIZE_ * VECTOR) return;
            float* own = to + i / (STRIDE * LINES) * PLANE + i % (STRIDE * LINES);
            if constexpr (PAIRS)
                *reinterpret_cast<float2*>(own) = make_float2(Round::of(value.v[0]), Round::of(value.v[1]));
            else
                own[0] = Round::of(value.v[0]);
        });
    }
};

// The same planes of a gradient behind a max pooling: G, of the windows of SIZE x SIZE, is that of the element that I
// names; of the others, and where no window is, the gradient is 0. HIGH_ and WIDE_ are those of the planes before
// pooling.
template <int COUNT, int LINES, int STRIDE, int PLANE, int HIGH_, int WIDE_, int THREADS, class Round = Exact>
struct Pooled {
    static constexpr int DOWN = HIGH_ / SIZE, ACROSS = WIDE_ / SIZE;    // windows of a plane
    static constexpr int WINDOWS_DOWN = (LINES + SIZE - 2) / SIZE + 1;  // windows that LINES lines may touch
    static constexpr int WINDOWS_ACROSS = (STRIDE + SIZE - 2) / SIZE + 1;
    static constexpr int SIZE_ = COUNT * WINDOWS_DOWN * WINDOWS_ACROSS, COPIES = up(SIZE_, THREADS);
    struct Value {
        float gradient, largest;
    };
    Held<COPIES, Value> held;
    const float *G, *I;
    int row, col, lines, planes;

    __device__ void aim(const float* G_, const float* I_, int plane, int row_, int col_, int lines_ = LINES,
                        int planes_ = COUNT)
    {
        G = G_ + (size_t)plane * DOWN * ACROSS, I = I_ + (size_t)plane * DOWN * ACROSS;
        row = row_, col = col_, lines = lines_, planes = planes_;
    }
    static __device__ int first_window(int element) { return element >= 0 ? element / SIZE : -((SIZE - 1 - element) / SIZE); }

    __device__ Value read(int n) const
    {
        const int i = threadIdx.x + n * THREADS, plane = i / (WINDOWS_DOWN * WINDOWS_ACROSS);
        const int down = first_window(row) + i / WINDOWS_ACROSS % WINDOWS_DOWN;
        const int across = first_window(col) + i % WINDOWS_ACROSS, at = (plane * DOWN + down) * ACROSS + across;
        if (plane >= planes || down < 0 || down >= DOWN || across < 0 || across >= ACROSS) return {};
        return {G[at], I[at]};
    }
    __device__ void fetch()
    {
        held.fetch([=](int n) { return read(n); });
    }
    __device__ void put(float* to) const
    {
        held.put([=](int n) { return read(n); }, [=](int n, Value value) {
            const int i = threadIdx.x + n * THREADS, plane = i / (WINDOWS_DOWN * WINDOWS_ACROSS);
            if (SIZE_ % THREADS != 0 && i >= SIZE_) return;
            const int line = (first_window(row) + i / WINDOWS_ACROSS % WINDOWS_DOWN) * SIZE - row;
            const int x = (first_window(col) + i % WINDOWS_ACROSS) * SIZE - col;
            const float gradient = Round::of(value.gradient);
#pragma unroll
            for (int e = 0; e < SIZE * SIZE; ++e) {
                const int at_line = line + e / SIZE, at_x = x + e % SIZE;
                if (at_line >= 0 && at_line < LINES && at_x >= 0 && at_x < STRIDE)
                    to[plane * PLANE + at_line * STRIDE + at_x] = at_line < lines && value.largest == e ? gradient : 0.0f;
            }
        });
    }
};

template <bool POOLED, bool PAIRS, int COUNT, int LINES, int STRIDE, int PLANE, int THREADS, class Round>
struct Gradient {
    using Stage = Dense<PAIRS, COUNT, LINES, STRIDE, PLANE, HIGH, WIDE, THREADS, Round>;
};
template <bool PAIRS, int COUNT, int LINES, int STRIDE, int PLANE, int THREADS, class Round>
struct Gradient<true, PAIRS, COUNT, LINES, STRIDE, PLANE, THREADS, Round> {
    using Stage = Pooled<COUNT, LINES, STRIDE, PLANE, HIGH, WIDE, THREADS, Round>;
};
template <bool POOLED, bool PAIRS, int COUNT, int LINES, int STRIDE, int PLANE, int THREADS, class Round = Exact>
using StageOfGradient = typename Gradient<POOLED, PAIRS, COUNT, LINES, STRIDE, PLANE, THREADS, Round>::Stage;

// The weights of a chunk of D::CHUNK inputs and D::OUT_BLOCK outputs; D::place(c, tap, o) says where they go. TURNED: for
// the gradient of X, whose kernels are turned by 180 degrees and whose inputs are W's filters.
template <class D, int IN, int OUT, bool TURNED, class Round = Exact>
struct ChunkOfWeights {
    static constexpr int SIZE_ = D::CHUNK * TAPS * D::OUT_BLOCK, COPIES = up(SIZE_, D::THREADS);
    Held<COPIES, float> held;
    const float* W;
    int first_in, first_out;

    __device__ void aim(const float* W_, int first_in_, int first_out_) { W = W_, first_in = first_in_, first_out = first_out_; }

    static __device__ int output(int i) { return TURNED ? i / TAPS % D::OUT_BLOCK : i / (D::CHUNK * TAPS); }
    static __device__ int input(int i) { return TURNED ? i / (TAPS * D::OUT_BLOCK) : i / TAPS % D::CHUNK; }

    __device__ float read(int n) const
    {
        const int i = threadIdx.x + n * D::THREADS, out = first_out + output(i), in = first_in + input(i);
        return i < SIZE_ && out < OUT ? W[(TURNED ? in * OUT + out : out * IN + in) * TAPS + i % TAPS] : 0.0f;
    }
    __device__ void fetch()
    {
        held.fetch([=](int n) { return read(n); });
    }
    __device__ void put(float* to) const
    {
        held.put([=](int n) { return read(n); }, [=](int n, float value) {
            const int i = threadIdx.x + n * D::THREADS;
            if (SIZE_ % D::THREADS == 0 || i < SIZE_)
                to[D::place(input(i), TURNED ? TAPS - 1 - i % TAPS : i % TAPS, output(i))] = Round::of(value);
        });
    }
};
