// Which tile of C a block computes. A launch has at most 65,535 blocks in y, and 2^31 - 1 in x: if C has more rows of
// tiles than fit in y, the host compiles with -DTALL and launches the rows in x, the columns in y. With -DGROUPED, the
// blocks of several products are counted in x, and the kernel says which tile of which one is its block's (training.cuh).

#if defined(GROUPED)
__shared__ unsigned own_tile[2];
__device__ unsigned tile_row() { return own_tile[0]; }
__device__ unsigned tile_col() { return own_tile[1]; }
#elif defined(TALL)
__device__ unsigned tile_row() { return blockIdx.x; }
__device__ unsigned tile_col() { return blockIdx.y; }
#else
__device__ unsigned tile_row() { return blockIdx.y; }
__device__ unsigned tile_col() { return blockIdx.x; }
#endif
