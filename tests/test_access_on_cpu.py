"""The kernels of kernels/access, run on the CPU by cuda_on_cpu, against NumPy: each element once per pass."""

import cuda_on_cpu
import numpy as np
import pytest
from conftest import ROOT
from cuda_on_cpu import KernelError

from snn.backends.access import Access, elements

pytestmark = pytest.mark.skipif(cuda_on_cpu.MISSING, reason="no g++ on this machine")

SIZES = (1, 31, 33, 1000, 4099)
VALUES = {
    "stride": (1, 2, 3, 8, 32, 33, 1024),
    "array of structures": (1, 2, 4, 8),
    "structure of arrays": (1, 2, 4, 8),
    "offset": (0, 1, 7, 31),
    "vector": (1, 2, 4),
}
GRID, BLOCK, ROUNDS = (3,), (64,), 3


def expected(access: Access, n: int, number: int = 0) -> np.ndarray:
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
        passes = [expected(access, n, number) for number in range(ROUNDS)]
        assert max(times.max() for times in passes) <= 1
        assert passes[0].sum() == elements(access, n)
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
