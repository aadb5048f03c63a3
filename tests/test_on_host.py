"""The baselines on the processor: what they hold, set and set back, and compute."""

import itertools
import os
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import ROOT
from failing_backend import FailingBackend
from hypothesis import settings
from ledgers import ledger_of, shapes
from test_measure import JOB

from snn.backends.cpu import ops as cpu_ops
from snn.backends.cpu.backend import CpuBackend
from snn.config import groups
from snn.errors import OutOfMemory, Unsupported
from snn.files import cache
from snn.models.glibc_random import GlibcRandom
from snn.models.layers import parse
from snn.models.network import Network, draw_weights
from snn.strategies import cpu, factory, numba_loops
from snn.strategies.factory import start
from snn.strategies.numba_loops import perceptron_loops

numba = pytest.importorskip("numba")
threadpoolctl = pytest.importorskip("threadpoolctl")

NAMES = [n for n in groups.names("strategy") if factory.class_of(groups.load("strategy", n)).on_host]
MOST = min(2, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1)


def threads_of_blas():
    return [one["num_threads"] for one in threadpoolctl.threadpool_info() if one["user_api"] == "blas"]


THREADS = {"threads": numba.get_num_threads, "blas": lambda: threads_of_blas()[0]}


@pytest.mark.parametrize("name", NAMES)
@shapes
@settings(max_examples=30)
def test_everything_is_allocated_before_training_and_nothing_asked_for(name, hidden, rows, batch, epochs):
    ledger = ledger_of(name, hidden, rows, batch, epochs).totals()
    layers, batch = (5, *hidden, 1), min(batch, rows)
    weights = sum(m * n for m, n in itertools.pairwise(layers))
    floats = rows * 6 + 2 * weights + 2 * batch * sum(layers[1:]) + batch
    assert {key: n for key, n in ledger.items() if n} == {
        "pageable_allocs": 2 + 4 * (len(hidden) + 1) + 1,
        "pageable_alloc_bytes": 4 * floats,
    }


@pytest.mark.parametrize("name", THREADS)
@pytest.mark.parametrize("threads", range(1, MOST + 1))
def test_as_many_threads_as_asked_for_and_afterwards_as_before(name, threads):
    before = THREADS[name]()
    choice = groups.load("strategy", name) | {"threads": threads}
    strategy = start(replace(JOB, strategy=choice), CpuBackend())
    assert THREADS[name]() == threads
    strategy.close()
    assert THREADS[name]() == before


@pytest.mark.parametrize("name", THREADS)
def test_threads_are_set_back_where_setup_fails(name):
    before = THREADS[name]()
    other = next(n for n in (1, 2) if n != before)
    if other > MOST:
        pytest.skip("one processor: there is no other number of threads")
    choice = groups.load("strategy", name) | {"threads": other}
    with pytest.raises(OutOfMemory):
        start(replace(JOB, strategy=choice), FailingBackend(3))
    assert THREADS[name]() == before


def test_setup_compiles_and_training_does_not(monkeypatch, tmp_path):
    from numba.core import event

    monkeypatch.setenv(cache.VARIABLE, str(tmp_path))  # in which nothing was compiled
    monkeypatch.setattr(cpu, "perceptron_loops", perceptron_loops.__wrapped__)
    job = replace(JOB, strategy=groups.load("strategy", "sequential"))
    with event.install_recorder("numba:compile") as in_setup:
        strategy = start(job, CpuBackend())
    with event.install_recorder("numba:compile") as in_training:
        strategy.load(draw_weights(job.network, GlibcRandom(1)))
        strategy.epoch()
    strategy.close()
    assert in_setup.buffer
    assert not in_training.buffer
    assert not [*(ROOT / "snn").rglob("*.nbi"), *(ROOT / "snn").rglob("*.nbc")]


# ---- the operations of a step: compiled, as they are written before Numba compiles them, and of NumPy


class Type:
    """Stands for a type of Numba in a signature, and makes numbers of it."""

    def __getitem__(self, of):
        return self

    def __call__(self, number):
        return np.float32(number)


CONFIG = SimpleNamespace(CACHE_LOCATOR_CLASSES="")


def loops(parallel=False, of=numba_loops.perceptron_loops):
    """The functions before they are compiled, what Numba was asked for, and the names of what it compiled."""
    asked, compiled = [], []

    def njit(signature, **options):
        asked.append(options)
        return lambda function: compiled.append(function.__name__) or function

    types = {"float32": Type(), "int64": int, "float64": float, "boolean": bool, "void": lambda *types: types}
    numba = SimpleNamespace(__version__="1", prange=range, njit=njit, config=CONFIG, **types)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numba_loops, "required", lambda name: {"numba": numba}[name])
        return of.__wrapped__(parallel), asked, compiled


def test_an_operation_compiles_only_the_loops_that_it_needs():
    found, _, compiled = loops(of=numba_loops._layer_loops)
    assert not compiled
    for name in ("matmul", "tanh_forward", "clipped_update", "update"):
        found[name]()
    assert compiled == ["forward", "activate", "update"]


