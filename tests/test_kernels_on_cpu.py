"""Every kernel that begins with a product, run on the CPU by cuda_on_cpu, against NumPy in float64.

A new source is tested by lying there, with the block and the elements per thread of its file in
config/kernel, and with odd blocks. It may define the products of OPS.
"""

import os
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import cuda_on_cpu
import numpy as np
import pytest
from conftest import ROOT, further
from cuda_on_cpu import KernelError
from emulated import EmulatedBackend
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_builds import CONVOLUTIONS, SOURCES, Build, builds, builds_for_training, builds_of_old
from rounding import rounded
from test_kernels import ELEMENTWISE, REALS, UNIT, agree, drawn, expected, products_for_training

from snn.backends import kernel_source
from snn.backends.access import Access
from snn.backends.access import elements as visited
from snn.backends.cpu.backend import CpuBackend, HostBuffer
from snn.backends.launches.operations import launch_shape
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
RATE = np.float32(0.37)
EMULATED = EmulatedBackend(groups.load("kernel", "naive"))

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


# ---- products


def launched(build: Build, op: str, operands: list[np.ndarray], numbers: tuple[float, ...]):
    """What a kernel leaves of its operands, by their names."""
    found = [one.copy() for one in operands]
    kernel, (m, k, n, *reals) = cuda_on_cpu.load(build.source, **build.defines)[op], numbers
    kernel(build.grid(m, n), build.block, (*found, m, k, n, *map(np.float32, reals)))
    return dict(zip(OPS[op].operands, found, strict=True))


def numbers_of(op: str, *sizes: int) -> tuple[float, ...]:
    return *sizes, *(REALS[name] for name in OPS[op].reals)


sizes = st.one_of(st.integers(1, 70), st.integers(1, 8), st.just(1), st.just(64))
shapes = st.one_of(
    st.tuples(sizes, st.one_of(st.just(0), sizes), sizes),
    st.tuples(st.integers(127, 130), st.integers(1, 40), st.integers(1, 20)),
    st.tuples(st.integers(1, 20), st.integers(127, 130), st.integers(1, 40)),
    st.tuples(st.integers(1, 40), st.integers(1, 20), st.integers(127, 130)),
    # Whole tiles and one row or column less, in lines that can be read as vectors.
    st.tuples(*3 * [st.sampled_from([16, 31, 32, 63, 64])]),
)


def between_others(build):
    """The case of a build; of those of several elements a thread, the most and the fewest stay."""
    return further(build) if build.work in ((2, 2), (1, 2)) and not build.architecture else build


@pytest.mark.parametrize("build", [between_others(build) for build in PRODUCT_BUILDS], ids=str)
class TestProducts:
    def test_every_kernel_is_known(self, build):
        names = set(cuda_on_cpu.load(build.source, **build.defines))
        assert {"matmul", "matmul_tn"} <= names <= {op for op, kind in OPS.items() if kind.is_product}

    @settings(max_examples=8)
    @given(shape=shapes, seed=st.integers(0, 2**32 - 1))
    def test_real_numbers(self, build, shape, seed):
        random, k = np.random.default_rng(seed), shape[1]
        bound = (8 * UNIT["fp32"] + 4e-7) * (k**0.5 + 3) + 2 * UNIT["fp32"] * k  # as in test_kernels
        for op in cuda_on_cpu.load(build.source, **build.defines):
            numbers = numbers_of(op, *shape)
            operands = drawn(op, numbers, random)
            found = launched(build, op, operands, numbers)
            agree(op, found.values(), expected(op, operands, numbers, build.precision), bound)

    @settings(max_examples=4)
    @given(shape=st.tuples(*3 * [st.integers(1, 40)]), seed=st.integers(0, 2**32 - 1))
    def test_small_integers_are_exact_and_what_is_not_finite_passes_through(self, build, shape, seed):
        random = np.random.default_rng(seed)
        for op in cuda_on_cpu.load(build.source, **build.defines):
            numbers = numbers_of(op, *shape)
            operands = [random.integers(-3, 4, n).astype(np.float32) for n in OPS[op].elements(*numbers)]
            for matrix in operands:
                for value in (np.nan, np.inf, -np.inf):
                    if random.random() < 0.5:
                        matrix[random.integers(0, matrix.size)] = value
            with np.errstate(invalid="ignore"):
                oracle = expected(op, operands, numbers)
                for got, right in zip(launched(build, op, operands, numbers).values(), oracle, strict=True):
                    np.testing.assert_array_equal(np.isnan(got), np.isnan(right), err_msg=op)
                    np.testing.assert_allclose(got, right.astype(np.float32), rtol=3e-7, atol=2e-6)

    def test_the_same_input_gives_the_same_bits(self, build):
        for op in cuda_on_cpu.load(build.source, **build.defines):
            numbers = numbers_of(op, 20, 70, 17)
            operands = drawn(op, numbers, np.random.default_rng(1))
            first, second = (launched(build, op, operands, numbers) for _ in range(2))
            for name, found in first.items():
                np.testing.assert_array_equal(found, second[name])


