// The exchanging warp. It copies the next batch to shared memory, adds up the blocks' contributions to y of its block's
// rows, and sends g of these rows to all blocks of the cluster.
//
// Block b adds up those of its ROWS / CLUSTER rows, always in the same order, so that the bits are the same: two short
// messages (st.async, completed on an mbarrier) of VEC rows each, in the order in which lanes have them (row_of()).
// With several clusters, those that add up the same rows first exchange their sums through global memory, in words that
// also hold the step: a reader that sees the step has the sum.

__device__ void exchange(Shared& s, const Data& data, float* E, float* workspace, int cluster)
{
    constexpr int PER = smaller(PART_OWN, 32), TIMES = PART_OWN / PER, VECTORS = PER / VEC, COPIES = 32 / VECTORS;
    const int lane = threadIdx.x % 32, rank = cluster_rank(), own = rank * PART_OWN + lane % PER;
    const int first = lane % VECTORS * VEC, copy = lane / VECTORS;  // of the message that this lane sends, and to whom
    float y[PARTS][TIMES];
#pragma unroll
    for (int part = 0; part < PARTS; ++part)
#pragma unroll
        for (int i = 0; i < TIMES; ++i) y[part][i] = data.target(data.first, row_of(part * PART_ROWS + own + 32 * i));

    // What clusters exchange: for each half, position and cluster, a sum and, in the upper half of the word, its step.
    // Steps are counted on from the last launch, whose last step is in this cluster's own words.
    Word* const words = reinterpret_cast<Word*>(workspace + AT_WORDS);
    const auto words_of = [&](int half, int position) { return words + (half * ROWS + position) * CLUSTERS; };
    unsigned before = 0;
    if constexpr (CLUSTERS > 1) {
        const unsigned even = words_of(0, own)[cluster] >> 32, odd = words_of(1, own)[cluster] >> 32;
        before = (int)(even - odd) > 0 ? even : odd;
        __syncwarp();  // lanes with the same row have read it
    }

    int batch = data.first, step = 0;
    for (; step < data.steps; ++step) {
        const int half = step % 2, parity = step / 2 % 2, next = data.after(batch);
        const int count = min(BATCH, data.rows - batch * BATCH);
        if (lane < PARTS) {
            mbarrier_expect(shared_address(&s.parts_there[half][lane]), PART_ROWS * sizeof(float));
            mbarrier_expect(shared_address(&s.g_there[half][lane]), PART_ROWS * sizeof(float));
        }
        fetch(s.X[(step + 1) % 2], data.of(next));
        const float scale = now(2.0f / count);
#pragma unroll
        for (int part = 0; part < PARTS; ++part) {
            const unsigned g_there = shared_address(&s.g_there[half][part]);
            if (part == PARTS - 1) {
                copies_done();
                __syncwarp();
                block_barrier();  // the next batch is in shared memory
            }
            mbarrier_wait(shared_address(&s.parts_there[half][part]), parity, "y", step);
#pragma unroll
            for (int i = 0; i < TIMES; ++i) {
                const int position = part * PART_ROWS + own + 32 * i, row = row_of(position);
                float sum[4] = {};
#pragma unroll
                for (int c = 0; c < CLUSTER; ++c) sum[c % 4] += s.parts[half][c][part * PART_OWN + lane % PER + 32 * i];
                float prediction = (sum[0] + sum[1]) + (sum[2] + sum[3]);
                if constexpr (CLUSTERS > 1) {
                    const unsigned when = before + step + 1;
                    Word* const from = words_of(half, position);
                    if (lane < PER) publish(from + cluster, (Word)when << 32 | __float_as_uint(prediction));
                    Word found[(CLUSTERS + 1) / 2][2];
                    const auto all_have_come = [&] {   // the words of all clusters together
#pragma unroll
                        for (int c = 0; c < CLUSTERS / 2; ++c) look(from + 2 * c, found[c]);
                        bool all = true;
#pragma unroll
                        for (int c = 0; c < CLUSTERS; ++c) all &= found[c / 2][c % 2] >> 32 == when;
                        return all;
                    };
                    for (unsigned looks = 0; !all_have_come();)
                        if (is_long(++looks)) {
                            await_long("clusters", step, all_have_come);
                            break;
                        }
                    prediction = 0.0f;
#pragma unroll
                    for (int c = 0; c < CLUSTERS; ++c) prediction += __uint_as_float((unsigned)found[c / 2][c % 2]);
                }
                const float error = row < count ? prediction - y[part][i] : 0.0f, g = scale * error;
                float message[VEC];
#pragma unroll
                for (int n = 0; n < VEC; ++n) message[n] = __shfl_sync(0xffffffffu, g, first + n);
                const unsigned to = shared_address(&s.g[half][part * PART_ROWS + rank * PART_OWN + 32 * i + first]);
#pragma unroll
                for (int c = 0; c < CLUSTER; c += COPIES)
                    send_if(CLUSTER % COPIES == 0 || copy + c < CLUSTER, in_block(to, copy + c), message, in_block(g_there, copy + c));
                if (step == data.steps - 1 && cluster == 0 && lane < PER && row < count) E[row] = error;
                y[part][i] = data.target(next, row);
            }
        }
        for (int part = 0; part < PARTS; ++part)   // with a time limit, for the computing warps as well
            mbarrier_wait(shared_address(&s.g_there[half][part]), parity, "g", step);
        __syncwarp();
        block_barrier();
        batch = next;
    }
    if (rank == 0 && cluster == 0 && lane == 0) count_steps(workspace, step);
}
