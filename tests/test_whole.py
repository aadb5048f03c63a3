"""The kernel whose blocks hold whole networks: on the CPU, and on a GPU, against float64 oracles."""

from contextlib import closing
from dataclasses import replace
from itertools import accumulate

import cuda_on_cpu
import numpy as np
import pytest
from conftest import ROOT
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from layered_shapes import FEW as AMPERE
from layered_shapes import (
    FURTHER,
    H200,
    OPTIMIZERS,
    check,
    made,
    network_of,
    oracle,
    oracle_step,
    shape,
    steps_of,
)

from snn.backends.launches import HEAD, TRAINED, LaunchConfiguration, round_up
from snn.backends.launches.whole import WholeShape
from snn.models.layers import ACTIVATIONS
from snn.models.members import MemberArrays
from snn.strategies.one_launch import OneLaunch, in_batches, whole_shape

on_cpu = pytest.mark.skipif(cuda_on_cpu.MISSING, reason="no g++ on this machine")

RATE, EPOCHS = 0.005, 3
SMOOTH = sorted({*ACTIVATIONS} - {"relu", "leaky_relu"})  # without kinks


def whole(one, rows, members=1, **more):
    return WholeShape(**vars(one), members=members, data_rows=rows, largest=1.0, **more)


def configuration(one, blocks):
    every = (launch for launch in one.configurations(H200) if isinstance(launch, LaunchConfiguration))
    return next(launch for launch in every if launch.cluster == blocks)


def defines_of(one, blocks):
    return dict(configuration(one, blocks).defines)


def sends_rows(one, blocks):
    return defines_of(one, blocks)["SENDS_ROWS"] == "1"


def give_less_memory(one, blocks, monkeypatch):
    """Emulate a device whose blocks have a byte less than this launch needs."""
    less = replace(H200, shared_bytes=configuration(one, blocks).shared_bytes - 1)
    monkeypatch.setattr("test_whole.H200", less)


def send_X_too(one, blocks, monkeypatch):
    """Leave blocks no room for X's rows of the batch and a table of the permutation."""
    assert defines_of(one, blocks)["SENDS_X"] == "0"
    give_less_memory(one, blocks, monkeypatch)
    assert defines_of(one, blocks)["SENDS_X"] == "1"


def single(rate=RATE):
    return MemberArrays(np.array([rate], np.float32), None, None, None)


