"""The sweep of random shapes: what is drawn, what is measured of it, its table, its figure, its CSV file."""

import csv
import runpy
import sys
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest
from conftest import ROOT
from figure_layout import faults
from test_microbenchmarks import of_gpu

from snn import backends
from snn.backends.cpu.backend import CpuBackend
from snn.backends.launches import DeviceCapability, LaunchConfiguration
from snn.config import groups
from snn.figures import draw
from snn.microbenchmarks import shapes
from snn.microbenchmarks.readings import Effort, Reading
from snn.microbenchmarks.shapes import Drawn, drawn, kernel_shapes
from snn.models.training_step import training_step
from snn.planning.gpus import PlannedGpu
from snn.tables.microbenchmarks import _kernels, launch_gain
from snn.tables.microbenchmarks import shapes as table

SCRIPT = ROOT / "benchmarks/shapes.py"
H200 = DeviceCapability(132, 232448, (9, 0))
MANY = [drawn(1, number) for number in range(300)]


@pytest.fixture(scope="module")
def cpu():
    return backends.make("cpu", groups.load("kernel", "naive"))


def test_every_shape_is_a_network_with_a_plan_or_one_that_graph_trains_faster():
    without = []
    for one in MANY:
        assert one.network.outputs == one.outputs
        assert (one.network.widths is None) == (one.outputs > 1 or one.biases)
        plans = [plan for it in kernel_shapes(one) for plan in it.configurations(H200)]
        if not any(isinstance(plan, LaunchConfiguration) for plan in plans):
            without.append(one)
            assert "which `graph` trains faster in most cases" in plans[-1]
        assert 4 <= one.steps <= 64 and one.batch * one.features * one.steps <= 1 << 22
    assert len(without) < 20 and all(len(one.hidden) == 1 and one.hidden[0] > 512 for one in without)


def test_shapes_are_of_all_sizes_and_drawn_from_their_seed_and_number_alone():
    assert drawn(1, 7) == MANY[7] != drawn(2, 7)
    assert len({(one.batch, one.features, one.hidden) for one in MANY}) > 290
    sizes = {
        "batch": ([one.batch for one in MANY], 32, 1024),
        "features": ([one.features for one in MANY], 1, 1024),
        "width": ([width for one in MANY for width in one.hidden], 8, 2048),
    }
    for values, least, most in sizes.values():
        assert min(values) >= least and max(values) <= most
        assert np.median(np.log2(values)) == pytest.approx(np.log2([least, most]).mean(), abs=0.5)
    assert {len(one.hidden) for one in MANY} == {1, 2, 3, 4}
    powers = [value for one in MANY[1::2] for value in (one.batch, one.features, *one.hidden)]
    assert all(value & (value - 1) == 0 for value in powers)
    assert 10 < sum(one.outputs > 1 for one in MANY) < 60
    assert 10 < sum(one.biases for one in MANY) < 60


@pytest.mark.parametrize(
    "shape", [Drawn(0, 40, 5, (9,), outputs=3, biases=True), Drawn(0, 40, 5, (9, 16))], ids=["biases", "deep"]
)
def test_a_time_is_that_of_a_step(cpu, monkeypatch, shape):
    """By a clock that every epoch moves on by a second."""
    assert len(shapes.of_shape(cpu, shape, shapes.PERSISTENT, Effort(6, 0)).seconds) == 6
    now = [0.0]
    strategy = type(shapes.made(cpu, "resident"))
    epoch = strategy.epoch

    def slow(self):
        now[0] += 1
        epoch(self)

    monkeypatch.setattr(strategy, "epoch", slow)
    monkeypatch.setattr(shapes.time, "perf_counter", lambda: now[0])
    found = shapes.of_shape(cpu, shape, "resident", Effort(6, 0))
    assert found.seconds == pytest.approx((1 / shape.steps,) * 6)
    point = {"shape": 0, "batch": 40, "features": 5, "hidden": "-".join(map(str, shape.hidden))}
    point |= {"outputs": shape.outputs, "biases": int(shape.biases), "strategy": "resident"}
    assert found.point == point


