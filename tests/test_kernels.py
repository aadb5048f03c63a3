"""Every kernel against the NumPy oracle, on fresh inputs of awkward sizes."""

import itertools

import layered_shapes
import numpy as np
import pytest
from conftest import ROOT
from convolutional_shapes import ConvolutionalShape, on_cpu
from convolutional_shapes import buffers_of as convolutional_buffers
from convolutional_shapes import launched as convolve
from emulated_launch import launched
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import train
from rounding import rounded
from test_layers import NUMBERS, WHOLE
from test_persistent_on_cpu import H200, SMALL, made, plan_for

from snn import backends
from snn.backends.cpu import ops as numpy_ops
from snn.backends.cpu import trainings
from snn.backends.cpu.backend import CpuBackend
from snn.backends.launches import Steps
from snn.backends.ops import OPS
from snn.config import groups
from snn.errors import Unsupported
from snn.models.step import FUSED_ACTIVATIONS, KEEPING_INPUTS

GUARD = 64  # floats behind an operand that a kernel must leave alone
UNIT = {"fp32": 2**-24, "tf32": 2**-11, "bf16": 2**-8}
"""Half the distance between neighbouring numbers near 1: how far rounding moves an input."""

CUT = 2**-22
"""How far tensor cores may lie from a sum of the rounded inputs: they cut a sum off, and do not round it."""

BASIC = ("matmul", "matmul_tn", "matmul_nt")
FUSED = (
    "matmul_relu",
    "matmul_bias",
    "matmul_error",
    "matmul_mask",
    "matmul_nt_mask",
    "matmul_tn_update",
    "matmul_tn_update_bias",
)
BOTH = ("matmul_tn_update_both", "matmul_tn_update_both_bias")
TRAINING = [op for op, kind in OPS.items() if kind.of_training]
OTHERS = [op for op, kind in OPS.items() if not (kind.is_product or kind.is_convolution or kind.of_training)]
ELEMENTWISE = [op for op in OTHERS if OPS[op].source == "kernels/elementwise.cu"]
OF_LAYERS = [op for op in OTHERS if op not in (*ELEMENTWISE, *WHOLE)]
REALS = {"scale": 0.75, "rate": 0.125, "max_norm": 2.5, "momentum": 0.75, "decay": 0.25, "shrink": 0.5}
REALS |= {"gain1": 0.125, "gain2": 0.0625, "eps": 0.01, "end": 0.5}
sizes = st.one_of(st.integers(1, 70), st.sampled_from([127, 128, 129, 255, 256, 257]))
seeds = st.integers(0, 2**32 - 1)
LAYER_SIZES = NUMBERS | {
    "rows": st.integers(1, 40),
    "cols": st.integers(1, 70),
    "count": st.integers(1, 9),
    "channels": st.integers(1, 5),
    "height": st.integers(3, 29),
    "width": st.integers(3, 40),
    "kernel": st.integers(1, 3),
    "padding": st.integers(0, 2),
    "size": st.integers(1, 3),
    "filters": st.integers(1, 40),
    "n": st.integers(1, 700),
    "kept": st.integers(1, 700),
    "inputs": st.integers(1, 40),
    "parts": st.integers(1, 130),
    "weights": st.integers(1, 300),
    "biases": st.integers(1, 9),
}


def kernels():
    """Every kernel with each of its precisions, on blocks and work of several shapes."""
    for name in groups.names("kernel"):
        kernel = groups.load("kernel", name)
        shapes = [{}]
        if kernel["work"] == [1, 1]:
            shapes += [{"block": block} for block in ([32, 8], [1, 1], [7, 3], [32, 32])]
        elif kernel["source"]:
            shapes += [{"work": work} for work in ([1, 1], [2, 4], [4, 4])]
        for precision in kernel["precisions"]:
            for shape in shapes:
                yield name, precision, shape


