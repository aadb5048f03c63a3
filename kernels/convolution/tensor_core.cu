// A convolution, its gradients and what follows them on tensor cores; float32 in memory. X, D and H are (rows, channels,
// height, width), W is (filters, channels, kernel, kernel), Z and G are (rows, filters, high, wide).
//
// tensor_core: the convolution as a matrix product whose left matrix is never written ("implicit GEMM"). X, W and G are
// rounded to TF32 (-DTF32) or BF16 (-DBF16), multiplied exactly and added up in float32; all the rest is float32
// arithmetic, and as in the fused kernel: a band of outputs per block, chunks of the channels fetched ahead, bias,
// ReLU, pooling and masks applied in shared memory, the gradient of W in PARTS sums.
//
//   product          rows of the left matrix  its columns, k         columns of the right matrix
//   conv2d           positions                taps of all channels   filters
//   conv2d_dgrad     positions                taps of all filters    channels
//   conv2d_wgrad     taps of all channels     positions              filters
//
//   addresses        what a lane supplies to an mma is a position plus an offset: of a row of the left matrix it keeps
//                    where that begins in shared memory, and adds the place of channel and tap. So X is staged once,
//                    and the KERNEL^2 times larger matrix exists only in registers.
//   order of k       tap by tap, eight channels of each: the offset of a tap is a constant.
//   banks            planes are padded so that the eight rows and four k of a warp's reads lie in different banks.
//   before sm_80     FP32 units multiply the rounded values in the same order. Correct, but slow.
//
// Launch: as LAUNCH tells; a block per band of lines of an image, or per part.

#include "../mma.cuh"
#include "shape.cuh"
#include "staging.cuh"
#include "finish.cuh"

// Fragments of an mma: a lane's share of 16 x SLAB numbers of the left matrix, and of SLAB x 8 of the right one; rounded
// for tensor cores, or multiplied by FP32 units where these do not support the format.

constexpr int SLAB = 8 * PACK;  // values of k of an mma

__device__ int row_of_lane() { return threadIdx.x % 32 / 4; }
__device__ int quarter_of_lane() { return threadIdx.x % 4; }

#if __CUDA_ARCH__ >= 800
__device__ float nearest(float x)
{
#ifdef TF32
    return __uint_as_float(cvt_rna_tf32(x));
#else
    return __uint_as_float(cvt_rn_bf16x2(x, 0.0f));
#endif
}

// The registers of an mma from value(octet, k), k = 0 to 7 of each octet of the slab.
template <class Value>
__device__ void fragment(unsigned (&v)[2], Value value)
{
    const int t = quarter_of_lane();
#ifdef TF32
    v[0] = __float_as_uint(value(0, t)), v[1] = __float_as_uint(value(0, t + 4));
#else
    for (int octet = 0; octet < 2; ++octet) v[octet] = cvt_rn_bf16x2(value(octet, 2 * t + 1), value(octet, 2 * t));
#endif
}

struct Left {
    unsigned v[2][2];  // of rows g and g + 8

    template <class Value>
    __device__ void load(Value value)  // value(half, octet, k)
    {
        for (int half = 0; half < 2; ++half) fragment(v[half], [=](int octet, int k) { return value(half, octet, k); });
    }
};
struct Right {
    unsigned v[2];  // of column g

    template <class Value>
    __device__ void load(Value value)  // value(column, octet, k)
    {
        const int g = row_of_lane();
        fragment(v, [=](int octet, int k) { return value(g, octet, k); });
    }
};

__device__ void multiply(float (&sum)[4], const Left& left, const Right& right)
{
    const unsigned a[] = {left.v[0][0], left.v[1][0], left.v[0][1], left.v[1][1]};
#ifdef TF32
    mma_m16n8k8_tf32(sum, a, right.v);
#else
    mma_m16n8k16_bf16(sum, a, right.v);
#endif
}
#else  // before sm_80
__device__ float nearest(float x) { return rounded(x); }

struct Left {
    float v[2][SLAB];

    template <class Value>
    __device__ void load(Value value)
    {
        for (int half = 0; half < 2; ++half)
            for (int k = 0; k < SLAB; ++k) v[half][k] = value(half, k / 8, k % 8);
    }
};
struct Right {
    float v[2][SLAB];  // of columns 2t and 2t + 1

