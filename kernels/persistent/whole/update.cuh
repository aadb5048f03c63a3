// The update of one parameter (formulae: snn/models/optimizers.py). The state is m and v, or the momentum, or nothing.

#include "../updates.cuh"

constexpr Update OWN = Update::UPDATE;
constexpr bool ADAM = OWN == Update::adam_update || OWN == Update::adamw_update;

struct Pace {
    float rate, over, decay;   // over: 1 / sqrt(1 - beta2^t), with rate times 1 / (1 - beta1^t) for Adam
};

#ifdef CUDA_ON_CPU
__device__ float fast_sqrt(float x) { return sqrtf(x); }
__device__ float fast_quotient(float a, float b) { return a / b; }
#else
// To about 1 ulp and 2 ulp; 0 for subnormal numbers, as everywhere in this kernel.
__device__ float fast_sqrt(float x)
{
    float root;
    asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(root) : "f"(x));
    return root;
}
__device__ float fast_quotient(float a, float b)
{
    float quotient;
    asm("div.approx.ftz.f32 %0, %1, %2;" : "=f"(quotient) : "f"(a), "f"(b));
    return quotient;
}
#endif

// (1 - part) mean + part x, exact for part = 1.
__device__ float mean_of(float mean, float x, float part) { return fmaf(part, x, fmaf(-part, mean, mean)); }

struct Formula {
    float a, b, eps, log_a, log_b;   // Adam's 1 - beta1 and 1 - beta2, and log(beta1), log(beta2); or the momentum, in a
    int before;                      // steps of earlier launches
    int form, warmup, length;        // of the schedule
    float end;

    template <int COUNT>
    __device__ float updated(float w, float gradient, float (&state)[COUNT], const Pace& now) const
    {
        if constexpr (OWN == Update::adamw_update) w -= now.decay * w;
        else gradient += now.decay * w;
        if constexpr (ADAM) {
            const float m = state[0] = mean_of(state[0], gradient, a);
            const float v = state[1] = mean_of(state[1], gradient * gradient, b);
            return w - now.rate * fast_quotient(m, fast_sqrt(v) * now.over + eps);
        } else if constexpr (STATES == 0) {
            return w - now.rate * gradient;
        } else {
            const float m = state[0] = a * state[0] + gradient;
            return w - now.rate * (OWN == Update::nesterov_update ? gradient + a * m : m);
        }
    }

    // 1 - beta^t without a product of t factors: a launch may begin with any step.
    __device__ Pace pace(float rate, float decay, int step) const
    {
        if (SCHEDULED) rate *= (float)rate_factor(before + step, form, warmup, length, end);
        if (OWN == Update::adamw_update) decay *= rate;
        if constexpr (!ADAM) return {rate, 1.0f, decay};
        const float t = (float)(before + step + 1);
        return {__fdividef(rate, -expm1f(t * log_a)), rsqrtf(-expm1f(t * log_b)), decay};
    }
};
