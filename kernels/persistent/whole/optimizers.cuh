// The update of one parameter: snn/models/optimizers.py has the formulae. The state is m and v, or the momentum, or nothing.

struct Pace {
    float rate, over, decay;   // over: 1 / sqrt(1 - beta2^t), with rate times 1 / (1 - beta1^t) for Adam
};

// Part of the way from a mean to a new value, gain of it; the form of which the larger share is exact.
__device__ float moved(float mean, float value, float gain)
{
    return gain < 0.5f ? mean + gain * (value - mean) : value - (1.0f - gain) * (value - mean);
}

#ifdef CUDA_ON_CPU
__device__ float fast_sqrt(float x) { return sqrtf(x); }
#else
__device__ float fast_sqrt(float x)   // to about 1 ulp
{
    float root;
    asm("sqrt.approx.f32 %0, %1;" : "=f"(root) : "f"(x));
    return root;
}
#endif

struct Formula {
    float a, b, eps, log_a, log_b;   // Adam's 1 - beta1 and 1 - beta2, and log(beta1), log(beta2); or the momentum, in a
    int before;                      // steps of earlier launches

    template <int COUNT>
    __device__ float updated(float w, float gradient, float (&state)[COUNT], const Pace& now) const
    {
        if (OPTIMIZER != ADAMW) gradient += now.decay * w;
        if constexpr (OPTIMIZER >= ADAM) {
            if (OPTIMIZER == ADAMW) w -= now.decay * w;
            const float m = state[0] = moved(state[0], gradient, a);
            const float v = state[1] = moved(state[1], gradient * gradient, b);
            return w - now.rate * __fdividef(m, fast_sqrt(v) * now.over + eps);
        } else if constexpr (OPTIMIZER == SGD) {
            return w - now.rate * gradient;
        } else {
            const float m = state[0] = a * state[0] + gradient;
            return w - now.rate * (OPTIMIZER == NESTEROV ? gradient + a * m : m);
        }
    }

    // 1 - beta^t without a product of t factors: a launch may begin with any step.
    __device__ Pace pace(float rate, float decay, int step) const
    {
        if constexpr (OPTIMIZER < ADAM) return {rate, 1.0f, decay};
        const float t = (float)(before + step + 1);
        return {__fdividef(rate, -expm1f(t * log_a)), rsqrtf(-expm1f(t * log_b)), OPTIMIZER == ADAMW ? rate * decay : decay};
    }
};
