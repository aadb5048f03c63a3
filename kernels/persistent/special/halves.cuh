// Products of float32 numbers on FP16 tensor cores, which multiply 11 bits of mantissa as TF32 ones do, but twice as many
// numbers per instruction. x = big + small / 2048, both FP16, so 22 bits of x are kept if 2^-14 <= |x| < 2^14; below, an
// absolute error of 2^-36. From 2^15 on it may become infinite. The product of two numbers is big big + (big small + small
// big) / 2048, with a sum for each of the two terms. Two neighbouring numbers share a word. Needs sm_80.
//
// A tile of 16 x 8 numbers is four matrices of 8 x 8 halves: big, rows 0 to 7 and 8 to 15, then small. A matrix is 32
// words, row by row: the word of a lane is what the lane has in an accumulator of mma.m16n8k8, or supplies as a left
// operand, and ldmatrix reads it for a product over its columns or, transposed, over its rows.

constexpr float OF_SMALL = 2048.0f;
constexpr int TILE = 128;   // words

#ifndef CUDA_ON_CPU  // the CPU emulator of the tests defines these
__device__ void mma_m16n8k16_fp16(float (&sum)[4], const unsigned (&a)[4], const unsigned (&b)[2])
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__device__ unsigned cvt_rn_f16x2(float high, float low)
{
    unsigned result;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
    return result;
}
__device__ float2 floats_of(unsigned halves)
{
    float2 v;
    asm("{\n.reg .f16 low, high;\nmov.b32 {low, high}, %2;\ncvt.f32.f16 %0, low;\ncvt.f32.f16 %1, high;\n}"
        : "=f"(v.x), "=f"(v.y) : "r"(halves));
    return v;
}
// Lane l supplies row l % 8 of matrix l / 8, four words, and receives the words of its place in each matrix.
__device__ void load_matrices(unsigned (&to)[4], const unsigned* row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"((unsigned)__cvta_generic_to_shared(row)) : "memory");
}
__device__ void load_transposed(unsigned (&to)[4], const unsigned* row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"((unsigned)__cvta_generic_to_shared(row)) : "memory");
}
// The reverse of load_matrices. Needs sm_90.
__device__ void store_matrices(unsigned* row, const unsigned (&v)[4])
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
                 :: "r"((unsigned)__cvta_generic_to_shared(row)), "r"(v[0]), "r"(v[1]), "r"(v[2]), "r"(v[3]) : "memory");
}
#endif

struct Halves {
    unsigned big, small;

    // The last bit of both words is 0, for the tag of a message.
    __device__ Halves(float low, float high)
    {
        big = cvt_rn_f16x2(high, low) & ~1u;
        const float2 v = floats_of(big);
        small = cvt_rn_f16x2((high - v.y) * OF_SMALL, (low - v.x) * OF_SMALL) & ~1u;
    }
};

// Four numbers of a lane's place in a tile, as they are in an accumulator: the four words of that place.
__device__ void words_of(const float (&v)[4], unsigned (&to)[4])
{
    for (int i = 0; i < 2; ++i) {
        const Halves x(v[2 * i], v[2 * i + 1]);
        to[i] = x.big, to[2 + i] = x.small;
    }
}

// Operands of mma.m16n8k16: N = 4 words of the left one, 2 of the right one.
template <int N>
struct HalfParts {
    unsigned big[N], small[N];
};

// Which row of which matrix a lane supplies, in words from the first of two neighbouring tiles: as a left operand over
// their columns (ACROSS), or over their rows (DOWN); of a single tile, as a right operand over its rows (ONE).
struct Places {
    int across, down, one;