def buffers_of(one, X, Y, weights, steps, of_members=None):
    """What the kernel is launched on; ``weights``: of each member."""
    sizes = dict(zip(one.operands, one.elements(len(X) - one.held_rows), strict=True))
    flat = []
    for own in weights:
        remaining = iter(own)
        for k, n, layer in zip(one.padded_widths, one.padded_widths[1:], one.layers, strict=False):
            for size in ((k, n), (n,)) if layer.bias else ((k, n),):
                larger = np.zeros(size, np.float32)
                W = next(remaining)
                larger[tuple(map(slice, W.shape))] = W
                flat.append(larger.ravel())
    inputs, *_, outputs = one.padded_widths
    X, Y = (in_batches(M, len(M), n, len(M)) for M, n in ((X, inputs), (Y, outputs)))
    E = np.full(sizes["E"], np.nan, np.float32)
    S = one.workspace(sizes["S"], of_members or single(steps.rate), steps)
    further = [np.zeros(sizes["B"], np.float32), np.zeros(sizes["T"] // 2)] if one.watched else []
    return [X, Y, np.concatenate(flat), np.zeros(sizes["M"], np.float32), E, S, *further]


def launched(one, blocks, buffers, steps, **further):
    launch = configuration(one, blocks)
    kernels = cuda_on_cpu.load(ROOT / launch.source, **dict(launch.defines), **further)
    assert kernels["shared_bytes"] == launch.shared_bytes
    assert kernels["memory_floats"] * one.members <= buffers[3].size
    kernels["train_persistent"](
        (launch.blocks,),
        (launch.threads,),
        (*buffers, *one.arguments(steps)),
        dynamic_shared=launch.shared_bytes,
        cluster=launch.cluster,
    )


TRAININGS = [
    *((FURTHER[name], 1) for name in ("nesterov", "adam", "adamw in turn")),
    (FURTHER["adam"], 4),
    (FURTHER["decay"], 2),
    (shape(18, 30, 4, loss="binary_cross_entropy"), 1),
    (shape(18, 5, 24, 1, loss="huber"), 1),
    (shape(20, 17, 24, 40, mean=False, update="momentum_update"), 2),
]
SENDING_ROWS = [
    (shape(64, 11, 64, 64, 1, loss="error", update="adam_update", shuffled=True), 8),
    (shape(31, 2, 20, 20, 20, 20, 3, loss="huber", activations=("gelu",), bare=(1,), shuffled=True), 4),
    (shape(50, 30, 64, 1, loss="binary_cross_entropy", update="momentum_update"), 8),
]
"""Clusters whose blocks send each other activations and errors instead of gradients."""
TRAININGS += SENDING_ROWS
"""Every optimiser and most activation functions; one output and several; one block and several."""


@on_cpu
@pytest.mark.parametrize("one, blocks", TRAININGS)
def test_a_kernel_trains_as_the_oracle(one, blocks, random):
    rows = 2 * one.batch + 7
    X, _, Y, weights = made(one, rows, random)
    of = whole(one, rows)
    assert sends_rows(of, blocks) == ((one, blocks) in SENDING_ROWS)
    steps = steps_of(one, rows, EPOCHS, RATE)
    buffers = buffers_of(of, X, Y, [weights], steps)
    launched(of, blocks, buffers, steps)
    found = [*buffers[:3], *buffers[4:]]
    check(of, found, *oracle(one, X, Y, weights, EPOCHS, RATE), 1e-5)
    assert buffers[-1][TRAINED].view(np.uint64)[0] == steps.number


@on_cpu
@pytest.mark.parametrize("number, batches", [(0, 0), (0, 5), (1, 1), (1, 2), (2, 5)])
def test_blocks_that_send_X_train_as_the_oracle(number, batches, random, monkeypatch):
    one, blocks = SENDING_ROWS[number]
    rows = batches * one.batch + 7
    X, _, Y, weights = made(one, rows, random)
    of, steps = whole(one, rows), steps_of(one, rows, EPOCHS, RATE)
    send_X_too(of, blocks, monkeypatch)
    buffers = buffers_of(of, X, Y, [weights], steps)
    launched(of, blocks, buffers, steps)
    check(of, [*buffers[:3], *buffers[4:]], *oracle(one, X, Y, weights, EPOCHS, RATE), 1e-5)


@on_cpu
@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_awkward_networks_whose_blocks_send_rows_train_as_the_oracle(data, random):
    draw = data.draw
    blocks = draw(st.sampled_from([4, 8]))
    width = st.integers(17, 32) if blocks == 4 or draw(st.booleans()) else st.integers(49, 64)
    hidden = draw(st.lists(width, min_size=1, max_size=3))
    one = shape(
        *(draw(st.integers(4 * blocks + 1, 8 * blocks)), draw(st.integers(1, 32)), *hidden),
        draw(st.integers(1, 4)),
        loss=draw(st.sampled_from(["error", "huber", "binary_cross_entropy"])),
        activations=(draw(st.sampled_from(SMOOTH)),),
        update=draw(st.sampled_from(sorted(OPTIMIZERS))),
        bare=draw(st.sets(st.integers(0, 3))),
        shuffled=draw(st.booleans()),
    )
    rows = draw(st.integers(1, 3)) * one.batch + draw(st.integers(0, one.batch - 1))
    of = whole(one, rows)
    assume(sends_rows(of, blocks))
    X, _, Y, weights = made(one, rows, random)
    steps = steps_of(one, rows, EPOCHS, RATE)
    buffers = buffers_of(of, X, Y, [weights], steps)
    with pytest.MonkeyPatch.context() as monkeypatch:
        if draw(st.booleans()):
            send_X_too(of, blocks, monkeypatch)
        launched(of, blocks, buffers, steps)
    within = 1e-4 if one.states == 2 else 1e-5  # Adam takes large steps along gradients that are almost 0
    check(of, [*buffers[:3], *buffers[4:]], *oracle(one, X, Y, weights, EPOCHS, RATE), within)


CLIPPED = {
    "few outputs": shape(33, 17, 40, 24, 2, bare=(2,), activations=("tanh",), loss="error"),
    "chunks": shape(70, 6, 12, 40, 10, activations=("gelu",), update="adamw_update", scheduled=True),
    "one layer": shape(18, 30, 4, update="nesterov_update"),
    "rows sent": shape(32, 11, 32, 32, 2, loss="error", update="adamw_update"),
}
CLIPPED = {name: replace(one, clipped=True) for name, one in CLIPPED.items()}


@on_cpu
@pytest.mark.parametrize(
    "blocks, name",
    [*((n, name) for name in list(CLIPPED)[:2] for n in (1, 2, 4)), (1, "one layer"), (4, "rows sent")],
)
def test_gradients_are_clipped_together_in_steps_whose_norm_is_large(blocks, name, random, monkeypatch):
    one = CLIPPED[name]
    rows = 2 * one.batch + 7
    X, _, Y, weights = made(one, rows, random)
    X[: one.batch] *= 4
    norms = norms_by_oracle(one, X, Y, weights)
    norm = np.sqrt(norms.min() * norms.max())
    assert norms.min() < 0.9 * norm
    monkeypatch.setattr("layered_shapes.CLIP", norm)
    of, steps = whole(one, rows), steps_of(one, rows, EPOCHS, RATE)
    assert sends_rows(of, blocks) == (name == "rows sent")
    found = [buffers_of(of, X, Y, [weights], steps) for _ in range(2)]
    for buffers in found:
        launched(of, blocks, buffers, steps)
    check(of, [*found[0][:3], *found[0][4:]], *oracle(one, X, Y, weights, EPOCHS, RATE), 1e-5)
    for once, again in zip(*found, strict=True):
        np.testing.assert_array_equal(once, again)


def norms_by_oracle(one, X, Y, weights):
    """The norm of all gradients together for each batch, with the first weights."""
    norms = []
    for at in range(0, len(X), one.batch):
        squares, parameters = [], [W.astype(np.float64) for W in weights]
        batch = (M[at : at + one.batch].astype(np.float64) for M in (X, Y))
        oracle_step(one, parameters, *batch, lambda _, dW, squares=squares: squares.append((dW**2).sum()))
        norms.append(np.sqrt(sum(squares)))
    return np.array(norms)


USUAL = {"loss": "error", "update": "adamw_update", "shuffled": True}
SMALL = shape(32, 11, 32, 32, 1, loss="error", update="adam_update")


@on_cpu
@pytest.mark.parametrize(
    "one, blocks, chunk, sent",
    [
        (FURTHER["adam"], 1, None, "gradients"),
        (FURTHER["adam"], 2, None, "gradients"),
        (SMALL, 4, 8, "rows"),
        (SMALL, 4, 8, "rows and X"),
        # Rows are prepared early, all at once and in chunks; a warp updates two parts in turn.
        (shape(260, 17, 40, 24, 6, activations=("tanh",), **USUAL), 4, 72, "gradients"),
        (shape(260, 17, 40, 24, 2, activations=("gelu",), clipped=True, **USUAL), 4, 40, "gradients"),
        (shape(130, 17, 20, 20, 20, 20, 2, activations=("tanh",), **USUAL), 16, 16, "gradients"),
    ],
)
def test_weights_that_grow_a_million_times_change_their_scale(one, blocks, chunk, sent, random, monkeypatch):
    """Also if the run is split into several launches. ``chunk``: rows of a block at a time."""
    rows = 2 * one.batch - 7
    X, _, Y, weights = made(one, rows, random)
    weights[2] *= np.float32(1e-9)
    of, steps = whole(one, rows), steps_of(one, rows, 2, RATE)
    if sent == "rows and X":
        send_X_too(of, blocks, monkeypatch)
    while chunk and int(defines_of(of, blocks)["CHUNK"]) > chunk:
        give_less_memory(of, blocks, monkeypatch)
    assert chunk in (None, int(defines_of(of, blocks)["CHUNK"]))
    assert sends_rows(of, blocks) == (sent != "gradients")
    together, apart = (buffers_of(of, X, Y, [weights], steps) for _ in range(2))
    launched(of, blocks, together, steps)
    check(of, [*together[:3], *together[4:]], *oracle(one, X, Y, weights, 2, RATE), 1e-5)
    ends = accumulate([1, 2, 1])
    for end, number in zip(ends, [1, 2, 1], strict=True):
        epoch, first = divmod(end - number, 2)
        launched(of, blocks, apart, steps._replace(epoch=epoch, first=first, number=number))
    for one_launch, several in zip(together[2:5], apart[2:5], strict=True):
        np.testing.assert_array_equal(one_launch, several)


@on_cpu
@pytest.mark.parametrize(
    "one, blocks, sends_X",
    [
        (FURTHER["adam"], 1, False),
        (shape(25, 11, 32, 24, 2, loss="error", shuffled=True), 4, False),
        (shape(25, 11, 32, 24, 2, loss="error", shuffled=True), 4, True),
    ],
)
def test_members_have_rates_decays_orders_and_rows_of_their_own(one, blocks, sends_X, random, monkeypatch):
    one = replace(one, update="adamw_update", states=2)
    X, _, Y, weights = made(one, 70, random)
    rows = np.stack([np.arange(0, 50), np.arange(20, 70)]).astype(np.int32)
    rates, decays, seeds = [0.004, 0.008], [0.3, 0.1], [3, 4]
    its = MemberArrays(*(np.array(v, np.float32) for v in (rates, decays)), np.array(seeds, np.uint32), rows)
    of = whole(one, 50, 2, own_rows=True, watched=True, most_epochs=2)
    assert sends_rows(of, blocks) == (blocks == 4)
    if sends_X:
        send_X_too(of, blocks, monkeypatch)
    steps = steps_of(one, 50, 2, RATE)
    buffers = buffers_of(of, X, Y, [weights, weights], steps, its)
    launched(of, blocks, buffers, steps)
    per = buffers[2].size // 2
    for i, (rate, decay, seed) in enumerate(zip(rates, decays, seeds, strict=True)):
        expected, errors = member_oracle(one, X[rows[i]], Y[rows[i]], weights, rate, decay, seed)
        E = buffers[4].reshape(2, -1)[i]
        check(of, [None, None, buffers[2][i * per :][:per], E, None], expected, errors, 1e-5)


def member_oracle(one, X, Y, weights, rate, decay, seed, monkeypatch=pytest.MonkeyPatch):
    with monkeypatch.context() as patch:
        patch.setattr("layered_shapes.SEED", seed)
        patch.setitem(OPTIMIZERS, one.update, replace(OPTIMIZERS[one.update], weight_decay=decay))
        return oracle(one, X, Y, weights, 2, rate)


@pytest.mark.parametrize("rows, sends_X", [(16_384, "0"), (16_385, "1")])
def test_blocks_send_X_where_a_table_of_all_rows_has_no_room(rows, sends_X):
    one, blocks = SENDING_ROWS[0]
    assert defines_of(whole(one, rows), blocks)["SENDS_X"] == sends_X


@example(640, 3000, 600)  # 648 lines: of 27 chunks
@given(batch=st.integers(1, 2000), rows=st.integers(1, 3000), features=st.integers(1, 600))
def test_every_launch_has_room_for_two_epochs_orders(batch, rows, features):
    of = whole(shape(batch, features, 24, 6, shuffled=True), rows, members=3)
    assert max(batch, rows // 16) == of.timed_rows
    for device in (H200, AMPERE):
        for launch in of.configurations(device):
            if isinstance(launch, LaunchConfiguration):
                cluster, chunk = (int(dict(launch.defines)[name]) for name in ("CLUSTER", "CHUNK"))
                lines = cluster * round_up(-(-batch // cluster), chunk)
                orders = 2 * -(-rows // batch) * lines
                assert of.elements(rows)[-1] >= HEAD + of.members * (4 + orders)


def test_why_a_network_is_not_held_whole():
    wide = whole(shape(256, 17, 256, 256, 6, update="adam_update"), 1000)
    reasons = list(wide.configurations(H200))
    assert all(isinstance(reason, str) for reason in reasons)
    assert any("registers" in reason or "shared memory" in reason for reason in reasons)
    turing = replace(H200, capability=(7, 5))
    assert "8.0" in next(whole(shape(20, 17, 24, 10), 50).configurations(turing))


# ---- on a GPU


NETWORKS = {
    f"{update}, {activation}": shape(
        *(64, 11, 40, 64, 1 if which % 2 else 7),
        **{
            "loss": ["softmax_cross_entropy", "error"][which % 2],
            "activations": (activation,),
            "update": update,
        },
        **{"sequential": which % 5 == 0, "shuffled": which % 3 > 0, "scheduled": which % 4 == 0},
    )
    for which, (update, activation) in enumerate(
        (update, activation) for update in OPTIMIZERS for activation in ACTIVATIONS
    )
}
"""Every optimiser with every activation function."""


@pytest.mark.gpu
@pytest.mark.parametrize("name", NETWORKS)
def test_after_fifty_steps_the_parameters_are_the_oracles(name, random, cuda_backend):
    one = NETWORKS[name]
    rows, found = 4 * one.batch + 1, []
    X, _, Y, weights = made(one, rows, random)
    with closing(OneLaunch(cuda_backend, whole_shape)) as strategy:
        strategy.setup(network_of(one), X, Y, one.batch, RATE)
        for _ in range(2):
            strategy.load(weights)
            strategy.train(10)
            strategy.check_trained()
            found.append((*strategy.weights(), strategy.epoch_losses()))
    expected, _ = oracle(one, X, Y, weights, 10, RATE)
    for W, exact in zip(found[0], expected, strict=False):
        distance = np.linalg.norm(W - exact) / max(np.linalg.norm(exact), 1e-2)
        assert distance < (3e-5 if "relu" in name else 1e-5), distance  # a kink may lie between two roundings
    for a, b in zip(*found, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.gpu
@pytest.mark.parametrize(
    "batch, blocks, rows, hidden, epochs, sent",
    [
        *((150, n, 1001 + n, (64, 32), 7, "gradients") for n in (1, 2, 4, 8)),
        (30, 4, 1005, (64, 32), 7, "rows"),
        (64, 8, 1009, (64, 32), 7, "rows"),
        (64, 8, 16_400, (64, 64), 1, "rows and X"),
    ],
)
def test_every_size_of_cluster_trains_as_the_oracle(
    batch, blocks, rows, hidden, epochs, sent, random, cuda_backend, monkeypatch
):
    one = shape(
        *(batch, 11, *hidden, 1),
        **{"loss": "error", "activations": ("tanh",), "update": "adamw_update", "shuffled": True},
    )
    defined = defines_of(whole(one, rows), blocks)
    assert defined["SENDS_ROWS"] == str(int(sent != "gradients"))
    assert defined["SENDS_X"] == str(int(sent == "rows and X"))
    X, _, Y, weights = made(one, rows, random)
    monkeypatch.setattr("snn.backends.launches.whole._CLUSTERS", (blocks,))
    with closing(OneLaunch(cuda_backend, whole_shape)) as strategy:
        strategy.setup(network_of(one), X, Y, one.batch, RATE)
        assert strategy.launch["cluster"] == blocks
        strategy.load(weights)
        strategy.train(epochs)
        found = strategy.weights()
    expected, _ = oracle(one, X, Y, weights, epochs, RATE)
    for W, exact in zip(found, expected, strict=True):
        assert np.linalg.norm(W - exact) < 1e-5 * max(np.linalg.norm(exact), 1e-2)


@pytest.mark.gpu
def test_three_hundred_members_train_as_each_alone(random, cuda_backend):
    one = shape(
        *(64, 11, 64, 64, 1),
        **{"loss": "error", "activations": ("tanh",), "update": "adam_update", "shuffled": True},
    )
    X, _, Y, weights = made(one, 300, random)
    members = 300
    its = MemberArrays(
        np.linspace(0.001, 0.01, members).astype(np.float32),
        np.linspace(0, 0.1, members).astype(np.float32),
        np.arange(members, dtype=np.uint32),
        None,
    )
    with closing(OneLaunch(cuda_backend, whole_shape)) as strategy:
        strategy.of_members, strategy.keeps_losses = its, True
        strategy.setup(network_of(one), X, Y, one.batch, RATE)
        strategy.load(weights)
        strategy.train(10)
        found, losses, of_batches = strategy.weights(), strategy.losses(), strategy.epoch_losses()
    assert len(losses) == members
    assert of_batches[-1] == pytest.approx(np.mean(losses)) and len(of_batches) == 5
    count = len(weights)
    for i in (0, 150, 299):
        network = network_of(one, order_seed=i)
        optimizer = replace(network.optimizer, weight_decay=float(its.weight_decay[i]))
        with closing(OneLaunch(cuda_backend, whole_shape)) as strategy:
            strategy.setup(replace(network, optimizer=optimizer), X, Y, one.batch, float(its.rate[i]))
            strategy.load(weights)
            strategy.train(10)
            for a, b in zip(found[i * count : (i + 1) * count], strategy.weights(), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