@pytest.fixture(
    params=[
        pytest.param(one, marks=pytest.mark.gpu, id="-".join(map(str, [*one[:2], *one[2].values()])))
        for one in kernels()
    ],
    scope="module",
)
def kernel(request):
    """A backend with some kernel, the operations that it has, how it rounds inputs and how far sums may be.

    How cuBLAS rounds them is its own affair: its sums are compared with those of float32 inputs.
    """
    name, precision, shape = request.param
    choice = groups.load("kernel", name)
    try:
        backend = backends.make("cuda", choice | shape, ROOT, precision)
    except Unsupported as error:
        pytest.skip(str(error))
    ops = BASIC
    if choice["fused"]:
        ops += FUSED + (BOTH if choice["pretransposed"] else ())
    elif choice["pretransposed"]:
        ops = ("matmul", "matmul_tn")
    if precision == "fp32" or choice["source"] is None:
        return backend, ops, "fp32", UNIT[precision]
    return backend, ops, precision, CUT


def run(backend, op, operands, numbers):
    """What an operation leaves in its operands; a guard behind each is checked."""
    padded = [np.concatenate([one, np.full(GUARD, 12345.0, np.float32)]) for one in operands]
    buffers = [backend.malloc(one.nbytes) for one in padded]
    try:
        for buffer, one in zip(buffers, padded, strict=True):
            backend.copy_in(buffer, one)
        backend.launch(op, tuple(buffers), numbers)
        backend.synchronize()
        for one, buffer in zip(padded, buffers, strict=True):
            backend.copy_out(one, buffer)
    finally:
        for buffer in buffers:
            backend.free(buffer)
    assert all((one[-GUARD:] == 12345.0).all() for one in padded)
    return [one[:-GUARD] for one in padded]


def expected(op, operands, numbers, precision="fp32"):
    """The same by the oracle, in float64: of inputs that are rounded, but for the gradient of a bias."""
    found = [one.astype(np.float64) for one in operands]
    if not OPS[op].is_product or OPS[op].of_training:
        getattr(numpy_ops, op)(*found, *numbers)
    else:
        A, B = (rounded(one, precision).astype(np.float64) for one in operands[:2])
        if "b" in OPS[op].operands and op != "matmul_bias":
            at, unrounded = OPS[op].operands.index("b"), [one.copy() for one in found]
            getattr(numpy_ops, op)(*unrounded, *numbers)
            getattr(numpy_ops, op)(A, B, *found[2:], *numbers)
            found[at] = unrounded[at]
        else:
            getattr(numpy_ops, op)(A, B, *found[2:], *numbers)
    return found


def drawn(op, numbers, random):
    operands = [random.standard_normal(n, dtype=np.float32) for n in OPS[op].elements(*numbers)]
    for name, operand in zip(OPS[op].operands, operands, strict=True):
        if name in ("S", "T", "V") and op in OF_LAYERS:  # squares, and the number of a step
            np.abs(operand, out=operand)
    return operands


@st.composite
def products_for_training(draw, grouped):
    """A product of biases, activation functions or Adam; its numbers; operands that no precision rounds.

    ``grouped``: the gradients of several layers, or the others.
    """
    op = draw(st.sampled_from([op for op in TRAINING if OPS[op].is_grouped == grouped]))
    ranges = dict.fromkeys("mkn", st.integers(1, 70))
    ranges |= {"bias": st.integers(0, 1), "activation": st.integers(0, 6)}
    numbers, at = [], 0
    for name in OPS[op].numbers:
        if name in REALS:
            numbers.append(REALS[name])
        elif name[:-1] == "at":
            numbers.append(at)
            m, n, bias = numbers[-4:-1]
            at += (m + bias) * n + 5
        else:
            is_zero = (name == "m3" and draw(st.booleans())) or (name in ("n3", "bias3") and not numbers[-1])
            numbers.append(0 if is_zero else draw(ranges[name.rstrip("0123")]))
    if op == "matmul_bias_activation":
        numbers[3] %= FUSED_ACTIVATIONS.index(KEEPING_INPUTS[0])
    random = np.random.default_rng(draw(seeds))
    operands = [random.standard_normal(size, dtype=np.float32) for size in OPS[op].elements(*numbers)]
    for name, operand in zip(OPS[op].operands, operands, strict=True):
        if name[0] in "AB":
            operand[...] = random.integers(-2, 3, operand.size) / 8
        elif name in "VT":
            np.abs(operand, out=operand)  # squares, and the number of a step
    return op, tuple(numbers), operands


def agree(op, found, oracle, bound):
    for name, mine, right in zip(OPS[op].operands, found, oracle, strict=True):
        assert (np.abs(mine - right) <= bound * (1 + np.abs(right))).all(), name


