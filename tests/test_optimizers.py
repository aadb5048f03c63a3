"""Optimisers: the formulae of PyTorch's SGD, Adam and AdamW, by every strategy that trains with them."""

from dataclasses import replace

import cuda_on_cpu
import numpy as np
import pytest
from conftest import DIFFERENT, LIKE_GRAPH, OWN_LOOPS, PEERS, ROOT, SINGLE
from deferred import DeferredBackend
from emulated import EmulatedBackend
from hypothesis import given, settings
from hypothesis import strategies as st
from in_float64 import KERNELS, Training, agree, backend_of
from test_strategies import Device as Gpu

from snn import backends
from snn.backends.cpu import ops
from snn.backends.launches.operations import check_sizes, launch_shape
from snn.config import compose, groups
from snn.errors import ConfigError, Unsupported
from snn.grid import sweeps
from snn.hardware.devices import Device
from snn.models import optimizers
from snn.models.gradients import PublishedNaive
from snn.models.layers import Conv2d, Linear, MaxPool2d, ReLU
from snn.models.losses import CROSS_ENTROPY
from snn.models.network import Network, mlp
from snn.models.optimizers import Adam, AdamW, Sgd
from snn.models.schedules import CONSTANT, Cosine
from snn.models.training_step import batch_steps, training_step
from snn.profiling.ledger import MemoryMap
from snn.profiling.observed import ObservedBackend
from snn.recommending import elsewhere
from snn.strategies import factory

CASES = {
    "decay": Sgd(weight_decay=0.1),
    "momentum": Sgd(0.9),
    "nesterov": Sgd(0.9, True, 0.01),
    "adam": Adam(),
    "adam_decay": Adam(0.8, 0.99, 1e-6, 0.1),
    "adamw": AdamW(),
}
NAMES = list(CASES)
TRAINERS = [
    name for name in (*SINGLE, *PEERS) if factory.class_of(groups.load("strategy", name)).any_optimizer
]
OTHERS = [name for name in (*SINGLE, *PEERS) if name not in TRAINERS]
REMEDIES = [
    name
    for name in TRAINERS
    if factory.class_of(groups.load("strategy", name)).remedies and name not in LIKE_GRAPH
]
TRAINING = Training(rows=30, batch=12, epochs=17, rate=0.005)
"""51 steps, of which a third is of a smaller batch."""

STACK = Network((5,), (Linear(7), ReLU(), Linear(6), ReLU(), Linear(1)), init="he_uniform")
IMAGES = Network((1, 6, 6), (Conv2d(2, 3, 1), ReLU(), MaxPool2d(2), Linear(3)), CROSS_ENTROPY, "he_uniform")


@pytest.mark.parametrize(
    ("name", "case", "order"),
    [
        (name, case, order)
        for name in TRAINERS
        for number, case in enumerate(NAMES if name in OWN_LOOPS else ("nesterov", "adamw"))
        for place, order in enumerate(("sequential", "simultaneous"))
        if name in DIFFERENT or place == number % 2
    ],
)
def test_weights_after_50_steps_are_those_of_float64(name, case, order):
    """Also in a second run, which starts with an empty state."""
    if name == "torch_loader" and order == "sequential":
        pytest.skip("autograd has no such order")
    network = replace(STACK, optimizer=CASES[case], update_order=order)
    TRAINING.check_runs(name, backend_of(name), network)


@pytest.mark.parametrize(
    ("name", "case"),
    [(name, case) for name in TRAINERS for case in (NAMES if name in DIFFERENT else ("nesterov", "adamw"))],
)
def test_perceptrons_without_biases_and_clipped_gradients(name, case):
    order = "simultaneous" if name == "torch_loader" else "sequential"
    options = {"init": "he_uniform", "optimizer": CASES[case], "clip_norm": 0.3, "update_order": order}
    network = mlp((5, 9, 8, 1), **options)
    agree(TRAINING.weights(name, backend_of(name), network)[0], TRAINING.exact(network).weights)


@pytest.mark.parametrize(
    ("case", "kernel"),
    [("adam", kernel) for kernel in KERNELS[:-1]] + [(case, KERNELS[-1]) for case in NAMES],
)
def test_convolutions_micro_batches_and_recomputed_outputs_with_kernels_of_every_kind(case, kernel):
    network = replace(IMAGES, optimizer=CASES[case], update_order="simultaneous")
    for changed in (network, replace(network, accumulate=3), replace(network, recompute=(0,))):
        found = TRAINING.weights("resident", DeferredBackend(*kernel), changed)[0]
        agree(found, TRAINING.exact(network).weights, 2e-5)


