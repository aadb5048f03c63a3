"""Every kernel that begins with a product, run on the CPU by cuda_on_cpu, against NumPy in float64.

A new source is tested by lying there, with the block and the elements per thread of its file in
config/kernel, and with odd blocks. What it may define is in PRODUCTS.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import cuda_on_cpu
import numpy as np
import pytest
from conftest import ROOT
from cuda_on_cpu import KernelError
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_builds import SOURCES, Build, builds, builds_of_old
from rounding import rounded

from snn.backends import kernel_source
from snn.backends.access import Access
from snn.backends.access import elements as visited
from snn.backends.ops import OPS
from snn.config import groups
from snn.models.layers import parse
from snn.models.network import Network, mlp
from snn.models.step import ADDING
from snn.models.training_step import prediction_step, training_step

pytestmark = pytest.mark.skipif(cuda_on_cpu.MISSING, reason="no g++ on this machine")

PRODUCT_SOURCES = [source for source in SOURCES if source.stem != "elementwise"]
PRODUCT_BUILDS = [build for source in PRODUCT_SOURCES for build in builds(source) + builds_of_old(source)]
ROUNDING_BUILDS = [build for build in PRODUCT_BUILDS if build.precision != "fp32"]
RATE = SCALE = np.float32(0.37)

_LAYERS = ("linear 5", "relu", "linear 5", "relu", "linear 1")
_OF_IMAGES = ("conv2d 2 3", "relu", "maxpool2d 2", "linear 4", "relu", "linear 1")
_PLAIN = (
    mlp((4, 5, 5, 1)),
    Network((4,), tuple(map(parse, _LAYERS))),
    Network((1, 6, 6), tuple(map(parse, _OF_IMAGES))),
)
NETWORKS = (*_PLAIN, *(replace(network, clip_norm=0.5) for network in _PLAIN))


@pytest.fixture(scope="module", autouse=True)
def compiled_side_by_side(request):
    """Compiles every build that these tests want, on all cores; an error shows in the test that wants it."""
    tests = (test for test in request.session.items if test.path == request.path)
    wanted = {test.callspec.params.get("build") for test in tests if hasattr(test, "callspec")} - {None}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for build in wanted:
            pool.submit(cuda_on_cpu.load, build.source, **build.defines)


# ---- what each kernel that begins with a product should write


@dataclass
class Given:
    """A (m x k), B (k x n), a matrix beside C, P = A B in float64 and how far a sum may lie from it."""

    A: np.ndarray
    B: np.ndarray
    beside: np.ndarray
    P: np.ndarray
    slack: np.ndarray


def nothing(given: Given) -> np.ndarray:
    return np.full(given.P.shape, np.nan, dtype=np.float32)


def store(given):
    return (nothing(given),), (), {0: (given.P, given.slack)}


def relu(given):
    return (nothing(given),), (), {0: (np.maximum(given.P, 0), given.slack)}


def bias(given):
    b = np.ascontiguousarray(given.beside[0])
    return (nothing(given), b), (), {0: (given.P + b, given.slack + 2e-7 * np.abs(given.P + b))}


def error(given):
    E = given.P - given.beside
    slack = given.slack + 2e-7 * np.abs(E)
    outputs = {0: (SCALE * E, SCALE * slack + 2e-7 * np.abs(E)), 2: (E, slack)}
    return (nothing(given), given.beside, nothing(given)), (SCALE,), outputs


def mask(given):
    return (nothing(given), given.beside), (), {0: (np.where(given.beside > 0, given.P, 0), given.slack)}


def update(given):
    W = given.beside - RATE * given.P
    slack = RATE * given.slack + 2e-7 * (np.abs(given.beside) + RATE * np.abs(given.P))
    return (given.beside.copy(),), (RATE,), {0: (W, slack)}


def update_both(given):
    (W,), scalars, outputs = update(given)
    expected, slack = outputs[0]
    return (W, nothing(given).T.copy()), scalars, outputs | {1: (expected.T, slack.T)}


def with_bias(follows):
    """An update, and that of the bias of the same layer."""

    def both(given):
        operands, scalars, outputs = follows(given)
        b, k = np.ascontiguousarray(given.beside[-1]), len(given.B)
        step = given.B.astype(np.float64).sum(axis=0) * RATE
        slack = 1e-6 * (k**0.5 + 1) * (np.abs(given.B).sum(axis=0) + np.abs(b))
        return (*operands, b.copy()), scalars, outputs | {len(operands): (b - step, slack)}

    return both


# name: (A stored transposed, B stored transposed, what follows the product)
PRODUCTS = {
    "matmul": (False, False, store),
    "matmul_tn": (True, False, store),
    "matmul_nt": (False, True, store),
    "matmul_relu": (False, False, relu),
    "matmul_bias": (False, False, bias),
    "matmul_error": (False, False, error),
    "matmul_mask": (False, False, mask),
    "matmul_nt_mask": (False, True, mask),
    "matmul_tn_update": (True, False, update),
    "matmul_tn_update_both": (True, False, update_both),
    "matmul_tn_update_bias": (True, False, with_bias(update)),
    "matmul_tn_update_both_bias": (True, False, with_bias(update_both)),
}


def given_of(build: Build, A: np.ndarray, B: np.ndarray, beside: np.ndarray) -> Given:
    wide = [rounded(matrix, build.precision).astype(np.float64) for matrix in (A, B)]
    with np.errstate(invalid="ignore"):
        P = (wide[0][:, :, None] * wide[1][None]).sum(1) if A.size * B.shape[1] < 5000 else wide[0] @ wide[1]
        slack = 1e-6 * (A.shape[1] ** 0.5 + 1) * (np.abs(wide[0]) @ np.abs(wide[1])) + 1e-30
    return Given(A, B, beside, P, slack)


def run(build: Build, name: str, given: Given):
    """Launches a kernel; pairs of what it wrote and (what it should have written, tolerance)."""
    a_transposed, b_transposed, follows = PRODUCTS[name]
    A = np.ascontiguousarray(given.A.T if a_transposed else given.A)
    B = np.ascontiguousarray(given.B.T if b_transposed else given.B)
    beside, scalars, outputs = follows(given)
    (m, k), n = given.A.shape, given.B.shape[1]
    kernel = cuda_on_cpu.load(build.source, **build.defines)[name]
    kernel(build.grid(m, n), build.block, (A, B, *beside, m, k, n, *scalars))
    return [(beside[i], *outputs[i]) for i in outputs]


# ---- products

sizes = st.one_of(st.integers(1, 70), st.integers(1, 8), st.just(1), st.just(64))
shapes = st.one_of(
    st.tuples(sizes, st.one_of(st.just(0), sizes), sizes),
    st.tuples(st.integers(127, 130), st.integers(1, 40), st.integers(1, 20)),
    st.tuples(st.integers(1, 20), st.integers(127, 130), st.integers(1, 40)),
    st.tuples(st.integers(1, 40), st.integers(1, 20), st.integers(127, 130)),
    # Whole tiles and one row or column less, in lines that can be read as vectors.
    st.tuples(*3 * [st.sampled_from([16, 31, 32, 63, 64])]),
)


@pytest.mark.parametrize("build", PRODUCT_BUILDS, ids=str)
class TestProducts:
    def test_every_kernel_is_known(self, build):
        names = set(cuda_on_cpu.load(build.source, **build.defines))
        assert {"matmul", "matmul_tn"} <= names <= set(PRODUCTS)

    @settings(max_examples=8)
    @given(shape=shapes, seed=st.integers(0, 2**32 - 1))
    def test_real_numbers(self, build, shape, seed):
        m, k, n = shape
        random = np.random.default_rng(seed)
        matrices = [random.standard_normal(size, dtype=np.float32) for size in ((m, k), (k, n), (m, n))]
        given = given_of(build, *matrices)
        for name in cuda_on_cpu.load(build.source, **build.defines):
            for got, expected, slack in run(build, name, given):
                wrong = ~(np.abs(got - expected) <= slack)
                assert not wrong.any(), f"{name}: {wrong.sum()} elements, the first {np.argwhere(wrong)[0]}"

    @settings(max_examples=4)
    @given(shape=st.tuples(*3 * [st.integers(1, 40)]), seed=st.integers(0, 2**32 - 1))
    def test_small_integers_are_exact_and_what_is_not_finite_passes_through(self, build, shape, seed):
        m, k, n = shape
        random = np.random.default_rng(seed)
        A, B, beside = (random.integers(-3, 4, size).astype(np.float32) for size in ((m, k), (k, n), (m, n)))
        for matrix in (A, B, beside):
            for value in (np.nan, np.inf, -np.inf):
                if random.random() < 0.5:
                    matrix[tuple(random.integers(0, matrix.shape))] = value
        wide = A.astype(np.float64), B.astype(np.float64)
        with np.errstate(invalid="ignore"):
            P = (wide[0][:, :, None] * wide[1][None]).sum(1)
        given = Given(A, B, beside, P, np.zeros(P.shape))
        for name in cuda_on_cpu.load(build.source, **build.defines):
            with np.errstate(invalid="ignore"):
                for got, expected, _ in run(build, name, given):
                    np.testing.assert_array_equal(np.isnan(got), np.isnan(expected), err_msg=name)
                    np.testing.assert_allclose(got, expected.astype(np.float32), rtol=3e-7, atol=2e-6)

    def test_the_same_input_gives_the_same_bits(self, build):
        random = np.random.default_rng(1)
        matrices = [random.standard_normal(size, dtype=np.float32) for size in ((45, 70), (70, 33), (45, 33))]
        given = given_of(build, *matrices)
        for name in cuda_on_cpu.load(build.source, **build.defines):
            for (first, *_), (second, *_) in zip(
                run(build, name, given), run(build, name, given), strict=True
            ):
                np.testing.assert_array_equal(first, second)


TALL = [source for source in PRODUCT_SOURCES if kernel_source.knows_tall_grids(kernel_source.text(source))]


@pytest.mark.parametrize("build", [builds(source)[0] for source in TALL], ids=str)
def test_rows_of_blocks_may_be_counted_in_x(build):
    random = np.random.default_rng(1)
    matrices = [random.standard_normal(size, dtype=np.float32) for size in ((130, 20), (20, 67), (130, 67))]
    columns = [matrix[:, :1] for matrix in matrices[1:]]
    tall = cuda_on_cpu.load(build.source, **build.defines, TALL=1)
    for A, B, beside in (matrices, (matrices[0], *map(np.ascontiguousarray, columns))):
        given = given_of(build, A, B, beside)
        for name in ("matmul", "matmul_tn"):
            (C, *_), *_ = run(build, name, given)
            turned = nothing(given)
            left = np.ascontiguousarray(A.T if name == "matmul_tn" else A)
            arguments = (left, B, turned, len(A), A.shape[1], B.shape[1])
            tall[name](build.grid(len(A), B.shape[1])[::-1], build.block, arguments)
            np.testing.assert_array_equal(C, turned)


@pytest.mark.parametrize("name", [name for name in groups.names("kernel") if name != "cublas"])
def test_a_kernel_has_what_a_step_launches(name):
    """Of each network, with what its file in config/kernel says of it."""
    choice = groups.load("kernel", name)
    source = ROOT / choice["source"]
    assert source.is_file(), f"config/kernel/{name}.yaml: there is no {choice['source']}"
    flags, missing = (choice["fused"], choice["pretransposed"]), set()
    entry_points = cuda_on_cpu.load(source, **builds(source)[0].defines)
    for network in NETWORKS:
        steps = training_step(network, 3, 0.1, *flags), prediction_step(network, 3, choice["fused"])[0]
        launched = {launch.op for step in steps for launch in step.launches}
        missing |= {op for op in launched if OPS[op].is_product} - set(entry_points)
    assert not missing, f"{choice['source']} has no {', '.join(sorted(missing))}"


@pytest.mark.parametrize("build", ROUNDING_BUILDS, ids=str)
def test_inputs_are_rounded_to_the_bit(build):
    random = np.random.default_rng(7)
    bits = random.integers(0, 2**32, 2000, dtype=np.uint32)
    bits[1::2] &= 0xFFFFF000  # ties of TF32 are rare otherwise,
    bits[2::4] &= 0xFFFF8000  # and those of BF16
    values = bits.view(np.float32)
    inputs = values[np.abs(values) < 1e38].reshape(-1, 1)
    nearest = rounded(inputs, build.precision)
    row, column = np.ones((1, 9), dtype=np.float32), np.ones((3, 1), dtype=np.float32)
    kernels = cuda_on_cpu.load(build.source, **build.defines)
    # One column of C is added up by FP32 units.
    for A, B, expected in (
        (inputs, row, np.repeat(nearest, 9, axis=1)),
        (inputs, row[:, :1], nearest),
        (column, inputs.T, np.repeat(nearest.T, 3, axis=0)),
        (column, inputs[:1], np.repeat(nearest[:1], 3, axis=0)),
    ):
        C = np.full(expected.shape, np.nan, dtype=np.float32)
        kernels["matmul"](build.grid(*C.shape), build.block, (A, B, C, A.shape[0], 1, B.shape[1]))
        np.testing.assert_array_equal(C, expected)


def test_the_oracle_rounds_to_what_the_formats_have():
    """1 + 2^-11 lies between two TF32, 1 + 2^-8 and 1 + 3 * 2^-8 between two BF16."""
    ties = np.array([1 + 2**-11, 1 + 3 * 2**-11, 1 + 2**-8, 1 + 3 * 2**-8, -1 - 2**-11], dtype=np.float32)
    away = [1 + 2**-10, 1 + 2**-9, 1 + 2**-8, 1 + 3 * 2**-8, -1 - 2**-10]
    np.testing.assert_array_equal(rounded(ties, "tf32"), np.array(away, dtype=np.float32))
    even = [1, 1, 1, 1 + 2**-6, -1]
    np.testing.assert_array_equal(rounded(ties, "bf16"), np.array(even, dtype=np.float32))
    np.testing.assert_array_equal(rounded(ties, "fp32"), ties)


# ---- the kernels of kernels/access, run on the CPU by cuda_on_cpu, against NumPy: each element once per pass


SIZES = (1, 31, 33, 1000, 4099)
VALUES = {
    "stride": (1, 2, 3, 8, 32, 33, 1024),
    "array of structures": (1, 2, 4, 8),
    "structure of arrays": (1, 2, 4, 8),
    "offset": (0, 1, 7, 31),
    "vector": (1, 2, 4),
}
GRID, BLOCK, ROUNDS = (3,), (64,), 3


def visits(access: Access, n: int, number: int = 0) -> np.ndarray:
    """How often the pass of a number visits each of n floats: 0 or 1."""
    times = np.zeros(n, dtype=int)
    first = number * access.value % 8
    if access.pattern == "stride":
        shift = 8 * (number % max(1, min(access.value, 32) // 8))
        for start in range(0, access.value, 32):
            times[start + shift :: access.value] += 1
    elif access.pattern == "offset":
        times[access.value :] = 1
    elif access.pattern == "vector":
        times[: n // access.value * access.value] = 1
    elif access.pattern == "array of structures":
        times[: n // 8 * 8].reshape(-1, 8)[:, first : first + access.value] = 1
    else:
        times[first * (n // 8) : (first + access.value) * (n // 8)] = 1
    return times


@pytest.mark.parametrize("copies", [False, True], ids=["read", "copy"])
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("pattern", VALUES)
def test_a_pass_visits_what_its_pattern_says(pattern, n, copies):
    random = np.random.default_rng(n)
    source = random.integers(-999, 999, n).astype(np.float32)  # their sums are exact
    for access in (Access(pattern, value, copies) for value in VALUES[pattern]):
        if access.pattern == "offset" and access.value > n:
            continue
        passes = [visits(access, n, number) for number in range(ROUNDS)]
        assert max(times.max() for times in passes) <= 1
        assert passes[0].sum() == visited(access, n)
        times = sum(passes)
        kernel = cuda_on_cpu.load(ROOT / access.source)[access.kernel]
        target = np.full(n if copies else 192, -1, dtype=np.float32)
        kernel(GRID, BLOCK, (source, target, access.count(n), access.value, ROUNDS))
        if copies:
            np.testing.assert_array_equal(target, np.where(times, source, -1))
        else:
            assert target.sum(dtype=np.float64) == (source * times).sum(dtype=np.float64)
            if np.count_nonzero(times) > 1000:  # two warps or more have elements, each thread its own
                assert np.count_nonzero(target) > 60


def test_a_vector_that_is_not_aligned_is_noticed():
    kernel = cuda_on_cpu.load(ROOT / "kernels/access/vectors.cu")["read_float4"]
    source, sums = np.ones(64, dtype=np.float32), np.zeros(192, dtype=np.float32)
    kernel(GRID, BLOCK, (source, sums, 63, 4, 1))
    with pytest.raises(KernelError):
        kernel(GRID, BLOCK, (source, sums, 68, 4, 1))


# ---- the element-wise kernels, run on the CPU by cuda_on_cpu, against NumPy


THREADS = 256
elements = st.one_of(st.integers(1, 70), st.sampled_from([255, 256, 257, 1000, 66000]))
sides = st.one_of(st.integers(1, 70), st.just(256))


@pytest.fixture(scope="module")
def elementwise():
    return cuda_on_cpu.load(ROOT / "kernels/elementwise.cu")


def numbers(seed: int, *shape: int) -> np.ndarray:
    """Random numbers, and among them what is not finite and both zeros."""
    random = np.random.default_rng(seed)
    values = random.standard_normal(shape, dtype=np.float32)
    special = random.choice(np.array([np.nan, np.inf, -np.inf, 0.0, -0.0], dtype=np.float32), shape)
    return np.where(random.random(shape) < 0.1, special, values)


def by_element(kernel, *arguments):
    kernel((-(-len(arguments[0]) // THREADS),), (THREADS,), arguments)


def by_tile(kernel, rows, cols, *arguments):
    kernel((-(-cols // 32), -(-rows // 32)), (32, 8), arguments)


def test_every_element_wise_kernel_is_tested(elementwise):
    tested = "relu error mask update update_both sum_squares clipped_update clipped_update_both transpose"
    assert set(elementwise) == set(tested.split())


@settings(max_examples=20)
@given(n=elements, seed=st.integers(0, 2**32 - 1))
def test_elements_are_numpys_to_the_bit(elementwise, n, seed):
    P, Y, D, H, W, G = numbers(seed, 6, n)
    with np.errstate(invalid="ignore"):
        Z = P.copy()
        by_element(elementwise["relu"], Z, n)
        np.testing.assert_array_equal(Z, np.maximum(P, 0))

        E, scaled = np.full_like(P, np.nan), np.full_like(P, np.nan)
        by_element(elementwise["error"], P, Y, E, scaled, n, SCALE)
        np.testing.assert_array_equal(E, P - Y)
        np.testing.assert_array_equal(scaled, SCALE * (P - Y))

        masked = D.copy()
        by_element(elementwise["mask"], masked, H, n)
        np.testing.assert_array_equal(masked, np.where(H > 0, D, 0))

        updated = W.copy()
        by_element(elementwise["update"], updated, G, n, RATE)
        np.testing.assert_array_equal(updated, W - RATE * G)

        added = W.copy()
        by_element(elementwise["update"], added, G, n, np.float32(ADDING))
        np.testing.assert_array_equal(added, W + G)


@settings(max_examples=20)
@given(rows=sides, cols=sides, seed=st.integers(0, 2**32 - 1))
def test_transposes_are_numpys_to_the_bit(elementwise, rows, cols, seed):
    W, G = numbers(seed, 2, rows, cols)
    T = np.zeros((cols, rows), dtype=np.float32)
    by_tile(elementwise["transpose"], rows, cols, W, T, rows, cols)
    np.testing.assert_array_equal(T, W.T)
    with np.errstate(invalid="ignore"):
        expected = W - RATE * G
    by_tile(elementwise["update_both"], rows, cols, W, T, G, rows, cols, RATE)
    np.testing.assert_array_equal(W, expected)
    np.testing.assert_array_equal(T, expected.T)


def test_rows_of_tiles_may_be_counted_in_x(elementwise):
    tall = cuda_on_cpu.load(ROOT / "kernels/elementwise.cu", TALL=1)
    A, T = numbers(1, 70, 40), np.zeros((40, 70), dtype=np.float32)
    tall["transpose"]((3, 2), (32, 8), (A, T, 70, 40))
    np.testing.assert_array_equal(T, A.T)


@settings(max_examples=10)
@given(rows=sides, cols=sides, seed=st.integers(0, 2**32 - 1), share=st.sampled_from([0.1, 0.99, 1.01]))
def test_gradients_are_clipped_to_their_norm(elementwise, rows, cols, seed, share):
    random = np.random.default_rng(seed)
    W, G = random.standard_normal((2, rows, cols), dtype=np.float32)
    n, partial = rows * cols, np.full(256, np.nan, dtype=np.float32)
    elementwise["sum_squares"]((256,), (THREADS,), (G, partial, n))
    exact = np.sqrt((G.astype(np.float64) ** 2).sum())
    np.testing.assert_allclose(np.sqrt(partial.astype(np.float64).sum()), exact, rtol=1e-6)

    max_norm = np.float32(share * exact)
    factor = max_norm / (exact + 1e-6) if exact > max_norm else 1.0
    expected = W - RATE * G.astype(np.float64) * factor
    alone, both, T = W.ravel().copy(), W.copy(), np.zeros((cols, rows), dtype=np.float32)
    by_element(elementwise["clipped_update"], alone, G.ravel(), partial, n, RATE, max_norm)
    by_tile(elementwise["clipped_update_both"], rows, cols, both, T, G, partial, rows, cols, RATE, max_norm)
    np.testing.assert_allclose(both, expected, rtol=2e-6, atol=2e-6)
    np.testing.assert_array_equal(alone.reshape(rows, cols), both)
    np.testing.assert_array_equal(T, both.T)


def test_a_gradient_with_a_nan_is_not_clipped(elementwise):
    W, G = np.ones((2, 300), dtype=np.float32)
    G[7] = np.nan
    partial = np.zeros(256, dtype=np.float32)
    elementwise["sum_squares"]((256,), (THREADS,), (G, partial, 300))
    by_element(elementwise["clipped_update"], W, G, partial, 300, RATE, np.float32(1))
    np.testing.assert_array_equal(W, 1 - RATE * G)