@settings(max_examples=25)
@given(m=sizes, k=sizes, n=sizes, seed=seeds, data=st.data())
def test_products(kernel, m, k, n, seed, data):
    backend, ops, precision, unit = kernel
    op = data.draw(st.sampled_from(ops))
    numbers = (m, k, n, *(REALS[name] for name in OPS[op].reals))
    operands = drawn(op, numbers, np.random.default_rng(seed))
    # Inputs of unit variance: each term is off by some units, and k of them add up like a random walk; each
    # of the k partial sums, itself such a walk, is rounded.
    bound = (8 * unit + 4e-7) * (k**0.5 + 3) + 2 * UNIT["fp32"] * k
    found, oracle = run(backend, op, operands, numbers), expected(op, operands, numbers, precision)
    agree(op, found, oracle, bound)


@settings(max_examples=40)
@given(drawn=st.booleans().flatmap(products_for_training))
def test_products_for_training(kernel, drawn):
    backend, ops, *_ = kernel
    op, numbers, operands = drawn
    if not set(FUSED) <= set(ops):
        pytest.skip("this kernel fuses nothing")
    found, again = run(backend, op, operands, numbers), run(backend, op, operands, numbers)
    agree(op, found, expected(op, operands, numbers), 2e-5)
    assert all(np.array_equal(a, b) for a, b in zip(found, again, strict=True))


@pytest.mark.parametrize("n", [1, 24])
def test_inputs_are_rounded_to_the_bit(kernel, n):
    backend, _, precision, _ = kernel
    if precision == "fp32":
        pytest.skip("nothing is rounded, or who knows how")
    A = np.random.default_rng(5).standard_normal(4096, dtype=np.float32)
    A[1::2] = (A[1::2].view(np.uint32) & 0xFFFFF000).view(np.float32)  # ties of TF32 are rare otherwise,
    A[2::4] = (A[2::4].view(np.uint32) & 0xFFFF8000).view(np.float32)  # and those of BF16
    for left, right in ((A, np.ones(n, np.float32)), (np.ones(3, np.float32), A)):
        sizes = left.size, 1, right.size
        C = run(backend, "matmul", [left, right, np.full(left.size * right.size, np.nan, np.float32)], sizes)[
            2
        ]
        np.testing.assert_array_equal(
            C, np.outer(rounded(left, precision), rounded(right, precision)).ravel()
        )


@pytest.mark.parametrize("n", [1, 2])
def test_a_product_over_nothing_is_zero(kernel, n):
    backend, ops, *_ = kernel
    for op in set(BASIC) & set(ops):
        numbers = (3, 0, n)
        found = run(backend, op, drawn(op, numbers, np.random.default_rng(1)), numbers)
        assert (found[2] == 0).all()


def test_the_same_bits_every_time(kernel):
    backend, ops, *_ = kernel
    for op in ops:
        numbers = (77, 301, 65, *(REALS[name] for name in OPS[op].reals))
        operands = drawn(op, numbers, np.random.default_rng(4))
        first, second = (run(backend, op, operands, numbers) for _ in range(2))
        assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))


@settings(max_examples=60)
@given(op=st.sampled_from(ELEMENTWISE), rows=sizes, cols=sizes, seed=seeds)
def test_element_wise_work(backend, op, rows, cols, seed):
    size = (rows, cols) if "rows" in OPS[op].numbers else (rows * cols,)
    numbers = (*size, *(REALS[name] for name in OPS[op].reals))
    operands = drawn(op, numbers, np.random.default_rng(seed))
    if "S" in OPS[op].operands:
        operands[-1] = np.abs(operands[-1])
    found, oracle = run(backend, op, operands, numbers), expected(op, operands, numbers)
    if op == "sum_squares":
        found[1], oracle[1] = (np.atleast_1d(one[1].sum(dtype=np.float64)) for one in (found, oracle))
    agree(op, found, oracle, 1e-5)


@settings(max_examples=60)
@given(op=st.sampled_from(OF_LAYERS), seed=seeds, data=st.data())
def test_work_of_layers(backend, op, seed, data):
    numbers = tuple(
        REALS[name] if name in REALS else data.draw(LAYER_SIZES[name]) for name in OPS[op].numbers
    )
    operands = drawn(op, numbers, np.random.default_rng(seed))
    found, again = run(backend, op, operands, numbers), run(backend, op, operands, numbers)
    oracle = expected(op, operands, numbers)
    for some in (found, again, oracle):
        some[1:] = [some[1].sum(keepdims=True)] if op == "add_squares" else some[1:]  # a sum for each block
    agree(op, found, oracle, 1e-4)
    assert all(np.array_equal(a, b) for a, b in zip(found, again, strict=True))


