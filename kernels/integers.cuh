// Arithmetic of sizes, at compile time and in indices.

__device__ constexpr int smaller(int a, int b) { return a < b ? a : b; }
__device__ constexpr int larger(int a, int b) { return a > b ? a : b; }
__device__ constexpr int up(int a, int b) { return (a + b - 1) / b; }
__device__ constexpr int to_multiple(int a, int of) { return up(a, of) * of; }
