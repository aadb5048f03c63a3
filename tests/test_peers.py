"""Training by PyTorch and JAX: what the equations say, nothing counted, and a reason where it cannot be.

Where a package is absent, the tests that need it are skipped, and say so; that it is absent is tested always.
"""

import json
import sys
from contextlib import closing
from dataclasses import replace
from types import SimpleNamespace

import jsonschema
import numpy as np
import pytest
from conftest import PEERS, ROOT
from oracle import train
from overview_points import cells_of
from records_of import THRESHOLDS, frame_of, record
from test_measure import JOB
from test_other_trainers import made
from test_strategies import Device
from test_training import errors

from snn.backends.cpu.backend import CpuBackend
from snn.config import groups
from snn.config.compose import composed
from snn.errors import Unsupported
from snn.hardware.devices import usable_processors
from snn.measurement import cell
from snn.measurement.protocol import Round
from snn.measurement.runs import measure
from snn.models.glibc_random import GlibcRandom
from snn.models.network import draw_weights, mlp
from snn.profiling.ledger import Ledger
from snn.profiling.observed import ObservedBackend
from snn.strategies import factory
from snn.strategies.factory import start
from snn.tables import memory

PACKAGES = {name: factory.class_of(groups.load("strategy", name)).own_runtime for name in PEERS}
REQUIREMENTS = "pip install -r envs/requirements-peers.txt"
TWICE = Round(runs=2, min_runs=2)


def job_of(name):
    order = "simultaneous" if name == "torch_loader" else JOB.network.update_order
    network = replace(JOB.network, update_order=order)
    return replace(JOB, strategy=groups.load("strategy", name), network=network)


def test_these_are_the_peers():
    assert PACKAGES == {
        "jax_scan": "jax",
        "torch_compile": "torch",
        "torch_eager": "torch",
        "torch_graph": "torch",
        "torch_loader": "torch",
    }


@pytest.mark.parametrize("name", PEERS)
@pytest.mark.parametrize(("order", "clip_norm"), [("sequential", 0.5), ("simultaneous", None)])
@pytest.mark.parametrize(
    ("layers", "rows", "batch"),
    [((5, 7, 1), 23, 10), ((3, 17, 9, 6, 1), 40, 20), ((4, 1, 1), 3, 8)],
    ids=["a smaller last batch", "deeper", "one batch of less"],
)
def test_training_is_that_of_the_oracle(name, backend, order, clip_norm, layers, rows, batch, random):
    network = mlp(layers, init="he_uniform", update_order=order, clip_norm=clip_norm)
    X, Y = (random.normal(size=(rows, n)).astype(np.float32) for n in (layers[0], 1))
    weights = draw_weights(network, GlibcRandom(1))
    given = [array.copy() for array in (X, Y, *weights)]
    untuned = {"mode": "default"} if name == "torch_compile" else {}  # tuning takes minutes on a GPU
    strategy = made(name, backend, **untuned)
    strategy.check_network(network)
    found = []
    try:
        strategy.setup(network, X, Y, batch, 0.05)
        for by in (lambda: strategy.train(3), lambda: [strategy.epoch() for _ in range(3)]):
            strategy.load(weights)
            assert np.isnan(strategy.loss())
            by()
            found.append((strategy.weights(), strategy.loss()))
    finally:
        strategy.close()
    assert all(np.array_equal(a, b) for a, b in zip(given, (X, Y, *weights), strict=True))
    expected, expected_loss = train(
        weights, X, Y, epochs=3, batch_size=batch, rate=0.05, update_order=order, clip_norm=clip_norm
    )
    for W, loss in found:
        for one, oracle in zip(W, expected, strict=True):
            assert one.dtype == np.float32
            assert np.linalg.norm(one - oracle) <= 1e-5 * np.linalg.norm(oracle)
        assert loss == pytest.approx(expected_loss, rel=1e-5)


@pytest.mark.parametrize("name", PEERS)
def test_the_papers_error_on_the_small_data_set(name, backend):
    assert np.mean(errors(name, backend)) == pytest.approx(41.192574, rel=1e-5)


@pytest.mark.parametrize("name", PEERS)
def test_nothing_is_asked_of_the_backend_and_nothing_is_said_to_be_zero(name, backend):
    ledger = Ledger()
    strategy = start(job_of(name), ObservedBackend(backend, ledger))
    strategy.load(draw_weights(JOB.network, GlibcRandom(1)))
    strategy.train(2)
    strategy.close()
    assert not any(ledger.totals().values())
    found = measure(job_of(name), TWICE, backend)
    assert (found.status, len(found.runs)) == ("ok", 2)
    assert found.ledger == found.memory == {}


