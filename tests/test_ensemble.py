"""``ensemble``: every member ends as it does alone, and what a record and its tables say."""

import json
from contextlib import closing
from dataclasses import replace

import jsonschema
import numpy as np
import pytest
from conftest import ROOT
from records_of import DATA, QUIET, profile_of, record, source_hash
from test_measure import JOB

from snn import datasets
from snn.analysis import frame
from snn.backends.cpu.backend import CpuBackend
from snn.backends.launches.linear import PerceptronShape
from snn.config import compose, groups
from snn.config.groups import read_yaml
from snn.errors import Unsupported
from snn.grid import sweeps
from snn.hardware.devices import Device
from snn.measurement import cell
from snn.measurement.cell import build_record
from snn.measurement.protocol import Round
from snn.measurement.runs import Measurement, Run, measure
from snn.models.glibc_random import GlibcRandom
from snn.models.network import draw_weights, mlp
from snn.strategies import factory
from snn.tables import overview
from snn.tables.paper import correctness
from snn.tables.sweep import learning_rates, sweep

THRESHOLDS = read_yaml(ROOT / "config/verdicts.yaml")
SMALL = datasets.split(datasets.make(groups.load("dataset", "small")).values, 256, "small")
NETWORK = mlp((32, 256, 1))


def chosen(name, **options):
    return groups.load("strategy", name) | options


@pytest.fixture
def side_by_side(backend):
    """A backend that trains several networks in one launch; GPUs before sm_80 do not."""
    try:
        backend.training_launch(PerceptronShape((16, 16), 16, True, False, 2))
    except Unsupported as error:
        pytest.skip(str(error))
    return backend


ONCE = Round(runs=1)


def job_of(strategy, epochs=100):
    X, Y = SMALL
    given = replace(JOB, X=X, Y=Y, batch_size=256, learning_rate=0.002, network=NETWORK, epochs=epochs)
    return replace(given, strategy=strategy)


def ended(strategy, network, data, batch, rate, weights, epochs):
    """The weights and losses of a training of a strategy that has been made."""
    try:
        strategy.setup(network, *data, batch, rate)
        strategy.load(weights)
        strategy.train(epochs)
        return strategy.weights(), strategy.losses()
    finally:
        strategy.close()


def test_the_ten_runs_of_a_protocol_in_one_launch(side_by_side):
    alone = measure(job_of(chosen("persistent")), Round(runs=10), side_by_side)
    together = measure(job_of(chosen("ensemble")), Round(runs=2), side_by_side)
    for run in together.runs:
        assert run.losses == pytest.approx([one.final_loss for one in alone.runs], rel=2e-6)
        assert run.final_loss == pytest.approx(41.192574, rel=1e-6)
    assert [member["start"] for member in together.members] == list(range(1, 11))
    assert len({tuple(run.losses) for run in together.runs}) == 1
    assert together.ledger["launches"] == 1


@pytest.mark.parametrize("layers", [(32, 256, 1), (7, 45, 1)])
@pytest.mark.parametrize("batch, rows", [(256, 600), (97, 300)])
def test_each_member_ends_as_a_training_alone(layers, batch, rows, side_by_side):
    random = np.random.default_rng(rows)
    X = random.uniform(-1, 1, (rows, layers[0])).astype(np.float32)
    data, network = (X, np.square(X).sum(axis=1, keepdims=True)), mlp(layers)
    lists = {"seeds": [3, 1], "initialisers": ["he_uniform", "uniform01"], "learning_rates": [1e-3, 2e-5]}
    together = factory.make(chosen("ensemble", starts=2, **lists), side_by_side)
    starts = next(together.starts(network, 1))
    weights, losses = ended(together, network, data, batch, 0.1, starts, 5)
    members = together.members(1)
    assert len(members) == len(losses) == 2 * 2 * 2 * 2
    for i, member in enumerate(members):
        stream, drawn = GlibcRandom(member["seed"]), None
        for _ in range(member["start"]):
            drawn = draw_weights(replace(network, init=member["init"]), stream)
        alone = factory.make(chosen("persistent"), side_by_side)
        expected, (loss,) = ended(alone, network, data, batch, member["learning_rate"], drawn, 5)
        # Not with its bits: another kernel, or fewer blocks, may train it than alone.
        assert losses[i] == pytest.approx(loss, rel=1e-5)
        for one, other in zip(weights[2 * i : 2 * i + 2], expected, strict=True):
            assert np.linalg.norm(one - other) < 1e-5 * np.linalg.norm(other)


