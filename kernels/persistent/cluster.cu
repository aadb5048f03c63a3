// A whole training of a network with one hidden layer, all epochs, in one kernel; float32 throughout.
//
//   Z = X W1, H = max(Z, 0), y = H w2, e = y - Y, g = scale e        forward, equations (1) and (2)
//   w2 -= rate H^T g, then W1 -= rate X^T (g w2^T where H > 0)       backward, in the paper's order
//
// One cluster of CLUSTER blocks trains one network. Each block owns NEURONS hidden neurons: their columns of
// W1 and elements of w2 never leave it. So a step needs one exchange, the sum over the blocks of what each adds
// to y: every block writes its part to the shared memory of all, and each adds up all parts, in one order.
//
//   forward    a thread holds R rows of X in registers and reads W1 from shared memory, one word for the
//              whole warp at a time: 32 multiply-adds for every four such reads.
//   backward   U = X^T (g where H > 0), 4 x 4 elements a thread, the rows split among KSPLIT groups of threads.
//              With it dw2[j] is the sum over f of W1[f][j] U[f][j], since H = X W1 where it is not 0, and dW1 =
//              w2 U after the update of w2: so neither H nor the new w2 is needed before U is there.
//   data       the next batch but one is on its way to shared memory (cp.async) while this one trains.
//
// Layout: the batch is padded with 0 to ROWS, the features and hidden neurons to multiples of 16, and each batch of
// X and Y by itself. `weights` is W1, then w2.
// Members: MEMBERS networks on the same X and Y, each with weights and a rate of its own, one after the other in
// `weights`, E and, where there are several, `rates`. Their clusters know nothing of each other: those that the device
// cannot hold yet begin when others are done.
// Launch: MEMBERS clusters of CLUSTER blocks of 128 threads (`shared_bytes` of dynamic shared memory).
// Needs sm_90.

#ifndef MEMBERS
#define MEMBERS 1
#endif

constexpr int THREADS = 128;
constexpr int WARPS = THREADS / 32;
constexpr int WIDTH[] = {WIDTHS};                                        // features, hidden neurons: multiples of 16
constexpr int FEATURES = WIDTH[0], HIDDEN = WIDTH[1];
constexpr int ROWS = (BATCH + 15) / 16 * 16;                             // of a batch, padded
constexpr int R = (ROWS + THREADS - 1) / THREADS;                        // rows of a thread
constexpr int FC = FEATURES / 4;                                         // features by four
constexpr int NC = ((HIDDEN + CLUSTER - 1) / CLUSTER + 3) / 4;           // neurons of a block by four
constexpr int NEURONS = 4 * NC;
constexpr int GROUP = NC % 4 == 0 ? 4 : NC % 2 == 0 ? 2 : 1;             // of these, at once in the forward pass
constexpr int X_STRIDE = R * FC + (R * FC + 1) % 2;                      // float4 between threads' rows: odd
constexpr int G_STRIDE = R * NC + (R * NC + 1) % 2;
constexpr int TILES = FC * NC;                                           // 4 x 4 elements of U
constexpr int KSPLIT = THREADS / TILES;
constexpr int U_STRIDE = FC + (FC + 1) % 2;
constexpr int F_PER_LANE = (FC + 7) / 8, N_PER_WARP = (NC + WARPS - 1) / WARPS;
static_assert(sizeof WIDTH / sizeof *WIDTH == 2, "one hidden layer");
static_assert(R <= 2 && KSPLIT >= 1 && NEURONS <= 64, "this shape is for another kernel");

struct Shared {  // each thread's rows have a line of their own
    float4 X[3][THREADS * X_STRIDE];
    float4 G[THREADS * G_STRIDE];                     // g where H > 0, a row a line
    float4 U[KSPLIT][NEURONS * U_STRIDE];
    float4 W1[4 * FC][NC];
    float4 w2[NC];
    alignas(16) float parts[2][CLUSTER][R * THREADS]; // of y, one line from each block
    alignas(8) unsigned long long arrived[2];         // mbarriers: all lines are there
};

