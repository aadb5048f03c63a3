// The training of many networks with one hidden layer, all steps of a launch (steps.cuh), each network in a block.
//
//   Z = X W1, H = max(Z, 0), y = H w2, e = y - Y, g = scale e        forward, equations (1) and (2)
//   w2 -= rate H^T g, then W1 -= rate X^T (g w2^T where H > 0)       backward, in the paper's order, or with the old w2
//
// A warp has up to 64 hidden neurons, and nothing of them leaves it but their contributions to y. So a network of 64 is one warp,
// which waits for nobody, and several networks share an SM. Products run on FP16 tensor cores with float32 accuracy
// (whole/products.cuh): x times a power of two is big + small, both FP16. The power follows from the largest number of X, of a
// warp's part of W1, and of g. U is added up by tensor cores, which do not round, so that it loses bits in large batches.
//
//   chunk      32 rows of a batch, or 16 if it is no multiple of 32, go forwards and backwards before the next ones.
//   forward    N = -Z^T = (-W1)^T X^T, so that the sign bits of an accumulator say where Z > 0, and not where Z is 0. They become
//              masks, which are left operands of the backward product where they are: neither Z nor H is stored.
//   y          is summed over the lanes of a warp and, with several warps, over shared memory: one barrier a chunk.
//   backward   U^T = B^T diag(g) X with B = 1 where Z > 0, and B^T diag(g) is g's bits and the mask. U stays in registers.
//   update     dw2[j] is the sum over f of W1[f][j] U[f][j], since H = X W1 wherever H is not 0, and dW1 = w2 U. A lane's elements of
//              U are its elements of W1, in float32 and as left operands, in shared memory.
//   g          has the scale of the step's first chunk. If a later one has numbers that are too large, U is scaled down.
//   data       A thread copies a part of the next chunk (cp.async), and splits what it has copied. With several warps that happens
//              a chunk ahead.
//
// Layout: the batch, features and hidden neurons are padded with zeros to multiples of 16; each batch of X and Y is stored
// contiguously. `weights`: W1, w2 of each network in turn. E: each network's errors of the last batch. Behind the head of
// `workspace`: the learning rate of each network, then the power of two by which X is scaled (0: 1).
// Launch: MEMBERS blocks of 32 WARPS threads, `shared_bytes` of dynamic shared memory. Needs sm_80.

// waits.cuh has the report that the host expects of every kernel.
#include "../../integers.cuh"
#include "../copies.cuh"
#include "../positive_part.cuh"
#include "../steps.cuh"
#include "../waits.cuh"
#include "halves.cuh"
#include "../whole/products.cuh"

constexpr int WIDTH[] = {WIDTHS};                              // features, hidden neurons: multiples of 16
constexpr int FEATURES = WIDTH[0], HIDDEN = WIDTH[1];
constexpr int SIXTEENS = FEATURES / 16;                        // features, in sixteens
constexpr int THREADS = 32 * WARPS;
constexpr int PADDED = (BATCH + 15) / 16 * 16;                 // rows of a batch in memory
constexpr int TILES = PADDED % 32 == 0 ? 4 : 2;                // rows of a chunk, in eights
constexpr int ROWS = 8 * TILES, CHUNKS = PADDED / ROWS;
constexpr int LINE = FEATURES + 4;                             // words of a row: big parts, small ones; no bank conflicts
constexpr int PARTS = ROWS * FEATURES / 4;                     // of a chunk, in fours
constexpr bool AHEAD = WARPS > 1;                              // chunks are split one ahead
constexpr int BUFFERS = AHEAD ? 3 : 1;                         // AHEAD: one is read, one is written, one may still be read
static_assert(16 * NEURON_TILES * WARPS >= HIDDEN && 16 * NEURON_TILES * (WARPS - 1) < HIDDEN, "every warp has neurons");
static_assert(NEURON_TILES * SIXTEENS <= 8, "U does not fit the registers");

struct Weights {
    float4 W1[NEURON_TILES][2 * SIXTEENS][32];                                   // of a lane: neurons g, g and g + 8, g + 8 of a tile, inputs 2 t and 2 t + 1
    uint4 operands[NEURON_TILES][SIXTEENS][2][32];                               // of -W1, scaled: big parts, small ones
};

