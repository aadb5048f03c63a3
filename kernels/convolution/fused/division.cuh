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
