// Updates of a parameter w by an optimiser, of which kernels/layers/optimizers.cu has the formulae. `kept` is what the
// optimiser keeps of w; `numbers` are what the update has after the rate (Optimizer.numbers).

#include "../adam.cuh"

enum class Update { update, decay_update, momentum_update, nesterov_update, adam_update, adamw_update };

struct Numbers {
    float rate, of[4];
};

// What depends on the number of steps that a run has trained: Adam's bias corrections, from [1] on as count_step has them.
struct OfStep {
    float T[3];

    OfStep() = default;
    __device__ OfStep(const Numbers& numbers, double before)
    {
        const double t = before + 1.0;
        T[1] = (float)(1.0 / (1.0 - pow(1.0 - (double)numbers.of[0], t)));
        T[2] = (float)(1.0 / sqrt(1.0 - pow(1.0 - (double)numbers.of[1], t)));
    }
};

// The new w.
template <Update U>
__device__ float updated(float w, float gradient, float (&kept)[2], const Numbers& numbers, const OfStep& step)
{
    const float rate = numbers.rate, *const of = numbers.of;
    if constexpr (U == Update::update) {
        return w - rate * gradient;
    } else if constexpr (U == Update::decay_update) {
        return w - rate * (gradient + of[0] * w);
    } else if constexpr (U == Update::momentum_update || U == Update::nesterov_update) {
        gradient += of[1] * w;
        const float m = kept[0] = of[0] * kept[0] + gradient;
        return w - rate * (U == Update::nesterov_update ? gradient + of[0] * m : m);
    } else {
        if constexpr (U == Update::adamw_update) w -= rate * of[3] * w;
        else gradient += of[3] * w;
        return stepped(w, gradient, &kept[0], &kept[1], step.T, rate, of[0], of[1], of[2]);
    }
}
