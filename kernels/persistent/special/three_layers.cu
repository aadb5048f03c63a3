// The training of a network with three hidden layers, all steps of a launch (steps.cuh) of GROUPS groups of 8 blocks.
//
//   H_i = max(H_{i-1} W_i, 0), H_0 = X;  y = H_3 w;  e = y - Y;  g = 2/rows e                      forward
//   w -= rate H_3^T g;  dZ_3 = g w^T where H_3 > 0                                               backward, where
//   W_i -= rate H_{i-1}^T dZ_i;  dZ_{i-1} = dZ_i W_i^T where H_{i-1} > 0                           i = 3, 2, 1
//
// Blocks exchange data by self-validating messages (messages.cuh), without a barrier or a fence. Layers 2 and 3
// multiply on tensor cores, in three products of FP16 halves (halves.cuh), or in two if one operand is bits. A step has
// four parts, below in this order:
//
//   forward       Two groups take 32 rows of the batch. A block computes some columns of H_2, their contribution to
//                 Z_3, and, from all contributions, some columns of H_3 for 16 rows, with their contribution to y.
//   third_layer   A block updates w, and the rows of W_3 for 8 neurons of layer 2, whose dZ_2 it publishes.
//   second_layer  A block updates some rows of W_2 in its group's columns, and publishes their contribution to dH_1.
//   first_layer   A block updates some columns of W_1, and publishes these columns of the next batch's H_1.
//
// Blocks wait for others six times per step: for H_1, Z_3, y, dw, dZ_2 and dH_1. Everything else was published long
// before. Clipping (CLIP) adds three waits, for norms. Simultaneous updates multiply by the weights before the update
// instead.
//
// Why a message of two steps ago (or, for the bits, of one step ago) may be overwritten: a block that publishes
// anything in a step has received H_1. That needed dH_1 from all groups, which needed dZ_2 from all blocks of each
// group, sent after they had read the bits and every y. Each y needed all blocks to have finished with the weights,
// and with the step before that.
//
// Layout: widths and the batch are padded with zeros to multiples of 16; each batch of X and Y is stored contiguously.
// `weights` is W_1, W_2, W_3, w. Launch: cooperative, GRID blocks of 256 threads, `shared_bytes` of dynamic shared
// memory, up to 218 KiB. Needs sm_80.

#include "../clipping.cuh"
#include "../copies.cuh"
#include "../fragments.cuh"
#include "../groups.cuh"
#include "../l2.cuh"
#include "../messages.cuh"
#include "halves.cuh"
#include "three_layers_layout.cuh"

struct Training : Groups {
    Shared& s;
    float max_norm;
    // Blocks with neighbouring numbers read the same W_2 and W_3: 52 bytes per cycle instead of 33 (NVIDIA H200).
    int warp = threadIdx.x / 32, couple = blockIdx.x % HALF, member = blockIdx.x / HALF;
    float W1[PAIRS][2] = {}, W2[2][4] = {}, W3[2][4] = {};   // the elements that this thread owns; W1: in every warp
    const OfH1 of_H1{workspace + AT_H1};
    const OfH2 of_H2{workspace + AT_H2};
    const OfW2 of_W2{workspace + AT_W2};
    const OfW3 of_W3{workspace + AT_W3};
    const OfZ3 of_Z3{workspace + AT_Z3};
    const OfY of_y{workspace + AT_Y};
    const OfDW of_dw{workspace + AT_DW};
    const OfDZ of_dZ{workspace + AT_DZ};
    const OfDH of_dH{workspace + AT_DH};
    const OfLargest of_largest{workspace + AT_LARGEST};

    // Whether this thread has an i-th vector, if the block's threads share out this many.
    __device__ bool has(int i, int vectors) const { return vectors % THREADS == 0 || t + i * THREADS < vectors; }
    __device__ bool has_row() const { return ROWS == THREADS || t < ROWS; }
    __device__ bool has_rows(int i) const { return DOWN * WARPS == GROUPS || warp * DOWN + i < GROUPS; }

    __device__ Word* word_of_bits(int i) const { return reinterpret_cast<Word*>(workspace + AT_BITS) + i; }
    __device__ float* w_of(int step) const { return s.w[SEQUENTIAL ? 0 : step % 2]; }

    // ---- scales
    //
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

    // ---- norms
    //
    // CLIP: each layer's gradient is clipped to a norm. That of dw every block computes by itself. For the others, each
    // block publishes its share of the squared norm and waits for all shares: three more waits. With simultaneous
    // updates, dZ_2 and dH_1 are published before the waits for the norms of dW_3 and dW_2.

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

    // ---- forward
    //
    // The forward pass, from H_1 to y. Two groups together take 32 rows of the batch, and wait for H_1 of these rows.
    // Each block computes an equal share of the columns of H_2, then their contribution to all of Z_3: two products
    // whose weights each lane loads for itself. Each block then adds up the contributions for 16 rows and some columns
    // of Z_3, which gives H_3, a contribution to y, and a bit for each element of H_3 > 0.

    // Loaded in advance: two tiles of W_2 for half of k; W_3.
    float w2[N1 / 16][4], w3[GROUPS][4];

