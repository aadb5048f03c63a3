// The scales of what is split into halves. FP16 has a narrow range, so a number is first divided by a power of two.
// For g and w this is about the largest of them. The other scales belong to a step, and follow from the largest
// weights one step before, which all blocks exchange, and from the largest of X: W_2 and W_3 are below 2, and H_1
// and H_2, by bounds of them, below 512. What is below 2^-36 then is lost: data with outliers are for grid.cu.
//
// If weights have grown so much in one step that a scaled number might have been infinite, all blocks learn it from the
// largest weights in the next step, or at the end. The launch stops and has trained nothing: the weights in memory are
// those that it began with. The host launches again for the steps before, and then lets grid.cu take some.
//
// A launch that goes on with the weights that the last one has left, by the largest of each layer, goes on with its
// scales: the same bits, wherever a training is split into launches.

struct Scaling : State {
    static __device__ unsigned bits_of(float v) { return __float_as_uint(v) & 0x7fffffff; }

    template <int COUNT>
    static __device__ void take_largest(unsigned& most, const float (&of)[COUNT])
    {
        for (float one : of) most = max(most, bits_of(one));
    }

    // Leaves the largest absolute value of a warp's numbers, as bits.
    template <int COUNT, int... COUNTS>
    __device__ void leave_largest(
        unsigned (&of_warps)[WARPS], const float (&v)[COUNT], const float (&... more)[COUNTS]) const
    {
        unsigned most = 0;
        take_largest(most, v), (take_largest(most, more), ...);
        most = __reduce_max_sync(0xffffffff, most);
        if (t % 32 == 0) of_warps[warp] = most;
    }
    __device__ void leave_largest_W1() const
    {
        float all[2 * PAIRS];
        for (int i = 0; i < 2 * PAIRS; ++i) all[i] = F == 32 || t % 32 < F ? W1[i / 2][i % 2] : 0.0f;
        leave_largest(s.largest[0], all);
    }
    __device__ bool keeps_scales() const { return warp == (group / 2 + WARPS / 2) % WARPS; }
    __device__ const Scales& scales(int step) const { return s.scales[step % 2]; }

    // One warp publishes what the block's warps have left, behind a barrier of the block.
    __device__ void tell_largest() const
    {
        if (!keeps_scales()) return;
        unsigned most = s.largest[t % 32 / 8][t % 8];
        for (int apart = 1; apart < 8; apart *= 2) most = max(most, __shfl_xor_sync(0xffffffff, most, apart));
        const float one[] = {__uint_as_float(most)};
        if (t % 8 == 0) of_largest.put(step, 4 * blockIdx.x + t % 32 / 8, one);
    }
    __device__ void hear_scales(int of_step) const
    {
        if (!keeps_scales()) return;
        float largest[up(GRID, 32)][4];
        const unsigned turn = turn_of(step);
        const auto largest_at = [&](int i) { return of_largest.of(step) + 4 * (t % 32 + 32 * i); };
        const auto has_largest = [&](int i) { return t % 32 + 32 * i < GRID; };
        look_for(largest, turn, has_largest, largest_at);
        await(largest, step, largest_at, "scales");
        float most[4];
        for (int kind = 0; kind < 4; ++kind) {
            unsigned bits = 0;
            for (int i = 0; i < up(GRID, 32); ++i) bits = max(bits, bits_of(largest[i][kind]));
            most[kind] = __uint_as_float(__reduce_max_sync(0xffffffff, bits));
        }
        const float H1 = F / 256.0f * most[3] * most[0], H2 = N1 * H1 * most[1];
        if (t % 32 != 0) return;
        Scales& next = s.scales[of_step % 2];
        next = {Scale(bits_of(H1)), Scale(bits_of(most[1])), Scale(bits_of(H2)), Scale(bits_of(most[2]))};
        if (of_step > step) {
            constexpr float MOST = 32768.0f;   // half of what FP16 holds
            const Scales& now = scales(step);
            float scaled = fmaxf(most[1] * now.W2.over, 4.0f * N3 * most[2] * now.W3.over);   // dZ_2
            scaled = fmaxf(scaled, 256.0f * fmaxf(H1 * now.H1.over, H2 * now.H2.over));
            s.grown = scaled >= MOST && scaled < __uint_as_float(0x7f800000);   // a training that diverges goes on
        }
        if (of_step == step) {   // at the start
            const float* const kept = workspace + AT_KEPT;
            bool goes_on = from_l2(kept) > 0.0f;
            for (int i = 0; i < 3; ++i) goes_on &= bits_of(from_l2(kept + 8 + i)) == bits_of(most[i]);
            if (goes_on)
                for (int i = 0; i < 8; ++i) reinterpret_cast<float*>(&next)[i] = from_l2(kept + i);
        }
        for (int i = 0; i < 3; ++i) s.most[i] = most[i];
    }

    // By one thread, after hear_scales() of the last step.
    __device__ void keep_scales() const
    {
        float* const kept = workspace + AT_KEPT;
        for (int i = 0; i < 8; ++i) kept[i] = reinterpret_cast<const float*>(&scales(step))[i];
        for (int i = 0; i < 3; ++i) kept[8 + i] = s.most[i];
    }
};
