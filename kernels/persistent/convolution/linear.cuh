// The linear layer and the loss. A block has partial logits, of its part's features; the parts of an image exchange
// them by messages (messages.cuh), and each computes the gradient of all the image's logits.

// Sums over a warp. Lanes that are APART share the sums: each keeps half of them and gives the other half away. In the end
// a lane has one sum, number lane / (32 / POWER).
template <int LEFT, int APART>
__device__ void sum_over_lanes(float (&sum)[POWER], int lane)
{
    const bool upper = lane & APART;
    if constexpr (LEFT == 0) {
        sum[0] += __shfl_xor_sync(0xffffffff, sum[0], APART);
    } else {
#pragma unroll
        for (int i = 0; i < LEFT; ++i) {
            const float low = sum[i], high = sum[i + LEFT];
            sum[i] = (upper ? high : low) + __shfl_xor_sync(0xffffffff, upper ? low : high, APART);
        }
    }
    if constexpr (APART > 1) sum_over_lanes<LEFT / 2, APART / 2>(sum, lane);
}

struct Linear : Forward {
    // Row of the linear layer's matrix that belongs to a slot of a part; -1 for padding.
    __device__ static int feature(int slot)
    {
        const int part = slot / SLOTS, f = slot % F2, w = slot % SLOTS / F2, row = part * PR + w / WP;
        return part < PARTS && f < FILTERS2 && row < HP ? (f * HP + row) * WP + w % WP : -1;
    }

    // Starts to read the part's rows of the linear layer's matrix, which arrive while conv2 is computed.
    __device__ void read_linear() const
    {
        const float* const FC = S + AT_FC + part * SLOTS * OUTPUTS;
        for (int i = 4 * t; i < SLOTS * OUTPUTS; i += 4 * THREADS) copy_async(shared_address(s.FC + i), FC + i);
    }

    __device__ void row_of_FC(int slot, float (&w)[OUTPUTS]) const
    {
        const float* const from = s.FC + slot * OUTPUTS;
        if constexpr (OUTPUTS % 2 == 0)
#pragma unroll
            for (int o = 0; o < OUTPUTS; o += 2) {
                const float2 v = pair_at(from + o);
                w[o] = v.x, w[o + 1] = v.y;
            }
        else
#pragma unroll
            for (int o = 0; o < OUTPUTS; ++o) w[o] = from[o];
    }

    // Publishes the pooled features, and exchanges partial logits with the other parts of the image.
    __device__ void exchange_logits()
    {
        float* const to = S + AT_POOLED + (size_t)image * ALL_FC + part * SLOTS;
        for (int i = 4 * t; i < SLOTS; i += 4 * THREADS)
            *reinterpret_cast<float4*>(to + i) = *reinterpret_cast<const float4*>(s.pooled + i);
        float sum[POWER] = {};
        for (int i = t; i < SLOTS; i += THREADS) {
            const float v = s.pooled[i];
            float w[OUTPUTS];
            row_of_FC(i, w);
#pragma unroll
            for (int o = 0; o < OUTPUTS; ++o) sum[o] += v * w[o];
        }
        sum_over_lanes<POWER / 2, 16>(sum, lane);
        if (lane % (32 / POWER) == 0) s.logits[warp][lane / (32 / POWER)] = sum[0];
        __syncthreads();
        Word* const words = reinterpret_cast<Word*>(S + AT_LOGITS) + image * PARTS * OUTPUTS;
        if (t < OUTPUTS) {
            float logit = 0.0f;
            for (int from = 0; from < WARPS; ++from) logit += s.logits[from][t];
            publish(words + part * OUTPUTS + t, (Word)(step + 1) << 32 | __float_as_uint(logit));
        }
        for (int i = t; i < PARTS * OUTPUTS; i += THREADS)
            s.all_logits[i / OUTPUTS][i % OUTPUTS] = __uint_as_float((unsigned)await(words + i, step + 1, "logits", step));
        __syncthreads();
    }

    __device__ static float over_lanes(float v, bool largest)
    {
        for (int apart = 1; apart < 32; apart *= 2) {
            const float other = __shfl_xor_sync(0xffffffff, v, apart);
            v = largest ? (other > v ? other : v) : v + other;
        }
        return v;
    }

    // The loss of the image, and the gradient of its logits: of a mean over the batch, or of a sum.
    __device__ void differentiate_loss()
    {
        if (warp == 0) {
            const bool mine = lane < OUTPUTS;
            float z = mine ? s.b3[lane] : 0.0f;
            if (mine)
                for (int from = 0; from < PARTS; ++from) z += s.all_logits[from][lane];
            const float most = over_lanes(mine ? z : __uint_as_float(0xff800000), true), apart = z - most;
            const float sum = over_lanes(mine ? expf(apart) : 0.0f, false);
            const float loss = over_lanes(mine ? target * (logf(sum) - apart) : 0.0f, false);
            const float scale = MEAN ? 1.0f / count : 1.0f;
            const float dl = has_image() && mine ? scale * (expf(apart) / sum - target) : 0.0f;
            s.dl[lane] = dl;
            if (part == 0 && mine) S[AT_DL + image * OUTPUTS + lane] = dl;
            if (part == 0 && lane == 0 && has_image()) E[(size_t)batch * BATCH + image] = loss;
        }
        __syncthreads();
    }
};