    __device__ auto W2_at(int step) const
    {
        const int first = (member * HALF + warp / 2 * 2) * (N1 / 16) + warp % 2 * (N1 / 32);
        const float* const from = of_W2.of(step) + first * PART + t % 32 * 4;
        return [=](int i) { return from + (i / (N1 / 32) * (N1 / 16) + i % (N1 / 32)) * PART; };
    }
    __device__ auto W3_at(int step) const
    {
        const float* const from = of_W3.of(step) + (member * HALF * (N3 / 16) + 2 * warp) * PART + t % 32 * 4;
        return [=](int i) { return from + (i / 2 * (N3 / 16) + i % 2) * PART; };
    }
    __device__ bool has_W2(int i) const { return HALF == WARPS || warp / 2 * 2 + i / (N1 / 32) < HALF; }
    __device__ void look_for_W2(int step)
    {
        look_for(w2, turn_of(step), [&](int i) { return has_W2(i); }, W2_at(step));
    }

    __device__ void fetch_X(int step, int batch)
    {
        const float* const from = X + (size_t)batch * ROWS * F;
        for (int i = t; i < ROWS * F / 4; i += THREADS) {
            const int row = i / (F / 4), at = row / 16 * 16 + row % 8 * 2 + row / 8 % 2;
            copy_async(shared_address(&s.X[step % 2][at][4 * (i % (F / 4))]), from + 4 * i);
        }
    }

    __device__ bool has_H2() const { return HALF == WARPS || warp < HALF; }

    // Publishes the block's share of H_2 for 32 rows.
    __device__ void tell_H2()
    {
        const Lane lane;
        const Places place;
        const unsigned turn = turn_of(step);
        {
            float h1[OWN_H1_LOADS][4];
            const auto h1_at = [&](int i) {
                const int v = t + i * THREADS, tile = v / 32 % (N1 / 8), sixteen = 2 * couple + v / (4 * N1);
                const int from = (tile / TILES1 * GROUPS + sixteen) * TILES1 + tile % TILES1;
                return of_H1.of(step) + from * PART + v % 32 * 4;
            };
            let_come(PAUSE);
            look_for(h1, turn, [](int) { return true; }, h1_at);
            await(h1, step, h1_at, "H_1");
#pragma unroll
            for (int i = 0; i < OWN_H1_LOADS; ++i) write_words(&s.of_rows.H1[0][0][0] + 4 * (t + i * THREADS), h1[i]);
        }
        __syncthreads();

        tell_largest();
        look_for(w3, turn, [](int) { return true; }, W3_at(step));
        fetch_X(step + 1, next);
        await(w2, step, W2_at(step), "W_2");
        float z[2][2][2][4] = {};   // two tiles for half of k; another warp has the other half
        if (has_W2(0)) {
#pragma unroll
            for (int k = 0; k < N1 / 32; ++k) {
                const int tile = warp % 2 * (N1 / 16) + 2 * k;
                const HalfParts<4> a[] = {left_across(s.of_rows.H1[0][tile], place),
                                           left_across(s.of_rows.H1[1][tile], place)};
                HalfParts<2> b[2];
                for (int n = 0; n < 2; ++n)
                    for (int i = 0; i < 2; ++i) {
                        b[n].big[i] = __float_as_uint(w2[n * (N1 / 32) + k][i]);
                        b[n].small[i] = __float_as_uint(w2[n * (N1 / 32) + k][2 + i]);
                    }
                multiply(z, a, b);
            }
            for (int m = 0; m < 2; ++m) {
                float other[4];
                for (int i = 0; i < 4; ++i) other[i] = warp % 2 ? total_of(z[m][0], i) : total_of(z[m][1], i);
                if ((warp ^ 1) < HALF) write4(reinterpret_cast<float*>(s.of_rows.H2[m][warp ^ 1]) + lane.at, other);
            }
        }
        __syncthreads();
        const float of_z = scales(step).H1.times * scales(step).W2.times, over = scales(step).H2.over;
        if (has_H2())
            for (int m = 0; m < 2; ++m) {
                const float4 other = take4(reinterpret_cast<const float*>(s.of_rows.H2[m][warp]) + lane.at);
                float h[4] = {other.x, other.y, other.z, other.w};
                for (int i = 0; i < 4; ++i)
                    h[i] = of_z * positive(h[i] + (warp % 2 ? total_of(z[m][1], i) : total_of(z[m][0], i)));
                __syncwarp();
                const float in_order[] = {h[0], h[2], h[1], h[3]};
                const float scaled[] = {h[0] * over, h[1] * over, h[2] * over, h[3] * over};
                write_place(s.of_rows.H2[m][warp], scaled);
                of_H2.put(step, ((member * HALF + warp) * GROUPS + 2 * couple + m) * PART + lane.at, in_order);
            }
        __syncthreads();
    }