    template <class Value>
    __device__ void load(Value value)
    {
        for (int which = 0; which < 2; ++which)
            for (int k = 0; k < SLAB; ++k) v[which][k] = value(2 * quarter_of_lane() + which, k / 8, k % 8);
    }
};

__device__ void multiply(float (&sum)[4], const Left& left, const Right& right)
{
    for (int i = 0; i < 4; ++i)
        for (int k = 0; k < SLAB; ++k) sum[i] += left.v[i / 2][k] * right.v[i % 2][k];
}
#endif

struct Nearest {
    static __device__ float of(float x) { return nearest(x); }
};

constexpr int ENOUGH_BLOCKS = 120, MOST_THREADS = 512;
constexpr int SHARED_FLOATS = 48 * 1024 / 4;  // shared memory that a block has without opting in to more
constexpr int UNROLLED = KERNEL <= 3 ? KERNEL : 1;
constexpr int TILES_DOWN = 2;  // tiles of 16 positions that a warp computes

// ---- outputs from inputs: forward, and the gradient of X from that of Z

// How outputs (rows, OUT, OUT_HIGH, OUT_WIDE) from inputs (rows, IN, ...) are divided. ALIGN: lines and columns of a
// band are a multiple of it, so that it holds whole windows.
template <int IN, int OUT, int OUT_HIGH_, int OUT_WIDE_, int ALIGN>
struct Division {
    static constexpr int PLANES = OUT, OUT_HIGH = OUT_HIGH_, OUT_WIDE = OUT_WIDE_;
    static constexpr int STRIPS = up(OUT_WIDE, 64);  // of columns
    static constexpr int STRIP = STRIPS == 1 ? OUT_WIDE : to_multiple(up(OUT_WIDE, STRIPS), ALIGN);

    static __device__ constexpr int chunk(int channels)  // channels at a time
    {
        while (IN % channels != 0) --channels;
        return channels;
    }
    static __device__ constexpr int depth(int channels) { return to_multiple(channels * TAPS, SLAB); }  // of the product at a time
    static constexpr int STRIDE = STRIP + KERNEL - 1;

    static __device__ constexpr int out_block(int chunks) { return to_multiple(up(OUT, chunks), 8); }
    static __device__ constexpr int out_stride(int chunks) { return to_multiple(out_block(chunks) - 8, 16) + 8; }
    static __device__ constexpr int in_plane(int band) { return to_multiple((band + KERNEL - 1) * STRIDE, 16) + 8; }
    static __device__ constexpr int plane(int band) { return to_multiple(band * STRIP, 16) + 4; }
    static __device__ constexpr int buffer(int channels, int chunks, int band)
    {
        return channels * in_plane(band) + depth(channels) * out_stride(chunks);
    }
    static __device__ constexpr int warps(int band) { return larger(up(band * STRIP, 16 * TILES_DOWN), 4); }  // some only copy
    static __device__ constexpr bool fits(int channels, int chunks, int band)
    {
        return 32 * warps(band) <= MOST_THREADS && 2 * buffer(channels, chunks, band) + depth(channels) <= SHARED_FLOATS &&
               out_block(chunks) * plane(band) + depth(channels) <= SHARED_FLOATS;
    }
    static __device__ constexpr int fitting_chunk()
    {
        int channels = 8;
        while (!fits(chunk(channels), up(OUT, 32), ALIGN) && channels > 1) channels /= 2;
        return chunk(channels);
    }
    static constexpr int CHUNK = fitting_chunk(), DEPTH = depth(CHUNK);
    static __device__ constexpr int out_chunks()
    {
        int chunks = up(OUT, 32);
        while (!fits(CHUNK, chunks, ALIGN) && out_block(chunks) > 8) ++chunks;
        return chunks;
    }
    static constexpr int OUT_CHUNKS = out_chunks(), OUT_BLOCK = out_block(OUT_CHUNKS), OUT_STRIDE = out_stride(OUT_CHUNKS);
    static __device__ constexpr int band()  // lines: as many as fit and leave enough blocks
    {
        for (int bands = 1; bands < OUT_HIGH; ++bands) {
            const int wanted = to_multiple(up(OUT_HIGH, bands), ALIGN);
            if (fits(CHUNK, OUT_CHUNKS, wanted) && ROWS * OUT_CHUNKS * STRIPS * bands >= ENOUGH_BLOCKS) return wanted;
        }
        return ALIGN;
    }
    static constexpr int BAND = band(), BANDS = up(OUT_HIGH, BAND), LINES = BAND + KERNEL - 1;
    static constexpr int THREADS = 32 * warps(BAND), PLANE = plane(BAND), IN_PLANE = in_plane(BAND);
    static constexpr int GRID_X = ROWS * BANDS * STRIPS, GRID_Y = OUT_CHUNKS;
    static constexpr int ROW = BANDS == 1 ? 0 : BAND, COL = STRIPS == 1 ? 0 : STRIP;  // what those of a band are multiples of
    static constexpr int INPUT = CHUNK * IN_PLANE, BUFFER = buffer(CHUNK, OUT_CHUNKS, BAND);
    static constexpr bool OCTETS = CHUNK == 8;  // eight values of k are channels of one tap
    static_assert(fits(CHUNK, OUT_CHUNKS, BAND), "the kernel is too large for shared memory");