def test_what_one_launch_does_not_train_is_a_reason(monkeypatch):
    backend = CpuBackend()
    gpu = PlannedGpu(groups.load("kernel", "tiled_fused"), "fp32", H200)
    monkeypatch.setattr(backend, "training_launch", gpu.training_launch)
    shape = Drawn(0, 257, 1, (3000,))
    own = shapes.of_shape(backend, shape, shapes.PERSISTENT, Effort(6, 0))
    assert (own.status, own.seconds) == ("unsupported", ())
    assert own.reason.startswith("no cluster: ")
    assert own.reason.endswith("widths of up to 3008: both may be at most 2048")


def test_kernels_of_many_are_compiled_before_the_first_is_measured(monkeypatch):
    compiled = []
    ahead = SimpleNamespace(compile_ahead=lambda some, root: compiled.append(len(some)))
    monkeypatch.setattr(shapes, "import_module", {"snn.backends.cuda.persistent": ahead}.__getitem__)
    found = []
    for shape in shapes.compiled_together(SimpleNamespace(is_processor=False), MANY):
        found.append(shape)
        assert sum(compiled) >= len(found)
    assert found == MANY and len(compiled) == 5


# ---- table and figure


def read(number, name, *us, hidden="64-32", reason="", plan=None):
    point = {"shape": number, "batch": 64, "features": 8, "hidden": hidden, "outputs": 1, "biases": 0}
    point |= {"strategy": name} | ({"plan": plan} if plan else {})
    return Reading(point, tuple(1e-6 * one for one in us), "unsupported" if reason else "ok", reason)


READINGS = [
    read(0, "persistent", 1, 2, 2, 2, 2, 3, plan="one cluster"),
    read(0, "graph", *6 * [10]),
    read(0, "graph_pdl", *6 * [7]),
    read(0, "jax_scan", *6 * [8]),
    read(0, "torch_compile", *6 * [30]),
    read(1, "persistent", *6 * [40], hidden="9", plan="8 groups"),
    read(1, "graph", *6 * [20], hidden="9"),
    read(2, "persistent", reason="no cluster: too wide"),
    read(2, "graph", *6 * [50]),
]


# ---- the CSV file


def test_the_figure_counts_what_is_slower_and_what_has_no_plan():
    made = table.build(of_gpu("shapes", READINGS))
    assert made["speedup_over_graph"][:2].tolist() == [5, 0.5] and made["status"][2] == "unsupported"
    assert made["best_graph"].tolist() == ["graph_pdl", "graph", "graph"]
    assert made["speedup_over_best_graph"].tolist()[:2] == [3.5, 0.5]
    assert made["speedup_over_best_peer"].tolist()[0] == 4 and made["best_peer"].tolist()[0] == "jax_scan"
    figure = draw("shapes", made, "Tesla T4")
    said = " ".join(" ".join(text.get_text().split()) for text in figure.texts)
    assert "Of 3 shapes 2 are shown, 1 of them below the dashed line" in said
    assert "1 have no plan in one launch" in said
    assert not faults(figure)
    nothing = table.build(of_gpu("shapes", READINGS[-2:]))
    assert "no row has a value" in draw("shapes", nothing, "").axes[0].texts[0].get_text()