__device__ int x_at(int row, int c) { return row / R * X_STRIDE + row % R * FC + c; }
__device__ int g_at(int row, int c) { return row / R * G_STRIDE + row % R * NC + c; }

extern "C" __device__ const int shared_bytes = sizeof(Shared);

// ---- PTX

#ifdef CUDA_ON_CPU  // whose emulator has these
using namespace cuda_on_cpu;
#else
__device__ unsigned shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }

__device__ unsigned cluster_rank()
{
    unsigned rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

__device__ void cluster_barrier()
{
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

__device__ unsigned in_block(unsigned address, unsigned rank)
{
    unsigned there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
    return there;
}

__device__ void send(unsigned to, const float (&v)[1], unsigned mbarrier)
{
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.f32 [%0], %1, [%2];"
                 :: "r"(to), "f"(v[0]), "r"(mbarrier) : "memory");
}

__device__ void send(unsigned to, const float (&v)[2], unsigned mbarrier)
{
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%1, %2}, [%3];"
                 :: "r"(to), "f"(v[0]), "f"(v[1]), "r"(mbarrier) : "memory");
}

__device__ void mbarrier_init(unsigned mbarrier)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(mbarrier) : "memory");
}

__device__ void mbarrier_expect(unsigned mbarrier, unsigned bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(mbarrier), "r"(bytes) : "memory");
}

__device__ void mbarrier_wait(unsigned mbarrier, unsigned parity)
{
    asm volatile("{\n.reg .pred done;\n"
                 "again: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;\n}" :: "r"(mbarrier), "r"(parity) : "memory");
}

__device__ void copy_async(unsigned to, const float* from)  // 16 bytes
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(to), "l"(from));
}

__device__ void copies_done() { asm volatile("cp.async.commit_group;\ncp.async.wait_group 0;" ::: "memory"); }

__device__ void mbarriers_made() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
#endif

// ---- data

__device__ void fetch(float4* slab, const float* __restrict__ X)
{
#pragma unroll
    for (int i = 0; i < R * FC; ++i) {
        const int at = threadIdx.x + i * THREADS, row = at / FC, c = at % FC;
        if (R * THREADS == ROWS || row < ROWS) copy_async(shared_address(slab + x_at(row, c)), X + FEATURES * row + 4 * c);
    }
}

__device__ float& element(float4& v, int i) { return reinterpret_cast<float*>(&v)[i]; }

// ---- the training

