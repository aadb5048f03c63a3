// The operations of a source that convolves and applies what follows at once. It defines the divisions of the work,
// Forward<ALIGN>, Backward and Sums<POOLED>, and
//
//   forward<D>(X, W, band), backward<POOLED>(G, I, W, band)
//       leave a band of outputs in shared memory, and return it
//   weight_sums<POOLED>(G, I, X, part)
//       writes a part of the gradients of W and b

#define KERNEL_OF(D) extern "C" __global__ __launch_bounds__(D::THREADS, 1) void  // 1 block per SM: no limit on registers
#define LAUNCH_OF(op, D) LAUNCH(op, D::GRID_X, D::GRID_Y, D::THREADS)

LAUNCH_OF(conv2d, Forward<1>)
LAUNCH_OF(conv2d_relu, Forward<1>)
LAUNCH_OF(conv2d_relu_pool, Forward<SIZE>)
LAUNCH_OF(conv2d_dgrad, Backward)
LAUNCH_OF(conv2d_dgrad_mask, Backward)
LAUNCH_OF(conv2d_dgrad_pooled, Backward)
LAUNCH_OF(conv2d_dgrad_pooled_mask, Backward)
LAUNCH_OF(conv2d_wgrad_parts, Sums<false>)
LAUNCH_OF(conv2d_wgrad_parts_pooled, Sums<true>)

#if !defined(ONLY) || defined(ONLY_conv2d)
KERNEL_OF(Forward<1>) conv2d(const float* X, const float* W, const float* b, float* Z, SHAPE)
{
    Band band;
    const float* sums = forward<Forward<1>>(X, W, band);
    write_band<Forward<1>>(sums, band, [=](size_t at, int f, float z) { Z[at] = z + b[f]; });
}
#endif

#if !defined(ONLY) || defined(ONLY_conv2d_relu)
KERNEL_OF(Forward<1>) conv2d_relu(const float* X, const float* W, const float* b, float* Z, SHAPE)
{
    Band band;
    const float* sums = forward<Forward<1>>(X, W, band);
    write_band<Forward<1>>(sums, band, [=](size_t at, int f, float z) { Z[at] = rectified(z + b[f]); });
}
#endif

#if !defined(ONLY) || defined(ONLY_conv2d_relu_pool)
// The largest of max(z + b, 0) is max(z' + b, 0) of the largest z' only if none of them is negative: of those that
// are, the first is meant. So bias and ReLU come before the comparison.
KERNEL_OF(Forward<SIZE>) conv2d_relu_pool(const float* X, const float* W, const float* b, float* Z, float* I, SHAPE, int)
{
    Band band;
    const float* sums = forward<Forward<SIZE>>(X, W, band);
    write_windows<Forward<SIZE>>(sums, band, [=](float z, int f) { return rectified(z + b[f]); },
                                 [=](size_t at, float z, int which) { Z[at] = z, I[at] = which; });
}
#endif

#if !defined(ONLY) || defined(ONLY_conv2d_dgrad)
KERNEL_OF(Backward) conv2d_dgrad(const float* G, const float* W, float* D, SHAPE)
{
    Band band;
    const float* sums = backward<false>(G, nullptr, W, band);
    write_band<Backward>(sums, band, [=](size_t at, int, float d) { D[at] = d; });
}
#endif

#if !defined(ONLY) || defined(ONLY_conv2d_dgrad_mask)
KERNEL_OF(Backward) conv2d_dgrad_mask(const float* G, const float* W, float* D, const float* H, SHAPE)
{
    Band band;
    const float* sums = backward<false>(G, nullptr, W, band);
    write_band<Backward>(sums, band, [=](size_t at, int, float d) { D[at] = H[at] > 0.0f ? d : 0.0f; });
}
#endif

#if !defined(ONLY) || defined(ONLY_conv2d_dgrad_pooled)
KERNEL_OF(Backward) conv2d_dgrad_pooled(const float* G, const float* I, const float* W, float* D, SHAPE, int)
{
    Band band;
    const float* sums = backward<true>(G, I, W, band);
    write_band<Backward>(sums, band, [=](size_t at, int, float d) { D[at] = d; });
}
#endif

#if !defined(ONLY) || defined(ONLY_conv2d_dgrad_pooled_mask)
KERNEL_OF(Backward)
conv2d_dgrad_pooled_mask(const float* G, const float* I, const float* W, float* D, const float* H, SHAPE, int)
{
    Band band;
    const float* sums = backward<true>(G, I, W, band);
    write_band<Backward>(sums, band, [=](size_t at, int, float d) { D[at] = H[at] > 0.0f ? d : 0.0f; });
}
#endif

#if !defined(ONLY) || defined(ONLY_conv2d_wgrad_parts)
KERNEL_OF(Sums<false>) conv2d_wgrad_parts(const float* G, const float* X, float* S, SHAPE, int)
{
    weight_sums<false>(G, nullptr, X, S + (size_t)blockIdx.x * (WEIGHTS + FILTERS));
}
#endif

#if !defined(ONLY) || defined(ONLY_conv2d_wgrad_parts_pooled)
KERNEL_OF(Sums<true>) conv2d_wgrad_parts_pooled(const float* G, const float* I, const float* X, float* S, SHAPE, int, int)
{
    weight_sums<true>(G, I, X, S + (size_t)blockIdx.x * (WEIGHTS + FILTERS));
}
#endif