struct Shared {
    Weights weights[WARPS];
    float raw[PARTS][4];
    alignas(16) unsigned X[BUFFERS][ROWS * LINE];
    float sums[2][WARPS][AHEAD ? ROWS : 1];                    // contributions to y, of even and odd chunks
};
extern "C" __device__ const int shared_bytes = sizeof(Shared);
constexpr int AT_RATES = HEAD_FLOATS;
extern "C" __device__ const int workspace_floats = AT_RATES + MEMBERS + 1;

struct Training {
    Shared& shared;
    const float *X, *Y;
    float* E;
    int rows;
    float rate, x_up;
    int thread = threadIdx.x, lane = threadIdx.x % 32, warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0);
    int g = (unsigned)lane / 4, t = lane % 4;
    float w_up, g_up;
    float w2[NEURON_TILES][2];             // of neurons g and g + 8 of each tile
    float U[NEURON_TILES][2 * SIXTEENS][4];

    // The row of a chunk whose sum over g a lane has in the end; with 16 rows two lanes have the same.
    __device__ int own_row() const { return TILES == 4 ? 8 * (g / 2) + 2 * t + g % 2 : 8 * (g / 4) + 2 * t + g / 2 % 2; }
    __device__ bool is_only() const { return TILES == 4 || g % 2 == 0; }
    // The lane with row 2 t of a tile.
    __device__ int lane_of(int tile) const { return 4 * (TILES == 4 ? 2 * tile : 4 * tile) + t; }
    static constexpr int NEIGHBOUR = TILES == 4 ? 4 : 8;   // distance of the lanes with rows 2 t and 2 t + 1

    // ---- data

    __device__ void copy(int batch, int chunk) const
    {
        const float* const from = X + ((size_t)batch * PADDED + chunk * ROWS) * FEATURES;
#pragma unroll
        for (int f = 0; f < up(PARTS, THREADS); ++f)
            if (const int i = thread + f * THREADS; PARTS % THREADS == 0 || i < PARTS)
                copy_async(shared_address(shared.raw[i]), from + 4 * i);
    }
    __device__ void split(unsigned* to) const   // what this thread has copied
    {
        copies_done();
        float4 own[up(PARTS, THREADS)];   // all are on their way before the first is written
#pragma unroll
        for (int f = 0; f < up(PARTS, THREADS); ++f)
            if (const int i = thread + f * THREADS; PARTS % THREADS == 0 || i < PARTS)
                own[f] = *reinterpret_cast<const float4*>(shared.raw[i]);
#pragma unroll
        for (int f = 0; f < up(PARTS, THREADS); ++f) {
            const int i = thread + f * THREADS;
            if (PARTS % THREADS && i >= PARTS) break;
            const float4 v = own[f];
            const Parts16 first(v.x * x_up, v.y * x_up), second(v.z * x_up, v.w * x_up);
            unsigned* const line = to + i / (FEATURES / 4) * LINE + i % (FEATURES / 4) * 2;
            *reinterpret_cast<uint2*>(line) = make_uint2(first.big, second.big);
            *reinterpret_cast<uint2*>(line + FEATURES / 2) = make_uint2(first.small, second.small);
        }
    }

    // Right operands: eight rows, over sixteen features; sixteen rows, for eight features.
    __device__ HalfParts<2> across(const unsigned* x, int tile, int k) const
    {
        unsigned v[4];
        const int matrix = lane / 8;
        load_matrices(v, x + (8 * tile + lane % 8) * LINE + 8 * k + matrix % 2 * 4 + matrix / 2 * (FEATURES / 2));
        return {{v[0], v[1]}, {v[2], v[3]}};
    }
    __device__ HalfParts<2> down(const unsigned* x, int tile, int n) const
    {
        unsigned v[4];
        const int matrix = lane / 8;
        load_transposed(v, x + (8 * (tile + matrix % 2) + lane % 8) * LINE + 4 * n + matrix / 2 * (FEATURES / 2));
        return {{v[0], v[1]}, {v[2], v[3]}};
    }

    // ---- weights

    __device__ int neuron(int m, int half) const { return 16 * (NEURON_TILES * warp + m) + 8 * half + g; }

    template <class F>
    __device__ void each_weight(F f)   // f(the weight, its place in W1)
    {
        for (int m = 0; m < NEURON_TILES; ++m)
            for (int n = 0; n < 2 * SIXTEENS; ++n) {
                float* const four = reinterpret_cast<float*>(&shared.weights[warp].W1[m][n][lane]);
                for (int i = 0; i < 4; ++i)
                    if (neuron(m, i / 2) < HIDDEN) f(four[i], (8 * n + 2 * t + i % 2) * HIDDEN + neuron(m, i / 2));
            }
    }
    __device__ void load(const float* W1)
    {
        const float* const W2 = W1 + FEATURES * HIDDEN;
        for (int m = 0; m < NEURON_TILES; ++m) {
            for (int n = 0; n < 2 * SIXTEENS; ++n) shared.weights[warp].W1[m][n][lane] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            for (int half = 0; half < 2; ++half) w2[m][half] = neuron(m, half) < HIDDEN ? W2[neuron(m, half)] : 0.0f;
        }
        each_weight([&](float& w, int at) { w = W1[at]; });
#pragma unroll
        for (int m = 0; m < NEURON_TILES; ++m)
#pragma unroll
            for (int n = 0; n < 2 * SIXTEENS; ++n) {
                const float4 w = shared.weights[warp].W1[m][n][lane];
                U[m][n][0] = w.x, U[m][n][1] = w.y, U[m][n][2] = w.z, U[m][n][3] = w.w;
            }
    }
    __device__ void store(float* W1)
    {
        each_weight([&](float& w, int at) { W1[at] = w; });
        for (int m = 0; m < NEURON_TILES; ++m)
            for (int half = 0; half < 2; ++half)
                if (t == 0 && neuron(m, half) < HIDDEN) W1[FEATURES * HIDDEN + neuron(m, half)] = w2[m][half];
    }
    // From the weights, which are in the place of U. Then U is 0.
    __device__ void make_operands()
    {
        float largest = 0.0f;
#pragma unroll
        for (int m = 0; m < NEURON_TILES; ++m)
#pragma unroll
            for (int n = 0; n < 2 * SIXTEENS; ++n)
                for (int i = 0; i < 4; ++i) largest = fmaxf(largest, fabsf(U[m][n][i]));
        w_up = up_for((int)__reduce_max_sync(0xffffffff, __float_as_uint(largest)));
#pragma unroll
        for (int m = 0; m < NEURON_TILES; ++m)
#pragma unroll
            for (int k = 0; k < SIXTEENS; ++k) {
                unsigned big[4], small[4];
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    float (&v)[4] = U[m][2 * k + i / 2];
                    const Parts16 its(v[i % 2 * 2] * -w_up, v[i % 2 * 2 + 1] * -w_up);
                    big[i] = its.big, small[i] = its.small;
                }
                shared.weights[warp].operands[m][k][0][lane] = make_uint4(big[0], big[1], big[2], big[3]);
                shared.weights[warp].operands[m][k][1][lane] = make_uint4(small[0], small[1], small[2], small[3]);
            }