@pytest.mark.skipif(cuda_on_cpu.MISSING, reason="no g++ on this machine")
@pytest.mark.parametrize(
    ("kernel", "case", "order", "clip_norm"),
    [
        ("naive", "adam", "sequential", 0.5),
        ("pretransposed", "nesterov", "sequential", 0.5),
        ("tiled_fused", "adamw", "sequential", 0.5),
        ("tiled_fused", "adam_decay", "sequential", None),
        ("tiled_fused", "adamw", "simultaneous", None),
        ("fused", "momentum", "simultaneous", None),
    ],
)
def test_the_kernels_themselves_on_a_cpu(kernel, case, order, clip_norm):
    network = replace(STACK, optimizer=CASES[case], update_order=order, clip_norm=clip_norm)
    once, backend = replace(TRAINING, epochs=1), EmulatedBackend(groups.load("kernel", kernel))
    agree(once.weights("resident", backend, network)[0], once.exact(network).weights)


@pytest.mark.gpu
@pytest.mark.parametrize("case", NAMES)
@pytest.mark.parametrize(
    ("kernel", "order"),
    [("naive", "sequential"), ("tiled_fused", "sequential"), ("tiled_fused", "simultaneous")],
)
@pytest.mark.parametrize("name", REMEDIES)
def test_weights_on_a_gpu_are_those_of_float64(name, case, kernel, order):
    network = replace(STACK, optimizer=CASES[case], update_order=order)
    TRAINING.check_runs(name, backends.make("cuda", groups.load("kernel", kernel), ROOT), network)


@pytest.mark.parametrize("case", NAMES)
def test_pytorch_does_the_same(case):
    torch = pytest.importorskip("torch")
    optimizer = CASES[case]
    keys = optimizer.keys
    keys |= {"betas": (keys.pop("beta1"), keys.pop("beta2"))} if isinstance(optimizer, Adam) else {}
    kind = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[optimizer.name]
    network = replace(STACK, optimizer=optimizer, update_order="simultaneous")
    (X, Y), weights = TRAINING.arrays(network), TRAINING.data(network)[-1]
    parameters = [torch.tensor(W, dtype=torch.float64, requires_grad=True) for W in weights]
    descend = kind(parameters, lr=float(np.float32(TRAINING.rate)), **keys)
    for _ in range(TRAINING.epochs):
        for start in range(0, len(X), TRAINING.batch):
            x, y = (torch.tensor(M[start : start + TRAINING.batch], dtype=torch.float64) for M in (X, Y))
            W1, b1, W2, b2, W3, b3 = parameters
            outputs = torch.relu(torch.relu(x @ W1 + b1) @ W2 + b2) @ W3 + b3
            descend.zero_grad()
            ((outputs - y) ** 2).mean().backward()
            descend.step()
    found = TRAINING.weights("resident", DeferredBackend(), network)[0]
    agree(found, [W.detach().numpy() for W in parameters])


# ---- the formulae


def begun(elements=8):
    """The buffer of steps when a run starts."""
    T = np.empty(elements, np.float32)
    optimizers.start(optimizers.STEPS, T)
    return T


values = st.lists(st.floats(-10, 10, width=32), min_size=1, max_size=9)


@settings(max_examples=50)
@given(values, st.integers(0, 2**32 - 1), st.sampled_from([1e-3, 1.0, 1e3]))
def test_adams_first_step_has_the_length_of_the_rate_whatever_the_gradient(gradient, seed, scale):
    G = np.float32(scale) * np.where(np.abs(gradient) < 0.01, 0, gradient).astype(np.float32)
    W = np.random.default_rng(seed).normal(size=len(G)).astype(np.float32)
    M, V, T, old = *np.zeros((2, len(G)), np.float32), begun(), W.copy()
    ops.count_step(T, 1, 0.1, 0.001, *CONSTANT.numbers(1))
    ops.adam_update(W, G, M, V, T, len(G), 0.01, 0.1, 0.001, 1e-12, 0.0)
    np.testing.assert_allclose(old - W, 0.01 * np.sign(G), atol=1e-6)