    // Publishes the contribution of the block's columns of H_2 to Z_3, and loads H_1 for the backward pass.
    __device__ void tell_Z3()
    {
        const Places place;
        const unsigned turn = turn_of(step);
        await(w3, step, W3_at(step), "W_3");
        float z[2][4][2][4] = {};
#pragma unroll
        for (int k = 0; k < HALF; k += 2) {
            const bool both = k + 1 < HALF;   // else the last eight columns alone
            HalfParts<4> a[2];
            HalfParts<2> b[4];
            for (int m = 0; m < 2; ++m) {
                a[m] = left_across(s.of_rows.H2[m][k], both ? place : place.of_one_tile());
                for (int i = 2; i < 4 && !both; ++i) a[m].big[i] = a[m].small[i] = 0;
            }
            for (int n = 0; n < 4; ++n)
                for (int i = 0; i < 2; ++i) {
                    b[n].big[i] = i == 0 || both ? __float_as_uint(w3[2 * (k + i) + n / 2][n % 2]) : 0;
                    b[n].small[i] = i == 0 || both ? __float_as_uint(w3[2 * (k + i) + n / 2][2 + n % 2]) : 0;
                }
            multiply(z, a, b);
        }
        const float of_z = scales(step).H2.times * scales(step).W3.times;
        for (int m = 0; m < 2; ++m) {
            const int to = (((2 * couple + m) * BLOCKS + warp) * COUPLE + member) * 16 * OWN3;
#pragma unroll
            for (int n = 0; n < 4; ++n) {
                float sum[4];
                for (int i = 0; i < 4; ++i) sum[i] = of_z * total_of(z[m][n], i);
                of_Z3.put(step, to + n * PART + t % 32 * 4, sum);
            }
        }
        float h1[H1_LOADS][4];
        const auto has_h1 = [&](int i) { return has(i, ROWS * TILES1 * 2); };
        const float* const H1 = of_H1.of(step) + rank * GROUPS * TILES1 * PART + 4 * t;
        const auto h1_at = [&](int i) { return H1 + 4 * i * THREADS; };
        look_for(h1, turn, has_h1, h1_at);
        await(h1, step, h1_at, "H_1");
#pragma unroll
        for (int i = 0; i < H1_LOADS; ++i)
            if (has_h1(i)) write_words(&s.H1[0][0][0] + 4 * (t + i * THREADS), h1[i]);
    }

    // Computes the block's columns of H_3 for 16 rows, and publishes their contribution to y.
    __device__ void tell_y()
    {
        const unsigned turn = turn_of(step);
        // Half a warp adds up the partial sums of half of the blocks for rows `warp` and warp + 8, then holds one of
        // these rows.
        const int half = t % 32 / 16, n = t % 16 / 4, row = 16 * group + warp + 8 * half;
        const float* const Z3 = of_Z3.of(step) + ((group * BLOCKS + rank) * COUPLE + half * BLOCKS) * 16 * OWN3 +
                                n * PART + (4 * warp + t % 4) * 4;
        float z3[BLOCKS][4], y = 0.0f;
        const auto z3_at = [&](int i) { return Z3 + i * 16 * OWN3; };
        look_for(z3, turn, [](int) { return true; }, z3_at);
        await(z3, step, z3_at, "Z_3");
        float z[4] = {};
#pragma unroll
        for (int from = 0; from < BLOCKS; ++from)
#pragma unroll
            for (int i = 0; i < 4; ++i) z[i] += z3[from][i];
        float h[2] = {half ? z[2] : z[0], half ? z[3] : z[1]};
        h[0] += __shfl_xor_sync(0xffffffff, half ? z[0] : z[2], 16);
        h[1] += __shfl_xor_sync(0xffffffff, half ? z[1] : z[3], 16);
        const int column = 8 * n + 2 * (t % 4);
        unsigned bits = 0;
        for (int i = 0; i < 2; ++i) {
            h[i] = positive(h[i]);
            bits |= (unsigned)(h[i] > 0.0f) << (column + i) % 32;
            y += h[i] * w_of(step)[rank * OWN3 + column + i];
        }
        *reinterpret_cast<float2*>(&s.H3[row % 16][column]) = make_float2(h[0], h[1]);
        for (int apart = 1; apart < 16; apart *= 2) bits |= __shfl_xor_sync(0xffffffff, bits, apart);
        const int of_row = (group * WORDS + rank) * 16 + 2 * warp + half;
        if (t % 16 == 0) publish(word_of_bits(of_row), (Word)(step + 1) << 32 | bits);
        for (int apart = 1; apart < 16; apart *= 2) y += __shfl_xor_sync(0xffffffff, y, apart);
        const float one[1] = {y};
        if (t % 16 == 0) of_y.put(step, row * BLOCKS + rank, one);
        __syncthreads();  // all of H_3
    }

    // ---- third layer
    //
    // The backward pass through layer 3. A block owns 8 neurons of layer 2, with their rows of W_3. dW_3 = U diag(w)
    // with U = H_2^T (g where H_3 > 0), that is H_2^T diag(g) times bits, and dZ_3 W_3^T is diag(g) times bits times
    // (W_3 diag(w))^T: with bits (halves.cuh), two products are enough. All blocks hold w; each publishes the contribution
    // of 16 rows to some of dw.

    float scale = 0.0f;                   // g = scale e
    // Loaded in advance: H_2 of the block's neurons; the bits.
    float h2[DOWN][4];
    Word bits[BIT_LOADS][2];
    unsigned active = 0;                  // H_2 > 0, four bits per sixteen rows
    float half_g[DOWN][2] = {};           // g / 2, scaled, of rows p and p + 8 of these, since a bit is 2
    float dZ_scale = 0.0f;                // dZ_2 is published over this

