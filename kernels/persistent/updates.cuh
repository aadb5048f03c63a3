// Updates of a parameter w by an optimiser, of which kernels/layers/optimizers.cu has the formulae. `kept` is what the
// optimiser keeps of w.

#include "../adam.cuh"
#include "../rate_factor.cuh"

enum class Update { update, decay_update, momentum_update, nesterov_update, adam_update, adamw_update };

struct Numbers {
    float rate, of[4];   // of the update, after the rate (Optimizer.numbers)
    int form, warmup, length;
    float end;           // of the schedule (Schedule.numbers)
};

// What depends on the number of steps that a run has trained: as count_step has it, from T[1] on.
struct OfStep {
    float T[5] = {0.0f, 1.0f, 1.0f, 1.0f, 1.0f};

    OfStep() = default;
    __device__ OfStep(const Numbers& numbers, bool adam, double before)
    {
        const double t = before + 1.0;
        if (adam) T[1] = (float)(1.0 / (1.0 - pow(1.0 - (double)numbers.of[0], t)));
        if (adam) T[2] = (float)(1.0 / sqrt(1.0 - pow(1.0 - (double)numbers.of[1], t)));
        T[3] = (float)rate_factor(before, numbers.form, numbers.warmup, numbers.length, numbers.end);
    }
};

// The new w.
template <Update U>
__device__ float updated(float w, float gradient, float (&kept)[2], const Numbers& numbers, const OfStep& step)
{
    const float rate = numbers.rate * step.T[3], *const of = numbers.of, *const T = step.T;
    if constexpr (U == Update::update) {
        return w - rate * gradient;
    } else if constexpr (U == Update::decay_update) {
        return w - rate * followed(w, gradient, T, of[0]);
    } else if constexpr (U == Update::momentum_update || U == Update::nesterov_update) {
        gradient = followed(w, gradient, T, of[1]);
        const float m = kept[0] = of[0] * kept[0] + gradient;
        return w - rate * (U == Update::nesterov_update ? gradient + of[0] * m : m);
    } else {
        gradient = followed(w, gradient, T, U == Update::adam_update ? of[3] : 0.0f);
        if constexpr (U == Update::adamw_update) w -= rate * of[3] * w;
        return stepped(w, gradient, &kept[0], &kept[1], T, numbers.rate, of[0], of[1], of[2]);
    }
}