@settings(max_examples=50)
@given(values, values, st.floats(0, 0.5), st.integers(1, 5))
def test_without_a_gradient_decoupled_decay_shrinks_weights_alone(weights, unused, decay, steps):
    W = np.array(weights, np.float32)
    M, V, T, G = *np.zeros((2, len(W)), np.float32), begun(), np.zeros_like(W)
    for _ in range(steps):
        ops.count_step(T, 1, 0.1, 0.001, *CONSTANT.numbers(steps))
        ops.adamw_update(W, G, M, V, T, len(W), 0.1, 0.1, 0.001, 1e-8, decay)
    np.testing.assert_allclose(W, np.float32(weights) * (1 - 0.1 * decay) ** steps, rtol=1e-5, atol=1e-30)


@settings(max_examples=50)
@given(values, st.floats(0, 0.99), st.integers(1, 6))
def test_the_momentum_of_a_constant_gradient_is_a_geometric_series(gradient, momentum, steps):
    G = np.array(gradient, np.float32)
    (M, W), T = np.zeros((2, len(G)), np.float32), begun()
    for _ in range(steps):
        ops.momentum_update(W, G, M, T, len(G), 0.5, momentum, 0.0)
    series = sum(float(np.float32(momentum)) ** i for i in range(steps))
    np.testing.assert_allclose(M, series * G, rtol=1e-5, atol=1e-30)


# ---- launches, memory, settings


@pytest.mark.parametrize("case", NAMES)
def test_a_step_has_one_update_of_each_parameter_and_counts_once(case):
    optimizer = CASES[case]
    plain, network = STACK, replace(STACK, optimizer=optimizer)
    steps = [training_step(each, 4, TRAINING.rate, fused=True) for each in (plain, network)]
    before, after = ([one.op for one in step.launches] for step in steps)
    updates = [op for op in after if op.endswith("_update") and not op.startswith("matmul")]
    assert len(updates) == len(network.parameters)
    assert after.count("count_step") == isinstance(optimizer, Adam)
    assert not any("update" in op for op in after if op.startswith("matmul"))
    assert any("update" in op for op in before if op.startswith("matmul"))


