"""Lanes of a warp together, in the CPU emulator of CUDA: shuffles, and products on tensor cores."""

import cuda_on_cpu
import numpy as np
import pytest
from cuda_on_cpu import KernelError
from test_cuda_on_cpu import compiler, launched

pytestmark = pytest.mark.skipif(cuda_on_cpu.MISSING, reason="no g++ on this machine")


@pytest.fixture
def kernel(tmp_path):
    return compiler(tmp_path)


@pytest.mark.parametrize(
    ("shuffle", "heard"),
    [
        ("__shfl_sync(~0u, v, 3)", lambda i: i // 32 * 32 + 3),
        ("__shfl_sync(~0u, v, 3, 8)", lambda i: i // 8 * 8 + 3),
        ("__shfl_up_sync(~0u, v, 2)", lambda i: np.where(i % 32 < 2, i, i - 2)),
        ("__shfl_down_sync(~0u, v, 2)", lambda i: np.where(i % 32 > 29, i, i + 2)),
        ("__shfl_down_sync(~0u, v, 1, 4)", lambda i: np.where(i % 4 == 3, i, i + 1)),
        ("__shfl_xor_sync(~0u, v, 5)", lambda i: i ^ 5),
    ],
)
def test_shuffles(kernel, shuffle, heard):
    lanes = np.arange(64)
    body = f"float v = A[threadIdx.x]; B[threadIdx.x] = {shuffle};"
    np.testing.assert_array_equal(launched(kernel(body)), heard(lanes))


def test_lanes_that_are_not_there_are_not_waited_for(kernel):
    body = """
    float sum = A[threadIdx.x];
    for (int i = 16; i > 0; i /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, i);
    B[threadIdx.x] = sum;
    """
    assert np.isnan(launched(kernel(body), n=21, block=(21,))).all()
    half = body.replace("0xffffffffu", "0x0000ffffu").replace("i = 16", "i = 8")
    assert (launched(kernel(half), n=16, block=(16,)) == 120).all()


@pytest.mark.parametrize(
    ("name", "k", "pack"),
    [("mma_m16n8k8_tf32", 8, 1), ("mma_m16n8k16_bf16", 16, 2), ("mma_m16n8k16_fp16", 16, 2)],
    ids=["tf32", "bf16", "fp16"],
)
def test_a_warp_multiplies_on_tensor_cores(kernel, name, k, pack):
    """The fragments as PTX's manual has them: element i of a lane, several of which share a register."""
    random = np.random.default_rng(3)
    matrices = [random.integers(-8, 9, size).astype(np.float32) for size in ((16, k), (k, 8))]
    lane, i = np.divmod(np.arange(32 * 4 * pack), 4 * pack)
    group, member = np.divmod(lane, 4)
    row = group + i // pack % 2 * 8
    a = matrices[0][row, member * pack + i % pack + i // (2 * pack) * (k // 2)].reshape(32, 4, pack)
    lane, i = np.divmod(np.arange(32 * 2 * pack), 2 * pack)
    group, member = np.divmod(lane, 4)
    b = matrices[1][member * pack + i % pack + i // pack * (k // 2), group].reshape(32, 2, pack)
    halves = np.concatenate([a, b], axis=1).view(np.uint32)  # integers this small are exact in either format
    registers = halves[..., 0] if pack == 1 else halves[..., 0] >> 16 | halves[..., 1]
    if name.endswith("fp16"):
        registers = np.concatenate([a, b], axis=1).astype(np.float16).view(np.uint32)[..., 0]
    body = f"""
    unsigned a[4], b[2];
    for (int i = 0; i < 4; ++i) a[i] = __float_as_uint(A[threadIdx.x * 6 + i]);
    for (int i = 0; i < 2; ++i) b[i] = __float_as_uint(A[threadIdx.x * 6 + 4 + i]);
    float sum[4] = {{0, 100, 200, 300}};
    {name}(sum, a, b);
    for (int i = 0; i < 4; ++i) B[threadIdx.x * 4 + i] = sum[i];
    """
    arguments = registers.view(np.float32).ravel(), np.zeros(128, dtype=np.float32), 0
    multiply = kernel(body)
    multiply((1,), (32,), arguments)
    lane, i = np.divmod(np.arange(128), 4)
    product = (matrices[0] @ matrices[1])[lane // 4 + i // 2 * 8, lane % 4 * 2 + i % 2]
    np.testing.assert_array_equal(arguments[1], product + 100 * i)
    with pytest.raises(KernelError, match="a warp of 20 lanes at what all 32 must do, in line 9"):
        multiply((1,), (20,), arguments)
    some = kernel(body.replace(name, f"if (threadIdx.x < 12) {name}") + "__syncthreads();")
    with pytest.raises(
        KernelError, match=r"12 wait at an instruction of the warp in line 9 .*, 20 wait at __sync"
    ):
        some((1,), (32,), arguments)


def test_halves_are_rounded_as_numpy_does(kernel):
    """To the nearest, ties to even, with numbers below 2^-14 and infinity; and back."""
    random = np.random.default_rng(5)
    special = [
        0,
        -0.0,
        65504,
        65519.99,
        65520,
        np.inf,
        -np.inf,
        1 + 2**-11,
        1 + 3 * 2**-11,
        2**-14,
        2**-24,
        2**-25,
    ]
    others = np.ldexp(random.uniform(-2, 2, 52), random.integers(-30, 17, 52))
    numbers = np.array([*special, *others], np.float32)
    body = """
    const unsigned halves = cvt_rn_f16x2(A[2 * threadIdx.x + 1], A[2 * threadIdx.x]);
    const float2 back = floats_of(halves);
    B[2 * threadIdx.x] = back.x; B[2 * threadIdx.x + 1] = back.y;
    """
    with np.errstate(over="ignore"):
        expected = numbers.astype(np.float16).astype(np.float32)
    rounded = np.zeros(64, dtype=np.float32)
    kernel(body)((1,), (32,), (numbers, rounded, 0))
    np.testing.assert_array_equal(rounded, expected)


@pytest.mark.parametrize("transposed", [False, True])
def test_a_warp_loads_four_matrices(kernel, transposed):
    """Of each matrix, lane l receives columns 2 (l % 4) and the next of row l / 4; or rows of a column."""
    matrices = np.arange(4 * 64, dtype=np.uint16).reshape(4, 8, 8)
    body = f"""
    __shared__ __align__(16) unsigned s[128];
    for (int i = threadIdx.x; i < 128; i += 32) s[i] = __float_as_uint(A[i]);
    __syncwarp();
    unsigned v[4];
    load_{"transposed" if transposed else "matrices"}(v, s + 4 * threadIdx.x);
    for (int i = 0; i < 4; ++i) B[4 * threadIdx.x + i] = __uint_as_float(v[i]);
    """
    arguments = matrices.view(np.float32).ravel(), np.zeros(128, dtype=np.float32), 0
    kernel(body)((1,), (32,), arguments)
    found = arguments[1].view(np.uint16).reshape(8, 4, 4, 2)  # row, pair, matrix, of the pair
    seen = matrices.transpose(0, 2, 1) if transposed else matrices
    np.testing.assert_array_equal(found.transpose(2, 0, 1, 3).reshape(4, 8, 8), seen)


def test_the_largest_of_a_warp(kernel):
    before = np.random.default_rng(2).integers(0, 1000, 32).astype(np.float32)
    body = "B[threadIdx.x] = __reduce_max_sync(0xffffffff, (unsigned)A[threadIdx.x]);"
    after = np.zeros(32, dtype=np.float32)
    kernel(body)((1,), (32,), (before, after, 0))
    np.testing.assert_array_equal(after, np.full(32, before.max()))
