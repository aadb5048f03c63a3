// What the tensor cores' instructions of PTX do, for all 32 lanes of a warp at once, with the fragments as its manual
// draws them; and the numbers that they take.
#pragma once

#include <cstdint>

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

// The nearest number, and of two the one further from 0 (TF32) or the even one. Any NaN becomes one of them.
unsigned nearest_tf32(float x);
unsigned nearest_bf16(float x);
unsigned nearest_fp16(float x);

float fp16_value(unsigned half);

}  // namespace cuda_on_cpu
