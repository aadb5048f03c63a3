// A convolution, its gradients and what follows them, in one kernel each; row-major float32. X, D and H are (rows,
// channels, height, width), W is (filters, channels, kernel, kernel), Z and G are (rows, filters, high, wide).
//
// fused: what the tiled kernel does, and in addition:
//
//   register tile   a thread computes TILE_ROWS x TILE_COLS neighbouring outputs of TILE_OUT planes: of a line of
//                   inputs in its registers each value is multiplied by up to KERNEL taps, of a weight by the whole
//                   tile. Neighbouring threads compute other planes of the same tile: they read the same inputs, which
//                   shared memory broadcasts, and neighbouring weights.
//   double buffer   a chunk of the channels is fetched from global memory while the one before is multiplied: one
//                   barrier per chunk.
//   fusion          bias, ReLU and max pooling, or the mask of ReLU's derivative, are applied to the sums in shared
//                   memory. Of a pooling that follows only the largest of each window is written, and which it was.
//   pooled G        behind a pooling, only one element of each window has a gradient. The gradients of X and W read it
//                   as it is, a quarter of the numbers, and spread it in shared memory.
//   split sums      the gradient of the weights has few elements, each a sum over all positions of all images. Each of
//                   PARTS blocks adds up some lines for all weights; conv2d_wgrad_parts leaves a sum for each part,
//                   which kernels/layers/parts.cu adds up. The order is fixed: the same input gives the same bits.
//
//   conv2d, conv2d_relu                Z = X * W + b, max(Z, 0)
//   conv2d_relu_pool                   Z, I = the largest of each window of max(X * W + b, 0), and which it is
//   conv2d_dgrad[_pooled][_mask]       D = the gradient of X [from that behind a pooling] [where H > 0]
//   conv2d_wgrad_parts[_pooled]        S = partial sums of the gradients of W and b
//
// Launch: as LAUNCH tells; a block per band of lines of an image, or per part.

#include "shape.cuh"
#include "staging.cuh"
#include "finish.cuh"

// How the outputs of a convolution are divided among blocks and threads, all of it known when it is compiled: the largest
// tiles, bands and chunks that fit into shared memory and leave enough blocks.

constexpr int ENOUGH_BLOCKS = 120, MOST_THREADS = 512, MOST_SUMS = 28, MOST_CHANNELS = 4;
constexpr int SHARED_FLOATS = 48 * 1024 / 4;  // shared memory that a block has without opting in to more

// How outputs (rows, OUT, OUT_HIGH, OUT_WIDE) from inputs (rows, IN, ...) are divided. ALIGN: lines and columns of a
// band are a multiple of it, so that it holds whole windows.
template <int IN, int OUT, int OUT_HIGH_, int OUT_WIDE_, int ALIGN>
struct Division {
    static constexpr int PLANES = OUT, OUT_HIGH = OUT_HIGH_, OUT_WIDE = OUT_WIDE_;
    static constexpr int STRIPS = up(OUT_WIDE, 64);  // of columns
    static constexpr int STRIP = STRIPS == 1 ? OUT_WIDE : to_multiple(to_multiple(up(OUT_WIDE, STRIPS), 2), ALIGN);
    static constexpr int TILE_OUT = OUT >= 16 && OUT % 2 == 0 ? 2 : 1;

    static __device__ constexpr int tile_cols(int tile_rows)  // even, if there is another tile beside it
    {
        const int most = larger(MOST_SUMS / (tile_rows * TILE_OUT) / 2 * 2, 2), tiles = up(STRIP, most);
        return tiles == 1 ? STRIP : to_multiple(up(STRIP, tiles), 2);
    }
    static __device__ constexpr int computed(int tile_rows)  // elements of a plane, with those that are computed in vain
    {
        return to_multiple(OUT_HIGH, tile_rows) * to_multiple(STRIP, tile_cols(tile_rows));
    }
    static constexpr int TILE_ROWS = OUT_HIGH > 1 && 95 * computed(2) <= 100 * computed(1) ? 2 : 1;
    static constexpr int TILE_COLS = tile_cols(TILE_ROWS), TILES_ACROSS = up(STRIP, TILE_COLS);
    static constexpr int STEP = ALIGN % TILE_ROWS == 0 ? ALIGN / TILE_ROWS : ALIGN;  // tiles down that a band may grow by

