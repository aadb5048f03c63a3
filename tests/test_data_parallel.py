"""One network on several devices: the weights of one device, and what each device holds."""

import tempfile
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
from conftest import ROOT
from deferred import DeferredBackend
from hypothesis import given, settings
from hypothesis import strategies as st
from test_layers import networks
from test_measure import JOB
from test_remedies import data_of

from snn import backends
from snn.backends.cpu.backend import CpuBackend
from snn.config import groups
from snn.config.compose import composed
from snn.errors import Unsupported
from snn.hardware import devices, locks
from snn.hardware.devices import VISIBLE, Device
from snn.measurement import cell
from snn.measurement.protocol import Round
from snn.measurement.runs import measure
from snn.models.gradients import EXACT
from snn.models.layers import BatchNorm1d, Dropout, Linear, ReLU
from snn.models.losses import CROSS_ENTROPY
from snn.models.network import Network, mlp
from snn.models.optimizers import Adam, Sgd
from snn.profiling.ledger import Ledger
from snn.profiling.observed import ObservedBackend
from snn.strategies import factory

CHOICE = groups.load("strategy", "data_parallel")
KERNELS = [(False, False, False), (True, False, False), (False, True, False), (True, True, True)]
PERCEPTRON = mlp((7, 40, 30, 1), init="he_uniform")
ON_GPU = [
    PERCEPTRON,
    replace(PERCEPTRON, update_order="simultaneous", optimizer=Sgd(momentum=0.9, clip_norm=0.5)),
    mlp((7, 40, 30, 1), True, "silu", init="he_uniform", optimizer=Adam()),
    Network(
        (7,),
        (Linear(40), Dropout(0.4), ReLU(), Linear(3)),
        CROSS_ENTROPY,
        init="pytorch",
        update_order="simultaneous",
        dropout_seed=5,
        order_seed=3,
        optimizer=Adam(),
    ),
]


def trained(name, backend, network, rows, batch, seed=3, **options):
    """Weights, last loss and losses of the last epoch after two epochs, and predictions."""
    (X, Y), weights = data_of(network, rows, seed)
    strategy = factory.make(groups.load("strategy", name) | options, backend)
    strategy.keeps_losses = True
    with closing(strategy), np.errstate(all="ignore"):
        strategy.check_network(network)
        strategy.setup(replace(network, run_steps=99), X, Y, batch, 0.01)
        strategy.load(weights)
        strategy.train(2)
        return [*strategy.weights(), strategy.loss(), strategy.epoch_losses(), strategy.predict(X)]


def agree(found, expected, rtol=2e-3):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=rtol, atol=rtol * (np.abs(other).max() + 1e-3))


@pytest.mark.parametrize("kernel", KERNELS)
@settings(max_examples=12)
@given(
    network=networks(), rows=st.integers(1, 9), batch=st.integers(1, 6), count=st.integers(2, 4), n=st.data()
)
def test_any_network_ends_as_on_one_device(kernel, network, rows, batch, count, n):
    """Whatever the shares: some devices may have no row, and the last batch is short."""
    network = replace(network, gradient=EXACT, order_seed=n.draw(st.sampled_from([None, 4])))
    seed = n.draw(st.integers(0, 2**31))
    try:
        found = trained("data_parallel", CpuBackend(*kernel), network, rows, batch, seed, devices=count)
    except Unsupported as error:
        assert "whole batch" in str(error)
        return
    agree(found, trained("resident", CpuBackend(*kernel), network, rows, batch, seed))


@pytest.mark.parametrize("network", ON_GPU)
def test_streams_may_lag(network):
    found = trained("data_parallel", DeferredBackend(eager=1), network, 90, 40, devices=3)
    agree(found, trained("resident", CpuBackend(), network, 90, 40))


@pytest.mark.parametrize(
    ("order", "sums", "words"), [("sequential", 3, 280 + 1200 + 30), ("simultaneous", 1, None)]
)
def test_the_ledger_is_of_one_device(order, sums, words):
    """Its share of the rows, all parameters, and the sums of gradients, at once or layer by layer."""
    ledger, network = Ledger(), replace(PERCEPTRON, update_order=order)
    (X, Y), weights = data_of(network, 90, 3)
    observed = ObservedBackend(CpuBackend(), ledger)
    with closing(factory.make(CHOICE | {"devices": 3}, observed)) as strategy:
        strategy.setup(network, X, Y, 45, 0.01)
        strategy.load(weights)
        strategy.epoch()
    observed.live.check_nothing_held()
    assert ledger.all_reduces == 2 * sums
    assert words is None or ledger.all_reduce_bytes == 2 * 4 * words
    assert ledger.h2d_bytes == 4 * (30 * 8 + sum(W.size for W in weights))


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"accumulate": 2, "update_order": "simultaneous"}, "training.accumulate"),
        ({"layers": (Linear(4), BatchNorm1d(), Linear(1))}, "batchnorm1d"),
    ],
)
def test_what_needs_whole_batches_is_unsupported(change, key):
    job = replace(JOB, strategy=CHOICE, network=replace(JOB.network, **change))
    found = measure(job, Round(runs=1, min_runs=1), CpuBackend())
    assert found.status == "unsupported" and key in found.reason


def test_a_cell_on_the_cpu_says_how_many_devices():
    brief = ["protocol.runs=1", "protocol.warmup_seconds=0", "protocol.max_warmup_seconds=0"]
    found = cell.run(composed(["device=cpu", "strategy=data_parallel", "training.epochs=1", *brief]))
    assert (found["status"], found["plan"], found["explanation"]) == ("ok", "2 devices", None)


def test_all_its_gpus_are_locked_and_visible(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    gpus = [Device("cuda", "GPU", f"GPU-{letter}", "580") for letter in "bac"]
    monkeypatch.setenv(VISIBLE, "all")
    with locks.device_lock(*gpus, count=2) as first:
        assert first == gpus[0]
        assert devices.os.environ[VISIBLE] == "GPU-b,GPU-a"
        assert locks.Neighbours(gpus[2]).uuids() == ["GPU-a", "GPU-b"]
        assert locks.Neighbours(*gpus[:2]).uuids() == []
    assert devices.os.environ[VISIBLE] == "all"


@pytest.fixture(scope="module")
def several():
    """A CUDA backend that sees two GPUs or more, with a fused kernel and with the paper's."""
    if len(devices.gpus_here()) < 2:
        pytest.skip("data_parallel needs two GPUs, and this machine shows fewer")
    return {
        name: backends.make("cuda", groups.load("kernel", name), ROOT) for name in ("naive", "tiled_fused")
    }


@pytest.mark.gpu
@pytest.mark.parametrize("kernel", ["naive", "tiled_fused"])
@pytest.mark.parametrize("network", ON_GPU)
def test_two_gpus_end_as_one(several, kernel, network):
    found = trained("data_parallel", several[kernel], network, 2049, 512, devices=2)
    agree(found, trained("resident", several[kernel], network, 2049, 512))


@pytest.mark.gpu
def test_more_gpus_than_there_are_is_unsupported(cuda_backend):
    found = measure(replace(JOB, strategy=CHOICE | {"devices": 64}), Round(runs=1, min_runs=1), cuda_backend)
    assert found.status == "unsupported" and "64 GPUs" in found.reason