@pytest.mark.parametrize("build", builds_for_training(), ids=str)
@settings(max_examples=12)
@given(data=st.data())
def test_products_of_biases_activation_functions_and_adam(build, data):
    op, numbers, operands = data.draw(products_for_training(build.grouped))
    found = [one.copy() for one in operands]
    choice = {"source": "", "fused": False, "block": build.block, "work": build.work}
    grid = launch_shape(op, numbers, choice, 132).grid
    values = [np.float32(number) if isinstance(number, float) else number for number in numbers]
    cuda_on_cpu.load(build.source, **build.defines)[op](grid, build.block, (*found, *values))
    agree(op, found, expected(op, operands, numbers), 2e-5)


@pytest.mark.parametrize("op", OPS)
def test_every_kernel_can_wait_for_the_one_before(op):
    """So that it may begin while that one ends."""
    kind, sources = OPS[op], [ROOT / OPS[op].source]
    if kind.is_product or kind.is_convolution or kind.of_training:
        sources = [*PRODUCT_SOURCES, *CONVOLUTIONS]
    waiting = rf"\b{op}\([^;{{}}]*\{{ asm volatile\(\"griddepcontrol\.wait;"
    texts = [kernel_source.text(source) for source in sources]
    own = [text for text in texts if re.search(rf"^(extern|KERNEL)[^;{{}}]*\b{op}\(", text, re.MULTILINE)]
    assert own
    for text in own:
        assert len(re.findall(waiting, kernel_source.overlapping(text))) == 1


TALL = [source for source in PRODUCT_SOURCES if kernel_source.knows_tall_grids(kernel_source.text(source))]


@pytest.mark.parametrize("build", [builds(source)[0] for source in TALL], ids=str)
@pytest.mark.parametrize("columns", [1, 67])
@pytest.mark.parametrize("op", ["matmul", "matmul_tn"])
def test_rows_of_blocks_may_be_counted_in_x(build, columns, op):
    numbers = 130, 20, columns
    A, B, turned = drawn(op, numbers, np.random.default_rng(1))
    plain = launched(build, op, [A, B, turned], numbers)["C"]
    tall = cuda_on_cpu.load(build.source, **build.defines, TALL=1)[op]
    tall(build.grid(130, columns)[::-1], build.block, (A, B, turned, *numbers))
    np.testing.assert_array_equal(plain, turned)


@pytest.mark.parametrize("name", [name for name in groups.names("kernel") if name != "cublas"])
def test_a_kernel_has_what_a_step_launches(name):
    """Of each network, with what its file in config/kernel says of it."""
    choice = groups.load("kernel", name)
    source = ROOT / choice["source"]
    assert source.is_file(), f"config/kernel/{name}.yaml: there is no {choice['source']}"
    flags, missing = (choice["fused"], choice["pretransposed"]), set()
    entry_points = {*cuda_on_cpu.load(source, **builds(source)[0].defines)}
    if choice["fused"]:
        entry_points |= {*cuda_on_cpu.load(source, **replace(builds(source)[0], training=True).defines)}
    for network in NETWORKS:
        steps = training_step(network, 3, 0.1, *flags), prediction_step(network, 3, choice["fused"])[0]
        launched = {launch.op for step in steps for launch in step.launches}
        missing |= {op for op in launched if OPS[op].is_product} - entry_points
    assert not missing, f"{choice['source']} has no {', '.join(sorted(missing))}"


@pytest.mark.parametrize("build", [between_others(build) for build in ROUNDING_BUILDS], ids=str)
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
    for A, B, right in (
        (inputs, row, np.repeat(nearest, 9, axis=1)),
        (inputs, row[:, :1], nearest),
        (column, inputs.T, np.repeat(nearest.T, 3, axis=0)),
        (column, inputs[:1], np.repeat(nearest[:1], 3, axis=0)),
    ):
        C = np.full(right.shape, np.nan, dtype=np.float32)
        kernels["matmul"](build.grid(*C.shape), build.block, (A, B, C, A.shape[0], 1, B.shape[1]))
        np.testing.assert_array_equal(C, right)


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


