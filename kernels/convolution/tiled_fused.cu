// The convolutions that go with the kernel tiled_fused: those of fused, whose register and shared-memory tiles they are.

#include "fused.cu"