@pytest.mark.parametrize("name", PEERS)
def test_a_cell_leaves_a_record_without_ledger_or_explanation(name):
    settings = [
        "training.epochs=2",
        "protocol.runs=2",
        "protocol.warmup_seconds=0",
        "protocol.max_warmup_seconds=0",
    ]
    settings += ["network.update_order=simultaneous"] if name == "torch_loader" else []
    found = cell.run(composed(["device=cpu", f"strategy={name}", "dataset=small", *settings]))
    schema = json.loads((ROOT / "snn/records/record.schema.json").read_text())
    jsonschema.validate(found, schema)
    if found["status"] == "unsupported":
        pytest.skip(found["reason"])
    assert found["status"] == "ok"
    assert (found["ledger"], found["memory"], found["explanation"]) == ({}, {}, None)
    assert found["provenance"]["versions"][PACKAGES[name]] == sys.modules[PACKAGES[name]].__version__


@pytest.mark.parametrize("name", PEERS)
def test_a_package_that_is_not_there_is_an_outcome(name, monkeypatch):
    monkeypatch.setitem(sys.modules, PACKAGES[name], None)
    found = measure(job_of(name), TWICE, CpuBackend())
    assert found.status == "unsupported"
    assert found.reason.startswith(f"{PACKAGES[name]} cannot be imported (")
    assert REQUIREMENTS in found.reason
    assert (found.runs, found.ledger) == ([], {})


@pytest.mark.parametrize("name", PEERS)
def test_a_package_without_the_device_is_an_outcome(name):
    package = pytest.importorskip(PACKAGES[name])
    if package is sys.modules.get("torch") and package.version.cuda is not None:
        pytest.skip("this PyTorch is built with CUDA")
    if package is sys.modules.get("jax") and package.default_backend() != "cpu":
        pytest.skip("this JAX has an accelerator")
    found = measure(job_of(name), TWICE, Device())
    assert found.status == "unsupported"
    assert REQUIREMENTS in found.reason
    assert package.__version__ in found.reason


def test_cuda_graphs_need_a_cuda_device():
    pytest.importorskip("torch")
    found = measure(job_of("torch_graph"), TWICE, CpuBackend())
    assert (found.status, found.reason.partition(":")[0]) == ("unsupported", "CUDA graphs need a CUDA device")


def test_no_compiler_for_torch_compile_is_an_outcome():
    torch = pytest.importorskip("torch")
    from torch._inductor import config

    network = mlp((4, 11, 1))  # no other test compiles it
    with config.patch({"cpp.cxx": (None, "/nonexistent/c++"), "fx_graph_cache": False}):
        found = measure(replace(job_of("torch_compile"), network=network), TWICE, CpuBackend())
    assert found.status == "unsupported"
    assert "No working C++ compiler" in found.reason
    torch.compiler.reset()


class LessPrecise(CpuBackend):
    precision = "tf32"


@pytest.mark.parametrize("name", ["torch_eager", "torch_compile", "jax_scan"])
def test_a_peer_does_not_train_in_float32_where_less_was_asked_for(name):
    pytest.importorskip(PACKAGES[name])
    with pytest.raises(Unsupported, match="on the CPU this peer trains in float32, not tf32"):
        start(job_of(name), ObservedBackend(LessPrecise()))


def test_float32_and_every_processor_while_it_trains_and_afterwards_as_before():
    torch = pytest.importorskip("torch")
    before, threads = torch.get_float32_matmul_precision(), torch.get_num_threads()
    torch.set_float32_matmul_precision("high")
    torch.set_num_threads(usable_processors() + 1)
    try:
        strategy = start(job_of("torch_eager"), CpuBackend())
        assert torch.get_float32_matmul_precision() == "highest"
        assert torch.get_num_threads() == usable_processors()
        strategy.close()
        assert torch.get_float32_matmul_precision() == "high"
        assert torch.get_num_threads() == usable_processors() + 1
    finally:
        torch.set_float32_matmul_precision(before)
        torch.set_num_threads(threads)


def test_what_jax_compiles_is_in_full_precision(backend):
    jax = pytest.importorskip("jax")
    network, texts = mlp((4, 3, 1)), []
    strategy = made("jax_scan", backend)

    def compiled(lowered):
        texts.append(lowered.as_text())
        return original(lowered)

    original = jax.stages.Lowered.compile
    try:
        strategy.setup(network, JOB.X, JOB.Y, 4, 0.01)
        jax.stages.Lowered.compile = compiled
        strategy.prepare(2)
    except Unsupported as error:
        pytest.skip(str(error))
    finally:
        jax.stages.Lowered.compile = original
        strategy.close()
    products = [line for line in "\n".join(texts).splitlines() if "dot_general" in line]
    assert len(texts) == 2 and products
    assert all(line.count("HIGHEST") == 2 for line in products)


