// One step of Adam, in the form of snn/models/optimizers.py; T as count_step writes it.

// The gradient of an element, clipped, with decay.
__device__ float followed(float w, float g, const float* T, float decay) { return T[4] * g + decay * w; }

// Part of the way from a mean to a new value, gain of it; the form of which the larger share is exact.
__device__ float moved(float mean, float value, float gain)
{
    return gain < 0.5f ? mean + gain * (value - mean) : value - (1.0f - gain) * (value - mean);
}

// W without the step along the means of a gradient.
__device__ float stepped(float w, float gradient, float* M, float* V, const float* T, float rate, float gain1,
                         float gain2, float eps)
{
    const float m = *M = moved(*M, gradient, gain1);
    const float v = *V = moved(*V, gradient * gradient, gain2);
    return w - rate * T[3] * T[1] * (m / (sqrtf(v) * T[2] + eps));
}
