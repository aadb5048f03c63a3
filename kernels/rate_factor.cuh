enum Form { LINEAR, STEP, COSINE };

// The rate after so many steps, divided by the full one: snn/models/schedules.py.
__device__ double rate_factor(double done, int form, int warmup, int length, double end)
{
    if (done < warmup) return (done + 1.0) / warmup;
    const double after = done - warmup, share = fmin(after / length, 1.0);
    if (form == STEP) return pow(end, floor(after / length));
    if (form == COSINE) return end + (1.0 - end) * (1.0 + cospi(share)) / 2.0;
    return 1.0 + (end - 1.0) * share;  // LINEAR, and to 1 a constant rate
}
