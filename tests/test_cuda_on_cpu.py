"""The CPU emulator of CUDA itself: what it computes, and what it finds wrong."""

import compiled
import cuda_on_cpu
import numpy as np
import pytest
from cuda_on_cpu import KernelError

pytestmark = pytest.mark.skipif(cuda_on_cpu.MISSING, reason="no g++ on this machine")


def compiler(folder):
    """Compiles the body of a kernel `k(A, B, n)`, with what stands in front of it."""

    def compiled(body: str, before: str = "", **defines: object) -> cuda_on_cpu.Kernel:
        source = folder / "k.cu"
        parameters = "const float* __restrict__ A, float* __restrict__ B, int n"
        source.write_text(f'{before}\nextern "C" __global__ void k({parameters})\n{{\n{body}\n}}\n')
        return cuda_on_cpu.load(source, **defines)["k"]

    return compiled


@pytest.fixture
def kernel(tmp_path):
    return compiler(tmp_path)


def launched(kernel, n=64, grid=(1,), block=(64,), dynamic_shared=0):
    A = np.arange(n, dtype=np.float32)
    B = np.full(n, -1, dtype=np.float32)
    kernel(grid, block, (A, B, n), dynamic_shared)
    return B


REVERSE = """
    __shared__ float tile[SIZE];
    tile[threadIdx.x] = A[threadIdx.x];
    BARRIER
    B[threadIdx.x] = tile[n - 1 - threadIdx.x];
"""


def test_threads_meet_at_a_barrier(kernel):
    reverse = kernel(REVERSE, SIZE=64, BARRIER="__syncthreads();")
    np.testing.assert_array_equal(launched(reverse), np.arange(64)[::-1])


def test_a_missing_barrier_is_a_race(kernel):
    with pytest.raises(KernelError, match=r"k: thread .* shared memory, which thread .*: a race at k.cu:\d"):
        launched(kernel(REVERSE, SIZE=64, BARRIER=""))


def test_a_missing_barrier_before_the_next_tile_is_a_race(kernel):
    body = """
    __shared__ float tile[64];
    float sum = 0;
    for (int i = 0; i < 2; ++i) {
        tile[threadIdx.x] = A[threadIdx.x] + i;
        __syncthreads();
        sum += tile[63 - threadIdx.x];
    }
    B[threadIdx.x] = sum;
    """
    with pytest.raises(KernelError, match=r"shared memory, which thread .* with no barrier"):
        launched(kernel(body))


@pytest.mark.parametrize("order", ["threadIdx.x + 1", "threadIdx.x - 1"])
def test_no_thread_may_count_on_the_order_of_the_others(kernel, order):
    body = f"B[threadIdx.x] = 1; if (unsigned({order}) < n) B[threadIdx.x] += B[{order}];"
    with pytest.raises(KernelError, match=r"element .* of argument 1, .* a race"):
        launched(kernel(body))


def test_blocks_that_write_the_same_element_race(kernel):
    with pytest.raises(KernelError, match=r"writes element 3 of argument 1, .* wrote"):
        launched(kernel("if (threadIdx.x == 3) B[3] = blockIdx.x;"), grid=(2,))


def test_the_barrier_of_a_warp_orders_its_lanes_only(kernel):
    assert launched(kernel(REVERSE, SIZE=32, BARRIER="__syncwarp();"), n=32, block=(32,))[0] == 31
    with pytest.raises(KernelError, match="a race"):
        launched(kernel(REVERSE, SIZE=64, BARRIER="__syncwarp();"))


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("if (threadIdx.x < 8) __syncthreads();", r"8 wait at __syncthreads in line 4 .*, 56 have ended"),
        ("if (threadIdx.x < 8)\n__syncthreads();\nelse\n__syncthreads();", r"in line 5 .* in line 7"),
        ("if (threadIdx.x < 8) __syncwarp(); else __syncthreads();", r"8 wait at __syncwarp .*, 56"),
        (
            "if (threadIdx.x < 8) __syncthreads(); else BARRIER(1, 64);",
            r"8 wait at __sync.*, 56 wait at barrier 1 ",
        ),
        (
            "if (threadIdx.x < 8) BARRIER(2, 64); else BARRIER(1, 64);",
            r"8 wait at barrier 2 .*, 56 wait at barrier 1 ",
        ),
    ],
)
def test_a_divergent_barrier_is_told(kernel, body, says):
    with pytest.raises(KernelError, match=rf"divergent barrier in block \(0, 0, 0\): .*{says}"):
        launched(kernel(body, BARRIER="cuda_on_cpu::named_barrier"))


def test_a_named_barrier_is_reached_in_any_line_by_all_of_the_block(kernel):
    body = REVERSE.replace("BARRIER", "if (threadIdx.x < 32) BARRIER(1, SIZE);\nelse BARRIER(1, SIZE);")
    named = {"BARRIER": "cuda_on_cpu::named_barrier"}
    np.testing.assert_array_equal(launched(kernel(body, SIZE=64, **named)), np.arange(64)[::-1])
    with pytest.raises(KernelError, match="waits at barrier 1 for 64 of 32 threads"):
        launched(kernel(body, SIZE=64, **named), n=32, block=(32,))


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("B[n] = 1;", "writes 4 bytes out of bounds, 4 bytes past the end of argument 1, at k.cu:4"),
        ("B[0] = A[n + 1];", "reads 4 bytes out of bounds, 8 bytes past the end of argument 0, at k.cu:4"),
        ("B[0] = A[-1];", "reads 4 bytes out of bounds, 4 bytes before argument 0"),
        ("__shared__ float t[8]; t[n / 8] = 1; B[0] = t[n / 8];", r"uses index 8 of 'float \[8\]' in line 4"),
        ("*(float4*)(B + 1) = make_float4(1, 2, 3, 4);", "writes what is not aligned to 16 bytes at k.cu:4"),
        ("extern __shared__ float s[]; s[n] = 1; B[0] = s[n];", "beyond the shared memory that the launch"),
    ],
)
def test_what_lies_out_of_bounds_is_told(kernel, body, says):
    with pytest.raises(KernelError, match=says):
        launched(kernel(body), block=(1,), dynamic_shared=64 * 4)


