"""What a device cannot do is told as an outcome, with its reason, and all else runs there.

Tests over all strategies skip those that their backend cannot have; here nothing is skipped.
"""

import sys
from dataclasses import replace

import pytest
from conftest import STRATEGIES
from every_source import EverySource
from test_measure import JOB

from snn.backends.cpu.backend import CpuBackend
from snn.config import groups
from snn.config.compose import composed
from snn.measurement import cell
from snn.measurement.protocol import Round
from snn.measurement.runs import measure
from snn.strategies import cpu, factory, numba_loops

POOLS = "the memory pools of CuPy and of the driver need a CUDA device"
MANAGED = "managed memory needs a CUDA device"
ON_CPU = {
    "async_pool": POOLS,
    "graph": "CUDA graphs need a CUDA device",
    "managed": MANAGED,
    "managed_prefetch": MANAGED,
    "pool": POOLS,
}
ON_HOST = "this strategy is a CPU baseline: it runs with device=cpu only"


class Device(EverySource):
    """Memory from every source, and not the processor's own."""

    is_processor = False


def outcome(name, backend, **options):
    strategy = groups.load("strategy", name) | options
    return measure(replace(JOB, strategy=strategy), Round(runs=1, min_runs=1), backend)


def unsupported(backend):
    """The reasons of the strategies that are; every other one must have trained."""
    found = {name: outcome(name, backend) for name in STRATEGIES}
    for one in found.values():
        assert (one.status, one.reason, len(one.runs)) == ("ok", None, 1) or one.status == "unsupported"
        assert one.status == "ok" or not one.runs
    return {name: one.reason for name, one in found.items() if one.status == "unsupported"}


def test_on_the_cpu():
    assert unsupported(CpuBackend()) == ON_CPU


def test_on_a_device_that_is_not_the_processor():
    baselines = {"blas": ON_HOST, "sequential": ON_HOST, "threads": ON_HOST}
    assert unsupported(Device()) == baselines | {"graph": ON_CPU["graph"]}
    on_host = {n for n in STRATEGIES if factory.class_of(groups.load("strategy", n)).on_host}
    assert on_host == set(baselines)


@pytest.mark.gpu
def test_on_a_gpu(cuda_backend):
    found = unsupported(cuda_backend)
    assert found.pop("ensemble", "no cluster").startswith("no cluster")  # of a GPU before these
    assert found == {"blas": ON_HOST, "sequential": ON_HOST, "threads": ON_HOST}


@pytest.mark.parametrize("name", ["threads", "blas"])
def test_more_threads_than_processors(name):
    found = outcome(name, CpuBackend(), threads=10_000)
    assert found.status == "unsupported"
    assert found.reason.startswith("strategy.threads is 10000: this process may use ")


@pytest.mark.parametrize(
    ("name", "package"), [("sequential", "numba"), ("threads", "numba"), ("blas", "threadpoolctl")]
)
def test_a_package_that_is_not_there(name, package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setattr(cpu, "perceptron_loops", numba_loops.perceptron_loops.__wrapped__)
    found = outcome(name, CpuBackend())
    assert found.status == "unsupported"
    assert found.reason.startswith(f"{package} cannot be imported")


def test_a_cell_leaves_a_record():
    found = cell.run(composed(["device=cpu", "strategy=pool", "protocol=brief"]))
    assert (found["status"], found["reason"], found["runs"]) == ("unsupported", POOLS, [])
    assert found["explanation"] is None