@pytest.mark.gpu
def test_more_members_than_the_device_holds_follow_in_the_same_launch(cuda_backend):
    rates = [float(rate) for rate in np.geomspace(1e-5, 1e-3, 300)]
    together = factory.make(chosen("ensemble", starts=1, learning_rates=rates), cuda_backend)
    weights = draw_weights(NETWORK, GlibcRandom(1))
    _, losses = ended(together, NETWORK, SMALL, 256, 0.1, weights, 100)
    assert int(together.plan.split("at most ")[1].split()[0]) < len(rates)
    for i in (0, 133, 299):
        alone = factory.make(chosen("persistent"), cuda_backend)
        found = ended(alone, NETWORK, SMALL, 256, rates[i], weights, 100)[1]
        assert found == pytest.approx([losses[i]], rel=1e-5)


@pytest.mark.gpu
def test_what_has_no_cluster_is_unsupported_on_a_gpu(cuda_backend):
    deep = replace(job_of(chosen("ensemble")), network=mlp((32, 64, 64, 1)))
    found = measure(deep, ONCE, cuda_backend)
    assert found.status == "unsupported"
    assert "no grid: the whole device trains one network, not 10" in found.reason


class WithoutPlan(CpuBackend):
    is_processor = False

    def training_launch(self, shape):
        raise Unsupported(f"no cluster for {shape.members} networks")


def test_what_has_no_plan_is_an_outcome_with_its_reason():
    found = measure(job_of(chosen("ensemble")), ONCE, WithoutPlan())
    assert (found.status, found.reason, found.runs) == ("unsupported", "no cluster for 10 networks", [])


def test_one_member_has_the_rate_of_its_list():
    job = job_of(chosen("ensemble", starts=1, learning_rates=[0.01]), epochs=3)
    other = replace(job, strategy=chosen("persistent"), learning_rate=0.01)
    one, alone = measure(job, ONCE, CpuBackend()), measure(other, ONCE, CpuBackend())
    assert one.runs[0].losses == alone.runs[0].losses
    assert one.members == [{"seed": job.seed, "init": "uniform01", "learning_rate": 0.01, "start": 1}]


def test_weights_of_one_network_are_every_members():
    weights = draw_weights(NETWORK, GlibcRandom(1))
    strategy = factory.make(chosen("ensemble", starts=3), CpuBackend())
    found, losses = ended(strategy, NETWORK, SMALL, 256, 0.002, weights, 2)
    assert len(found) == 3 * 2
    assert len(set(losses)) == 1


def test_a_run_after_another_trains_the_same_members():
    with closing(factory.make(chosen("ensemble", starts=2), CpuBackend())) as strategy:
        strategy.setup(NETWORK, *SMALL, 256, 0.002)
        starts = strategy.starts(NETWORK, 5)
        first, second = next(starts), next(starts)
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))


def test_a_record_says_what_was_timed_and_what_each_member_lost():
    arguments = ["device=cpu", "network.hidden=[8]", "training.epochs=30", "protocol.runs=3"]
    arguments += ["protocol.warmup_seconds=0", "protocol.max_warmup_seconds=0"]
    arguments += ["strategy=ensemble", "strategy.starts=2", "strategy.learning_rates=[0.002,9.0]"]
    found = json.loads(json.dumps(cell.run(compose.composed(arguments))))
    jsonschema.validate(found, json.loads((ROOT / "snn/records/record.schema.json").read_text()))
    assert found["plan"] == "NumPy, all epochs in one call, 4 networks one after the other"
    assert [(one["learning_rate"], one["start"]) for one in found["members"]] == [
        *((0.002, 1), (0.002, 2)),
        *((9.0, 1), (9.0, 2)),
    ]
    assert found["status"] == "diverged"
    assert found["reason"] == "the loss is not finite after 30 epochs in 6 of 12 trainings"
    for run in found["runs"]:
        assert [loss is None for loss in run["member_mse"]] == [False, False, True, True]
    summary = found["summary"]
    assert summary["members"] == 4
    assert summary["mean_seconds_per_member"] == pytest.approx(summary["mean_seconds"] / 4)


# ---- tables


def planned(folder, *settings):
    """The cells of these settings."""
    path = folder / "grid.yaml"
    path.write_text(json.dumps({"sweeps": {"mine": {"union": settings}}}))
    return sweeps.read(path, Device("cuda", "NVIDIA H200"))["mine"].cells


def record_of_members(one, rates, starts, losses, runs, where):
    """The record of an ensemble whose launches took two seconds each."""
    members = [
        {"seed": 1, "init": "uniform01", "learning_rate": rate, "start": start}
        for rate in rates
        for start in range(1, starts + 1)
    ]
    measurement = Measurement(members=members, runs=[Run(2.0, losses[-1], losses)] * runs, stopped="runs")
    where = where | {"source_hash": source_hash(one)}
    return build_record(one, 1, measurement, None, QUIET, where, DATA)


@pytest.fixture
def cells(tmp_path):
    """A reference and an ensemble of two rates with two starts each."""
    several = {"strategy": "ensemble", "strategy.starts": 2, "strategy.learning_rates": [0.1, 9.0]}
    return planned(tmp_path, {"strategy": "reference"}, several)


