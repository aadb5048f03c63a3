// CLIP: each layer's gradient is clipped to a norm. That of dw every block computes by itself. For the others, each
// block publishes its share of the squared norm and waits for all shares: three more waits. With simultaneous
// updates, dZ_2 and dH_1 are published before the waits for the norms of dW_3 and dW_2.

struct Norms : Scaling {
    static __device__ float square_of(const float (&v)[2][4])
    {
        float sum = 0.0f;
        for (int n = 0; n < 2; ++n)
            for (int i = 0; i < 4; ++i) sum += v[n][i] * v[n][i];
        return sum;
    }
    __device__ OfSquares of_squares(int layer) const
    {
        return OfSquares{workspace + AT_SQUARES + (layer - 1) * OfSquares::FLOATS};
    }
    static __device__ float warp_sum(float v)
    {
        for (int apart = 16; apart > 0; apart /= 2) v += __shfl_xor_sync(0xffffffff, v, apart);
        return v;
    }
    // Each warp leaves its sum of `square`, and block_square() adds them up after the next barrier.
    __device__ void leave_square(float square)
    {
        const float sum = warp_sum(square);
        if (t % 32 == 0) s.squares[warp] = sum;
    }
    __device__ float block_square() const
    {
        float sum = 0.0f;
        for (int from = 0; from < WARPS; ++from) sum += s.squares[from];
        return sum;
    }
    // The first warp publishes the block's share of the squared norm of a layer's gradient.
    __device__ void tell_square(int layer, float square) const
    {
        const float one[1] = {square};
        if (t == 0) of_squares(layer).put(step, blockIdx.x, one);
    }
    // The learning rate, times the factor that clips the layer's gradient. All blocks add up in the same order.
    __device__ float hear_rate(int layer)
    {
        if (warp == 0) {
            float square[1][4], sum = 0.0f;
            const unsigned turn = turn_of(step);
            const auto square_at = [&](int) { return of_squares(layer).of(step) + 4 * t; };
            let_come(PAUSE);
            const auto has_square = [&](int) { return 4 * t < GRID; };
            look_for(square, turn, has_square, square_at);
            await(square, step, square_at, {"norm", (unsigned)layer});
            for (int i = 0; i < 4; ++i) sum += square[0][i];
            sum = warp_sum(sum);
            if (t == 0) s.clipped_rate = rate * clipped(sum, max_norm);
        }
        __syncthreads();
        return s.clipped_rate;
    }
};