extern "C" __global__ __launch_bounds__(THREADS, 1) void train_persistent(
    const float* __restrict__ X, const float* __restrict__ Y, float* weights, float* E, float* rates, int rows,
    int epochs, float rate, float)
{
    extern __shared__ __align__(16) float dynamic[];
    Shared& s = *reinterpret_cast<Shared*>(dynamic);
    const int t = threadIdx.x, lane = t % 32, warp = t / 32;
    const unsigned rank = cluster_rank();
    const int first_neuron = rank * NEURONS;
    const int batches = (rows + BATCH - 1) / BATCH;
    const int member = blockIdx.x / CLUSTER;
    float *W1 = weights + (size_t)member * (FEATURES + 1) * HIDDEN, *W2 = W1 + FEATURES * HIDDEN;
    E += member * ROWS;
    if (MEMBERS > 1) rate = rates[member];

    // The elements that this thread updates stay in its registers: neuron 4 n + lane % 4, four features each.
    float w1[N_PER_WARP][F_PER_LANE][4], w2[N_PER_WARP];
#pragma unroll
    for (int a = 0; a < N_PER_WARP; ++a) {
        const int n = warp + a * WARPS, j = 4 * n + lane % 4, column = first_neuron + j;
        w2[a] = n < NC && column < HIDDEN ? W2[column] : 0.0f;
        if (n < NC && lane < 4) element(s.w2[n], lane) = w2[a];
#pragma unroll
        for (int b = 0; b < F_PER_LANE; ++b)
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int f = 4 * (lane / 4 + 8 * b) + i;
                w1[a][b][i] = n < NC && f < FEATURES && column < HIDDEN ? W1[(size_t)f * HIDDEN + column] : 0.0f;
                if (n < NC && f < 4 * FC) element(s.W1[f][n], lane % 4) = w1[a][b][i];
            }
    }
    if (t < 2) mbarrier_init(shared_address(&s.arrived[t]));
    mbarriers_made();
    for (int i = t; i < THREADS * X_STRIDE; i += THREADS)  // lines that no batch fills
        if (R * THREADS != ROWS) s.X[0][i] = s.X[1][i] = s.X[2][i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    __syncthreads();

    auto rows_of = [&](int batch) { return min(BATCH, rows - batch * BATCH); };
    float x[R][4 * FC], y[R], next_y[R];
    auto take = [&](const float4* slab) {  // this thread's rows to registers
#pragma unroll
        for (int r = 0; r < R; ++r)
#pragma unroll
            for (int c = 0; c < FC; ++c) {
                const float4 v = slab[t * X_STRIDE + r * FC + c];
                x[r][4 * c] = v.x, x[r][4 * c + 1] = v.y, x[r][4 * c + 2] = v.z, x[r][4 * c + 3] = v.w;
            }
    };
    auto targets = [&](int batch) {
#pragma unroll
        for (int r = 0; r < R; ++r) {
            const int row = R * t + r;
            next_y[r] = row < ROWS ? Y[(size_t)batch * ROWS + row] : 0.0f;
        }
    };

    fetch(s.X[0], X);
    copies_done();
    cluster_barrier();  // also: every block's mbarriers are there
    take(s.X[0]);
    targets(0);
    const auto of = [&](int batch) { return X + (size_t)batch * ROWS * FEATURES; };
    fetch(s.X[1], of(batches > 1 ? 1 : 0));

    int batch = 0, buffer = 0;
    for (int step = 0, steps = epochs * batches; step < steps; ++step) {
        const int half = step % 2, next = batch + 1 < batches ? batch + 1 : 0;
        const int after = next + 1 < batches ? next + 1 : 0, count = rows_of(batch);
        const unsigned mbarrier = shared_address(&s.arrived[half]);
#pragma unroll
        for (int r = 0; r < R; ++r) y[r] = next_y[r];

        copies_done();
        __syncthreads();  // the next batch is there, and the weights of the step before
        if (t == 0) mbarrier_expect(mbarrier, CLUSTER * R * THREADS * sizeof(float));
        const int next_buffer = buffer == 2 ? 0 : buffer + 1, free_buffer = buffer == 0 ? 2 : buffer - 1;
        fetch(s.X[free_buffer], of(after));

        // forward
        unsigned long long positive[R] = {};
        float part[R] = {};
#pragma unroll 1
        for (int n = 0; n < NC; n += GROUP) {
            float z[R][4 * GROUP] = {};
#pragma unroll
            for (int f = 0; f < 4 * FC; ++f)
#pragma unroll
                for (int a = 0; a < GROUP; ++a) {
                    const float4 w = s.W1[f][n + a];
#pragma unroll
                    for (int r = 0; r < R; ++r) {
                        z[r][4 * a] += x[r][f] * w.x, z[r][4 * a + 1] += x[r][f] * w.y;
                        z[r][4 * a + 2] += x[r][f] * w.z, z[r][4 * a + 3] += x[r][f] * w.w;
                    }
                }
#pragma unroll
            for (int r = 0; r < R; ++r) {
                unsigned bits = 0;
#pragma unroll
                for (int a = 0; a < GROUP; ++a) {
                    float4 w = s.w2[n + a];
#pragma unroll
                    for (int i = 0; i < 4; ++i) {
                        const float h = z[r][4 * a + i];
                        part[r] += (h < 0.0f ? 0.0f : h) * element(w, i);
                        if (h > 0.0f) bits |= 1u << (4 * a + i);
                    }
                }
                positive[r] |= (unsigned long long)bits << (4 * n);
            }
        }

        // the exchange
        const unsigned to = shared_address(&s.parts[half][rank][R * t]);
#pragma unroll
        for (int c = 0; c < CLUSTER; ++c) send(in_block(to, c), part, in_block(mbarrier, c));
        take(s.X[next_buffer]);
        targets(next);
        mbarrier_wait(mbarrier, step / 2 % 2);

        float g[R];
        const float scale = 2.0f / count;
#pragma unroll
        for (int r = 0; r < R; ++r) {
            float sum = 0.0f;
#pragma unroll
            for (int c = 0; c < CLUSTER; ++c) sum += s.parts[half][c][R * t + r];
            const float error = R * t + r < count ? sum - y[r] : 0.0f;
            if (step == steps - 1 && rank == 0 && R * t + r < count) E[R * t + r] = error;
            g[r] = scale * error;
        }
#pragma unroll
        for (int r = 0; r < R; ++r)
#pragma unroll
            for (int n = 0; n < NC; ++n) {
                const unsigned bits = (unsigned)(positive[r] >> (4 * n));
                s.G[t * G_STRIDE + r * NC + n] = make_float4(bits & 1 ? g[r] : 0.0f, bits & 2 ? g[r] : 0.0f,
                                                             bits & 4 ? g[r] : 0.0f, bits & 8 ? g[r] : 0.0f);
            }
        __syncthreads();

        // backward
        if (t < TILES * KSPLIT) {
            const int tile = t % TILES, split = t / TILES, c = tile % FC, n = tile / FC;
            float u[4][4] = {};  // neuron, feature
            const float4* slab = s.X[buffer];
#pragma unroll 8
            for (int row = split; row < R * THREADS; row += KSPLIT) {
                const float4 a = slab[x_at(row, c)], b = s.G[g_at(row, n)];
                const float fs[4] = {a.x, a.y, a.z, a.w}, gs[4] = {b.x, b.y, b.z, b.w};
#pragma unroll
                for (int j = 0; j < 4; ++j)
#pragma unroll
                    for (int i = 0; i < 4; ++i) u[j][i] += gs[j] * fs[i];
            }
#pragma unroll
            for (int j = 0; j < 4; ++j)
                s.U[split][(4 * n + j) * U_STRIDE + c] = make_float4(u[j][0], u[j][1], u[j][2], u[j][3]);
        }
        __syncthreads();

        // the update: a warp has all features of four neurons
#pragma unroll
        for (int a = 0; a < N_PER_WARP; ++a) {
            const int n = warp + a * WARPS, j = 4 * n + lane % 4;
            if (n >= NC) break;
            float u[F_PER_LANE][4] = {}, dw2 = 0.0f;
#pragma unroll
            for (int b = 0; b < F_PER_LANE; ++b) {
                const int c = lane / 4 + 8 * b;
                if (c < FC)
#pragma unroll
                    for (int k = 0; k < KSPLIT; ++k) {
                        const float4 v = s.U[k][j * U_STRIDE + c];
                        u[b][0] += v.x, u[b][1] += v.y, u[b][2] += v.z, u[b][3] += v.w;
                    }
#pragma unroll
                for (int i = 0; i < 4; ++i) dw2 += w1[a][b][i] * u[b][i];
            }
#pragma unroll
            for (int apart = 4; apart < 32; apart *= 2) dw2 += __shfl_xor_sync(0xffffffffu, dw2, apart);
            w2[a] -= rate * dw2;
            if (lane < 4) element(s.w2[n], lane) = w2[a];
#pragma unroll
            for (int b = 0; b < F_PER_LANE; ++b)
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    const int f = 4 * (lane / 4 + 8 * b) + i;
                    w1[a][b][i] -= rate * (w2[a] * u[b][i]);
                    if (f < 4 * FC) element(s.W1[f][n], lane % 4) = w1[a][b][i];
                }
        }
        batch = next, buffer = next_buffer;
    }

#pragma unroll
    for (int a = 0; a < N_PER_WARP; ++a) {
        const int n = warp + a * WARPS, column = first_neuron + 4 * n + lane % 4;
        if (n >= NC || column >= HIDDEN) continue;
        if (lane < 4) W2[column] = w2[a];
#pragma unroll
        for (int b = 0; b < F_PER_LANE; ++b)
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int f = 4 * (lane / 4 + 8 * b) + i;
                if (f < FEATURES) W1[(size_t)f * HIDDEN + column] = w1[a][b][i];
            }
    }
    copies_done();
    cluster_barrier();  // no block's memory goes while another may write to it
}