    // Where a line of weights, those of a tap, has its column o: turned, so that a warp that writes the taps of one
    // column writes to different banks.
    static __device__ int column(int o, int tap)
    {
        return OCTETS && (OUT_BLOCK & (OUT_BLOCK - 1)) == 0 ? o ^ tap % (KERNEL * PACK) % OUT_BLOCK : o;
    }
    static __device__ int place(int c, int tap, int o) { return (tap * CHUNK + c) * OUT_STRIDE + column(o, tap); }
};

// Leaves a band's sums in shared memory, [plane][line][column], and returns them. I: of a pooled gradient.
template <class D, class Stage, int IN, int OUT, int MARGIN, bool TURNED>
__device__ const float* correlate(const float* inputs, const float* I, const float* W, Band& band)
{
    constexpr int ALL = D::OUT_BLOCK * D::PLANE, COLUMNS = D::OUT_BLOCK / 8;
    __shared__ __align__(16) float shared[2 * D::BUFFER > ALL ? 2 * D::BUFFER : ALL];
    __shared__ int offsets[D::OCTETS ? 1 : D::DEPTH];  // of k in the staged inputs
    band.r = blockIdx.x / (D::BANDS * D::STRIPS), band.plane = blockIdx.y * D::OUT_BLOCK;
    band.row = blockIdx.x / D::STRIPS % D::BANDS * D::BAND, band.col = blockIdx.x % D::STRIPS * D::STRIP;

    const int first = threadIdx.x / 32 * 16 * TILES_DOWN;  // position of the warp
    const bool computes = first < D::BAND * D::STRIP;
    int from[TILES_DOWN][2];  // where the lane's rows of the left matrix begin: positions g and g + 8 of each tile
    for (int m = 0; m < TILES_DOWN; ++m)
        for (int half = 0; half < 2; ++half) {
            const int position = first + 16 * m + 8 * half + row_of_lane();
            from[m][half] = position < D::BAND * D::STRIP ? position / D::STRIP * D::STRIDE + position % D::STRIP : 0;
        }
    if (!D::OCTETS)
        for (int k = threadIdx.x; k < D::DEPTH; k += D::THREADS) {
            const int tap = k / D::CHUNK, c = k % D::CHUNK;
            offsets[k] = tap < TAPS ? c * D::IN_PLANE + tap / KERNEL * D::STRIDE + tap % KERNEL : 0;
        }

    Stage stage;
    ChunkOfWeights<D, IN, OUT, TURNED, Nearest> weights;
    const auto aim = [&](int c) {
        stage.aim(inputs, I, band.r * IN + c, band.row - MARGIN, band.col - MARGIN), weights.aim(W, c, band.plane);
        stage.fetch(), weights.fetch();
    };
    aim(0);
    stage.put(shared), weights.put(shared + D::INPUT);
    for (int i = D::CHUNK * TAPS * D::OUT_STRIDE + threadIdx.x; i < D::DEPTH * D::OUT_STRIDE; i += D::THREADS)
        shared[D::INPUT + i] = shared[D::BUFFER + D::INPUT + i] = 0.0f;  // what fills the last slab
    __syncthreads();

    float sum[TILES_DOWN][COLUMNS][4] = {};
#pragma unroll 1
    for (int c = 0, at = 0; c < IN; c += D::CHUNK, at = D::BUFFER - at) {
        const int next = c + D::CHUNK;
        if (next < IN) aim(next);
        const float *x = shared + at, *w = x + D::INPUT;
#pragma unroll 1
        for (int slab = 0; slab < D::DEPTH / SLAB && computes; slab += KERNEL)  // KERNEL slabs: PACK lines of taps, if OCTETS
#pragma unroll(UNROLLED)
            for (int s = 0; s < KERNEL && slab + s < D::DEPTH / SLAB; ++s) {
                Left left[TILES_DOWN];
                for (int m = 0; m < TILES_DOWN; ++m)
                    left[m].load([&](int half, int octet, int k) {
                        const int tap = s * PACK + octet, line = smaller(slab / KERNEL * PACK + tap / KERNEL, KERNEL - 1);
                        return x[from[m][half] + (D::OCTETS ? k * D::IN_PLANE + line * D::STRIDE + tap % KERNEL
                                                            : offsets[(slab + s) * SLAB + 8 * octet + k])];
                    });
#pragma unroll
                for (int n = 0; n < COLUMNS; ++n) {
                    Right right;
                    right.load([&](int column, int octet, int k) {
                        return w[((slab + s) * SLAB + 8 * octet + k) * D::OUT_STRIDE + D::column(8 * n + column, s * PACK + octet)];
                    });
                    for (int m = 0; m < TILES_DOWN; ++m) multiply(sum[m][n], left[m], right);
                }
            }
        float* free = shared + D::BUFFER - at;
        if (next < IN) stage.put(free), weights.put(free + D::INPUT);
        __syncthreads();
    }

    for (int m = 0; m < TILES_DOWN; ++m)
        for (int n = 0; n < COLUMNS; ++n)
            for (int i = 0; i < 4; ++i) {
                const int position = first + 16 * m + 8 * (i / 2) + row_of_lane();
                if (position < D::BAND * D::STRIP) shared[(8 * n + 2 * quarter_of_lane() + i % 2) * D::PLANE + position] = sum[m][n][i];
            }
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
    using Stage = Dense<PAIRS, D::CHUNK, D::LINES, D::STRIDE, D::IN_PLANE, HEIGHT, WIDTH, D::THREADS, Nearest>;
    return correlate<D, Stage, CHANNELS, FILTERS, PADDING, false>(X, nullptr, W, band);
}

