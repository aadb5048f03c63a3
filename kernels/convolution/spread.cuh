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