def test_not_a_number_and_infinity_pass_through(kernel):
    backend, *_ = kernel
    A = np.array([np.nan, 1.0, np.inf, 2.0], dtype=np.float32)
    B = np.eye(2, dtype=np.float32).ravel()
    C = np.zeros(4, dtype=np.float32)
    with np.errstate(invalid="ignore"):
        right = run(CpuBackend(), "matmul", [A, B, C], (2, 2, 2))
    np.testing.assert_array_equal(run(backend, "matmul", [A, B, C], (2, 2, 2))[2], right[2])


def test_not_a_number_survives_relu(backend):
    found = run(backend, "relu", [np.array([np.nan, -1.0, 2.0, -np.inf], np.float32)], (4,))
    np.testing.assert_array_equal(found[0], np.array([np.nan, 0.0, 2.0, 0.0], np.float32))


def test_what_is_masked_is_zero_even_if_it_was_infinite(backend):
    """As in the kernels that mask a product: a factor of 0 would make it NaN."""
    D = np.array([np.inf, -np.inf, np.nan, -1.0, 1.0, np.inf], np.float32)
    H = np.array([0.0, -1.0, -0.0, np.nan, 2.0, np.inf], np.float32)
    found = run(backend, "mask", [D, H], (6,))
    np.testing.assert_array_equal(found[0], np.array([0.0, 0.0, 0.0, 0.0, 1.0, np.inf], np.float32))


@pytest.mark.gpu
def test_page_locked_memory_is_page_locked_and_reusable(cuda_backend):
    from cupy.cuda import runtime

    array = cuda_backend.host_alloc((3, 5))
    try:
        address = array.__array_interface__["data"][0]
        assert runtime.pointerGetAttributes(address).type == 1  # cudaMemoryTypeHost
        array[...] = 2.0
        assert array.sum() == 30.0
    finally:
        cuda_backend.host_free(array)


@pytest.mark.gpu
def test_refused_page_locks_fall_back_to_pageable_memory_and_say_so(cuda_backend, monkeypatch):
    from snn.backends.cuda import backend as cuda

    class Refusing:
        def __getattr__(self, name):
            return getattr(real, name)

        def hostAlloc(self, size, flags):
            return real.hostAlloc(2**60, flags)

    real = cuda.runtime
    monkeypatch.setattr(cuda, "runtime", Refusing())
    before = cuda_backend.pageable_fallbacks
    array = cuda_backend.host_alloc((4, 4))
    array[...] = 1.0
    cuda_backend.host_free(array)
    assert cuda_backend.pageable_fallbacks == before + 1
    cuda_backend.pageable_fallbacks = before


@pytest.mark.gpu
def test_out_of_memory_says_what_was_asked_and_what_is_free(cuda_backend):
    from snn.errors import OutOfMemory

    with pytest.raises(OutOfMemory, match=r"cudaMalloc of 1152921504606846976 bytes failed: \d+ of \d+"):
        cuda_backend.malloc(2**60)
    buffer = cuda_backend.malloc(16)  # the error does not stick
    cuda_backend.free(buffer)


# ---- products on tensor cores of long sums of one sign: what rounding towards 0 would add up to, on the CPU


def relative(found, right):
    """The mean of the relative differences, with their sign."""
    right = np.asarray(right, np.float64)
    return float(np.mean((found - right) / np.abs(right)))


def positive(shape, k, random):
    return (random.uniform(0, 2 / k, shape)).astype(np.float32)


