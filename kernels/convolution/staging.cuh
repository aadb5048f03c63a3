// Copies of parts of images to shared memory, in two halves: `fetch` reads global memory into registers, `put` writes
// them to shared memory. Between the two a block computes, so that nobody waits for global memory.
//
// What is staged is LINES lines of COUNT planes (channels or filters), the first at (row, col) of the image, which may
// lie outside of it: there is 0. A line takes STRIDE floats, a plane PLANE, both at least what is needed.

struct Exact {  // values are staged as they are; tensor cores stage rounded ones
    static __device__ float of(float x) { return x; }
};

// Planes of dense images: (planes, HIGH_, WIDE_).
template <int COUNT, int LINES, int STRIDE, int PLANE, int HIGH_, int WIDE_, int THREADS, class Round = Exact>
struct Dense {
    static constexpr int SIZE_ = COUNT * LINES * STRIDE, COPIES = (SIZE_ + THREADS - 1) / THREADS;
    int from[COPIES];  // the index in the planes; -1 outside of the image
    float held[COPIES];

    // lines: how many of the LINES are needed; planes: how many of the COUNT there are. Others are 0.
    __device__ void aim(int row, int col, int lines = LINES, int planes = COUNT)
    {
#pragma unroll
        for (int n = 0; n < COPIES; ++n) {
            const int i = threadIdx.x + n * THREADS, x = i % STRIDE + col, y = i / STRIDE % LINES + row;
            const bool inside = i / (STRIDE * LINES) < planes && y - row < lines && y >= 0 && y < HIGH_ && x >= 0 && x < WIDE_;
            from[n] = inside ? (i / (STRIDE * LINES) * HIGH_ + y) * WIDE_ + x : -1;
        }
    }
    __device__ void fetch(const float* __restrict__ images, const float*, int plane)  // plane: the first one
    {
        images += (size_t)plane * HIGH_ * WIDE_;
#pragma unroll
        for (int n = 0; n < COPIES; ++n) held[n] = from[n] >= 0 ? images[from[n]] : 0.0f;
    }
    __device__ void put(float* to) const
    {
#pragma unroll
        for (int n = 0; n < COPIES; ++n) {
            const int i = threadIdx.x + n * THREADS;
            if (SIZE_ % THREADS == 0 || i < SIZE_)
                to[i / (STRIDE * LINES) * PLANE + i % (STRIDE * LINES)] = Round::of(held[n]);
        }
    }
};

// The same planes of a gradient behind a max pooling: G, of the windows of SIZE x SIZE, is that of the element that I
// names; of the others, and where no window is, the gradient is 0. HIGH_ and WIDE_ are those of the planes before
// pooling.
template <int COUNT, int LINES, int STRIDE, int PLANE, int HIGH_, int WIDE_, int THREADS, class Round = Exact>
struct Pooled {
    static constexpr int DOWN = HIGH_ / SIZE, ACROSS = WIDE_ / SIZE;  // windows of a plane
    static constexpr int WINDOWS_DOWN = (LINES + SIZE - 2) / SIZE + 1;  // windows that LINES lines may touch
    static constexpr int WINDOWS_ACROSS = (STRIDE + SIZE - 2) / SIZE + 1;
    static constexpr int SIZE_ = COUNT * WINDOWS_DOWN * WINDOWS_ACROSS, COPIES = (SIZE_ + THREADS - 1) / THREADS;
    int from[COPIES];  // -1: no such window
    float held[COPIES], largest[COPIES];
    int row, col, lines;

    static __device__ int first_window(int element) { return element >= 0 ? element / SIZE : -((SIZE - 1 - element) / SIZE); }

    __device__ void aim(int row_, int col_, int lines_ = LINES, int planes = COUNT)
    {
        row = row_, col = col_, lines = lines_;
#pragma unroll
        for (int n = 0; n < COPIES; ++n) {
            const int i = threadIdx.x + n * THREADS, plane = i / (WINDOWS_DOWN * WINDOWS_ACROSS);
            const int down = first_window(row) + i / WINDOWS_ACROSS % WINDOWS_DOWN;
            const int across = first_window(col) + i % WINDOWS_ACROSS;
            const bool inside = plane < planes && down >= 0 && down < DOWN && across >= 0 && across < ACROSS;
            from[n] = inside ? (plane * DOWN + down) * ACROSS + across : -1;
        }
    }
    __device__ void fetch(const float* __restrict__ G, const float* __restrict__ I, int plane)
    {
        G += (size_t)plane * DOWN * ACROSS, I += (size_t)plane * DOWN * ACROSS;
#pragma unroll
        for (int n = 0; n < COPIES; ++n) {
            held[n] = from[n] >= 0 ? G[from[n]] : 0.0f;
            largest[n] = from[n] >= 0 ? I[from[n]] : 0.0f;
        }
    }
    __device__ void put(float* to) const
    {
#pragma unroll
        for (int n = 0; n < COPIES; ++n) {
            const int i = threadIdx.x + n * THREADS;
            if (SIZE_ % THREADS != 0 && i >= SIZE_) continue;
            const int plane = i / (WINDOWS_DOWN * WINDOWS_ACROSS);
            const int line = (first_window(row) + i / WINDOWS_ACROSS % WINDOWS_DOWN) * SIZE - row;
            const int x = (first_window(col) + i % WINDOWS_ACROSS) * SIZE - col;
            const float value = Round::of(held[n]);
#pragma unroll
            for (int e = 0; e < SIZE * SIZE; ++e) {
                const int at_line = line + e / SIZE, at_x = x + e % SIZE;
                if (at_line >= 0 && at_line < LINES && at_x >= 0 && at_x < STRIDE)
                    to[plane * PLANE + at_line * STRIDE + at_x] = at_line < lines && largest[n] == e ? value : 0.0f;
            }
        }
    }
};

template <bool POOLED, int COUNT, int LINES, int STRIDE, int PLANE, int THREADS, class Round>
struct Gradient {
    using Stage = Dense<COUNT, LINES, STRIDE, PLANE, HIGH, WIDE, THREADS, Round>;
};
template <int COUNT, int LINES, int STRIDE, int PLANE, int THREADS, class Round>
struct Gradient<true, COUNT, LINES, STRIDE, PLANE, THREADS, Round> {
    using Stage = Pooled<COUNT, LINES, STRIDE, PLANE, HIGH, WIDE, THREADS, Round>;
};
template <bool POOLED, int COUNT, int LINES, int STRIDE, int PLANE, int THREADS, class Round = Exact>
using StageOfGradient = typename Gradient<POOLED, COUNT, LINES, STRIDE, PLANE, THREADS, Round>::Stage;