def test_predictions_need_no_operation_that_setup_has_not_asked_for():
    network = Network((3,), tuple(map(parse, ("batchnorm1d", "linear 1"))), init="he_uniform")
    asked = []
    batches = [(np.ones((n, 3), np.float32), np.ones((n, 1), np.float32)) for n in (4, 2)]

    def operation(name):
        asked.append(name)
        return getattr(cpu_ops, name)

    layers = cpu.Layers(network, batches, 0.1, operation, True, lambda array, _: array)
    compiled = {*asked}
    for X, _ in batches:
        layers.outputs(X[:1])
        layers.outputs(X)
    assert "batchnorm_predict" in compiled and {*asked} == compiled


ARITHMETIC = {
    "as written": lambda: loops()[0],
    "one thread": lambda: perceptron_loops(parallel=False),
    "threads": lambda: perceptron_loops(parallel=True),
    "NumPy": lambda: cpu.ARITHMETIC,
}
SHAPES = [(1, 1, 1), (5, 3, 2), (9, 16, 1), (4, 17, 1), (40, 33, 1), (33, 1, 40), (2, 70, 3), (20, 18, 35)]


@pytest.mark.parametrize("kind", ARITHMETIC)
@pytest.mark.parametrize(("m", "k", "n"), SHAPES)
def test_arithmetic_is_exact_on_whole_numbers(kind, m, k, n, random):
    """Every sum is exact in any order. Of one column a gradient goes by strips of 16 rows."""
    do = ARITHMETIC[kind]()
    A, W, dZ = (random.integers(-3, 4, size).astype(np.float32) for size in ((m, k), (k, n), (m, n)))
    Z, dW, dA, updated = np.full_like(dZ, np.nan), np.full_like(W, np.nan), np.full_like(A, np.nan), W.copy()
    for relu, expected in ((False, A @ W), (True, np.maximum(A @ W, 0))):
        do.forward(A, W, relu, Z)
        np.testing.assert_array_equal(Z, expected)
    do.gradient(A, dZ, dW)
    np.testing.assert_array_equal(dW, A.T @ dZ)
    do.propagate(dZ, W, A, dA)
    np.testing.assert_array_equal(dA, np.where(A > 0, dZ @ W.T, 0))
    expected = W - 0.5 * dW
    do.update(np.float32(0.5), dW, updated)
    np.testing.assert_array_equal(updated, expected)


OF_NORM_5 = [[0, 0], [3, 0], [0, -4]]


@pytest.mark.parametrize("kind", ARITHMETIC)
@pytest.mark.parametrize(
    ("dW", "most", "share"),
    [
        (OF_NORM_5, 10.0, 1.0),
        (OF_NORM_5, 5.0, 1.0),
        (OF_NORM_5, 2.5, 0.5),
        (OF_NORM_5, 0.5, 0.1),
        ([[0, 0]], 0.0, 1.0),
        ([[1e-6]], 5e-7, 0.25),  # 1e-6 stands beside the norm, as in PyTorch's clipping
    ],
)
def test_clip(kind, dW, most, share):
    dW = np.array(dW, dtype=np.float32)
    expected = np.float32(share) * dW
    ARITHMETIC[kind]().clip(np.float32(most), dW)
    np.testing.assert_allclose(dW, expected, rtol=0 if share == 1 else 1e-6)


@pytest.mark.parametrize("kind", ARITHMETIC)
def test_what_is_not_a_number_stays_so(kind):
    do = ARITHMETIC[kind]()
    A, W, Z = np.full((20, 3), np.nan, np.float32), np.ones((3, 9), np.float32), np.ones((20, 9), np.float32)
    do.forward(A, W, True, Z)
    assert np.isnan(Z).all()
    do.clip(np.float32(1), Z)
    assert np.isnan(Z).all()


def test_there_are_no_more_threads_than_processors_and_than_numba_has(monkeypatch):
    monkeypatch.setattr(cpu, "usable_processors", lambda: 4)
    for right in ((4,), (1, 1), (4, 4), (2, 8)):
        cpu.check_threads(*right)
    for wrong, said in (
        ((5,), "strategy.threads is 5: this process may use only 4 CPUs"),
        ((5, 8), "strategy.threads is 5: this process may use only 4 CPUs"),
        ((3, 2), "strategy.threads is 3: NUMBA_NUM_THREADS allows only 2"),
    ):
        with pytest.raises(Unsupported) as refused:
            cpu.check_threads(*wrong)
        assert str(refused.value) == said


@pytest.mark.parametrize("parallel", [False, True])
def test_they_are_compiled_for_one_thread_or_several_and_may_reorder_sums(parallel):
    _, asked, _ = loops(parallel)
    expected = {"parallel": parallel, "fastmath": {"reassoc", "contract", "nsz"}, "cache": True}
    assert asked == [expected] * 5