    __device__ bool has_bits(int i) const { return has(i, ROWS * WORDS / 2); }

    // W_3 is owned as in the accumulators of its transposed gradient.
    __device__ int column3(int n, int i, Lane lane) const { return 32 * warp + 16 * n + i / 2 * 8 + lane.p; }
    __device__ int place3(int n, int i, Lane lane) const
    {
        return (8 * blockIdx.x + 2 * lane.q + i % 2) * N3 + column3(n, i, lane);
    }
    __device__ void put3(int step) const
    {
        for (int n = 0; n < 2; ++n)
            put_words(of_W3, step, (blockIdx.x * (N3 / 16) + 2 * warp + n) * PART + t % 32 * 4, W3[n], scales(step).W3);
        leave_largest(s.largest[2], W3[0], W3[1]);
    }

    // Receives y, and publishes the group's contribution to some of dw.
    __device__ void hear_errors()
    {
        const Lane lane;
        const float target = has_row() ? from_l2(Y + (size_t)batch * ROWS + t) : 0.0f;
        const auto has_y = [&](int) { return has_row(); };
        const auto y_at = [&](int) { return of_y.of(step) + t * BLOCKS; };
        const float* const H2 = of_H2.of(step) + (blockIdx.x * GROUPS + warp * DOWN) * PART + lane.at;
        const auto h2_at = [&](int i) { return H2 + i * PART; };
        const unsigned turn = turn_of(step);
        const Word now = step + 1;
        float y[1][BLOCKS];
        const auto has_h2 = [&](int i) { return has_rows(i); };
        look_for(h2, turn, has_h2, h2_at);
        let_come(PAUSE);
        look_for(y, turn, has_y, y_at);
#pragma unroll
        for (int i = 0; i < BIT_LOADS; ++i)
            if (has_bits(i)) look(word_of_bits(2 * (t + i * THREADS)), bits[i]);
            else bits[i][0] = bits[i][1] = now << 32;
        await(y, step, y_at, "y");
        await(h2, step, h2_at, "H_2");
        float sum = 0.0f;
        for (int r = 0; r < BLOCKS; ++r) sum += y[0][r];
        const float error = t < count ? sum - target : 0.0f, g = scale * error;
        if (has_row()) s.g[t] = g;
        const float of_row[] = {has_row() ? g : 0.0f};
        leave_largest(s.largest_g, of_row);
        if (last && blockIdx.x == 0 && has_row()) E[t] = error;
        if (warp == group / 2) {  // the warp that has the group's rows publishes their contribution to dw
            float one[1] = {};
#pragma unroll
            for (int i = 0; i < 16; ++i) one[0] += s.H3[i][t % 32] * __shfl_sync(0xffffffff, g, group % 2 * 16 + i);
            of_dw.put(step, group * N3 + rank * OWN3 + t % 32, one);
        }
        hear_scales(step + 1);
        __syncthreads();
    }