def test_an_error_leaves_the_arrays_as_they_were_and_the_next_launch_works(kernel):
    wrong = kernel("B[threadIdx.x] = 7; if (threadIdx.x == 9) B[-5] = 0;")
    A, B = np.zeros(64, dtype=np.float32), np.ones(64, dtype=np.float32)
    with pytest.raises(KernelError):
        wrong((1,), (64,), (A, B, 64))
    assert (B == 1).all()
    assert (launched(kernel("B[threadIdx.x] = 7;")) == 7).all()


def test_shared_memory_is_no_number_in_each_block(kernel):
    body = """
    __shared__ float once;
    extern __shared__ float dynamic[];
    if (threadIdx.x == 0) {
        B[2 * blockIdx.x] = once;
        B[2 * blockIdx.x + 1] = dynamic[5];
        once = dynamic[5] = 1;
    }
    """
    assert np.isnan(launched(kernel(body), grid=(32,), dynamic_shared=32)).all()


def test_dynamic_shared_memory(kernel):
    body = REVERSE.replace("__shared__ float tile[SIZE]", "extern __shared__ __align__(16) float tile[]")
    reverse = kernel(body, BARRIER="__syncthreads();")
    np.testing.assert_array_equal(launched(reverse, dynamic_shared=64 * 4), np.arange(64)[::-1])


def test_a_thread_knows_its_place(kernel):
    body = """
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    const int z = blockIdx.z * blockDim.z + threadIdx.z;
    const int width = gridDim.x * blockDim.x, height = gridDim.y * blockDim.y;
    B[(z * height + y) * width + x] = x + 10 * y + 100 * z;
    """
    B = launched(kernel(body), n=8 * 6 * 4, grid=(2, 3, 2), block=(4, 2, 2))
    z, y, x = np.indices((4, 6, 8))
    np.testing.assert_array_equal(B.reshape(4, 6, 8), x + 10 * y + 100 * z)


def test_atomics_add_over_all_blocks(kernel):
    B = launched(kernel("atomicAdd(B, A[threadIdx.x]); atomicAdd(B + 1, 1.0f);"), grid=(50,))
    assert (B[0], B[1]) == (50 * 63 * 32 - 1, 50 * 64 - 1)


def test_templates_vectors_and_bits(kernel):
    before = """
    template <int N> __device__ __forceinline__ void copy(float (&to)[N], const float* from)
    {
    #pragma unroll
        for (int i = 0; i < N; ++i) to[i] = __ldg(from + i);
    }
    """
    body = """
    float r[4];
    copy(r, A + 4 * threadIdx.x);
    const float4 v = *reinterpret_cast<const float4*>(A + 4 * threadIdx.x);
    r[0] += __uint_as_float(__float_as_uint(v.x)); r[1] = __fsub_rn(__fmul_rn(v.y, 2.0f), r[1]);
    r[2] = fmaxf(v.z, r[2]); r[3] = min(fmaf(1.0f, v.w, 0.0f), 50.0f);
    *reinterpret_cast<float4*>(B + 4 * threadIdx.x) = make_float4(r[0], r[1], r[2], r[3]);
    """
    expected = np.arange(64, dtype=np.float32)
    expected[::4] *= 2
    expected[3::4] = np.minimum(expected[3::4], 50)
    np.testing.assert_array_equal(launched(kernel(body, before), block=(16,)), expected)


def test_a_source_that_does_not_compile_is_told(kernel):
    with pytest.raises(KernelError, match=r"k.cu:4.*nonsense"):
        kernel("nonsense;")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((np.zeros(2), np.zeros(2, dtype="f"), 2), "argument 0 is an array of float32, got float64"),
        ((np.zeros(2, dtype="f"), 3.0, 2), "argument 1 is an array of float32, got float"),
        ((np.zeros(2, dtype="f"), np.zeros((2, 2), dtype="f")[:, 0], 2), "argument 1 is not contiguous"),
        ((np.zeros(2, dtype="f"), np.zeros(2, dtype="f")), "takes 3 arguments, got 2"),
    ],
)
def test_arguments_are_checked(kernel, arguments, says):
    with pytest.raises(KernelError, match=says):
        kernel("")((1,), (1,), arguments)


def test_another_clone_finds_what_is_kept(monkeypatch):
    asked, kept = [], compiled.kept

    def told(name, decided_by, make):
        asked.append(repr(decided_by))
        return kept(name, decided_by, make)

    monkeypatch.setattr(compiled, "kept", told)
    source = cuda_on_cpu.SOURCES / "layers/bias.cu"
    cuda_on_cpu._built.__wrapped__(source, source.read_text(), ("-DBLOCK_X=1", "-DBLOCK_Y=1"))
    cuda_on_cpu._runtime.__wrapped__()
    assert len(asked) > 4
    assert not any(str(cuda_on_cpu.SOURCES.parent) in text for text in asked)


# ---- lanes of a warp together, in the CPU emulator of CUDA: shuffles, and products on tensor cores


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