def test_nothing_is_compiled_in_a_timed_run(monkeypatch):
    jax = pytest.importorskip("jax")
    with closing(start(job_of("jax_scan"), CpuBackend())) as strategy:
        strategy.prepare(5)
        monkeypatch.setattr(jax, "jit", None)
        strategy.load(draw_weights(JOB.network, GlibcRandom(1)))
        strategy.epoch()
        strategy.train(5)
        with pytest.raises(TypeError):
            strategy.train(4)


def torch_runs_out(torch, strategy):
    def full():
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")

    strategy.all_steps = full


def jax_runs_out(jax, strategy):
    def full(*arguments):
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory")

    strategy._programs = {1: full, 2: full}


@pytest.mark.parametrize(
    ("name", "runs_out", "said"),
    [
        ("torch_eager", torch_runs_out, "CUDA out of memory"),
        ("jax_scan", jax_runs_out, "RESOURCE_EXHAUSTED"),
    ],
)
def test_memory_that_runs_out_is_an_outcome(name, runs_out, said, monkeypatch):
    package, kind = pytest.importorskip(PACKAGES[name]), factory.class_of(groups.load("strategy", name))
    prepare = kind.prepare

    def prepared(strategy, epochs):
        prepare(strategy, epochs)
        runs_out(package, strategy)

    monkeypatch.setattr(kind, "prepare", prepared)
    found = measure(job_of(name), TWICE, CpuBackend())
    assert (found.status, found.runs) == ("out_of_memory", [])
    assert said in found.reason


@pytest.mark.parametrize("name", PEERS)
def test_close_is_harmless_before_setup_and_twice(name, backend):
    strategy = made(name, backend)
    strategy.close()
    strategy.setup(JOB.network, JOB.X, JOB.Y, 4, 0.01)
    strategy.close()
    strategy.close()


@pytest.mark.parametrize("name", ["torch_eager", "jax_scan"])
def test_on_a_gpu_a_peers_allocator_says_what_it_took(name):
    strategy = factory.class_of(groups.load("strategy", name))(SimpleNamespace(is_processor=False))
    cuda = SimpleNamespace(max_memory_allocated=lambda: 3, max_memory_reserved=lambda: 8)
    counted = {"peak_bytes_in_use": 3, "peak_pool_bytes": 8, "num_allocs": 1}
    strategy._torch = SimpleNamespace(cuda=cuda)
    strategy._device = SimpleNamespace(memory_stats=lambda: counted)
    assert strategy.allocator_peaks() == {"allocated_bytes": 3, "reserved_bytes": 8}
    strategy._device = SimpleNamespace(memory_stats=lambda: None)
    strategy.backend = SimpleNamespace(is_processor=True)
    assert strategy.allocator_peaks() == {}


def test_a_record_and_a_table_have_what_an_allocator_took(monkeypatch):
    peaks = {"allocated_bytes": 3, "reserved_bytes": 8}
    monkeypatch.setattr(factory.class_of(JOB.strategy), "allocator_peaks", lambda self: peaks)
    assert measure(JOB, TWICE, CpuBackend()).allocator == peaks
    (one,) = cells_of({"strategy": ["torch_eager"]})
    without = record(one, [1.0])
    assert "allocator" not in without
    with_peaks = without | {"allocator": peaks}
    schema = json.loads((ROOT / "snn/records/record.schema.json").read_text())
    assert schema["properties"]["allocator"]["properties"].keys() == peaks.keys()
    plain, table = (
        memory.peers_memory.build(frame_of(given), {}, THRESHOLDS) for given in (without, with_peaks)
    )
    assert {*table} - {*plain} == {*peaks} and table[[*peaks]].to_dict("records") == [peaks]


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["torch_eager", "torch_graph", "jax_scan"])
def test_a_gpus_record_has_what_an_allocator_took(name):
    settings = [
        "device=cuda",
        f"strategy={name}",
        "training.epochs=2",
        "protocol=glance",
        "protocol.rounds=1",
    ]
    found = cell.run(composed(settings))
    if found["status"] == "unsupported":
        pytest.skip(found["reason"])
    peaks = found["allocator"]
    assert 0 < peaks["allocated_bytes"] <= peaks["reserved_bytes"]