template <bool POOLED>
__device__ const float* backward(const float* G, const float* I, const float* W, Band& band)
{
    using D = Backward;
    constexpr int MARGIN = KERNEL - 1 - PADDING, ROW = common_factor(D::ROW, MARGIN), COL = common_factor(D::COL, MARGIN);
    using Stage = StageOfGradient<POOLED, ROW, COL, D::CHUNK, D::LINES, D::STRIDE, D::IN_PLANE, D::THREADS, Nearest>;
    return correlate<D, Stage, FILTERS, CHANNELS, MARGIN, true>(G, I, W, band);
}

// ---- the gradients of the weights and biases, in PARTS sums
//
// The rows of the left matrix are taps, and of each tap the channels of the block. A warp multiplies TILES times 16 of
// them by all filters of the block; the warps of a group cover all rows, GROUPS groups take different columns of the
// staged lines. G is rounded only on the way to the mma: the gradient of the biases is its exact sum.

#include "wgrad.cuh"

constexpr int OUT_BLOCK = to_multiple(smaller(FILTERS, 32), 8), COLUMNS = OUT_BLOCK / 8;
constexpr int IN_BLOCK = fitting_channels(larger(smaller(smaller(CHANNELS, 16), 768 / TAPS), 1), OUT_BLOCK, SLAB);
constexpr int LEFT_ROWS = TAPS * IN_BLOCK, TILES = smaller(up(LEFT_ROWS, 16), 3);
constexpr int MEMBERS = 32 * up(up(LEFT_ROWS, 16), TILES), SUMS = TILES * COLUMNS * 4;
__device__ constexpr int groups_of_warps()
{
    int groups = 1;
    while (2 * groups * MEMBERS <= MOST_THREADS && groups * MEMBERS * SUMS <= SHARED_FLOATS) groups *= 2;
    return groups;
}
constexpr int GROUPS = groups_of_warps();