    // Updates W_3, and publishes dZ_2 of the block's neurons.
    __device__ void third_layer()
    {
        const Lane lane;
        const unsigned turn = turn_of(step);
        const Word now = step + 1;
        const int slot = lane.p % 4 * 2 + lane.p / 4;  // lane q reads rows q and q + 8, then q + 4 and q + 12
        const Scale of_g(s.largest_g), of_H2 = scales(step).H2;
        active = 0;
        for (int i = 0; i < DOWN; ++i) {
            const int down = warp * DOWN + i;
            if (!has_rows(i)) continue;
            for (int u = 0; u < 2; ++u) half_g[i][u] = 0.5f * of_g.over * s.g[16 * down + lane.p + 8 * u];
            float h[4];
            for (int j = 0; j < 4; ++j) {
                active |= (unsigned)(h2[i][j] > 0.0f) << 4 * i + j;
                h[j] = h2[i][j] * of_H2.over * half_g[i][j % 2];
            }
            for (int j = 0; j < 2; ++j)
                write_halves(s.Hg[down], right(2 * lane.q + j, slot), h[2 * j], h[2 * j + 1]);
        }
        const auto bits_have_come = [&] {
            bool come = true;
#pragma unroll
            for (int i = 0; i < BIT_LOADS; ++i) come &= bits[i][0] >> 32 == now && bits[i][1] >> 32 == now;
            return all_have(come);
        };
        const auto look_for_bits = [&] {
#pragma unroll
            for (int i = 0; i < BIT_LOADS; ++i)
                if (has_bits(i)) look(word_of_bits(2 * (t + i * THREADS)), bits[i]);
        };
        for (WaitLimit limit; !bits_have_come(); look_for_bits()) limit.after_failed_look("bits", step);
#pragma unroll
        for (int i = 0; i < BIT_LOADS; ++i)
            if (has_bits(i)) reinterpret_cast<uint2*>(s.bits)[t + i * THREADS] = make_uint2(bits[i][0], bits[i][1]);
        __syncthreads();

        float dw[GROUPS][1], u[2][2][4] = {}, sum_dw = 0.0f;   // u: U^T
        const auto dw_at = [&](int from) { return of_dw.of(step) + from * N3 + t; };
        const auto sum_up_dw = [&] {
            await(dw, step, dw_at, "dw");
            for (int from = 0; from < GROUPS; ++from) sum_dw += dw[from][0];
        };
        look_for(dw, turn, [](int) { return true; }, dw_at);
#pragma unroll
        for (int down = 0; down < GROUPS; ++down) {
            if (CLIP && down == GROUPS / 2) sum_up_dw(), leave_square(sum_dw * sum_dw);
            if (CLIP && down == GROUPS - 1) {
                __syncthreads();
                w_of(step + 1)[t] = w_of(step)[t] - rate * clipped(block_square(), max_norm) * sum_dw;
            }
            const uint2 v[] = {*reinterpret_cast<const uint2*>(&s.bits[down][warp][2 * lane.q]),
                               *reinterpret_cast<const uint2*>(&s.bits[down][warp][2 * lane.q + 8])};
            const unsigned of[2][2] = {{each_byte(v[0].x, lane.p), each_byte(v[0].y, lane.p)},
                                       {each_byte(v[1].x, lane.p), each_byte(v[1].y, lane.p)}};
            unsigned b[2][2];
            take_halves(b, s.Hg[down], right(lane.p, 2 * lane.q));
            for (int n = 0; n < 2; ++n) {
                unsigned a[4];
                for (int i = 0; i < 4; ++i) a[i] = both(of[i / 2][0], 2 * n + i % 2, of[i / 2][1], 2 * n + i % 2);
                multiply_bits(u[n], a, b);
            }
        }
        if (!CLIP) {
            sum_up_dw();
            w_of(step + 1)[t] = w_of(step)[t] - rate * sum_dw;
        }
        const float new_w[] = {w_of(step + 1)[t]};
        leave_largest(s.largest_w[(step + 1) % 2], new_w);
        __syncthreads();
        const Scale of_w(s.largest_w[(step + SEQUENTIAL) % 2]), of_W3 = scales(step + SEQUENTIAL).W3;
        dZ_scale = of_g.times * of_w.times * of_W3.times;
        const float of_u = of_g.times * of_H2.times, of_ww = of_w.over * of_W3.over;
        float w[4], rate_3 = rate;
        for (int i = 0; i < 4; ++i) w[i] = w_of(step + SEQUENTIAL)[column3(i / 2, i % 2 * 2, lane)];
        float dw3[2][4];
        for (int n = 0; n < 2; ++n)
            for (int i = 0; i < 4; ++i) dw3[n][i] = total_of(u[n], i) * of_u * w[2 * n + i / 2];
        if (CLIP) {
            leave_square(square_of(dw3));
            __syncthreads();
            tell_square(3, block_square());
        }
        if (CLIP && !LATE) rate_3 = hear_rate(3);
        for (int n = 0; n < 2; ++n) {
            float ww[4];
            for (int i = 0; i < 4; ++i) {
                const float before = W3[n][i];
                if (!LATE) W3[n][i] -= rate_3 * dw3[n][i];
                ww[i] = (SEQUENTIAL ? W3[n][i] : before) * w[2 * n + i / 2] * of_ww;
            }
            for (int i = 0; i < 2; ++i) write_halves(s.Ww[2 * warp + n], right(2 * lane.q + i, slot), ww[i], ww[i + 2]);
        }
        if (!LATE) put3(step + 1);
        __syncthreads();

        float z[DOWN][2][4] = {};
#pragma unroll
        for (int word = 0; word < WORDS; ++word) {
            unsigned of[DOWN][4];
            for (int i = 0; i < DOWN; ++i) {
                const int down = smaller(warp * DOWN + i, GROUPS - 1);
                const uint2 v = *reinterpret_cast<const uint2*>(&s.bits[down][word][2 * lane.p]);
                of[i][0] = each_byte(v.x, lane.q), of[i][1] = each_byte(v.y, lane.q);
                of[i][2] = each_byte(v.x, lane.q + 4), of[i][3] = each_byte(v.y, lane.q + 4);
            }
            for (int k = 0; k < 2; ++k) {
                unsigned b[2][2];
                take_halves(b, s.Ww[2 * word + k], right(lane.p, 2 * lane.q));
                for (int i = 0; i < DOWN; ++i) {
                    unsigned a[4];
                    for (int j = 0; j < 4; ++j) a[j] = both(of[i][j], 2 * k, of[i][j], 2 * k + 1);
                    multiply_bits(z[i], a, b);
                }
            }
        }
        for (int i = 0; i < DOWN; ++i) {
            float dz[4];
            for (int j = 0; j < 4; ++j) {  // row p + 8 (j / 2), neuron 2 q + j % 2; `active` is in the order of H_2
                const int at = j % 2 * 2 + j / 2;
                dz[j] = active >> (4 * i + at) & 1 ? half_g[i][j / 2] * total_of(z[i], j) : 0.0f;
            }
            if (has_rows(i)) put_place(of_dZ, step, ((group * GROUPS + warp * DOWN + i) * BLOCKS + rank) * PART, dz);
        }
        if (LATE) {
            rate_3 = hear_rate(3);
            for (int n = 0; n < 2; ++n)
                for (int i = 0; i < 4; ++i) W3[n][i] -= rate_3 * dw3[n][i];
            put3(step + 1);
        }
    }

    // ---- second layer
    //
    // The backward pass through layer 2. All blocks of a group receive the group's dZ_2; each updates N1 / 8 rows of W_2
    // in the group's columns and multiplies the two: the group's share of dH_1 in these columns.

