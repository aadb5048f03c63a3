"""The order of the rows in each epoch: one for host and kernels, and what strategies train by it."""

from collections import Counter
from contextlib import closing
from dataclasses import replace
from functools import cache
from itertools import permutations

import cuda_on_cpu
import numpy as np
import pytest
from conftest import DIFFERENT, LIKE_GRAPH, PEERS, ROOT, SINGLE
from deferred import DeferredBackend
from emulated import EmulatedBackend
from hypothesis import given, settings
from hypothesis import strategies as st
from in_float64 import QUICK, backend_of, exactly

from snn import backends
from snn.backends.cpu.backend import CpuBackend
from snn.config import groups
from snn.config.compose import composed
from snn.errors import Unsupported
from snn.measurement import runs
from snn.models.glibc_random import GlibcRandom
from snn.models.network import draw_weights, mlp, trained
from snn.models.row_order import SHUFFLES, philox, row_order
from snn.planning import gpus
from snn.planning.plan import predicted
from snn.profiling.ledger import Ledger
from snn.profiling.observed import ObservedBackend
from snn.strategies import factory
from snn.strategies.factory import Job

KINDS = {name: factory.class_of(groups.load("strategy", name)) for name in groups.names("strategy")}
SHUFFLING = [name for name in SINGLE if KINDS[name].shuffles and name not in LIKE_GRAPH]
SEEDS, EPOCHS = st.integers(1, 2**31 - 1), st.integers(0, 2**32 - 1)

# Random123's file kat_vectors: counter, key and result of philox4x32-10.
KNOWN = {
    ("00000000 " * 4, "00000000 " * 2): "6627e8d5 e169c58d bc57ac4c 9b00dbd8",
    ("ffffffff " * 4, "ffffffff " * 2): "408f276d 41c83b0e a20bc7c6 6d5451fd",
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0"): "d16cfe09 94fdcceb 5001e420 24126ea1",
}


def words(text):
    return tuple(int(word, 16) for word in text.split())


def philox_of_ints(counter, key):
    """Philox4x32-10 of Python's whole numbers, from the paper."""
    for i in range(10):
        p, q = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        k0, k1 = (k + i * weyl for k, weyl in zip(key, (0x9E3779B9, 0xBB67AE85), strict=True))
        counter = (
            (q >> 32) ^ counter[1] ^ k0 % 2**32,
            q % 2**32,
            (p >> 32) ^ counter[3] ^ k1 % 2**32,
            p % 2**32,
        )
    return counter


def order_of_ints(rows, seed, epoch):
    """The order by its definition, a place at a time."""
    bits = max(8, len(f"{rows - 1:b}"))
    left, right = bits // 2, bits - bits // 2
    order = []
    for place in range(rows):
        while True:
            L, R = place >> right, place % 2**right
            for i in range(0, 8, 2):
                L ^= philox_of_ints((R, i, epoch, 0), (seed, 0))[0] % 2**left
                R ^= philox_of_ints((L, i + 1, epoch, 0), (seed, 0))[0] % 2**right
            place = L * 2**right + R
            if place < rows:
                break
        order.append(place)
    return order


@pytest.mark.parametrize(("counter", "key"), KNOWN)
def test_philox_has_the_known_answers(counter, key):
    found = philox(tuple(np.array([word], np.uint32) for word in words(counter)), words(key))
    assert tuple(int(one[0]) for one in found) == words(KNOWN[counter, key])
    assert philox_of_ints(words(counter), words(key)) == words(KNOWN[counter, key])


@settings(max_examples=15)
@given(rows=st.one_of(st.integers(1, 40), st.integers(250, 300)), seed=SEEDS, epoch=EPOCHS)
def test_an_order_is_what_the_definition_says(rows, seed, epoch):
    assert row_order(rows, seed, epoch).tolist() == order_of_ints(rows, seed, epoch)


@settings(max_examples=60)
@given(rows=st.integers(1, 5000), seed=SEEDS, epoch=EPOCHS)
def test_an_epoch_takes_each_row_once(rows, seed, epoch):
    assert np.array_equal(np.sort(row_order(rows, seed, epoch)), np.arange(rows))


def chi_squared(counts, cells):
    """How far counts of equally likely cells lie from their mean: about ``cells``, +- sqrt(2 cells)."""
    mean = sum(counts) / cells
    return (sum((n - mean) ** 2 for n in counts) + mean**2 * (cells - len(counts))) / mean


@pytest.mark.parametrize("by", ["epoch", "seed"])
def test_all_orders_of_four_rows_are_as_likely(by):
    drawn = [row_order(4, *((7, n) if by == "epoch" else (n, 7))) for n in range(1, 601)]
    assert chi_squared(Counter(map(tuple, drawn)).values(), len([*permutations(range(4))])) < 60