    __device__ Places(unsigned lane = threadIdx.x % 32)
    {
        const unsigned row = lane % 8 * 4, low = lane / 8 % 2, high = lane / 16;
        across = high * TILE + low * 32 + row, down = low * TILE + high * 32 + row, one = lane * 4;
    }
    __device__ int second_across() const { return across / TILE * TILE; }   // of which the first tile takes the place
    __device__ Places of_one_tile() const   // the first tile in place of the second
    {
        Places result = *this;
        result.across -= second_across();
        return result;
    }
};
__device__ HalfParts<4> left_across(const unsigned* row)   // the lane's
{
    HalfParts<4> a;
    load_matrices(a.big, row), load_matrices(a.small, row + TILE / 2);
    return a;
}
__device__ HalfParts<4> left_down(const unsigned* row)
{
    HalfParts<4> a;
    load_transposed(a.big, row), load_transposed(a.small, row + TILE / 2);
    return a;
}
__device__ HalfParts<4> left_across(const unsigned* tile, const Places& place) { return left_across(tile + place.across); }
__device__ HalfParts<4> left_down(const unsigned* tile, const Places& place) { return left_down(tile + place.down); }
__device__ HalfParts<2> right_down(const unsigned* row)
{
    unsigned v[4];
    load_transposed(v, row);
    return {{v[0], v[1]}, {v[2], v[3]}};
}

// sum[...][0] is that of big big, sum[...][1] that of the other two products.
template <int M, int N>
__device__ void multiply(float (&sum)[M][N][2][4], const HalfParts<4> (&a)[M], const HalfParts<2> (&b)[N])
{
    for (int which = 2; which >= 0; --which)
        for (int m = 0; m < M; ++m)
            for (int n = 0; n < N; ++n)
                mma_m16n8k16_fp16(
                    sum[m][n][which > 0], which == 1 ? a[m].small : a[m].big, which == 2 ? b[n].small : b[n].big);
}
__device__ float total_of(const float (&sum)[2][4], int i) { return sum[0][i] + sum[1][i] * (1 / OF_SMALL); }
__device__ void total_of(const float (&sum)[2][4], float (&to)[4])
{
    for (int i = 0; i < 4; ++i) to[i] = total_of(sum, i);
}

// A power of two near the largest of numbers, which are given as the bits of their absolute values, and its inverse. From
// 2^-63 to 2^63, also if a number is infinite or none.
struct Scale {
    float times, over;

    Scale() = default;
    __device__ explicit Scale(unsigned largest)
    {
        const unsigned exponent = min(max(largest, 64u << 23) & 0x7f800000u, 190u << 23);
        times = __uint_as_float(exponent), over = __uint_as_float(0x7f000000u - exponent);
    }
    template <int COUNT> __device__ explicit Scale(const unsigned (&largest)[COUNT])
    {
        unsigned most = 0;
        for (int i = 0; i < COUNT; ++i) most = max(most, largest[i]);
        *this = Scale(most);
    }
};

// Products of a 0/1 matrix and a float32 matrix on FP16 tensor cores. A bit becomes 2 or 0; a float becomes two halves.

#ifndef CUDA_ON_CPU  // the CPU emulator of the tests defines it
__device__ unsigned prmt(unsigned a, unsigned b, unsigned which)
{
    unsigned result;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(which));
    return result;
}
#endif

// Bit `which` of each byte of a word, moved to bit 6 of that byte: the upper byte of the FP16 number 2.0.
__device__ unsigned each_byte(unsigned word, int which) { return __funnelshift_l(word, word, 6 - which) & 0x40404040; }

// Two FP16 numbers: byte i of `low` and byte j of `high`, each the upper byte of its half, above a byte of 0.
__device__ unsigned both(unsigned low, int i, unsigned high, int j)
{
    return prmt(low, high, (4 + j) << 12 | 0x808 | i << 4);
}

__device__ void write_halves(unsigned (&to)[2][64], int at, float low, float high)
{
    const Halves x(low, high);
    to[0][at] = x.big, to[1][at] = x.small;
}
__device__ void take_halves(unsigned (&b)[2][2], const unsigned (&from)[2][64], int at)
{
    for (int i = 0; i < 2; ++i) {
        const uint2 v = *reinterpret_cast<const uint2*>(&from[i][at]);
        b[i][0] = v.x, b[i][1] = v.y;
    }
}
__device__ void multiply_bits(float (&sum)[2][4], const unsigned (&a)[4], const unsigned (&b)[2][2])
{
    for (int i = 1; i >= 0; --i) mma_m16n8k16_fp16(sum[i], a, b[i]);
}
