// H_i = max(H_{i-1} W_i, 0), and its bits > 0, which stay in registers. A tile of H_L also contributes to y.

struct ForwardPhase : AfterBarrier {
    template <int I> __device__ void forward()
    {
        using S = Forward<I>;
        at = Place();
        const int row = S::first_row(at) + S::lane_row(at), col = S::first_col(at) + S::lane_col(at);
        Matrix<true, S::A_ROWS, I == 1> a{H<I - 1>() + row * WIDTH[I - 1], WIDTH[I - 1]};
        const auto ready = [&] { barrier.wait({"forward", I}, step); };
        const auto meanwhile = [&] { if constexpr (I == 1) settle<1>(); };
        float h[S::ELEMENTS];
        if constexpr (CLIP && I == 1) {
            Stepped<false, S::B_COLS, TIMES_W<I>> b{
                {W<I>(now) + col, WIDTH[I]}, {dW<I>() + col, WIDTH[I]}, factor, shared.w + col};
            product<S>(at, shared, a, b, h, ready, meanwhile);
            now = 1 - now;
        } else {
            Matrix<false, S::B_COLS, I != 1> b{W<I>(now) + col, WIDTH[I]};
            product<S>(at, shared, a, b, h, ready, meanwhile);
        }

        Kept<I>& mine = kept;
        mine.positive = 0;
        for_elements<S>(at, [&](int e, int row, int col) {
            const float value = h[e] < 0.0f ? 0.0f : h[e];  // a NaN is not < 0 and stays
            const_cast<float*>(H<I>())[row * WIDTH[I] + col] = value;
            mine.positive |= (value > 0.0f) << e;
            if constexpr (I == L) {
                float part = value * shared.w[col];
                for (int apart = SPAN / 2; apart > 0; apart /= 2) part += __shfl_xor_sync(0xffffffff, part, apart);
                if (col % SPAN == 0) y_parts()[col / SPAN * ROWS + row] = part;
            }
        });
        barrier.arrive();
    }
};
