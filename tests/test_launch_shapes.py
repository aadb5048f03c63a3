"""Grids of launches: what CUDA does not launch is launched another way, or refused with a reason."""

import cuda_on_cpu
import numpy as np
import pytest
from conftest import ROOT
from emulated import EmulatedBackend
from test_kernels import run

from snn.backends import kernel_source
from snn.backends.launches.operations import MOST_Y, check_grid, check_sizes, launch_shape
from snn.config import groups
from snn.errors import Unsupported

NAIVE = groups.load("kernel", "naive")
IM2COL = (2048 * 26 * 26, 9 * 32, 64)  # of a second convolution: a product of so many rows of patches


@pytest.mark.parametrize(
    "name", [one for one in groups.names("kernel") if groups.load("kernel", one)["source"]]
)
@pytest.mark.parametrize(
    ("op", "numbers"), [("matmul", IM2COL), ("matmul_nt", (2**21, 9, 1)), ("transpose", (2**22, 3))]
)
def test_a_grid_is_one_that_cuda_launches(name, op, numbers):
    shape = launch_shape(op, numbers, groups.load("kernel", name), 132)
    across, down = shape.grid
    assert down <= MOST_Y
    tile = (
        (32, 32) if op == "transpose" else [b * w for b, w in zip(shape.block, shape.work[::-1], strict=True)]
    )
    rows, cols = (across, down) if shape.tall else (down, across)
    last = numbers[1] if op == "transpose" else numbers[2]
    assert 0 <= rows * tile[1] - numbers[0] < tile[1]
    assert 0 <= cols * tile[0] - last < tile[0]


def test_every_kernel_with_many_rows_of_blocks_can_count_them_in_x():
    sources = [groups.load("kernel", name)["source"] for name in groups.names("kernel")]
    for source in {*filter(None, sources), "kernels/elementwise.cu"}:
        assert kernel_source.knows_tall_grids(kernel_source.text(ROOT / source)), source
    assert not kernel_source.knows_tall_grids(kernel_source.text(ROOT / kernel_source.SPLIT_K))


def test_only_a_grid_that_is_too_tall_counts_rows_in_x():
    rows = MOST_Y * NAIVE["block"][1]
    assert launch_shape("matmul", (rows, 2, 3), NAIVE, 132).grid == (1, MOST_Y)
    tall = launch_shape("matmul", (rows + 1, 2, 3), NAIVE, 132)
    assert (tall.grid, tall.tall) == ((MOST_Y + 1, 1), True)


@pytest.mark.parametrize(
    ("check", "numbers"),
    [
        (lambda *of: launch_shape(*of, NAIVE, 132), ("matmul", (2**22, 2, 2**22))),
        (lambda *of: check_grid(*of, MOST_Y + 1), ("matmul", (1, 2, 3))),
        (check_sizes, ("relu", (2**31,))),
        (check_sizes, ("mask", (2**31 - 1,))),
        (check_sizes, ("conv2d", (2048, 32, 512, 512, 8, 3, 0))),
        (check_sizes, ("published_wgrad", (60_000, 1, 28, 28, 3, 0, 64))),
    ],
)
def test_what_no_launch_holds_is_refused_with_its_numbers(check, numbers):
    with pytest.raises(Unsupported) as refused:
        check(*numbers)
    op, given = numbers
    assert op in str(refused.value) and all(str(number) in str(refused.value) for number in given)


def test_sizes_that_fit_are_not_refused():
    check_sizes("matmul", (2**31 - 2**17, 2**20, 2**20))  # whose indices have 64 bits
    check_sizes("matmul_tn_update", (3, 2, 1, 1e20))
    check_sizes("conv2d", (2048, 32, 28, 28, 64, 3, 0))
    check_grid("conv2d", (1, 1, 1, 1, 1, 1, 0), MOST_Y)


@pytest.mark.skipif(cuda_on_cpu.MISSING, reason="no g++ on this machine")
@pytest.mark.parametrize("op", ["matmul", "matmul_tn", "matmul_nt"])
def test_a_product_of_more_rows_than_y_has_blocks(op):
    """Blocks of one thread: as many rows of blocks as the product has rows."""
    m, k, n = MOST_Y + 2, 2, 2
    backend = EmulatedBackend({**NAIVE, "block": [1, 1]})
    random = np.random.default_rng(1)
    A, B = random.standard_normal((m, k), np.float32), random.standard_normal((k, n), np.float32)
    operands = A.T if op == "matmul_tn" else A, B.T if op == "matmul_nt" else B, np.zeros((m, n), np.float32)
    C = run(backend, op, [one.ravel() for one in operands], (m, k, n))[2]
    np.testing.assert_allclose(C.reshape(m, n), A @ B, rtol=1e-5, atol=1e-6)


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["naive", "tiled", "pretransposed", "fused", "tiled_fused", "tensor_core"])
def test_a_gpu_multiplies_and_transposes_what_is_taller_than_y(name):
    from snn.backends.cuda.backend import CudaBackend

    choice = groups.load("kernel", name)
    backend = CudaBackend(choice, choice["precisions"][0])
    rows = 64 * MOST_Y + 5
    A = np.arange(2 * rows, dtype=np.float32).reshape(rows, 2) % 64
    B = np.array([[1, 2], [-1, 4]], dtype=np.float32)  # products are exact, also of rounded numbers
    C = run(backend, "matmul", [A.ravel(), B.ravel(), np.zeros(2 * rows, np.float32)], (rows, 2, 2))[2]
    T = run(backend, "transpose", [A.ravel(), np.zeros(2 * rows, np.float32)], (rows, 2))[1]
    np.testing.assert_array_equal(C.reshape(rows, 2), A @ B)
    np.testing.assert_array_equal(T.reshape(2, rows), A.T)