    // W_2 is owned as in the accumulators of its transposed gradient.
    __device__ bool has2() const { return N1 == 32 * WARPS || warp < N1 / 32; }
    __device__ int neurons2() const { return warp % (BLOCKS / 2); }      // which sixteen of the group's neurons
    __device__ int tile1(int n) const { return warp / (BLOCKS / 2) * 2 + n; }
    __device__ int place2(int n, int i, Lane lane) const
    {
        const int row = 8 * (rank * TILES1 + tile1(n)) + 2 * lane.q + i % 2;
        return row * N2 + 8 * BLOCKS * group + 16 * neurons2() + lane.p + i / 2 * 8;
    }
    __device__ void put2(int step) const
    {
        const int tile = group * BLOCKS + 2 * neurons2(), pair = (rank * TILES1 + tile1(0)) / 2;
        for (int i = 0; i < 2; ++i) {
            const float v[] = {W2[0][2 * i], W2[0][2 * i + 1], W2[1][2 * i], W2[1][2 * i + 1]};
            if (has2()) put_words(of_W2, step, ((tile + i) * (N1 / 16) + pair) * PART + t % 32 * 4, v, scales(step).W2);
        }
        leave_largest(s.largest[1], W2[0], W2[1]);
    }

    // Updates W_2, and publishes the contribution of the group's neurons to dH_1 in the block's columns.
    __device__ void second_layer()
    {
        const Places place;
        const unsigned turn = turn_of(step);
        {
            float dz[DZ_LOADS][4];
            const float* const of_group = of_dZ.of(step) + 4 * (group * ROWS * BLOCKS * 2 + t);
            const auto dz_at = [&](int i) { return of_group + 4 * i * THREADS; };
            let_come(PAUSE);
            look_for(dz, turn, [](int) { return true; }, dz_at);
            await(dz, step, dz_at, "dZ_2");
#pragma unroll
            for (int i = 0; i < DZ_LOADS; ++i) write_words(&s.dZ[0][0][0] + 4 * (t + i * THREADS), dz[i]);
        }
        __syncthreads();

        {  // dW_2^T: a warp takes half of the neurons and a quarter of the rows
            const int half = warp % 2, fourth = warp / 2;
            float dw2[2][TILES1][2][4] = {};
#pragma unroll
            for (int i = 0; i < up(GROUPS, 4); ++i) {
                const int down = fourth + 4 * i;
                if (GROUPS % 4 && down >= GROUPS) break;
                HalfParts<4> a[2];
                HalfParts<2> b[TILES1];
                for (int m = 0; m < 2; ++m) a[m] = left_down(s.dZ[down][4 * half + 2 * m], place);
                for (int n = 0; n < TILES1; ++n) b[n] = right_down(s.H1[down][n] + place.one);
                multiply(dw2, a, b);
            }
            __syncthreads();
            for (int m = 0; m < 2; ++m)
                for (int n = 0; n < TILES1; ++n) {
                    float sum[4];
                    total_of(dw2[m][n], sum);
                    write4(&s.dW2[fourth][2 * half + m][n][t % 32 * 4], sum);
                }
        }
        __syncthreads();
        float dw2[2][4] = {}, rate_2 = rate;
        if (has2())
            for (int n = 0; n < 2; ++n)
                for (int from = 0; from < 4; ++from) {
                    const float4 v = take4(&s.dW2[from][neurons2()][tile1(n)][t % 32 * 4]);
                    dw2[n][0] += v.x, dw2[n][1] += v.y, dw2[n][2] += v.z, dw2[n][3] += v.w;
                }
        const Scale of_H1 = scales(step).H1, of_multiplied = scales(step + SEQUENTIAL).W2;
        for (int n = 0; n < 2; ++n)
            for (int i = 0; i < 4; ++i) dw2[n][i] *= dZ_scale * of_H1.times;
        if (CLIP) {
            leave_square(square_of(dw2));
            __syncthreads();
            tell_square(2, block_square());
        }
        if (CLIP && !LATE) rate_2 = hear_rate(2);
        if (has2()) {
            for (int n = 0; n < 2; ++n) {
                float multiplied[4];
                for (int i = 0; i < 4; ++i) {
                    const float before = W2[n][i];
                    if (!LATE) W2[n][i] -= rate_2 * dw2[n][i];
                    multiplied[i] = (SEQUENTIAL ? W2[n][i] : before) * of_multiplied.over;
                }
                for (int i = 0; i < 2; ++i) {
                    const Halves x(multiplied[2 * i], multiplied[2 * i + 1]);
                    unsigned* const tile = s.W2[2 * neurons2() + i][tile1(n)] + t % 32;
                    tile[0] = x.big, tile[TILE / 4] = x.small;
                }
            }
            if (!LATE) put2(step + 1);
        }
        copies_done();
        __syncthreads();

        if (has_rows(0)) {  // the contribution of the group's neurons to dH_1
            float dh[DOWN][TILES1][2][4] = {};
            const unsigned* const W2_of_lane = s.W2[t / 8 % 2][0] + t % 32 / 16 * 32 + t % 8 * 4;
#pragma unroll
            for (int k = 0; k < BLOCKS; k += 2) {
                HalfParts<4> a[DOWN];
                HalfParts<2> b[TILES1];
                for (int i = 0; i < DOWN; ++i)
                    a[i] = left_across(s.dZ[smaller(warp * DOWN + i, GROUPS - 1)][k], place);
                for (int n = 0; n < TILES1; ++n) b[n] = right_down(W2_of_lane + (k * TILES1 + n) * (TILE / 2));
                multiply(dh, a, b);
            }
#pragma unroll
            for (int i = 0; i < DOWN; ++i)
#pragma unroll
                for (int n = 0; n < TILES1; ++n) {
                    const int columns = group * (N1 / 2) + (rank * TILES1 + n) * 4 + t % 4;
                    float sum[4];
                    for (int j = 0; j < 4; ++j) sum[j] = dZ_scale * of_multiplied.times * total_of(dh[i][n], j);
                    if (has_rows(i)) of_dH.put(step, ((columns * GROUPS + warp * DOWN + i) * 8 + t % 32 / 4) * 4, sum);
                }
        }
        if (LATE) {
            rate_2 = hear_rate(2);
            for (int n = 0; n < 2; ++n)
                for (int i = 0; i < 4; ++i) W2[n][i] -= rate_2 * dw2[n][i];
            put2(step + 1);
        }
    }

