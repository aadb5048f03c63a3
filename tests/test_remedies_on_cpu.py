"""Whole steps in micro-batches and with recomputed outputs, by the CUDA kernels' source, run on the CPU.

An access outside of a buffer raises KernelError: the buffers are as large as a strategy made them.
"""

from dataclasses import replace

import cuda_on_cpu
import pytest
from emulated import EmulatedBackend
from test_remedies import CASES, far, run, same_bits

from snn.backends.cpu.backend import CpuBackend
from snn.config import groups

pytestmark = pytest.mark.skipif(cuda_on_cpu.MISSING, reason="no g++ on this machine")


@pytest.mark.parametrize(
    ("network", "layers", "batch", "rows"),
    [(*CASES[0][::3], 16, 21), (*CASES[1][::3], 8, 13)],
    ids=["mlp", "cnn"],
)
def test_the_sources_train_the_same_weights(network, layers, batch, rows):
    """One batch and a smaller one, of which the last micro-batch is smaller, too."""
    backend = EmulatedBackend(groups.load("kernel", "tiled_fused"))

    def trained(**changed):
        return run("resident", backend, replace(network, **changed), rows, batch, epochs=1)[0]

    one, four = trained(), trained(accumulate=4)
    assert 0 < far(one, four) <= 1e-6
    assert same_bits(one, trained(recompute=layers))
    assert same_bits(four, trained(recompute=layers, accumulate=4))


def test_a_buffer_that_is_too_small_is_noticed():
    network = CASES[0][0]
    backend = EmulatedBackend(groups.load("kernel", "naive"))

    def malloc(nbytes, purpose=None):
        return CpuBackend.malloc(backend, nbytes - 4 * (purpose == "activations"), purpose)

    backend.malloc = malloc
    with pytest.raises(cuda_on_cpu.KernelError, match=r"argument \d"):
        run("resident", backend, network, 8, 8, epochs=1)