#pragma unroll
        for (int m = 0; m < NEURON_TILES; ++m)
#pragma unroll
            for (int n = 0; n < 2 * SIXTEENS; ++n)
                for (int i = 0; i < 4; ++i) U[m][n][i] = 0.0f;
    }
    __device__ HalfParts<4> operand(int m, int k) const
    {
        const uint4 big = shared.weights[warp].operands[m][k][0][lane], small = shared.weights[warp].operands[m][k][1][lane];
        return {{big.x, big.y, big.z, big.w}, {small.x, small.y, small.z, small.w}};
    }

    // ---- a chunk

    __device__ void forward(const unsigned* x, unsigned (&mask)[NEURON_TILES][TILES][2], float (&sums)[2 * TILES]) const
    {
        HalfParts<2> b[TILES][SIXTEENS];
#pragma unroll
        for (int tile = 0; tile < TILES; ++tile)
#pragma unroll
            for (int k = 0; k < SIXTEENS; ++k) b[tile][k] = across(x, tile, k);
#pragma unroll
        for (int m = 0; m < NEURON_TILES; ++m) {
            float n[TILES][4] = {};
#pragma unroll
            for (int k = 0; k < SIXTEENS; ++k) {
                const HalfParts<4> a = operand(m, k);
#pragma unroll
                for (int which = 2; which >= 0; --which)   // small terms first
#pragma unroll
                    for (int tile = 0; tile < TILES; ++tile)
                        mma_m16n8k16_fp16(n[tile], which == 1 ? a.small : a.big, which == 2 ? b[tile][k].small : b[tile][k].big);
            }
#pragma unroll
            for (int tile = 0; tile < TILES; ++tile)
#pragma unroll
                for (int half = 0; half < 2; ++half) {
#pragma unroll
                    for (int i = 0; i < 2; ++i) sums[2 * tile + i] += w2[m][half] * positive_part(-n[tile][2 * half + i]);
                    mask[m][tile][half] = prmt(__float_as_uint(n[tile][2 * half]), __float_as_uint(n[tile][2 * half + 1]), 0xffbb);
                }
        }
    }

    // Over lanes with the same t; a lane has that of own_row().
    __device__ float sum_over_lanes(float (&sums)[2 * TILES]) const
    {
#pragma unroll
        for (int bit = 16, kept = 2 * TILES; bit >= 4; bit /= 2) {
            const bool upper = lane & bit;
            if (kept > 1) {
                kept /= 2;
#pragma unroll
                for (int i = 0; i < kept; ++i) {
                    const float mine = upper ? sums[i + kept] : sums[i], other = upper ? sums[i] : sums[i + kept];
                    sums[i] = mine + __shfl_xor_sync(0xffffffff, other, bit);
                }
            } else {
                sums[0] += __shfl_xor_sync(0xffffffff, sums[0], bit);
            }
        }
        return sums[0] * down_for(w_up) * down_for(x_up);
    }

    __device__ void follow_scale(float of_row, bool is_first)
    {
        const unsigned most = __reduce_max_sync(0xffffffff, __float_as_uint(fabsf(of_row)));
        constexpr unsigned MOST = 0x477de800u;   // bits of 65000
        const unsigned scaled = most + __float_as_uint(g_up) - (127u << 23);   // bits of the product, or far more if it is tiny
        if (is_first) {
            g_up = up_for(most);
        } else if (most < 0x7f800000u && scaled > MOST && scaled < 0xc0000000u) {
            const float down = down_for(g_up);
            g_up = up_for(most);
#pragma unroll
            for (int m = 0; m < NEURON_TILES; ++m)
#pragma unroll
                for (int n = 0; n < 2 * SIXTEENS; ++n)
                    for (int i = 0; i < 4; ++i) U[m][n][i] *= down * g_up;
        }
    }

    __device__ void backward(const unsigned* x, const unsigned (&mask)[NEURON_TILES][TILES][2], float of_row)
    {
        const float scaled = of_row * g_up, other = __shfl_xor_sync(0xffffffff, scaled, NEIGHBOUR);
        const bool is_second = lane & NEIGHBOUR;
        const Parts16 pair(is_second ? other : scaled, is_second ? scaled : other);
#pragma unroll
        for (int tile = 0; tile < TILES; tile += 2) {
            HalfParts<4> a[NEURON_TILES];
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const unsigned big = __shfl_sync(0xffffffff, pair.big, lane_of(tile + i));
                const unsigned small = __shfl_sync(0xffffffff, pair.small, lane_of(tile + i));
#pragma unroll
                for (int m = 0; m < NEURON_TILES; ++m)
#pragma unroll
                    for (int half = 0; half < 2; ++half) {
                        a[m].big[2 * i + half] = mask[m][tile + i][half] & big;
                        a[m].small[2 * i + half] = mask[m][tile + i][half] & small;
                    }
            }
#pragma unroll
            for (int n = 0; n < 2 * SIXTEENS; ++n) {
                const HalfParts<2> b = down(x, tile, n);
#pragma unroll
                for (int which = 2; which >= 0; --which)
#pragma unroll
                    for (int m = 0; m < NEURON_TILES; ++m)
                        mma_m16n8k16_fp16(U[m][n], which == 1 ? a[m].small : a[m].big, which == 2 ? b.small : b.big);
            }
        }
    }

    __device__ void update()
    {
        const float down_of_g = down_for(g_up), down_of_x = down_for(x_up);
#pragma unroll
        for (int m = 0; m < NEURON_TILES; ++m) {
            float dw2[2] = {};
#pragma unroll
            for (int n = 0; n < 2 * SIXTEENS; ++n) {
                float (&u)[4] = U[m][n];
                for (int i = 0; i < 4; ++i) u[i] *= down_of_g, u[i] *= down_of_x;
                const float4 w = shared.weights[warp].W1[m][n][lane];
                dw2[0] += w.x * u[0] + w.y * u[1], dw2[1] += w.z * u[2] + w.w * u[3];
            }
            float by[2];   // rate w2
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                for (int apart = 1; apart < 4; apart *= 2) dw2[half] += __shfl_xor_sync(0xffffffff, dw2[half], apart);
                const float before = w2[m][half];
                w2[m][half] -= rate * dw2[half];
                by[half] = SEQUENTIAL ? w2[m][half] : before;
            }
#pragma unroll
            for (int n = 0; n < 2 * SIXTEENS; ++n) {
                float (&u)[4] = U[m][n];
                float4& w = shared.weights[warp].W1[m][n][lane];
                u[0] = w.x - rate * (by[0] * u[0]), u[1] = w.y - rate * (by[0] * u[1]);
                u[2] = w.z - rate * (by[1] * u[2]), u[3] = w.w - rate * (by[1] * u[3]);
                w = make_float4(u[0], u[1], u[2], u[3]);
            }
        }
        make_operands();
    }

    __device__ void run(int first, int steps)
    {
        const int batches = up(rows, BATCH);
        int batch = first, next_batch = first, next_chunk = 0, turn = 0;   // next: which this thread copies
        const auto look_ahead = [&] {
            copy(next_batch, next_chunk);
            if (++next_chunk == CHUNKS) next_chunk = 0, next_batch = batch_after(next_batch, batches);
        };
        make_operands();
        look_ahead();
        if (AHEAD) {
            split(shared.X[0]);
            look_ahead();
            __syncthreads();
        }
        float target = Y[(size_t)batch * PADDED + own_row()];
        for (int step = 0; step < steps; ++step) {
            const int count = smaller(BATCH, rows - batch * BATCH), following = batch_after(batch, batches);
            const float scale = 2.0f / count;
            for (int chunk = 0; chunk < CHUNKS; ++chunk) {
                const unsigned* const x = shared.X[AHEAD ? turn : 0];
                const int next = turn < 2 ? turn + 1 : 0;
                if (AHEAD) split(shared.X[next]);
                else split(shared.X[0]), __syncwarp();
                look_ahead();
                const bool last = chunk == CHUNKS - 1;
                const float next_target = Y[(size_t)(last ? following : batch) * PADDED + (last ? 0 : chunk + 1) * ROWS + own_row()];

                unsigned mask[NEURON_TILES][TILES][2];
                float sums[2 * TILES] = {};
                forward(x, mask, sums);
                float y = sum_over_lanes(sums);
                if (AHEAD) {
                    if (is_only()) shared.sums[turn_of_sums][warp][own_row()] = y;
                    __syncthreads();
                    y = 0.0f;
#pragma unroll
                    for (int from = 0; from < WARPS; ++from) y += shared.sums[turn_of_sums][from][own_row()];
                    turn_of_sums ^= 1;
                }
                const int row = chunk * ROWS + own_row();
                const float e = row < count ? y - target : 0.0f, of_row = scale * e;
                if (step == steps - 1 && warp == 0 && is_only() && row < count) E[row] = e;
                follow_scale(of_row, chunk == 0);
                backward(x, mask, of_row);
                if (!AHEAD) __syncwarp();   // all lanes have read X
                target = next_target, turn = next;
            }
            update();
            batch = following;
        }
        copies_done();
    }
    int turn_of_sums = 0;
};

extern "C" __global__ __launch_bounds__(THREADS, BLOCKS_PER_SM) void train_persistent(
    const float* __restrict__ X, const float* __restrict__ Y, float* weights, float* E, float* workspace, int rows,
    int first, int steps, float, float)
{
    extern __shared__ __align__(16) float dynamic[];
    const int member = blockIdx.x;
    float* const W1 = weights + (size_t)member * (FEATURES + 1) * HIDDEN;
    const float given = workspace[AT_RATES + MEMBERS];
    Training training{*reinterpret_cast<Shared*>(dynamic), X, Y, E + (size_t)member * PADDED, rows,
                      workspace[AT_RATES + member], given > 0.0f ? given : 1.0f};
    training.load(W1);
    training.run(first, steps);
    training.store(W1);
    if (threadIdx.x == 0) count_steps(workspace, steps);
}