    // ---- first layer
    //
    // Layer 1, backward and then forward. A block adds up the groups' contributions to two of its columns of dH_1,
    // updates these columns of W_1, and publishes these columns of the next batch's H_1.

    float h[PAIRS][2] = {};               // H_1 of the block's columns in this thread's row

    // A thread owns W_1 of feature t % 32.
    __device__ int pair(int i) const { return rank * TILES1 * 4 + group + i * GROUPS; }
    __device__ bool has_pair(int i) const { return PAIRS * GROUPS == TILES1 * 4 || group + i * GROUPS < TILES1 * 4; }
    __device__ bool has1(int i) const { return t % 32 < F && has_pair(i); }
    __device__ int place1(int i) const { return t % 32 * N1 + 2 * pair(i); }

    __device__ void take_row(int step, float (&x)[F]) const { take(s.X[step % 2][t % ROWS], x); }
    __device__ float column_of_X(int row) const { return row < ROWS && t % 32 < F ? s.X[step % 2][row][t % 32] : 0.0f; }

    // Publishes two columns of H_1 of a batch. Threads t and t ^ 1 hold rows p and p + 8 of sixteen.
    __device__ void tell_H1(int step, int i, const float (&x)[F])
    {
        if (t % 32 < F) *reinterpret_cast<float2*>(s.W1[warp][t % 32]) = make_float2(W1[i][0], W1[i][1]);
        __syncwarp();
        float z[2] = {};
        multiply_row(z, x, s.W1[warp]);
        for (int n = 0; n < 2; ++n) h[i][n] = positive(z[n]);
        const float over = scales(step).H1.over;
        const Halves words(h[i][0] * over, h[i][1] * over);
        const float big[] = {__uint_as_float(words.big)}, small[] = {__uint_as_float(words.small)};
        const int own = group + i * GROUPS, at = t % 2 * 32 + t % 16 / 2 * 4 + own % 4;
        const int to = ((rank * GROUPS + t / 16) * TILES1 + own / 4) * PART + at;
        if (has_row() && has_pair(i)) of_H1.put(step, to, big), of_H1.put(step, to + PART / 2, small);
        if (i == PAIRS - 1) leave_largest_W1();
        __syncwarp();
    }

    // Updates W_1, and publishes H_1 of the next batch. Thread t takes row 16 (t / 16) + t % 16 / 2 + 8 (t % 2) of a
    // batch.
    __device__ void first_layer()
    {
        const int lane = t % 32;
        const unsigned turn = turn_of(step);
        if (!CLIP) look_for_W2(step + 1);
        float x[F], dw1[PAIRS][2] = {};
#pragma unroll
        for (int i = 0; i < PAIRS; ++i) {
            const float* const parts = of_dH.of(step) + (pair(i) * ROWS + t) * 2;
            const auto part_at = [&](int from) { return parts + from * N1 * ROWS; };
            float part[GROUPS][2], dz[2] = {};
            let_come(PAUSE);
            const auto has_part = [&](int) { return has_row() && has_pair(i); };
            look_for(part, turn, has_part, part_at);
            float column[32];
#pragma unroll
            for (int r = 0; r < 32; ++r) column[r] = column_of_X(32 * warp + r);
            await(part, step, part_at, "dH_1");
            for (int from = 0; from < GROUPS; ++from)
                for (int j = 0; j < 2; ++j) dz[j] += part[from][j];
            for (int j = 0; j < 2; ++j) s.dZ1[t][j] = h[i][j] > 0.0f ? dz[j] : 0.0f;
            __syncwarp();
            float sum[2] = {};
#pragma unroll
            for (int r = 0; r < 32; r += 2) {
                const float4 d = take4(s.dZ1[32 * warp + r]);
                sum[0] += column[r] * d.x + column[r + 1] * d.z, sum[1] += column[r] * d.y + column[r + 1] * d.w;
            }
            if (lane < F) *reinterpret_cast<float2*>(s.dW1[warp][lane]) = make_float2(sum[0], sum[1]);
            if (!LATE && i == 0) take_row(step + 1, x);
            __syncthreads();
            for (int from = 0; from < WARPS; ++from) {
                const float2 v = take2(s.dW1[from][smaller(lane, F - 1)]);
                dw1[i][0] += v.x, dw1[i][1] += v.y;
            }
            if (!CLIP)
                for (int n = 0; n < 2; ++n) W1[i][n] -= rate * dw1[i][n];
            if (!CLIP && !last) tell_H1(step + 1, i, x);
            if (i + 1 < PAIRS) __syncthreads();
        }
        if (!CLIP) return;
        float square = 0.0f;
        for (int i = 0; i < PAIRS; ++i)
            for (int n = 0; n < 2; ++n)
                if (has1(i)) square += dw1[i][n] * dw1[i][n];
        if (warp == 0) tell_square(1, warp_sum(square));
        const float rate_1 = hear_rate(1);
        if (LATE) take_row(step + 1, x);
        for (int i = 0; i < PAIRS; ++i) {
            for (int n = 0; n < 2; ++n) W1[i][n] -= rate_1 * dw1[i][n];
            if (!last) tell_H1(step + 1, i, x);
        }
        look_for_W2(step + 1);
    }