    static __device__ constexpr int chunk(int most)  // channels at a time
    {
        int channels = smaller(most, IN);
        while (IN % channels != 0) --channels;
        return channels;
    }
    static constexpr int STRIDE = to_multiple(TILES_ACROSS * TILE_COLS + KERNEL - 1, 4);

    static __device__ constexpr int out_block(int chunks) { return to_multiple(up(OUT, chunks), TILE_OUT); }
    static __device__ constexpr int threads(int chunks, int tiles_down)  // some only copy, if there are few tiles
    {
        return larger(tiles_down * TILES_ACROSS * (out_block(chunks) / TILE_OUT), 128);
    }
    static __device__ constexpr int buffer(int channels, int chunks, int tiles_down)
    {
        return to_multiple(channels * ((tiles_down * TILE_ROWS + KERNEL - 1) * STRIDE + TAPS * (out_block(chunks) + 2)), 4);
    }
    static __device__ constexpr int plane(int tiles_down) { return tiles_down * TILE_ROWS * STRIP | 1; }
    static __device__ constexpr bool fits(int channels, int chunks, int tiles_down)
    {
        return threads(chunks, tiles_down) <= MOST_THREADS && 2 * buffer(chunk(channels), chunks, tiles_down) <= SHARED_FLOATS &&
               out_block(chunks) * plane(tiles_down) <= SHARED_FLOATS;
    }
    static __device__ constexpr int most_channels()
    {
        int channels = MOST_CHANNELS;
        while (!fits(channels, up(OUT, 32), STEP) && channels > 1) channels /= 2;
        return channels;
    }
    static constexpr int CHANNELS_ = most_channels();
    static __device__ constexpr int out_chunks()
    {
        int chunks = up(OUT, 32);
        while (!fits(CHANNELS_, chunks, STEP) && out_block(chunks) > TILE_OUT) ++chunks;
        return chunks;
    }
    static constexpr int OUT_CHUNKS = out_chunks(), OUT_BLOCK = out_block(OUT_CHUNKS);
    static __device__ constexpr int tiles_down()  // of a band: as many as fit and leave enough blocks
    {
        const int all = up(OUT_HIGH, TILE_ROWS);
        int tiles = STEP;
        for (int bands = 1; bands <= all; ++bands) {
            const int wanted = to_multiple(up(all, bands), STEP);
            if (fits(CHANNELS_, OUT_CHUNKS, wanted) && (ROWS * OUT_CHUNKS * STRIPS * bands >= ENOUGH_BLOCKS || wanted == STEP))
                return wanted;
            if (wanted == STEP) break;
        }
        return tiles;
    }
    static constexpr int TILES_DOWN = tiles_down(), BAND = TILES_DOWN * TILE_ROWS, BANDS = up(OUT_HIGH, BAND);
    static constexpr int THREADS = threads(OUT_CHUNKS, TILES_DOWN), PLANE = plane(TILES_DOWN);
    static constexpr int GRID_X = ROWS * BANDS * STRIPS, GRID_Y = OUT_CHUNKS;
    static constexpr int ROW = BANDS == 1 ? 0 : BAND, COL = STRIPS == 1 ? 0 : STRIP;  // what those of a band are multiples of

    static constexpr int LINES = BAND + KERNEL - 1, OUT_STRIDE = OUT_BLOCK + 2;  // padded: weights are stored by columns
    static constexpr int CHUNK = chunk(smaller(CHANNELS_, larger(12 * THREADS / (LINES * STRIDE), 1)));  // 12 registers hold it
    static __device__ int place(int c, int tap, int o) { return (c * TAPS + tap) * OUT_STRIDE + o; }  // of weights
    static constexpr int INPUT = CHUNK * LINES * STRIDE, BUFFER = buffer(CHUNK, OUT_CHUNKS, TILES_DOWN);
    static_assert(fits(CHANNELS_, OUT_CHUNKS, TILES_DOWN), "the kernel is too large for shared memory");
};

// ---- outputs from inputs: forward, and the gradient of X from that of Z

