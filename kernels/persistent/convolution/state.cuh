// What every phase of a step needs: the messages, the part of an image that the block has, and the thread's place in
// a warp and its products.

struct State {
    Shared& s;
    Barrier barrier;
    const float *X, *Y;
    float *W1, *b1, *W2, *b2, *W3, *b3, *E, *S;
    float rate;
    unsigned high;
    OfWeights of_weights{S + AT_WEIGHTS};
    OfGradients of_gradients{S + AT_GRADIENTS};
    int t = threadIdx.x, warp = threadIdx.x / 32, lane = threadIdx.x % 32, p = threadIdx.x % 32 / 4, q = threadIdx.x % 4;
    int image = blockIdx.x / PARTS, part = blockIdx.x % PARTS;
    int step = 0, batch = 0, count = 0;
    float target = 0.0f;   // of output `lane`

    // Makes the compiler compute addresses anew in each step: kept in registers, those of all phases would spill.
    __device__ void begin_step() { asm volatile("" : "+r"(t), "+r"(warp), "+r"(lane), "+r"(p), "+r"(q)); }

    __device__ int first_row2() const { return part * ROWS2; }
    __device__ bool has_image() const { return image < count; }
};
