"""Direct convolutions, run on the CPU from their source by cuda_on_cpu, against NumPy in float64."""

import os
from concurrent.futures import ThreadPoolExecutor

import cuda_on_cpu
import numpy as np
import pytest
from kernel_builds import Convolution, convolutions
from rounding import rounded

from snn.backends.cpu import ops
from snn.backends.ops import OPS

pytestmark = pytest.mark.skipif(cuda_on_cpu.MISSING, reason="no g++ on this machine")

CASES = convolutions()


@pytest.fixture(scope="module", autouse=True)
def compiled_side_by_side(request):
    tests = (test for test in request.session.items if test.path == request.path)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for build in {test.callspec.params["build"] for test in tests if hasattr(test, "callspec")}:
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
        if name == "I" and ("dgrad" in op or "wgrad" in op):
            values = random.integers(0, size * size, count).astype(np.float32)
        made.append(values)
    for at in written(op):
        made[at][:] = np.nan
    return made


def written(op: str) -> list[int]:
    names = {"conv2d_relu_pool": "ZI"}.get(op, ("S", "D", "Z", "dW", "db"))
    return [at for at, name in enumerate(OPS[op].operands) if name in names]


def check(build: Convolution, op: str, seed: int) -> None:
    """One launch on fresh operands against the oracle, within what rounding the sums may move."""
    kernel, grid, block = launches(build)[op]
    numbers = build.numbers(op)
    operands = drawn(op, numbers, seed)
    exact = [one.astype(np.float64) for one in operands]
    nearest = [rounded(one, build.precision).astype(np.float64) for one in operands]
    for at, name in enumerate(OPS[op].operands):
        if name not in "XWG":  # what is multiplied is rounded, and nothing else
            nearest[at] = exact[at].copy()
    sizes = [np.abs(one) for one in nearest]
    for wide in (exact, nearest, sizes):
        getattr(ops, op)(*wide, *numbers)
    kernel(grid, block, (*operands, *numbers))
    for at in written(op):
        name, mine, right, size = OPS[op].operands[at], operands[at], nearest[at], sizes[at]
        if name == "I":
            assert (mine == right).mean() > 0.98  # of windows whose largest are nearly equal, either
            continue
        if name == "S":
            mine, right, size, unrounded = (
                one.astype(np.float64).reshape(numbers[-1], -1).sum(axis=0)
                for one in (mine, right, size, exact[at])
            )
            biases = numbers[OPS[op].numbers.index("filters")]
            right[-biases:] = unrounded[-biases:]
        wrong = ~(np.abs(mine - right) <= 3e-6 * (size + 1))
        assert not wrong.any(), (
            f"{op} {name}: {wrong.sum()} of {wrong.size}, the first {np.argwhere(wrong)[0]}"
        )


@pytest.mark.parametrize("build", CASES, ids=str)
def test_every_operation_agrees_with_numpy(build):
    for op in launches(build):
        check(build, op, 1)