template <int COUNT>
__device__ void take(const float* from, float (&to)[COUNT])  // from aligned to 8 bytes, or COUNT = 1
{
    if (COUNT == 1) to[0] = from[0];
#pragma unroll
    for (int i = 0; i + 1 < COUNT; i += 2) {
        const float2 two = *reinterpret_cast<const float2*>(from + i);
        to[i] = two.x, to[i + 1] = two.y;
    }
}

// sum += the products of one channel: lines from `input` on, weights of the thread's planes from `weights` on.
template <class D>
__device__ void multiply(float (&sum)[D::TILE_ROWS][D::TILE_COLS][D::TILE_OUT], const float* input, const float* weights)
{
    if constexpr (KERNEL <= 7) {
#pragma unroll
        for (int line = 0; line < D::TILE_ROWS + KERNEL - 1; ++line) {
            float x[to_multiple(D::TILE_COLS + KERNEL - 1, 2)];
            take(input + line * D::STRIDE, x);
#pragma unroll
            for (int row = 0; row < D::TILE_ROWS; ++row) {
                const int i = line - row;
                if (i < 0 || i >= KERNEL) continue;
#pragma unroll
                for (int j = 0; j < KERNEL; ++j) {
                    float w[D::TILE_OUT];
                    take(weights + (i * KERNEL + j) * D::OUT_STRIDE, w);
#pragma unroll
                    for (int o = 0; o < D::TILE_OUT; ++o)
#pragma unroll
                        for (int col = 0; col < D::TILE_COLS; ++col) sum[row][col][o] += x[col + j] * w[o];
                }
            }
        }
    } else {  // too many taps to unroll
#pragma unroll 1
        for (int tap = 0; tap < TAPS; ++tap) {
            const float* from = input + tap / KERNEL * D::STRIDE + tap % KERNEL;
#pragma unroll
            for (int o = 0; o < D::TILE_OUT; ++o) {
                const float w = weights[tap * D::OUT_STRIDE + o];
#pragma unroll
                for (int row = 0; row < D::TILE_ROWS; ++row)
#pragma unroll
                    for (int col = 0; col < D::TILE_COLS; ++col) sum[row][col][o] += from[row * D::STRIDE + col] * w;
            }
        }
    }
}

// Leaves a band's sums in shared memory, [plane][line][column], and returns them. I: of a pooled gradient.
template <class D, class Stage, int IN, int OUT, int MARGIN, bool TURNED>
__device__ const float* correlate(const float* inputs, const float* I, const float* W, Band& band)
{
    constexpr int ALL = D::OUT_BLOCK * D::PLANE;
    __shared__ __align__(16) float shared[2 * D::BUFFER > ALL ? 2 * D::BUFFER : ALL];
    band.r = blockIdx.x / (D::BANDS * D::STRIPS), band.plane = blockIdx.y * D::OUT_BLOCK;
    band.row = blockIdx.x / D::STRIPS % D::BANDS * D::BAND, band.col = blockIdx.x % D::STRIPS * D::STRIP;

    constexpr int ACROSS_OUT = D::OUT_BLOCK / D::TILE_OUT;  // threads that share a tile
    const int own_out = threadIdx.x % ACROSS_OUT * D::TILE_OUT, tile = threadIdx.x / ACROSS_OUT;
    const int own_row = tile / D::TILES_ACROSS * D::TILE_ROWS, own_col = tile % D::TILES_ACROSS * D::TILE_COLS;
    const bool computes = own_row < D::BAND;

    Stage stage;
    ChunkOfWeights<D, IN, OUT, TURNED> weights;
    const auto aim = [&](int c) {
        stage.aim(inputs, I, band.r * IN + c, band.row - MARGIN, band.col - MARGIN), weights.aim(W, c, band.plane);
        stage.fetch(), weights.fetch();
    };
    aim(0);
    stage.put(shared), weights.put(shared + D::INPUT);
    __syncthreads();

    float sum[D::TILE_ROWS][D::TILE_COLS][D::TILE_OUT] = {};
#pragma unroll 1
    for (int c = 0, at = 0; c < IN; c += D::CHUNK, at = D::BUFFER - at) {
        const int next = c + D::CHUNK;
        if (next < IN) aim(next);
#pragma unroll(TAPS <= 9 ? D::CHUNK : 1)
        for (int i = 0; i < D::CHUNK && computes; ++i)
            multiply<D>(sum, shared + at + (i * D::LINES + own_row) * D::STRIDE + own_col,
                        shared + at + D::INPUT + i * TAPS * D::OUT_STRIDE + own_out);
        float* free = shared + D::BUFFER - at;
        if (next < IN) stage.put(free), weights.put(free + D::INPUT);
        __syncthreads();
    }

#pragma unroll
    for (int row = 0; row < D::TILE_ROWS; ++row)
#pragma unroll
        for (int col = 0; col < D::TILE_COLS; ++col)
#pragma unroll
            for (int o = 0; o < D::TILE_OUT; ++o)
                if (computes && own_col + col < D::STRIP)
                    shared[(own_out + o) * D::PLANE + (own_row + row) * D::STRIP + own_col + col] = sum[row][col][o];
    __syncthreads();
    return shared;
}

