#include "cuda_on_cpu.h"

namespace cuda_on_cpu {
namespace {

float tf32_in(unsigned bits, int) { return bits_as<float>(bits & 0xffffe000); }  // the others are ignored
float bf16_in(unsigned bits, int place) { return bits_as<float>(bits >> 16 * place << 16); }
float fp16_in(unsigned bits, int place) { return fp16_value(bits >> 16 * place & 0xffff); }

// The last bits are left out, as an NVIDIA H100 does where it adds up.
float towards_zero(double sum)
{
    const float nearest = sum;
    return std::fabs((double)nearest) > std::fabs(sum) ? std::nextafter(nearest, 0.0f) : nearest;
}

// PACK numbers a register, K values of k, and what the bits of one number are worth. A sum is one in double, in the order
// of k, then truncated.
template <int PACK, int K, float (*value)(unsigned bits, int place)>
void multiply(void* const (&lanes)[32])
{
    double A[16][K], B[K][8];
    for (int lane = 0; lane < 32; ++lane) {
        const MmaOperands& own = *static_cast<MmaOperands*>(lanes[lane]);
        for (int i = 0; i < 4; ++i)
            for (int p = 0; p < PACK; ++p) {
                const int group = lane / 4, k = lane % 4 * PACK + p;
                A[group + i % 2 * 8][k + i / 2 * (K / 2)] = value(own.a[i], p);
                if (i < 2) B[k + i * (K / 2)][group] = value(own.b[i], p);
            }
    }
    for (int row = 0; row < 16; ++row) {
        double sum[8];
        const auto own = [&](int column) -> float& {
            void* const lane = lanes[row % 8 * 4 + column / 2];
            return static_cast<MmaOperands*>(lane)->sum[row / 8 * 2 + column % 2];
        };
        for (int column = 0; column < 8; ++column) sum[column] = own(column);
        for (int k = 0; k < K; ++k)
            for (int column = 0; column < 8; ++column) sum[column] += A[row][k] * B[k][column];
        for (int column = 0; column < 8; ++column) own(column) = towards_zero(sum[column]);
    }
}

template <bool TRANSPOSED>
void exchange(void* const (&lanes)[32])
{
    const auto half = [&](int matrix, int row, int column) {
        const auto given = static_cast<RowOfMatrices*>(lanes[8 * matrix + row])->given;
        return given[column / 2] >> 16 * (column % 2) & 0xffff;
    };
    for (int lane = 0; lane < 32; ++lane)
        for (int matrix = 0; matrix < 4; ++matrix) {
            const int p = lane / 4, q = lane % 4 * 2;
            static_cast<RowOfMatrices*>(lanes[lane])->received[matrix] =
                TRANSPOSED ? half(matrix, q, p) | half(matrix, q + 1, p) << 16
                           : half(matrix, p, q) | half(matrix, p, q + 1) << 16;
        }
}

}  // namespace

void multiply_tf32(void* const (&lanes)[32]) { multiply<1, 8, tf32_in>(lanes); }
void multiply_bf16(void* const (&lanes)[32]) { multiply<2, 16, bf16_in>(lanes); }
void multiply_fp16(void* const (&lanes)[32]) { multiply<2, 16, fp16_in>(lanes); }
void exchange_rows(void* const (&lanes)[32]) { exchange<false>(lanes); }
void exchange_transposed(void* const (&lanes)[32]) { exchange<true>(lanes); }
void store_rows(void* const (&lanes)[32])
{
    for (int lane = 0; lane < 32; ++lane)
        for (int matrix = 0; matrix < 4; ++matrix)
            static_cast<RowToStore*>(lanes[8 * matrix + lane / 4])->row[lane % 4] =
                static_cast<RowToStore*>(lanes[lane])->given[matrix];
}

// Numbers of one sign are in the order of their bits, so that a carry of the mantissa is right to change the exponent.
unsigned nearest_tf32(float x)
{
    return x != x ? 0x7fffffff : (bits_as<unsigned>(x) + 0x1000) & 0xffffe000;
}

unsigned nearest_bf16(float x)
{
    const unsigned bits = bits_as<unsigned>(x);
    return x != x ? 0x7fff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

unsigned nearest_fp16(float x)
{
    if (x != x) return 0x7fff;
    const unsigned sign = bits_as<unsigned>(x) >> 16 & 0x8000;
    const float size = std::fabs(x);
    if (size >= 65520.0f) return sign | 0x7c00;
    if (size < 0x1p-14f) return sign | (unsigned)std::nearbyintf(size * 0x1p24f);
    const unsigned bits = bits_as<unsigned>(size) - (112u << 23);
    return sign | (bits + 0xfff + (bits >> 13 & 1)) >> 13;
}

float fp16_value(unsigned half)
{
    const float sign = half >> 15 ? -1.0f : 1.0f;
    const unsigned size = half & 0x7fff;
    if (size > 0x7c00) return NAN;
    return sign * (size == 0x7c00 ? INFINITY : bits_as<float>(size << 13) * 0x1p112f);
}

}  // namespace cuda_on_cpu