def test_neighbours_do_not_stay_together():
    """Of a number of rows that leaves no place to walk to, where the network alone must mix."""
    apart = [np.diff(row_order(256, 5, epoch).astype(int)) % 256 for epoch in range(60)]
    assert chi_squared(Counter(np.concatenate(apart).tolist()).values(), 255) < 255 + 6 * 510**0.5
    epochs = np.array([row_order(256, 5, epoch) for epoch in range(2)])
    assert np.count_nonzero(epochs[0] == epochs[1]) < 10


# ---- kernels


def launched(backend, rows, features, outputs, seed, epoch):
    """The order, the rows taken, and the number of the next epoch that launches leave."""
    random = np.random.default_rng(1)
    X, Y = (random.normal(size=rows * n).astype(np.float32) for n in (features, outputs))
    given = [np.array([epoch], np.uint32).view(np.float32), np.zeros(rows, np.float32), X, Y, 0 * X, 0 * Y]
    buffers = C, order, *data = [backend.malloc(one.nbytes) for one in given]
    try:
        for buffer, one in zip(buffers, given, strict=True):
            backend.copy_in(buffer, one)
        backend.launch("row_order", (C, order), (rows, seed))
        backend.launch("take_rows", (order, *data, C), (rows, features, outputs))
        backend.synchronize()
        for buffer, one in zip(buffers, given, strict=True):
            backend.copy_out(one, buffer)
    finally:
        for buffer in buffers:
            backend.free(buffer)
    order = given[1].view(np.uint32)
    for taken, of_file, n in ((given[4], X, features), (given[5], Y, outputs)):
        assert np.array_equal(taken.reshape(rows, n), of_file.reshape(rows, n)[order])
    assert given[0].view(np.uint32)[0] == (epoch + 1) % 2**32
    return order


@pytest.mark.parametrize(
    "on",
    [
        pytest.param("emulated", marks=pytest.mark.skipif(cuda_on_cpu.MISSING, reason="no g++ here")),
        pytest.param("cuda", marks=pytest.mark.gpu),
    ],
)
@pytest.mark.parametrize("rows", [1, 2, 255, 256, 257, 1025])
def test_a_kernel_computes_the_same_order(on, rows):
    choice = groups.load("kernel", "naive")
    backend = EmulatedBackend(choice) if on == "emulated" else backends.make("cuda", choice, ROOT)
    for seed, epoch, features, outputs in ((1, 0, 3, 1), (2**31 - 1, 2**32 - 1, 1, 10)):
        found = launched(backend, rows, features, outputs, seed, epoch)
        assert np.array_equal(found, row_order(rows, seed, epoch))


# ---- training


def data_of(rows, features=5, seed=0):
    random = np.random.default_rng(seed)
    X = random.standard_normal((rows, features)).astype(np.float32)
    return X, (X @ random.standard_normal((features, 1))).astype(np.float32)


NETWORK = mlp((5, 7, 6, 1), init="kaiming_uniform", order_seed=3)


@cache
def by_oracle(network, rows, epochs, batch):
    """Weights and last loss."""
    (X, Y), weights = data_of(rows), draw_weights(network, GlibcRandom(3))
    exact = exactly(network, X, Y[:, 0], weights, epochs, batch, 0.01)
    return exact.weights, exact.losses[-1]