template <int ALIGN>
using Forward = Division<CHANNELS, FILTERS, HIGH / ALIGN * ALIGN, WIDE / ALIGN * ALIGN, ALIGN>;
using Backward = Division<FILTERS, CHANNELS, HEIGHT, WIDTH, 1>;

template <class D>
__device__ const float* forward(const float* X, const float* W, Band& band)
{
    constexpr bool PAIRS = common_factor(D::COL, PADDING) % 2 == 0 && D::STRIDE % 2 == 0 && WIDTH % 2 == 0;
    using Stage = Dense<PAIRS, D::CHUNK, D::LINES, D::STRIDE, D::LINES * D::STRIDE, HEIGHT, WIDTH, D::THREADS>;
    return correlate<D, Stage, CHANNELS, FILTERS, PADDING, false>(X, nullptr, W, band);
}

template <bool POOLED>
__device__ const float* backward(const float* G, const float* I, const float* W, Band& band)
{
    using D = Backward;
    constexpr int MARGIN = KERNEL - 1 - PADDING, ROW = common_factor(D::ROW, MARGIN), COL = common_factor(D::COL, MARGIN);
    using Stage = StageOfGradient<POOLED, ROW, COL, D::CHUNK, D::LINES, D::STRIDE, D::LINES * D::STRIDE, D::THREADS>;
    return correlate<D, Stage, FILTERS, CHANNELS, MARGIN, true>(G, I, W, band);
}

// ---- the gradients of the weights and biases, in PARTS sums
//
// A thread adds up the products of one channel and TILE_OUT filters at TAP_LINES lines of taps, four columns at a time:
// a value of X is multiplied by up to KERNEL x TILE_OUT gradients, each in a register. A group of MEMBERS threads
// covers the weights of the block; GROUPS groups take different columns.

#include "wgrad.cuh"

constexpr int TAP_LINES = KERNEL <= 7 ? KERNEL : 1, TAP_GROUPS = KERNEL / TAP_LINES;
constexpr int TILE_OUT = KERNEL <= 3 ? 4 : KERNEL == 4 || KERNEL > 7 ? 2 : 1;  // filters of a thread
constexpr int SUMS = TAP_LINES * KERNEL * TILE_OUT;                             // of a thread

constexpr int OUT_BLOCK = to_multiple(smaller(FILTERS, KERNEL <= 3 ? 32 : KERNEL <= 7 ? 16 : 8), TILE_OUT);
constexpr int IN_BLOCK = fitting_channels(smaller(CHANNELS, TAP_GROUPS > 1 ? 4 : 16), OUT_BLOCK, 4);
constexpr int MEMBERS = IN_BLOCK * TAP_GROUPS * (OUT_BLOCK / TILE_OUT);
__device__ constexpr int groups_of_threads()
{
    int groups = 1;
    while (2 * groups * MEMBERS <= MOST_THREADS && groups * MEMBERS * SUMS <= SHARED_FLOATS) groups *= 2;
    return groups;
}
constexpr int GROUPS = groups_of_threads();