@settings(max_examples=30)
@given(st.lists(st.integers(1, 70), min_size=1, max_size=4), st.booleans(), st.integers(1, 3))
def test_parameters_that_lie_together_are_updated_together(hidden, bias, accumulate):
    """One launch for all, or one for each layer if errors pass through updated weights; each element once."""
    network = mlp((3, *hidden, 1), bias, optimizer=Adam(), update_order="simultaneous", accumulate=accumulate)
    for order, runs in (("simultaneous", 1), ("sequential", len(hidden) + 1)):
        if order == "sequential" and accumulate > 1:
            continue
        steps = batch_steps(replace(network, update_order=order), 6, -(-6 // accumulate), TRAINING.rate)
        updates = [one for step in steps for one in step.launches if one.op == "adam_update"]
        assert len(updates) == runs
        places = network.places | steps[-1].runs
        updated = [
            i for one in updates for i in range(places[one.operands[0]][0], sum(places[one.operands[0]]))
        ]
        own = [i for start, elements in network.places.values() for i in range(start, start + elements)]
        assert len(set(updated)) == len(updated) and len(set(own)) == len(own) and set(own) <= set(updated)


def test_a_count_of_the_steps_of_an_epoch_is_that_of_each_step():
    once, each = np.zeros(24, np.float32), np.zeros(8, np.float32)
    for _ in range(3):
        ops.count_step(once, 3, 0.1, 0.001, *Cosine(2).numbers(9))
        for step in range(3):
            ops.count_step(each, 1, 0.1, 0.001, *Cosine(2).numbers(9))
            assert np.array_equal(once[8 * step : 8 * step + 8], each)


@pytest.mark.parametrize("case", NAMES)
def test_every_launch_fits_a_gpu(case):
    network = replace(STACK, optimizer=CASES[case], clip_norm=0.5)
    for launch in training_step(network, 4, TRAINING.rate, pretransposed=True).launches:
        check_sizes(launch.op, launch.numbers)
        shape = launch_shape(launch.op, launch.numbers, groups.load("kernel", "naive"), 132)
        assert min(shape.grid) >= 1


@pytest.mark.parametrize("case", NAMES)
def test_the_state_is_counted_as_memory_of_the_optimizer(case):
    optimizer, memory = CASES[case], MemoryMap()
    network = replace(STACK, optimizer=optimizer)
    replace(TRAINING, epochs=1).weights("resident", ObservedBackend(DeferredBackend(), memory), network)
    expected = 4 * len(optimizer.state) * max(map(sum, network.places.values()))
    expected += 32 * (-(-TRAINING.rows // TRAINING.batch) if isinstance(optimizer, Adam) else 1)
    assert memory.device.describe()["peak_by_kind"].get("optimizer", 0) == expected


@pytest.mark.parametrize("name", OTHERS)
def test_a_strategy_that_cannot_says_so(name):
    strategy = factory.make(groups.load("strategy", name), Gpu())
    with pytest.raises(Unsupported, match=r"training\.optimizer=adam"):
        strategy.check_network(mlp((3, 4, 1), optimizer=Adam()))


def training_of(*settings_):
    return compose.composed(["dataset=small", *settings_])["training"]


def test_a_cell_has_the_keys_of_its_optimizer_and_none_of_plain_sgd():
    keys = {"optimizer", *optimizers.KEYS}
    plain = training_of()
    assert not keys & plain.keys()
    assert training_of("training.optimizer=sgd", "training.momentum=0", "training.weight_decay=0") == plain
    adam = training_of("training.optimizer=adam")
    assert {key: adam[key] for key in adam if key in keys} == {
        **{"optimizer": "adam", "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 0.0}
    }
    assert training_of("training.optimizer=adam", "training.beta1=0.9") == adam
    assert training_of("training.optimizer=adamw")["weight_decay"] == 0.01
    assert optimizers.of(training_of("training.momentum=0.9", "training.nesterov=true")) == Sgd(0.9, True)
    assert optimizers.settled(adam) == adam


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (["training.optimizer=adagrad"], "training.optimizer"),
        (["training.optimizer=adam", "training.momentum=0.9"], "training.momentum"),
        (["training.beta1=0.9"], "training.beta1"),
        (["training.optimizer=adam", "training.beta2=1"], "training.beta2"),
        (["training.optimizer=adam", "training.eps=0"], "training.eps"),
        (["training.nesterov=true"], "training.nesterov"),
        (["training.momentum=-0.1"], "training.momentum"),
        (["training.weight_decay=nan"], "training.weight_decay"),
        (["training.optimizer=adam", "training.gradient=published_naive"], "training.optimizer"),
        (["training.schedule=exponential"], "training.schedule"),
        (["training.schedule=step"], "training.step_size"),
        (["training.schedule=cosine", "training.gamma=0.5"], "training.gamma"),
        (["training.end_factor=0.5"], "training.end_factor"),
        (["training.schedule=step", "training.step_size=0"], "training.step_size"),
        (["training.warmup_steps=-1"], "training.warmup_steps"),
        (["training.clip_norm=0"], "training.clip_norm"),
        (
            ["network.update_order=simultaneous", "training.clip_norm=1", "network.clip_norm=1"],
            "network.clip_norm",
        ),
        (["training.clip_norm=1", "network.update_order=sequential"], "network.update_order"),
        (["training.schedule=cosine", "training.gradient=published_naive"], "training.gradient"),
    ],
)
def test_values_that_do_not_go_together_are_rejected(given, named):
    with pytest.raises(ConfigError, match=named):
        training_of(*given)


def test_a_published_programs_gradient_is_followed_by_plain_sgd():
    with pytest.raises(ConfigError, match=r"training\.gradient"):
        replace(STACK, gradient=PublishedNaive(2), optimizer=Adam())


def test_archived_results_of_plain_gradient_descent_are_no_advice_on_another_optimizer():
    plain, adam = (
        elsewhere.on_a_gpu(compose.composed(["dataset=small", *more]))
        for more in ([], ["training.optimizer=adam"])
    )
    assert "is the fastest" in plain
    assert "is the fastest" not in adam and "training.optimizer=adam" in adam


def test_a_sweep_of_optimizers_has_a_cell_of_each_that_the_command_line_composes_again(tmp_path):
    grid = tmp_path / "grid.yaml"
    of_each = "{training.optimizer: [sgd, adam, adamw]}, {training.momentum: 0.9, training.nesterov: true}"
    grid.write_text(
        f"sweeps:\n  optimizers: {{dataset: small, strategy: [reference, blas], union: [{of_each}]}}\n"
    )
    sweep = sweeps.read(grid, Device("cpu", "CPU"))["optimizers"]
    assert len(sweep.named) == 8 and "training.optimizer" in sweep.axes
    for cell in sweep.cells:
        again = compose.composed(sweeps.overrides(cell))
        assert {key: again[key] for key in cell} == cell