    __device__ float* w_in_memory() const { return weights + F * N1 + N1 * N2 + N2 * N3; }

    template <class Do> __device__ void for_weights(bool with_W1, Do f)  // f(kept, its address)
    {
        const Lane lane;
        float *const of_W2 = weights + F * N1, *const of_W3 = of_W2 + N1 * N2;
        for (int i = 0; i < PAIRS; ++i)
            for (int n = 0; n < 2; ++n)
                if (with_W1 && has1(i)) f(W1[i][n], weights + place1(i) + n);
        for (int n = 0; n < 2; ++n)
            for (int i = 0; i < 4; ++i) {
                if (has2()) f(W2[n][i], of_W2 + place2(n, i, lane));
                f(W3[n][i], of_W3 + place3(n, i, lane));
            }
    }

    __device__ void start(int batches)
    {
        for_weights(true, [](float& kept, const float* from) { kept = *from; });
        const float w[1] = {w_in_memory()[t]};
        w_of(0)[t] = w[0];
        float x_most[4] = {};
        for (int b = blockIdx.x; b < batches; b += GRID)
            for (int i = t; i < ROWS * F / 4; i += THREADS) {
                const float4 v = take4(X + (size_t)b * ROWS * F + 4 * i);
                const float one[] = {v.x, v.y, v.z, v.w};
                for (int j = 0; j < 4; ++j) x_most[j] = __uint_as_float(max(bits_of(x_most[j]), bits_of(one[j])));
            }
        leave_largest(s.largest_w[0], w);
        leave_largest_W1();
        leave_largest(s.largest[1], W2[0], W2[1]), leave_largest(s.largest[2], W3[0], W3[1]);
        leave_largest(s.largest[3], x_most);
        fetch_X(0, first);
        forget(AT_BITS, AT_KEPT);
        copies_done();
        all_meet();
        tell_largest();
        hear_scales(0);
        if (t == 0) s.grown = false;
        __syncthreads();
        put2(0), put3(0);
        float x[F];
        take_row(0, x);
        for (int i = 0; i < PAIRS; ++i) tell_H1(0, i, x);
        look_for_W2(0);
    }
    __device__ void finish()
    {
        const bool stopped = s.grown;
        leave_largest_W1();
        __syncthreads();
        if (!stopped) {  // weights may have grown in the last step
            tell_largest();
            hear_scales(step + 1);
            __syncthreads();
        }
        if (!s.grown) {
            for_weights(warp == 0, [](const float& kept, float* to) { *to = kept; });
            if (blockIdx.x == 0) w_in_memory()[t] = w_of(step)[t];
        }
        all_meet();
        if (blockIdx.x == 0 && t == 0) {
            // The weights of a step are judged in the next one, or above: those of the step before it were in range.
            reinterpret_cast<unsigned*>(workspace)[AT_STOPPED] = !s.grown ? 0 : stopped ? step - 1 : step;
            if (!s.grown) keep_scales();
        }
        if (s.grown) step = 0;
        leave();
    }
};

extern "C" __global__ __launch_bounds__(THREADS, 1) void train_persistent(
    const float* X, const float* Y, float* weights, float* E, float* workspace, int rows, int first, int steps,
    float rate, float max_norm)
{
    extern __shared__ __align__(16) float dynamic[];
    Shared& shared = *reinterpret_cast<Shared*>(dynamic);
    const Barrier barrier{reinterpret_cast<unsigned*>(workspace)};
    Training training{{barrier, X, Y, weights, E, workspace, rate, (unsigned)first}, shared, max_norm};
    const int batches = (rows + BATCH - 1) / BATCH;
    training.start(batches);
    for (; training.step < steps && !shared.grown; ++training.step) {
        training.look_ahead(batches);
        training.tell_H2();
        training.tell_Z3();
        training.tell_y();
        training.turn_to_batch(steps, batches, rows);
        training.scale = 2.0f / training.count;
        training.hear_errors();
        training.third_layer();
        training.second_layer();
        training.first_layer();
    }
    training.finish();
}