template <bool POOLED>
struct Sums : Parts<POOLED, IN_BLOCK, OUT_BLOCK, GROUPS * MEMBERS, 4, 4> {
    using P = Parts<POOLED, IN_BLOCK, OUT_BLOCK, GROUPS * MEMBERS, 4, 4>;
    static constexpr int GRID_X = PARTS, GRID_Y = P::IN_BLOCKS * P::OUT_BLOCKS;
    static constexpr int REDUCED = larger(GROUPS / 2 * MEMBERS * SUMS, OUT_BLOCK * IN_BLOCK * TAPS);
    static constexpr int SHARED = larger(larger(P::FLOATS, REDUCED), P::THREADS);
    static_assert(SHARED <= SHARED_FLOATS, "the kernel is too large for shared memory");
};

template <int COUNT>
__device__ void take_aligned(const float* from, float (&to)[COUNT])  // COUNT even, from aligned to 16 bytes
{
#pragma unroll
    for (int i = 0; i < COUNT; i += 4) {
        if (i + 4 <= COUNT) {
            const float4 four = *reinterpret_cast<const float4*>(from + i);
            to[i] = four.x, to[i + 1] = four.y, to[i + 2] = four.z, to[i + 3] = four.w;
        } else {
            const float2 two = *reinterpret_cast<const float2*>(from + i);
            to[i] = two.x, to[i + 1] = two.y;
        }
    }
}

template <bool POOLED>
__device__ void weight_sums(const float* G, const float* I, const float* X, float* part)
{
    using P = Sums<POOLED>;
    constexpr bool PAIRS = common_factor(P::COL, PADDING) % 2 == 0 && P::X_STRIDE % 2 == 0 && WIDTH % 2 == 0;
    using StageX = Dense<PAIRS, IN_BLOCK, P::LINES + KERNEL - 1, P::X_STRIDE, P::X_PLANE, HEIGHT, WIDTH, P::THREADS>;
    using StageG = StageOfGradient<POOLED, P::ALIGN, P::COL, OUT_BLOCK, P::LINES, P::STRIP, P::G_PLANE, P::THREADS>;
    __shared__ __align__(16) float shared[P::SHARED];
    const int group = threadIdx.x / MEMBERS, member = threadIdx.x % MEMBERS;
    const int c = member % IN_BLOCK, tap_line = member / IN_BLOCK % TAP_GROUPS, out = member / (IN_BLOCK * TAP_GROUPS) * TILE_OUT;

    float sum[SUMS] = {};
    BiasSums<P> biases;
    for_lines_of_part<P, StageX, StageG>(shared, G, I, X, [&](const float* x, const float* g, int lines) {
        biases.add(g, lines);
#pragma unroll 1
        for (int i = group; i < lines * (P::STRIP / 4); i += GROUPS) {
            const int line = i / (P::STRIP / 4), col = i % (P::STRIP / 4) * 4;
            float gradient[TILE_OUT][4];
#pragma unroll
            for (int o = 0; o < TILE_OUT; ++o) take_aligned(g + (out + o) * P::G_PLANE + line * P::STRIP + col, gradient[o]);
#pragma unroll
            for (int t = 0; t < TAP_LINES; ++t) {
                float input[to_multiple(4 + KERNEL - 1, 2)];
                take_aligned(x + c * P::X_PLANE + (line + tap_line + t) * P::X_STRIDE + col, input);
#pragma unroll
                for (int j = 0; j < KERNEL; ++j)
#pragma unroll
                    for (int o = 0; o < TILE_OUT; ++o)
#pragma unroll
                        for (int s = 0; s < 4; ++s)
                            sum[(t * KERNEL + j) * TILE_OUT + o] += input[s + j] * gradient[o][s];
            }
        }
    });

    add_groups<SUMS, MEMBERS, GROUPS>(shared, sum);
    if (group == 0) {
#pragma unroll
        for (int t = 0; t < TAP_LINES; ++t)
#pragma unroll
            for (int j = 0; j < KERNEL; ++j)
#pragma unroll
                for (int o = 0; o < TILE_OUT; ++o)
                    shared[((out + o) * IN_BLOCK + c) * TAPS + (tap_line + t) * KERNEL + j] = sum[(t * KERNEL + j) * TILE_OUT + o];
    }
    __syncthreads();
    write_weights<P>(shared, part);
    __syncthreads();
    biases.write(shared, part + WEIGHTS);
}

#include "entry_points.cuh"
