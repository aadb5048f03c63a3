"""NVTX ranges: balanced, around every call, and named by step, layer and call."""

import itertools
import re
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import STRATEGIES
from every_source import EverySource
from real_records import quick
from test_measure import JOB

from snn.config import compose, groups
from snn.errors import ConfigError, OutOfMemory
from snn.measurement import cell
from snn.models.network import mlp
from snn.models.training_step import training_step
from snn.profiling import nvtx
from snn.profiling.observed import ObservedBackend
from snn.strategies import factory
from snn.strategies.device_driven import DeviceDriven
from snn.strategies.host_driven import HostDriven

LAYERS = (4, 7, 6, 5, 1)
SMALL = quick("network.hidden=[4]")
RANDOM = np.random.default_rng(2)
X, Y = (RANDOM.random((50, n), dtype=np.float32) for n in (4, 1))
DEEP = replace(JOB, network=mlp(LAYERS, init="he_uniform"), X=X, Y=Y, batch_size=9)


class Recorded:
    """Keeps the names of ranges, of which none is within another."""

    def __init__(self):
        self.names, self.open = [], 0

    def push(self, name):
        assert self.open == 0
        self.open += 1
        self.names.append(name)

    def pop(self):
        self.open -= 1


def ranges_of(name, learning_rate=DEEP.learning_rate, **network):
    recorded = Recorded()
    job = replace(DEEP, strategy=groups.load("strategy", name), network=replace(DEEP.network, **network))
    job = replace(job, learning_rate=learning_rate)
    observed = ObservedBackend(EverySource())
    nvtx.annotate(job, observed, recorded.push, recorded.pop)
    observed.live.check_nothing_held()
    assert recorded.open == 0
    return recorded.names


@pytest.mark.filterwarnings("error")
def test_a_training_that_diverges_has_the_same_ranges_and_no_warning():
    assert ranges_of("reference", learning_rate=1e30) == ranges_of("reference")


LABEL = re.compile(r"(step \d) / layer (\d) Linear (forward|backward) / (.+)")


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("order", ["sequential", "simultaneous"])
def test_products_have_the_shape_of_their_layer(name, order):
    kind = factory.class_of(groups.load("strategy", name))
    labels = [match.groups() for match in map(LABEL.fullmatch, ranges_of(name, update_order=order)) if match]
    if not issubclass(kind, HostDriven | DeviceDriven) or kind.at_once:
        assert not labels  # all steps are in one launch, or the device does nothing
        return
    times = 1 if issubclass(kind, HostDriven) else 2
    order = [step for step, _ in itertools.groupby(label[0] for label in labels)]
    assert order == ["step 1", "step 2", "step 3"] * times
    for _, layer, direction, call in labels:
        if call.startswith("matmul"):
            k, n = LAYERS[int(layer) // 2 : int(layer) // 2 + 2]
            inner_and_columns = tuple(map(int, call.split()[1].split("x")[1:]))
            shapes = (
                [(k, n)] if direction == "forward" else [(9, n), (n, k)]
            )  # of the gradient, or propagated
            assert inner_and_columns in shapes
    steps = 3 if issubclass(kind, HostDriven) else 6  # the steps before them have the same names
    layers = [*((i, "forward") for i in "1357"), *((i, "backward") for i in "7531")]
    assert [layer for layer, _ in itertools.groupby(label[1:3] for label in labels)] == steps * layers


def test_all_calls_of_a_host_driven_product_are_labelled():
    names = [name.split(" / ") for name in ranges_of("reference")]
    assert [name[-1] for name in names if name[:2] == ["step 1", "layer 1 Linear forward"]] == [
        *("host_alloc", "malloc", "malloc", "malloc", "copy_in", "copy_in", "matmul 9x4x7", "synchronize"),
        *("copy_out", "free", "free", "free"),
    ]


@pytest.mark.parametrize("pretransposed", [False, True])
@pytest.mark.parametrize("fused", [False, True])
def test_launches_are_labelled_as_those_of_the_kernels_step(fused, pretransposed):
    """Three steps before those that count, with the same names; transposes of a load belong to none."""
    recorded = Recorded()
    job = replace(DEEP, strategy=groups.load("strategy", "resident"))
    nvtx.annotate(job, EverySource(fused, pretransposed), recorded.push, recorded.pop)
    step = training_step(job.network, job.batch_size, 0.0, fused, pretransposed).launches
    expected = [
        f"step {number} / {launch.label} / {launch.op} "
        + "x".join(str(n) for n in launch.numbers if isinstance(n, int))
        for number in (1, 2, 3)
        for launch in step
    ]
    assert [name for name in recorded.names if name.startswith("step ")] == 2 * expected
    rest = {name.split()[0] for name in recorded.names if not name.startswith("step ")}
    assert ("transpose" in rest) == pretransposed
    assert not rest & {launch.op for launch in step}


def test_a_call_that_fails_leaves_no_range_open():
    from failing_backend import FailingBackend

    for fail_at in (1, 3, 40):
        recorded = Recorded()
        with pytest.raises(OutOfMemory):
            nvtx.annotate(JOB, FailingBackend(fail_at), recorded.push, recorded.pop)
        assert recorded.names
        assert recorded.open == 0


def test_ranges_are_pushed_only_if_they_are_asked_for_and_can_be_seen(monkeypatch):
    monkeypatch.setattr(nvtx, "annotate", None)
    assert cell.run(compose.composed(SMALL))["status"] == "ok"
    with pytest.raises(ConfigError, match="profile=nvtx is for Nsight Systems"):
        cell.run(compose.composed([*SMALL, "profile=nvtx"]))
    with pytest.raises(ConfigError, match="profile is 'nsys': it must be one of none, nvtx"):
        compose.composed(["profile=nsys"])


def pretend_cupy(monkeypatch, push, pop):
    cuda = SimpleNamespace(nvtx=SimpleNamespace(RangePush=push, RangePop=pop))
    for name, module in (("cupy", SimpleNamespace(cuda=cuda)), ("cupy.cuda", cuda)):
        monkeypatch.setitem(sys.modules, name, module)


def test_a_record_is_the_same_with_ranges(monkeypatch):
    recorded = Recorded()
    monkeypatch.setattr(cell, "_check_ranges", lambda *arguments: None)
    pretend_cupy(monkeypatch, recorded.push, recorded.pop)
    plain = cell.run(compose.composed(SMALL))
    annotated = cell.run(compose.composed([*SMALL, "profile=nvtx"]))
    assert recorded.names
    assert plain["cell"] == annotated["cell"]
    assert plain["provenance"]["source_hash"] == annotated["provenance"]["source_hash"]
    assert plain.keys() == annotated.keys()


def test_memory_that_runs_out_for_ranges_does_not_cost_what_was_measured(monkeypatch, capsys):
    def full(*arguments):
        raise OutOfMemory("planted")

    monkeypatch.setattr(cell, "_check_ranges", lambda *arguments: None)
    pretend_cupy(monkeypatch, full, full)
    monkeypatch.setattr(nvtx, "annotate", full)
    assert cell.run(compose.composed([*SMALL, "profile=nvtx"]))["status"] == "ok"
    assert "there are no NVTX ranges: planted" in capsys.readouterr().err


@pytest.mark.gpu
def test_ranges_on_the_gpu(cuda_backend):
    from cupy.cuda import nvtx as cupy_nvtx

    nvtx.annotate(DEEP, cuda_backend, cupy_nvtx.RangePush, cupy_nvtx.RangePop)
