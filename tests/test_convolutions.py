"""Direct convolutions against NumPy in float64: on the CPU, by cuda_on_cpu, and on a GPU."""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import cuda_on_cpu
import numpy as np
import pytest
from conftest import ROOT, further
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_builds import CONVOLUTIONS, CONVOLVED, Convolution, convolutions
from rounding import rounded
from test_kernels import run

from snn import backends
from snn.backends.cpu import ops
from snn.backends.ops import OPS
from snn.config import groups
from snn.errors import Unsupported

on_cpu = pytest.mark.skipif(cuda_on_cpu.MISSING, reason="no g++ on this machine")

CASES = convolutions()
SOME = ("tensor_core-wide-tf32", "fused-large")


@pytest.fixture(scope="module", autouse=True)
def compiled_side_by_side(request):
    tests = (test for test in request.session.items if test.path == request.path)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for build in {test.callspec.params.get("build") for test in tests if hasattr(test, "callspec")} - {
            None
        }:
            pool.submit(cuda_on_cpu.load, build.source, **build.defines)


def launches(build: Convolution) -> dict[str, tuple]:
    """The operations of a build with their kernel, grid and block size."""
    found = cuda_on_cpu.load(build.source, **build.defines)
    return {
        op: (found[op], (found[f"{op}_grid_x"], found[f"{op}_grid_y"]), (found[f"{op}_threads"],))
        for op in OPS
        if op in found
    }


def drawn(op: str, numbers: tuple[int, ...], seed: int) -> list[np.ndarray]:
    """Operands; of an image some elements are equal, and what is written is not a number before."""
    random = np.random.default_rng(seed)
    sizes = zip(OPS[op].operands, OPS[op].elements(*numbers), strict=True)
    size = dict(zip(OPS[op].numbers, numbers, strict=True)).get("size", 1)
    made = []
    for name, count in sizes:
        values = random.standard_normal(count, dtype=np.float32)
        if name == "X":
            values[random.random(count) < 0.3] = 0
        if name == "I":
            values = random.integers(0, size * size, count).astype(np.float32)
        made.append(values)
    for at in written(op):
        made[at][:] = np.nan
    return made


def written(op: str) -> list[int]:
    names = {"conv2d_relu_pool": "ZI"}.get(op, ("S", "D", "Z", "dW", "db"))
    return [at for at, name in enumerate(OPS[op].operands) if name in names]


def expected(build: Convolution, op: str, operands: list[np.ndarray]) -> list[list[np.ndarray]]:
    """Each operand afterwards, in float64: from rounded inputs, from exact ones, and the sizes of sums."""
    exact = [one.astype(np.float64) for one in operands]
    nearest = [rounded(one, build.precision).astype(np.float64) for one in operands]
    for at, name in enumerate(OPS[op].operands):
        if name not in "XWG":  # what is multiplied is rounded, and nothing else
            nearest[at] = exact[at].copy()
    sizes = [np.abs(one) for one in nearest]
    for wide in (nearest, exact, sizes):
        getattr(ops, op)(*wide, *build.numbers(op))
    return [nearest, exact, sizes]


def agree(build: Convolution, op: str, found: list[np.ndarray], oracle: list[list[np.ndarray]]) -> None:
    """What a launch wrote is as far from the oracle as rounding the sums may move it."""
    numbers = build.numbers(op)
    for at in written(op):
        name, mine, (right, exact, size) = OPS[op].operands[at], found[at], (one[at] for one in oracle)
        if name == "I":
            assert (mine == right).mean() > 0.98  # of windows whose largest are nearly equal, either
            continue
        if name == "S":
            parts, biases = numbers[-1], numbers[OPS[op].numbers.index("filters")]
            mine, right, exact, size = (
                one.astype(np.float64).reshape(parts, -1).sum(axis=0) for one in (mine, right, exact, size)
            )
            right[-biases:] = exact[-biases:]
        wrong = ~(np.abs(mine - right) <= 3e-6 * (size + 1))
        assert not wrong.any(), (
            f"{op} {name}: {wrong.sum()} of {wrong.size}, the first {np.argwhere(wrong)[0]}"
        )


def check(build: Convolution, op: str, seed: int) -> None:
    """One launch on fresh operands against the oracle."""
    kernel, grid, block = launches(build)[op]
    operands = drawn(op, build.numbers(op), seed)
    oracle = expected(build, op, operands)
    kernel(grid, block, (*operands, *build.numbers(op)))
    agree(build, op, operands, oracle)


seeds = st.integers(0, 2**32 - 1)


