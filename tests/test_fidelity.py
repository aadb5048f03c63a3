"""``training.fidelity``: the step of the authors' programs gives our weights and makes their allocations."""

from contextlib import closing

import numpy as np
import pytest
from every_source import EverySource
from failing_backend import FailingBackend
from ledgers import operands
from real_records import measured

from snn.backends.cpu.backend import CpuBackend
from snn.config import groups
from snn.config.compose import composed
from snn.errors import OutOfMemory, Unsupported
from snn.models.glibc_random import GlibcRandom
from snn.models.network import FIDELITIES, LEAN, LOOPS, PUBLISHED, draw_weights, mlp
from snn.profiling.ledger import Ledger
from snn.profiling.observed import ObservedBackend
from snn.strategies import factory

HIDDEN, ROWS, BATCH = (4, 3), 10, 4
THEIRS = ("reference", "pinned", "streams", "combined")


def train(name, fidelity, backend=None, epochs=3, rows=ROWS, **network):
    """Weights, the losses of the last epoch, and the ledger, all closed and freed."""
    net = mlp((5, *HIDDEN, 1), fidelity=fidelity, init="he_uniform", **network)
    random = np.random.default_rng(1)
    X, Y = (random.uniform(-1, 1, (rows, n)).astype(np.float32) for n in (5, 1))
    observed = ObservedBackend(backend or CpuBackend(), ledger := Ledger())
    try:
        with closing(factory.make(groups.load("strategy", name), observed)) as strategy:
            strategy.check_network(net)
            strategy.keeps_losses = True
            strategy.setup(net, X, Y, BATCH, 0.05)
            strategy.load(draw_weights(net, GlibcRandom(2)))
            for _ in range(epochs):
                strategy.epoch()
            return strategy.weights(), strategy.epoch_losses(), ledger
    finally:
        observed.live.check_nothing_held()


@pytest.mark.parametrize("on_gpu", [False, pytest.param(True, marks=pytest.mark.gpu)])
@pytest.mark.parametrize("clip_norm", [None, 0.1])
@pytest.mark.parametrize("name", [*THEIRS, "keepalive", "managed"])
def test_weights_are_the_same_to_the_bit(name, clip_norm, on_gpu, request):
    backend = request.getfixturevalue("cuda_backend") if on_gpu else EverySource()
    lean, *others = (train(name, one, backend, clip_norm=clip_norm) for one in FIDELITIES)
    for weights, losses, _ in others:
        for W, right in zip(weights, lean[0], strict=True):
            np.testing.assert_array_equal(W, right)
        np.testing.assert_allclose(losses, lean[1], rtol=1e-6)


@pytest.mark.parametrize("fidelity", [PUBLISHED, LOOPS])
@pytest.mark.parametrize("name", THEIRS)
def test_a_step_allocates_what_theirs_does(name, fidelity):
    """5 matrices of products, X, Y, the outputs' gradient, 2 derivatives, 5 transposes: of 3 layers."""
    _, _, ledger = train(name, fidelity, epochs=1)
    steps, layers = 3, len(HIDDEN) + 1
    products, transposes, masks = 3 * layers - 1, 2 * layers - 1, layers - 1
    pinned = {"reference": 0, "pinned": products + 2}.get(name, products + 2 + 1 + masks + transposes)
    every, held = products + 2 + 1 + masks + transposes, 2 + layers
    held_pinned = held if name != "reference" else 0
    assert ledger.host_allocs == steps * pinned + held_pinned
    assert ledger.pageable_allocs == steps * (every - pinned) + held - held_pinned
    assert ledger.launches >= len(operands(HIDDEN, ROWS, BATCH, 1)) == steps * products


def test_the_counts_of_one_hidden_layer_are_those_of_the_sources():
    """7 and 12 pinned allocations a step; without the setting 5 and 8."""
    for name, fidelity, pinned in (
        *(("pinned", PUBLISHED, 7), ("combined", PUBLISHED, 12)),
        *(("pinned", LEAN, 5), ("combined", LEAN, 8)),
    ):
        record = measured(f"strategy={name}", f"training.fidelity={fidelity}", "training.epochs=1")
        assert record["ledger"]["host_allocs"] == pinned + 4
        assert record["cell"]["training"].get("fidelity", LEAN) == fidelity


def test_everything_is_freed_wherever_it_fails():
    for fail_at in range(1, 500):
        backend = FailingBackend(fail_at)
        try:
            train("combined", PUBLISHED, backend, epochs=1, rows=3)
        except OutOfMemory:
            continue
        assert fail_at > 10 and backend.left > 0
        return
    pytest.fail("no training passed")


@pytest.mark.parametrize(
    ("name", "other", "says"),
    [
        ("preallocated", {}, "choose reference"),
        ("workspace", {}, "choose reference"),
        ("graph", {}, "choose reference"),
        ("blas", {}, "choose reference"),
        ("reference", {"update_order": "simultaneous"}, "network.update_order=sequential"),
        ("reference", {"order_seed": 1}, "file order"),
        ("reference", {"reduction": "sum"}, "perceptrons"),
    ],
)
def test_others_are_unsupported(name, other, says):
    network = mlp((5, 4, 1), fidelity=PUBLISHED, **other)
    with pytest.raises(Unsupported, match=f"training.fidelity=published .*{says}"):
        factory.make(groups.load("strategy", name), CpuBackend()).check_network(network)


def test_cells_have_the_key_only_if_it_changes_something():
    plain, none, theirs = (
        composed(["device=cpu", *more])
        for more in ([], ["training.fidelity=none"], ["training.fidelity=published"])
    )
    assert plain == none and "fidelity" not in plain["training"]
    assert theirs["training"] == plain["training"] | {"fidelity": PUBLISHED}