template <bool POOLED>
struct Sums : Parts<POOLED, IN_BLOCK, OUT_BLOCK, GROUPS * MEMBERS, SLAB, 4> {
    using P = Parts<POOLED, IN_BLOCK, OUT_BLOCK, GROUPS * MEMBERS, SLAB, 4>;
    static constexpr int GRID_X = PARTS, GRID_Y = P::IN_BLOCKS * P::OUT_BLOCKS;
    static constexpr int REDUCED = larger(GROUPS / 2 * MEMBERS * SUMS, OUT_BLOCK * IN_BLOCK * TAPS);
    static constexpr int SHARED = larger(larger(P::FLOATS, REDUCED), P::THREADS);
    static_assert(SHARED <= SHARED_FLOATS, "the kernel is too large for shared memory");
};

template <bool POOLED>
__device__ void weight_sums(const float* G, const float* I, const float* X, float* part)
{
    using P = Sums<POOLED>;
    constexpr bool PAIRS = common_factor(P::COL, PADDING) % 2 == 0 && P::X_STRIDE % 2 == 0 && WIDTH % 2 == 0;
    using StageX = Dense<PAIRS, IN_BLOCK, P::LINES + KERNEL - 1, P::X_STRIDE, P::X_PLANE, HEIGHT, WIDTH, P::THREADS, Nearest>;
    using StageG = StageOfGradient<POOLED, P::ALIGN, P::COL, OUT_BLOCK, P::LINES, P::STRIP, P::G_PLANE, P::THREADS>;
    __shared__ __align__(16) float shared[P::SHARED];
    const int group = threadIdx.x / MEMBERS, first = threadIdx.x % MEMBERS / 32 * TILES * 16;  // its first row

    int from[TILES][2];  // where the lane's rows begin in the staged X
#pragma unroll
    for (int m = 0; m < TILES; ++m)
        for (int half = 0; half < 2; ++half) {
            const int row = first + 16 * m + 8 * half + row_of_lane(), tap = row / IN_BLOCK;
            from[m][half] = row < LEFT_ROWS ? row % IN_BLOCK * P::X_PLANE + tap / KERNEL * P::X_STRIDE + tap % KERNEL : 0;
        }

    float sum[TILES][COLUMNS][4] = {};
    BiasSums<P> biases;
    for_lines_of_part<P, StageX, StageG>(shared, G, I, X, [&](const float* x, const float* g, int lines) {
        biases.add(g, lines);
#pragma unroll 1
        for (int i = group; i < lines * (P::STRIP / SLAB); i += GROUPS) {
            const int line = i / (P::STRIP / SLAB), col = i % (P::STRIP / SLAB) * SLAB;
            Left left[TILES];
#pragma unroll
            for (int m = 0; m < TILES; ++m)
                left[m].load([&](int half, int octet, int k) {
                    return x[from[m][half] + line * P::X_STRIDE + col + 8 * octet + k];
                });
#pragma unroll
            for (int n = 0; n < COLUMNS; ++n) {
                Right right;
                right.load([&](int column, int octet, int k) {
                    return nearest(g[(8 * n + column) * P::G_PLANE + line * P::STRIP + col + 8 * octet + k]);
                });
#pragma unroll
                for (int m = 0; m < TILES; ++m) multiply(sum[m][n], left[m], right);
            }
        }
    });

    add_groups<SUMS, MEMBERS, GROUPS>(shared, *reinterpret_cast<float(*)[SUMS]>(&sum));
    if (group == 0) {
        for (int m = 0; m < TILES; ++m)
            for (int n = 0; n < COLUMNS; ++n)
                for (int i = 0; i < 4; ++i) {
                    const int row = first + 16 * m + 8 * (i / 2) + row_of_lane(), f = 8 * n + 2 * quarter_of_lane() + i % 2;
                    if (row < LEFT_ROWS) shared[(f * IN_BLOCK + row % IN_BLOCK) * TAPS + row / IN_BLOCK] = sum[m][n][i];
                }
    }
    __syncthreads();
    write_weights<P>(shared, part);
    __syncthreads();
    biases.write(shared, part + WEIGHTS);
}

#include "entry_points.cuh"