@on_cpu
@pytest.mark.parametrize(
    "kernel, layers, within",
    [
        ("one_layer", (64, 16, 1), 7e-7),  # more if both operands are truncated
        ("two_layers", (32, 256, 64, 1), 1e-6),
        ("three_layers", (32, 128, 128, 256, 1), 1e-6),
        ("grid", (512, 16, 1), 5e-7),  # -1.1e-6 if one accumulator adds up the sum
        ("grid", (16, 512, 16, 1), 5e-7),
    ],
)
def test_a_perceptron_predicts_as_float64(kernel, layers, within, random):
    batch = 32
    *_, buffers, shape, steps = made(layers, batch, batch, 1, "sequential", None, random)
    buffers[0][...] = random.uniform(0, 1, buffers[0].shape) * (buffers[0] != 0)
    buffers[1].fill(0)  # the errors are the outputs
    at, weights = 0, []
    for k, n in itertools.pairwise(layers):
        weights.append(positive((k, n), k, random))
        buffers[2][at : at + k * n] = weights[-1].ravel()
        at += k * n
    assert at == len(buffers[2])
    buffers[4].fill(0)
    limits = SMALL if kernel == "grid" else H200
    launched(plan_for(shape, limits, kernel), buffers, steps._replace(rate=np.float32(0)))
    y = buffers[0][0].astype(np.float64)
    for W in weights:
        y = np.maximum(y @ W, 0)
    assert abs(relative(buffers[3][:batch], y[:, 0])) < within


@on_cpu
def test_a_stack_of_layers_predicts_as_float64(random):
    one = layered_shapes.shape(16, 2048, 16, 1, loss="error", bare=(0, 1))
    X, _, Y, _ = layered_shapes.made(one, 16, random)
    X, weights = np.abs(X), [positive((2048, 16), 2048, random), positive((16, 1), 16, random)]
    buffers = layered_shapes.buffers_of(one, X, np.zeros_like(Y), weights)
    layered_shapes.launched(one, buffers, 16, 1, rate=0)
    y = np.maximum(X.astype(np.float64) @ weights[0], 0) @ weights[1]
    assert abs(relative(buffers[3], y.ravel())) < 2e-7  # -2.6e-6 if one accumulator adds up the sum


@on_cpu
def test_a_convolutional_network_predicts_as_float64(random):
    shape = ConvolutionalShape(2, True, 1, 9, 9, 32, 3, 0, 9, 5, 0, 3, 3)
    X = random.uniform(0, 1, (2, 1, 9, 9)).astype(np.float32)
    Y = np.eye(3, dtype=np.float32)[:2]
    sizes = ((32, 9), (32,), (9, 32 * 25), (9,), (9, 3), (3,))
    weights = [
        positive(size, size[-1], random) if len(size) > 1 else np.zeros(size, np.float32) for size in sizes
    ]
    weights[4] = positive((9, 3), 0.2, random)  # outputs of about 40, whose rounding the loss shows
    buffers = convolutional_buffers(shape, X, Y, weights)
    exactly = [buffer.astype(np.float64) for buffer in convolutional_buffers(shape, X, Y, weights)]
    convolve(shape, buffers, 2, 1, 0.0)
    trainings.train(shape, exactly, Steps(2, 0, 1, 0.0))
    logits = buffers[8].reshape(-1)[:2] - exactly[8].reshape(-1)[:2]
    assert np.abs(logits).max() < 3e-5  # 6e-5 if one accumulator adds up the sum


@on_cpu
def test_shares_of_an_update_smaller_than_half_a_place_add_up(random):
    """W_1 of three layers, of whose gradient each warp has a share."""
    layers, batch = (9, 128, 512, 256, 1), 128
    _, Y, weights, buffers, shape, steps = made(layers, batch, batch, 1, "sequential", None, random)
    row = random.uniform(0.5, 1, 9).astype(np.float32)
    buffers[0][0, :, :9] = row  # all shares have one sign
    weights[0] = np.where(weights[0] < 0, -1, 1).astype(np.float32)
    buffers[2][: 16 * 128].reshape(16, 128)[:9] = weights[0]

    def trained(rate):
        X = np.broadcast_to(row, (batch, 9))
        return train(weights, X, Y, epochs=1, batch_size=batch, rate=rate)[0][0] - weights[0]

    rate = np.float32(1e-12)
    rate = np.float32(rate * 1e-7 / np.abs(trained(rate)).max())  # the largest update is about one place
    expected = trained(rate)
    launched(plan_for(shape, H200, "three_layers"), buffers, steps._replace(rate=rate))
    moved = buffers[2][: 16 * 128].reshape(16, 128)[:9] - weights[0]
    large = np.abs(expected) > 8e-8
    assert large.any()
    assert np.array_equal(np.sign(moved[large]), np.sign(expected[large]))
