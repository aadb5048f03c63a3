// What the tensor cores' instructions of PTX do, for all 32 lanes of a warp at once, with the fragments as its manual
// draws them; and the numbers that they take. A part of cuda_on_cpu.h.
#pragma once

namespace cuda_on_cpu {

struct MmaOperands {
    float* sum;
    const unsigned *a, *b;
};

// Adds A B to the sums. A lane's operands are MmaOperands: of 16 x 8 and 8 x 8 numbers in TF32, or of 16 x 16 and 16 x 8.
void multiply_tf32(void* const (&lanes)[32]);
void multiply_bf16(void* const (&lanes)[32]);
void multiply_fp16(void* const (&lanes)[32]);

struct RowOfMatrices {
    unsigned given[4];
    unsigned* received;
};

// ldmatrix: lane 8 i + j gives row j of matrix i, eight numbers of 16 bits, and receives two numbers of each matrix.
void exchange_rows(void* const (&lanes)[32]);
void exchange_transposed(void* const (&lanes)[32]);

struct RowToStore {
    unsigned* row;
    const unsigned* given;
};

// stmatrix: the reverse of ldmatrix.
void store_rows(void* const (&lanes)[32]);

// The nearest number, and of two the one further from 0 (TF32) or the even one. Any NaN becomes one of them.
unsigned nearest_tf32(float x);
unsigned nearest_bf16(float x);
unsigned nearest_fp16(float x);

float fp16_value(unsigned half);

}  // namespace cuda_on_cpu

// Of each of four digits of `which`, a byte of the two words, or, where it is 8 or more, that byte's sign eight times.
inline unsigned prmt(unsigned a, unsigned b, unsigned which)
{
    const uint64_t bytes = (uint64_t)b << 32 | a;
    unsigned result = 0;
    for (int i = 0; i < 4; ++i) {
        const unsigned digit = which >> 4 * i & 15, byte = bytes >> 8 * (digit & 7) & 0xff;
        result |= (digit < 8 ? byte : byte >> 7 ? 0xffu : 0u) << 8 * i;
    }
    return result;
}

inline unsigned cvt_rna_tf32(float x) { return cuda_on_cpu::nearest_tf32(x); }

inline unsigned cvt_rn_bf16x2(float high, float low)
{
    return cuda_on_cpu::nearest_bf16(high) << 16 | cuda_on_cpu::nearest_bf16(low);
}

inline unsigned cvt_rn_f16x2(float high, float low)
{
    return cuda_on_cpu::nearest_fp16(high) << 16 | cuda_on_cpu::nearest_fp16(low);
}

inline float2 floats_of(unsigned halves)
{
    return {cuda_on_cpu::fp16_value(halves & 0xffff), cuda_on_cpu::fp16_value(halves >> 16)};
}

inline void load_matrices(unsigned (&to)[4], const unsigned* row, int line = __builtin_LINE())
{
    cuda_on_cpu::RowOfMatrices own{{row[0], row[1], row[2], row[3]}, to};
    cuda_on_cpu::warp_work(cuda_on_cpu::exchange_rows, &own, line);
}

inline void load_transposed(unsigned (&to)[4], const unsigned* row, int line = __builtin_LINE())
{
    cuda_on_cpu::RowOfMatrices own{{row[0], row[1], row[2], row[3]}, to};
    cuda_on_cpu::warp_work(cuda_on_cpu::exchange_transposed, &own, line);
}

inline void store_matrices(unsigned* row, const unsigned (&v)[4], int line = __builtin_LINE())
{
    cuda_on_cpu::RowToStore own{row, v};
    cuda_on_cpu::warp_work(cuda_on_cpu::store_rows, &own, line);
}

inline void mma_m16n8k8_tf32(float (&sum)[4], const unsigned (&a)[4], const unsigned (&b)[2],
                             int line = __builtin_LINE())
{
    cuda_on_cpu::MmaOperands own{sum, a, b};
    cuda_on_cpu::warp_work(cuda_on_cpu::multiply_tf32, &own, line);
}

inline void mma_m16n8k16_bf16(float (&sum)[4], const unsigned (&a)[4], const unsigned (&b)[2],
                              int line = __builtin_LINE())
{
    cuda_on_cpu::MmaOperands own{sum, a, b};
    cuda_on_cpu::warp_work(cuda_on_cpu::multiply_bf16, &own, line);
}

inline void mma_m16n8k16_fp16(float (&sum)[4], const unsigned (&a)[4], const unsigned (&b)[2],
                              int line = __builtin_LINE())
{
    cuda_on_cpu::MmaOperands own{sum, a, b};
    cuda_on_cpu::warp_work(cuda_on_cpu::multiply_fp16, &own, line);
}