@pytest.mark.parametrize(
    ("name", "rows", "batch"),
    [
        (name, *sizes)
        for name in (*SHUFFLING, *PEERS)
        for sizes in ((23, 4), *(((24, 8), (5, 9)) if name in DIFFERENT else ()))
    ],
)
def test_fifty_steps_are_the_oracles_and_each_run_has_the_same_orders(name, rows, batch):
    network = replace(NETWORK, update_order="simultaneous") if name == "torch_loader" else NETWORK
    (X, Y), weights = data_of(rows), draw_weights(network, GlibcRandom(3))
    epochs = -(-50 // -(-rows // batch))
    expected, expected_loss = by_oracle(network, rows, epochs, batch)
    choice = groups.load("strategy", name) | QUICK.get(name, {})
    with closing(factory.make(choice, ObservedBackend(backend_of(name)))) as strategy:
        strategy.check_network(network)
        strategy.setup(network, X, Y, batch, 0.01)
        for _ in range(2):
            strategy.load(weights)
            strategy.train(epochs)
            for W, exact in zip(strategy.weights(), expected, strict=True):
                assert np.abs(W - exact).max() <= 1e-5
            assert strategy.loss() == pytest.approx(expected_loss, rel=1e-4)
    strategy.backend.live.check_nothing_held()


@pytest.mark.gpu
@pytest.mark.parametrize("name", SHUFFLING)
def test_on_a_gpu_fifty_steps_are_the_oracles(name, cuda_backend):
    if KINDS[name].on_host:
        pytest.skip("a CPU baseline")
    (X, Y), weights = data_of(1003), draw_weights(NETWORK, GlibcRandom(3))
    expected, _ = by_oracle(NETWORK, 1003, 5, 100)
    with closing(factory.make(groups.load("strategy", name), cuda_backend)) as strategy:
        strategy.setup(NETWORK, X, Y, 100, 0.01)
        found = []
        for _ in range(2):
            strategy.load(weights)
            strategy.train(5)
            found.append(strategy.weights())
        assert max(np.abs(W - exact).max() for W, exact in zip(found[0], expected, strict=True)) <= 1e-5
        assert all(map(np.array_equal, *found))


@pytest.mark.parametrize("name", ["resident", "graph"])
def test_micro_batches_are_parts_of_a_shuffled_batch(name):
    network = replace(NETWORK, update_order="simultaneous", accumulate=2)
    (X, Y), weights = data_of(23), draw_weights(network, GlibcRandom(3))
    expected, _ = by_oracle(network, 23, 3, 8)
    with closing(factory.make(groups.load("strategy", name), DeferredBackend())) as strategy:
        strategy.setup(network, X, Y, 8, 0.01)
        strategy.load(weights)
        strategy.train(3)
        for W, exact in zip(strategy.weights(), expected, strict=True):
            assert np.abs(W - exact).max() <= 1e-5


def test_a_strategy_that_only_knows_the_files_order_says_so():
    class InFileOrder(KINDS["resident"]):
        shuffles = False

    with pytest.raises(Unsupported, match=r"training\.shuffle=epoch"):
        InFileOrder(CpuBackend()).check_network(NETWORK)


# ---- what is counted


@pytest.mark.parametrize("name", ["resident", "graph"])
def test_an_epoch_begins_with_two_launches_and_no_copy(name):
    def grown(network):
        ledger = Ledger()
        X, Y = data_of(23)
        observed = ObservedBackend(DeferredBackend(), ledger)
        with closing(factory.make(groups.load("strategy", name), observed)) as strategy:
            strategy.setup(network, X, Y, 4, 0.01)
            strategy.load(draw_weights(network, GlibcRandom(3)))
            before = ledger.totals()
            strategy.epoch()
            observed.synchronize()
            return {key: n - before[key] for key, n in ledger.totals().items()}

    key = "launches" if name == "resident" else "graph_kernels"
    in_order = grown(replace(NETWORK, order_seed=None))
    assert grown(NETWORK) == in_order | {key: in_order[key] + 2}


@pytest.mark.parametrize("name", ["resident", "pipelined", "synchronous", "reference"])
def test_the_count_of_a_run_holds_for_all_its_epochs(name):
    X, Y = data_of(23)
    job = Job(groups.load("strategy", name), NETWORK, X, Y, 3, 6, 4, 0.01)
    ledger, _ = runs.count(job, CpuBackend())
    again = Ledger()
    strategy = factory.start(job, ObservedBackend(CpuBackend(), again))
    strategy.load(draw_weights(NETWORK, GlibcRandom(3)))
    strategy.train(6)
    strategy.close()
    assert ledger == again.totals()


@pytest.mark.parametrize("name", ["resident", "graph"])
def test_a_plan_counts_the_second_buffer(name):
    settings = ["dataset=small", f"strategy={name}", "device=cpu"]
    plain, shuffled = (
        predicted(composed([*settings, f"training.shuffle={one}"]), gpus.named("NVIDIA H200"))
        for one in SHUFFLES
    )
    rows, columns = 256, 33
    assert shuffled["data"] == 2 * plain["data"] == 2 * 4 * rows * columns
    assert shuffled["workspace"] == plain["workspace"] + 4 * rows + 4


# ---- the setting


def test_file_order_is_the_default_and_changes_no_cell():
    usual, none, epoch = (composed(["device=cpu", "device.name=x", *more]) for more in ([], *by_shuffle()))
    assert usual == none and "shuffle" not in usual["training"]
    assert usual.name == none.name != epoch.name
    assert epoch["training"] == usual["training"] | {"shuffle": "epoch"}


def by_shuffle():
    return [[f"training.shuffle={one}"] for one in SHUFFLES]


def test_the_seed_of_the_weights_is_that_of_the_orders():
    usual, epoch = (composed(["device=cpu", "network.seed=5", *more]) for more in by_shuffle())
    assert trained(usual, (5,)).order_seed is None
    assert trained(epoch, (5,)).order_seed == 5