@on_cpu
@pytest.mark.parametrize(
    "build",
    [build if build.shape == "uneven" or str(build) in SOME else further(build) for build in CASES],
    ids=str,
)
@settings(max_examples=1)
@given(seed=seeds)
def test_every_operation_agrees_with_numpy(build, seed):
    for op in launches(build):
        check(build, op, seed)


@st.composite
def shapes(draw):
    """Channels, height, width, filters, kernel, padding, size of a pooling, rows, parts."""
    kernel, padding = draw(st.integers(1, 6)), draw(st.integers(0, 3))
    sides = st.integers(max(1, kernel - 2 * padding), 34)
    height, width = draw(sides), draw(sides)
    size = draw(st.integers(1, min(4, height + 2 * padding - kernel + 1, width + 2 * padding - kernel + 1)))
    channels, filters = draw(st.integers(1, 18)), draw(st.integers(1, 40))
    rows, parts = draw(st.integers(1, 3)), draw(st.integers(1, 40))
    return channels, height, width, filters, kernel, padding, size, rows, parts


@on_cpu
@settings(max_examples=3)
@given(build=st.sampled_from([case for case in CASES if case.shape == "uneven"]), shape=shapes(), seed=seeds)
def test_any_shape(build, shape, seed):
    drawn_one = replace(build, shape=shape)
    for op in launches(drawn_one):
        check(drawn_one, op, seed)


# ---- on a GPU

WHOLE = ("conv2d", "conv2d_dgrad", "conv2d_wgrad")
IN_PARTS = [op for op, kind in OPS.items() if kind.is_convolution and op != "conv2d_wgrad"]
KERNELS = [
    (source.stem, precision)
    for source in CONVOLUTIONS
    for precision in groups.load("kernel", source.stem)["precisions"]
]


@pytest.fixture(scope="module", params=KERNELS, ids="-".join)
def kernel(request):
    """A backend with direct convolutions, what describes them, and the operations that it has."""
    name, precision = request.param
    choice = groups.load("kernel", name)
    try:
        backend = backends.make("cuda", choice, ROOT, precision)
    except Unsupported as error:
        pytest.skip(str(error))
    assert backend.convolves
    source = next(source for source in CONVOLUTIONS if source.stem == name)
    return backend, Convolution(source, "second", precision), IN_PARTS if choice["fused"] else WHOLE


def compare(backend, build, op, seed):
    operands, numbers = drawn(op, build.numbers(op), seed), build.numbers(op)
    found, again = run(backend, op, operands, numbers), run(backend, op, operands, numbers)
    agree(build, op, found, expected(build, op, operands))
    assert all(np.array_equal(a, b) for a, b in zip(found, again, strict=True))


@pytest.mark.gpu
@pytest.mark.parametrize("shape", CONVOLVED)
def test_every_operation_agrees_with_numpy_on_a_gpu(kernel, shape):
    backend, build, ops = kernel
    for op in ops:
        compare(backend, Convolution(build.source, shape, build.precision), op, 1)


@pytest.mark.gpu
@settings(max_examples=8)
@given(shape=shapes(), seed=seeds, data=st.data())
def test_any_shape_on_a_gpu(kernel, shape, seed, data):
    backend, build, ops = kernel
    op = data.draw(st.sampled_from(ops))
    compare(backend, Convolution(build.source, shape, build.precision), op, seed)


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("name", "convolves"), [("cublas", False), ("pretransposed", False), ("tiled_fused", True)]
)
def test_which_kernels_convolve(name, convolves):
    try:
        backend = backends.make("cuda", groups.load("kernel", name), ROOT)
    except Unsupported as error:
        pytest.skip(str(error))
    assert backend.convolves == convolves


@pytest.mark.gpu
def test_long_sums_of_few_elements_are_split(kernel):
    backend, *_ = kernel
    random = np.random.default_rng(2)
    A, B, b = (random.standard_normal(n, dtype=np.float32) for n in (64 * 4608, 4608 * 10, 10))
    found = run(backend, "matmul", [A, B, np.full(640, np.nan, np.float32)], (64, 4608, 10))[2]
    right = A.reshape(64, -1).astype(np.float64) @ B.reshape(-1, 10)
    np.testing.assert_allclose(found.reshape(right.shape), right, atol=2e-3)
    if backend.fused:
        operands = [A, B, np.full(640, np.nan, np.float32), b]
        found = run(backend, "matmul_bias", operands, (64, 4608, 10))[2]
        np.testing.assert_allclose(found.reshape(right.shape), right + b, atol=2e-3)