sides = st.one_of(st.integers(1, 70), st.just(256))


def numbers(seed: int, *shape: int) -> np.ndarray:
    """Random numbers, and among them what is not finite and both zeros."""
    random = np.random.default_rng(seed)
    values = random.standard_normal(shape, dtype=np.float32)
    special = random.choice(np.array([np.nan, np.inf, -np.inf, 0.0, -0.0], dtype=np.float32), shape)
    return np.where(random.random(shape) < 0.1, special, values)


def left_by(backend, op, operands, numbers):
    """What an operation leaves in its operands, which end where their buffers do."""
    buffers = [HostBuffer(one.copy()) for one in operands]
    backend.launch(op, tuple(buffers), numbers)
    return [buffer.words for buffer in buffers]


EXACT = [op for op in ELEMENTWISE if "S" not in OPS[op].operands]


def test_every_element_wise_kernel_is_tested():
    assert set(cuda_on_cpu.load(ROOT / "kernels/elementwise.cu")) == {
        *EXACT,
        "sum_squares",
        "clipped_update",
        "clipped_update_both",
    }


@pytest.mark.parametrize("op", EXACT)
@settings(max_examples=8)
@given(rows=sides, cols=sides, seed=st.integers(0, 2**32 - 1), real=st.sampled_from([0.37, ADDING]))
def test_elements_are_numpys_to_the_bit(op, rows, cols, seed, real):
    size = (rows, cols) if "rows" in OPS[op].numbers else (rows * cols,)
    given = (*size, *(real for _ in OPS[op].reals))
    operands = [numbers(seed + i, n) for i, n in enumerate(OPS[op].elements(*given))]
    with np.errstate(invalid="ignore"):
        found, right = (left_by(backend, op, operands, given) for backend in (EMULATED, CpuBackend()))
    for mine, other in zip(found, right, strict=True):
        np.testing.assert_array_equal(mine, other)


def test_rows_of_tiles_may_be_counted_in_x():
    tall = cuda_on_cpu.load(ROOT / "kernels/elementwise.cu", TALL=1)
    A, T = numbers(1, 70, 40), np.zeros((40, 70), dtype=np.float32)
    tall["transpose"]((3, 2), (32, 8), (A, T, 70, 40))
    np.testing.assert_array_equal(T, A.T)


@settings(max_examples=10)
@given(rows=sides, cols=sides, seed=st.integers(0, 2**32 - 1), share=st.sampled_from([0.1, 0.99, 1.01]))
def test_gradients_are_clipped_to_their_norm(rows, cols, seed, share):
    W, G = np.random.default_rng(seed).standard_normal((2, rows * cols), dtype=np.float32)
    _, partial = left_by(EMULATED, "sum_squares", [G, np.full(256, np.nan, np.float32)], (G.size,))
    exact = np.sqrt((G.astype(np.float64) ** 2).sum())
    np.testing.assert_allclose(np.sqrt(partial.astype(np.float64).sum()), exact, rtol=1e-6)

    max_norm = np.float32(share * exact)
    factor = max_norm / (exact + 1e-6) if exact > max_norm else 1.0
    reals = float(RATE), float(max_norm)
    alone, *_ = left_by(EMULATED, "clipped_update", [W, G, partial], (G.size, *reals))
    both, T, *_ = left_by(
        EMULATED, "clipped_update_both", [W, np.zeros_like(W), G, partial], (rows, cols, *reals)
    )
    np.testing.assert_allclose(both, W - RATE * G.astype(np.float64) * factor, rtol=2e-6, atol=2e-6)
    np.testing.assert_array_equal(alone, both)
    np.testing.assert_array_equal(T.reshape(cols, rows), both.reshape(rows, cols).T)


def test_a_gradient_with_a_nan_is_not_clipped():
    W, G = np.ones((2, 300), dtype=np.float32)
    G[7] = np.nan
    _, partial = left_by(EMULATED, "sum_squares", [G, np.zeros(256, np.float32)], (300,))
    found, *_ = left_by(EMULATED, "clipped_update", [W, G, partial], (300, float(RATE), 1.0))
    np.testing.assert_array_equal(found, W - RATE * G)
