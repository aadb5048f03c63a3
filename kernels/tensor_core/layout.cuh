// How a tile of C is divided: among warps, their lanes, and groups of warps that take other slabs of k.

constexpr int THREADS = BLOCK_X * BLOCK_Y, WORK = WORK_ROWS * WORK_COLS;
constexpr int TILE_ROWS = BLOCK_Y * WORK_ROWS, TILE_COLS = BLOCK_X * WORK_COLS;

constexpr int SLAB = 16;                                          // values of k that a warp takes at a time
constexpr int ROWS = TILE_ROWS > 16 ? 4 : 2;                      // rows of A per lane
constexpr int COLS = TILE_COLS > 16 ? 4 : 2;                      // columns of B per lane
constexpr int WARP_ROWS = 8 * ROWS, WARP_COLS = 8 * COLS;         // elements that a warp computes
constexpr int DOWN = (TILE_ROWS + WARP_ROWS - 1) / WARP_ROWS;     // warps that cover a tile, down and across
constexpr int ACROSS = (TILE_COLS + WARP_COLS - 1) / WARP_COLS;
constexpr int STAGES = 128 / (WARP_ROWS + WARP_COLS);             // slabs in flight: 48 or 64 registers

constexpr int SUM_STRIDE = ACROSS * WARP_COLS, SUMS = DOWN * WARP_ROWS * SUM_STRIDE;  // per group
constexpr int SHARED_FLOATS = 48 * 1024 / 4;                      // shared memory without opting in to more
constexpr int SPARE = THREADS / 32 / (DOWN * ACROSS), FITTING = SHARED_FLOATS / SUMS;
constexpr int GROUPS = SPARE < FITTING ? SPARE : FITTING;         // groups of warps, each with its own slabs
static_assert(THREADS % 32 == 0, "a block must be whole warps");
static_assert(GROUPS >= 1, "the tile, block x work, is too large for so many warps, or for shared memory");

template <int SIZE>
struct __align__(4 * SIZE) Floats {  // loaded and stored as one vector
    float v[SIZE];
};

__device__ unsigned thread_in_block() { return threadIdx.y * BLOCK_X + threadIdx.x; }