def test_the_law_of_the_gain_has_the_constants_of_shapes_that_follow_it():
    readings = []
    for number in range(12):  # graph has 8 kernels of 2, 3, ... µs with two hidden layers, and 11 with three
        kernels, kernel_us, hidden = (8, 2 + number, "64-32") if number < 7 else (11, number - 5, "64-32-16")
        readings.append(read(number, "graph", *6 * [kernels * kernel_us], hidden=hidden))
        launch = kernels * (0.8 * kernel_us - 0.5)
        readings.append(read(number, "persistent", *6 * [launch], hidden=hidden, plan="one cluster"))
    made = launch_gain.build(of_gpu("shapes", readings)).set_index("hidden_layers")
    assert made["shapes"].to_dict() == {"2": 7, "3": 5, "2-3": 12}
    for name in ("ratio", "ratio_low", "ratio_high"):
        assert made[name].tolist() == pytest.approx([0.8] * 3)
    for name in ("saved_us", "saved_us_low", "saved_us_high"):
        assert made[name].tolist() == pytest.approx([0.5] * 3)
    assert not faults(draw("launch_gain", table.build(of_gpu("shapes", readings)), ""))
    few = launch_gain.build(of_gpu("shapes", READINGS))
    assert few["ratio"].isna().all() and few["shapes"].tolist() == [1, 1]


def test_a_step_of_graph_has_the_kernels_that_the_table_counts():
    counted = [shape for shape in MANY[:20] if shape.outputs == 1 and not shape.biases]
    assert len({len(shape.hidden) for shape in counted}) > 1
    for shape in counted:
        step = training_step(shape.network, shape.batch, 1e-6, fused=True, pretransposed=True)
        assert len(step.launches) == _kernels(shape.point, "cuda")


@pytest.fixture
def sweep(monkeypatch, capsys):
    """Runs the script; its status, and what it prints to standard error."""
    monkeypatch.syspath_prepend(str(SCRIPT.parent))

    def run(path, *options):
        monkeypatch.setattr(sys, "argv", ["shapes", str(path), "--device", "cpu", "--seed", "570", *options])
        try:
            runpy.run_path(str(SCRIPT), run_name="__main__")
        except SystemExit as ended:
            return ended.code, capsys.readouterr().err
        return 0, capsys.readouterr().err

    return run


def test_an_interrupted_sweep_goes_on_where_it_was(tmp_path, sweep):
    path = tmp_path / "shapes.csv"
    assert sweep(path, "--shapes", "1") == (0, "")
    before = path.read_bytes()
    path.write_bytes(before + b"570,1,256,4,16")  # half a row, as a kill leaves it
    assert sweep(path, "--shapes", "2") == (0, "")
    assert path.read_bytes().startswith(before)
    rows = list(csv.DictReader(path.open()))
    expected = [(number, *one) for number in "01" for one in (("persistent", "ok"), ("graph", "unsupported"))]
    assert [(row["shape"], row["strategy"], row["status"]) for row in rows] == expected
    assert float(rows[2]["us_per_step"]) > 0
    path.write_text("a,b\n1,2\n")
    status, said = sweep(path)
    assert status == 2 and f"shapes: {path}: its columns are a, b: give a new file" in said


def test_a_fault_is_a_row_and_the_sweep_goes_on(cpu, monkeypatch):
    said = "cuLaunchKernelEx failed with CUDA error 1"
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    script = runpy.run_path(str(SCRIPT))
    monkeypatch.setattr(shapes, "of_shape", mock.Mock(side_effect=RuntimeError(said)))
    found = script["row"](1, script["measured"](cpu, MANY[0], "graph"))
    wanted = {"status": "failed", "us_per_step": "", "reason": f"RuntimeError: {said}"}
    assert {key: found[key] for key in wanted} == wanted


@pytest.mark.gpu
def test_on_a_gpu_every_kernel_trains_its_shapes(cuda_backend):
    found = {}
    for hidden, batch in (((64,), 64), ((64, 64), 64), ((128, 256, 250), 60), ((40, 24, 16, 8), 50)):
        shape = Drawn(len(found), batch, 20, hidden)
        for name in (shapes.PERSISTENT, shapes.GRAPH):
            found[shape.number, name] = shapes.of_shape(cuda_backend, shape, name, Effort(6, 0))
    assert {one.status for one in found.values()} == {"ok"}
    assert all(0 < second < 1e-3 for one in found.values() for second in one.seconds)
    assert found[0, "persistent"].point["plan"]
