"""The baselines on the processor: what they hold, set and set back, and compute."""

import itertools
import os
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import ROOT
from failing_backend import FailingBackend
from hypothesis import given, settings
from hypothesis import strategies as st
from ledgers import ledger_of, shapes
from test_measure import JOB

from snn.backends.cpu.backend import CpuBackend
from snn.config import groups
from snn.errors import OutOfMemory, Unsupported
from snn.files import cache
from snn.models.glibc_random import GlibcRandom
from snn.models.network import draw_weights
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


ARITHMETIC = {
    "one thread": lambda: perceptron_loops(parallel=False),
    "threads": lambda: perceptron_loops(parallel=True),
    "NumPy": lambda: cpu.ARITHMETIC,
}


@pytest.mark.parametrize("kind", ARITHMETIC)
@pytest.mark.parametrize(("m", "k", "n"), [(1, 1, 1), (5, 3, 2), (40, 33, 1), (33, 1, 40), (70, 18, 35)])
def test_arithmetic(kind, m, k, n, random):
    do = ARITHMETIC[kind]()
    A, W, dZ = (random.normal(size=shape).astype(np.float32) for shape in ((m, k), (k, n), (m, n)))
    Z, dW, dA, updated = np.full_like(dZ, np.nan), np.full_like(W, np.nan), np.full_like(A, np.nan), W.copy()
    do.forward(A, W, False, Z)
    np.testing.assert_allclose(Z, A @ W, rtol=1e-4, atol=1e-5)
    do.forward(A, W, True, Z)
    np.testing.assert_allclose(Z, np.maximum(A @ W, 0), rtol=1e-4, atol=1e-5)
    do.gradient(A, dZ, dW)
    np.testing.assert_allclose(dW, A.T @ dZ, rtol=1e-4, atol=1e-5)
    do.propagate(dZ, W, A, dA)
    np.testing.assert_allclose(dA, np.where(A > 0, dZ @ W.T, 0), rtol=1e-4, atol=1e-5)
    norm = np.linalg.norm(dW)
    for most, scale in ((2 * norm, 1), (norm / 2, 0.5)):
        clipped = dW.copy()
        do.clip(np.float32(most), clipped)
        np.testing.assert_allclose(clipped, scale * dW, rtol=1e-4)
    do.update(np.float32(0.5), dW.copy(), updated)
    np.testing.assert_allclose(updated, W - 0.5 * dW, rtol=1e-5, atol=1e-6)


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


def test_blas_keeps_its_contract_exactly_on_whole_numbers(random):
    do = cpu.ARITHMETIC
    A, W, dZ = (random.integers(-3, 4, shape).astype(np.float32) for shape in ((5, 3), (3, 4), (5, 4)))
    Z, dW, dA = np.full_like(dZ, np.nan), np.full_like(W, np.nan), np.full_like(A, np.nan)
    for relu, expected in ((False, A @ W), (True, np.maximum(A @ W, 0))):
        do.forward(A, W, relu, Z)
        np.testing.assert_array_equal(Z, expected)
    do.gradient(A, dZ, dW)
    np.testing.assert_array_equal(dW, A.T @ dZ)
    do.propagate(dZ, W, A, dA)
    np.testing.assert_array_equal(dA, np.where(A > 0, dZ @ W.T, 0))
    updated = W.copy()
    do.update(np.float32(0.5), dW.copy(), updated)
    np.testing.assert_array_equal(updated, W - 0.5 * dW)


# ---- the loops that Numba compiles, run as they are written: on whole numbers, where every sum is exact


sizes = st.integers(1, 5)
seeds = st.integers(0, 1000)


class Type:
    """Stands for a type of Numba in a signature, and makes numbers of it."""

    def __getitem__(self, of):
        return self

    def __call__(self, number):
        return np.float32(number)


CONFIG = SimpleNamespace()


def loops(parallel=False):
    """The functions before they are compiled, and what Numba was asked for."""
    asked = []

    def njit(signature, **options):
        asked.append(options)
        return lambda function: function

    numba = SimpleNamespace(
        prange=range, float32=Type(), boolean=bool, void=lambda *types: types, njit=njit, config=CONFIG
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numba_loops, "required", lambda name: {"numba": numba}[name])
        return numba_loops.perceptron_loops.__wrapped__(parallel), asked


LOOPS, _ = loops()


def whole(seed, *shapes):
    """Matrices of small whole numbers, with zeros among them."""
    random = np.random.default_rng(seed)
    return [random.integers(-3, 4, shape).astype(np.float32) for shape in shapes]


def empty(*shape):
    return np.full(shape, np.nan, dtype=np.float32)


@given(seeds, sizes, sizes, sizes, st.booleans())
def test_forward(seed, m, k, n, relu):
    A, W = whole(seed, (m, k), (k, n))
    Z = empty(m, n)
    LOOPS.forward(A, W, relu, Z)
    np.testing.assert_array_equal(Z, np.maximum(A @ W, 0) if relu else A @ W)


@given(seeds, sizes, st.integers(1, 70), sizes)
def test_gradient(seed, m, k, n):
    """Of one column it goes by strips of 16 rows."""
    H, dZ = whole(seed, (m, k), (m, n))
    dW = empty(k, n)
    LOOPS.gradient(H, dZ, dW)
    np.testing.assert_array_equal(dW, H.T @ dZ)


@given(seeds, sizes, sizes, sizes)
def test_propagate(seed, m, k, n):
    dZ, W, H = whole(seed, (m, n), (k, n), (m, k))
    dH = empty(m, k)
    LOOPS.propagate(dZ, W, H, dH)
    np.testing.assert_array_equal(dH, np.where(H > 0, dZ @ W.T, 0))


@given(seeds, sizes, sizes)
def test_update(seed, k, n):
    dW, W = whole(seed, (k, n), (k, n))
    expected = W - 0.5 * dW
    LOOPS.update(np.float32(0.5), dW, W)
    np.testing.assert_array_equal(W, expected)


@pytest.mark.parametrize(("most", "share"), [(10.0, 1.0), (5.0, 1.0), (2.5, 0.5), (0.5, 0.1)])
def test_clip(most, share):
    """The norm is 5."""
    dW = np.array([[0, 0], [3, 0], [0, -4]], dtype=np.float32)
    scaled = dW * np.float32(most / (np.float32(5) + 1e-6)) if share < 1 else dW.copy()
    LOOPS.clip(np.float32(most), dW)
    np.testing.assert_array_equal(dW, scaled)
    np.testing.assert_allclose(dW, share * np.array([[0, 0], [3, 0], [0, -4]]), rtol=1e-6)


def test_a_gradient_of_zeros_is_left_as_it_is():
    dW = np.zeros((2, 2), dtype=np.float32)
    LOOPS.clip(np.float32(0.0), dW)
    np.testing.assert_array_equal(dW, 0)


def test_a_small_norm_is_not_divided_by_itself_alone():
    """1e-6 stands beside it, as in PyTorch's clipping."""
    dW = np.full((1, 1), 1e-6, dtype=np.float32)
    LOOPS.clip(np.float32(5e-7), dW)
    np.testing.assert_allclose(dW, 1e-6 * 5e-7 / 2e-6, rtol=1e-5)


@pytest.mark.parametrize("parallel", [False, True])
def test_they_are_compiled_for_one_thread_or_several_and_may_reorder_sums(parallel):
    _, asked = loops(parallel)
    expected = {"parallel": parallel, "fastmath": {"reassoc", "contract", "nsz"}, "cache": True}
    assert asked == [expected] * 5