def recorded(cells):
    """The reference took a second, and a launch of four members two; of one of them the loss is lost."""
    reference, ensemble = record(cells[0], [1.0, 1.0, 1.0]), cells[1]
    losses = (1.0, 3.0, 5.0, float("nan"))
    several = record_of_members(ensemble, (0.1, 9.0), 2, losses, 3, reference["provenance"])
    return {"reference": reference, "ensemble": several}


def test_a_time_of_several_is_a_share_of_the_launch(cells):
    found = frame.tabulate(recorded(cells), THRESHOLDS)
    table = sweep.build(found, ["strategy"], THRESHOLDS).set_index("strategy")
    assert table["members"].tolist() == [1, 4]
    assert table["launch_s"].tolist() == [1.0, 2.0]
    assert table["mean_s"].tolist() == [1.0, 0.5]
    assert table.loc["ensemble", "speedup"] == pytest.approx(2.0)


def test_where_the_time_of_several_goes_is_a_share_of_the_launch_too(cells):
    records = recorded(cells)
    for one in records.values():
        one["explanation"] = profile_of(2.0)
    found = frame.tabulate(records, THRESHOLDS).set_index("strategy")
    for column in ("part.allocation", "part.host_arithmetic", "predicted_calls_s"):
        assert found[column].to_dict() == {"reference": 1.0, "ensemble": 0.25}
    assert found["rounds"].to_dict() == {"reference": [[1.0] * 3], "ensemble": [[0.5] * 3]}


def test_the_losses_of_each_rate(cells):
    table = learning_rates.build(frame.tabulate(recorded(cells), THRESHOLDS), {}, THRESHOLDS)
    assert table["learning_rate"].tolist() == [0.002, 0.1, 9.0]
    assert table["trainings"].tolist() == [3, 2, 2]
    assert table["finite"].tolist()[1:] == [2, 1]
    assert table["final_mse"].tolist() == [41.0, 2.0, 5.0]
    assert table["final_mse_min"].tolist()[1:] == [1.0, 5.0]
    assert table["status"].tolist() == ["ok", "ok", "diverged"]
    assert table["launch_s"].tolist() == [1.0, 2.0, 2.0]


def test_rates_are_in_the_order_of_the_members(cells):
    records = recorded(cells)
    ensemble = records["ensemble"]
    ensemble["members"].reverse()
    for run in ensemble["runs"]:
        run["member_mse"].reverse()
    table = learning_rates.build(frame.tabulate(records, THRESHOLDS), {}, THRESHOLDS)
    assert table["learning_rate"].tolist() == [0.002, 9.0, 0.1]
    assert table["final_mse"].tolist() == [41.0, 5.0, 2.0]


def test_rates_that_could_not_be_trained_are_a_row_with_the_reason(cells):
    refused = {"status": "unsupported", "reason": "no cluster", "runs": [], "members": []}
    found = recorded(cells)
    found["ensemble"] |= refused
    table = learning_rates.build(frame.tabulate(found, THRESHOLDS), {}, THRESHOLDS)
    assert table["status"].tolist() == ["ok", "unsupported"]
    assert table["reason"].tolist() == ["", "no cluster"]


@pytest.mark.parametrize("full_first", [True, False])
def test_a_round_without_room_for_the_members_leaves_those_of_the_others(cells, full_first):
    full = {"status": "out_of_memory", "reason": "full", "runs": [], "members": [], "ledger": {}}
    found = recorded(cells)
    several = found.pop("ensemble") | {"ledger": {"mallocs": 1}}
    rounds = [several | full, several] if full_first else [several, several | full]
    found |= {f"round {i}": one | {"round": i} for i, one in enumerate(rounds, 1)}
    row = frame.tabulate(found, THRESHOLDS).set_index("strategy").loc["ensemble"]
    assert (row["members"], row["launch_s"], row["mean_s"]) == (4, 2.0, 0.5)
    assert [member["final_loss"] for member in row["member_losses"]] == [1.0, 3.0, 5.0, None]
    assert (row["status"], row["ledger.mallocs"]) == ("out_of_memory", 1)


def test_an_ensemble_is_not_what_trains_one_network_fastest(cells):
    (point,) = overview.points_of(recorded(cells), THRESHOLDS)
    assert point["strategy"].tolist() == ["reference"]


def test_ten_members_are_held_against_the_papers_ten_runs(tmp_path):
    reference, ensemble = planned(tmp_path, {"strategy": "reference"}, {"strategy": "ensemble"})
    alone = record(reference, [1.0] * 10, 41.192574)
    several = record_of_members(ensemble, [0.002], 10, (41.192574,) * 10, 4, alone["provenance"])
    found = frame.tabulate({"a": alone, "b": several}, THRESHOLDS)
    table = correctness.build(found, read_yaml(ROOT / "config/paper/correctness.yaml"), THRESHOLDS)
    assert table["agreement"].tolist() == ["agrees", "agrees"]
