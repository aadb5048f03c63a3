"""A step of the baselines on the processor, with products by BLAS, beside plain loops in float64."""

from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
from oracle import train
from test_measure import JOB

from snn.backends.cpu.backend import CpuBackend
from snn.config import groups
from snn.errors import Unsupported
from snn.models.glibc_random import GlibcRandom
from snn.models.network import draw_weights, mlp
from snn.strategies import factory
from snn.strategies.factory import start

BLAS = groups.load("strategy", "blas")


@pytest.mark.parametrize("order", ["sequential", "simultaneous"])
@pytest.mark.parametrize("clip", [None, 0.5])
@pytest.mark.parametrize("hidden", [(), (6,), (6, 5)])
@pytest.mark.parametrize("batch", [4, 10, 99])
def test_weights_and_loss_are_those_of_plain_loops(order, clip, hidden, batch):
    network = mlp((4, *hidden, 1), init="he_uniform", update_order=order, clip_norm=clip)
    job = replace(JOB, strategy=BLAS, network=network, batch_size=batch, learning_rate=0.1)
    weights = draw_weights(network, GlibcRandom(4))
    with closing(start(job, CpuBackend())) as strategy:
        for _ in range(2):
            strategy.load(weights)
            assert np.isnan(strategy.loss())
            for _ in range(3):
                strategy.epoch()
            found, loss = strategy.weights(), strategy.loss()
    expected, expected_loss = train(
        weights, job.X, job.Y, epochs=3, batch_size=batch, rate=0.1, update_order=order, clip_norm=clip
    )
    assert loss == pytest.approx(expected_loss, rel=1e-4)
    for W, oracle in zip(found, expected, strict=True):
        np.testing.assert_allclose(W, oracle, rtol=1e-4, atol=1e-6)


def test_a_device_that_is_no_processor_is_refused():
    backend = CpuBackend()
    backend.is_processor = False
    strategy = factory.make(BLAS, backend)
    with pytest.raises(Unsupported, match="this strategy is a CPU baseline: it runs with device=cpu only"):
        strategy.setup(JOB.network, JOB.X, JOB.Y, 4, 0.1)
