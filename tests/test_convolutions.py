"""Direct convolutions on a GPU against NumPy in float64, on fresh inputs of awkward sizes."""

import numpy as np
import pytest
from conftest import ROOT
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_builds import CONVOLUTIONS, CONVOLVED, Convolution
from test_convolutions_on_cpu import agree, drawn, expected, seeds, shapes
from test_kernels import run

from snn import backends
from snn.backends.ops import OPS
from snn.config import groups
from snn.errors import Unsupported

pytestmark = pytest.mark.gpu

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


@pytest.mark.parametrize("shape", CONVOLVED)
def test_every_operation_agrees_with_numpy(kernel, shape):
    backend, build, ops = kernel
    for op in ops:
        compare(backend, Convolution(build.source, shape, build.precision), op, 1)


@settings(max_examples=8)
@given(shape=shapes(), seed=seeds, data=st.data())
def test_any_shape(kernel, shape, seed, data):
    backend, build, ops = kernel
    op = data.draw(st.sampled_from(ops))
    compare(backend, Convolution(build.source, shape, build.precision), op, seed)


@pytest.mark.parametrize(
    ("name", "convolves"), [("cublas", False), ("pretransposed", False), ("tiled_fused", True)]
)
def test_which_kernels_convolve(name, convolves):
    try:
        backend = backends.make("cuda", groups.load("kernel", name), ROOT)
    except Unsupported as error:
        pytest.skip(str(error))
    assert backend.convolves == convolves


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
