// dZ_{i-1} = dZ_i W_i^T where H_{i-1} > 0.

struct PropagatePhase : DescendPhase {
    template <int I> __device__ void propagate()
    {
        using S = Propagate<I>;
        at = Place();
        const int row = S::first_row(at) + S::lane_row(at), col = S::first_col(at) + S::lane_col(at);
        constexpr bool FIRST = I == L && !SEQUENTIAL;
        const auto meanwhile = [&] {
            if constexpr (FIRST) errors();
            if constexpr (SEQUENTIAL) settle<I>();
            else if constexpr (I < L) settle<I + 1>();
        };
        float dH[S::ELEMENTS];
        if constexpr (I == L) {
            LastError<S::A_ROWS, !FIRST> a;
            a.from = H<L>() + row * LAST, a.line = LAST, a.g = shared.g + row, a.w = shared.w;
            times_weights<I>(a, col, dH, meanwhile);
        } else {
            Matrix<true, S::A_ROWS, true> a{dZ<I>() + row * WIDTH[I], WIDTH[I]};
            times_weights<I>(a, col, dH, meanwhile);
        }
        const Kept<I - 1>& below = kept;
        for_elements<S>(at, [&](int e, int row, int col) {
            dZ<I - 1>()[row * WIDTH[I - 1] + col] = below.positive >> e & 1 ? dH[e] : 0.0f;
        });
        barrier.arrive();
    }

    template <int I, class A, class Meanwhile>  // A W_I^T
    __device__ void times_weights(A& a, int col, float (&dH)[Propagate<I>::ELEMENTS], Meanwhile meanwhile)
    {
        using S = Propagate<I>;
        const auto ready = [&] { barrier.wait({"backward", I}, step); };
        const Matrix<true, S::B_COLS, !SEQUENTIAL || CLIP> old{W<I>(now) + col * WIDTH[I], WIDTH[I]};
        if constexpr (CLIP && SEQUENTIAL) {
            Stepped<true, S::B_COLS, TIMES_W<I>> b{old, {dW<I>() + col * WIDTH[I], WIDTH[I]}, factor, shared.w};
            product<S>(at, shared, a, b, dH, ready, meanwhile);
        } else {
            auto b = old;
            product<S>(at, shared, a, b, dH, ready, meanwhile);
        }
    }
};
