// dW_i = H_{i-1}^T dZ_i, by which the owner of a tile of W_i updates it. With CLIP it stores the gradient and its part
// of the squared norm, and settle() updates. dW_L needs no dZ_L: its operand is g where H_L > 0; dw is a by-product.

struct DescendPhase : ForwardPhase {
    template <int I> __device__ void descend()
    {
        using S = Descend<I>;
        at = Place();
        const int row = S::first_row(at) + S::lane_row(at), col = S::first_col(at) + S::lane_col(at);
        constexpr bool AFTER_DESCEND = !SEQUENTIAL && I == 1 && L > 1, FIRST = I == L && (SEQUENTIAL || L == 1);
        const auto ready = [&] { barrier.wait({"update", I}, step); };
        const auto meanwhile = [&] {
            if constexpr (FIRST) errors();
            if constexpr (AFTER_DESCEND) settle<I + 1>();
        };
        Matrix<false, S::A_ROWS, true> a{H<I - 1>() + row, WIDTH[I - 1]};
        float gradient[S::ELEMENTS];
        if constexpr (I < L) {
            Matrix<false, S::B_COLS, !SEQUENTIAL> b{dZ<I>() + col, WIDTH[I]};
            product<S>(at, shared, a, b, gradient, ready, meanwhile);
        } else {
            MaskedError<S::B_COLS, !FIRST> b;
            b.from = H<L>() + col, b.line = LAST, b.g = shared.g;
            product<S>(at, shared, a, b, gradient, ready, meanwhile);
            parts_of_dw(b.dw);
        }

        float squares[4] = {};
        Kept<I>& mine = kept;
        for_elements<S>(at, [&](int e, int row, int col) {
            const int i = row * WIDTH[I] + col;
            if constexpr (I == L) {
                float dw_col = 0.0f;
                for (int from = 0; from < S::GROUPS; ++from) dw_col += shared.dw[from][col - S::first_col(at)];
                if (row == 0) dw()[col] = dw_col, squares[3] += dw_col * dw_col;
                const float old = shared.w[col];
                if (TIMES_W<I>) {
                    const float square = gradient[e] * gradient[e];
                    squares[0] += square * old * old, squares[1] += square * old * dw_col;
                    squares[2] += square * dw_col * dw_col;
                } else {
                    gradient[e] *= SEQUENTIAL ? old - rate * dw_col : old;
                }
            }
            if (CLIP && !TIMES_W<I>) squares[0] += gradient[e] * gradient[e];
            if (CLIP) dW<I>()[i] = shared.dW[e][at.thread] = gradient[e];
            else W<I>(0)[i] = mine.W[e] -= rate * gradient[e];
        });
        if constexpr (CLIP) {
            if (S::has_tile(at)) {
                sum_up(squares);
                if (at.thread == 0)
                    *reinterpret_cast<float4*>(norms<I>() + 4 * at.block) =
                        make_float4(squares[0], squares[1], squares[2], squares[3]);
            }
        }
        barrier.arrive();
    }

    template <int SIZE> __device__ void parts_of_dw(float (&dw)[SIZE])
    {
        using S = Descend<L>;
        if (!S::has_tile(at)) return;
        for (int c = 0; c < SIZE; ++c) {
            for (int apart = 1; apart < 4; apart *= 2) dw[c] += __shfl_xor_sync(0xffffffff, dw[c], apart);
            if (at.lane() % 4 == 0 && S::group(at) < S::GROUPS && S::lane_row(at) < S::WARP_ROWS)
                shared.dw[S::group(at)][S::lane_col(at) + c] = dw[c];
        }
        __syncthreads();
    }
};
