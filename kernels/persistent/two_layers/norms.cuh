// CLIP: squared norms of gradients, over all blocks.

struct Norms : State {
    // CLIP: sums four values over all blocks with neurons, in one fixed order.
    __device__ void sum_up(const OfSquares& places, float (&value)[4])
    {
        const unsigned turn = turn_of(step);
        const auto place = [&](int) { return places.of(step) + 4 * t; };
        float of_block[1][4];
#pragma unroll 1
        for (int of = 0; of < 2; ++of) {  // over the block, then over the grid
#pragma unroll
            for (int i = 0; i < 4; ++i)
                for (int apart = 16; apart > 0; apart /= 2) value[i] += __shfl_xor_sync(0xffffffffu, value[i], apart);
            if (lane == 0) write4(s.sums[of][warp], value);
            __syncthreads();
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                value[i] = 0.0f;
                for (int from = 0; from < WARPS; ++from) value[i] += s.sums[of][from][i];
            }
            if (of == 1) return;
            if (t == 0) places.put(step, 4 * blockIdx.x, value);
            let_come(PAUSE);
            const auto has = [&](int) { return t < BLOCKS * N1 / 16; };
            look_for(of_block, turn, has, place);
            await(of_block, step, place, "norms");
#pragma unroll
            for (int i = 0; i < 4; ++i) value[i] = of_block[0][i];
        }
    }
};
