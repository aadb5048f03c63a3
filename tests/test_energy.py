"""The energy of a training run, from a counter that is updated ten times per second."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from overview_points import cells_of
from records_of import THRESHOLDS, frame_of, record
from test_measure import JOB, RULES

from snn import cli
from snn.backends.cpu.backend import CpuBackend
from snn.measurement import energy, runs
from snn.measurement.runs import measure
from snn.recommending import text
from snn.tables import overview, recommend, recommendation

WATTS, PERIOD = 400.0, 0.1


class Meter:
    """A GPU of constant power; reading its counter takes 0.1 ms."""

    def __init__(self, run_seconds, period=PERIOD):
        self.now, self.runs, self._run_seconds, self._period = 0.0, 0, run_seconds, period

    def train(self):
        self.now += self._run_seconds
        self.runs += 1

    def joules(self):
        self.now += 1e-4
        return WATTS * self._period * (self.now // self._period) if self._period else 7.0


@pytest.mark.parametrize("run_seconds", [0.0005, 0.02, 0.07, 0.4, 8.0])
def test_joules_are_those_of_a_run_however_coarse_the_counter(monkeypatch, run_seconds):
    meter = Meter(run_seconds)
    monkeypatch.setattr(energy, "time", SimpleNamespace(perf_counter=lambda: meter.now))
    found = energy.joules_per_run(meter.train, meter.joules, run_seconds)
    assert found and found == pytest.approx([WATTS * (run_seconds + 1e-4)] * len(found), rel=0.06)
    assert meter.runs * run_seconds < 4 or meter.runs == 1


@pytest.mark.parametrize("period", [0, 1.0])
def test_a_counter_that_is_not_updated_or_too_seldom_gives_nothing(monkeypatch, period):
    meter = Meter(0.01, period)
    monkeypatch.setattr(energy, "time", SimpleNamespace(perf_counter=lambda: meter.now))
    assert energy.joules_per_run(meter.train, meter.joules, 0.01) == [] and meter.runs == 0


@pytest.mark.parametrize("held_out", [None, (np.ones((2, 4), np.float32), np.ones((2, 1), np.float32))])
def test_a_record_has_the_joules_of_further_runs(monkeypatch, held_out):
    def meter(train, joules, seconds):
        train()
        return [joules()]

    monkeypatch.setattr(runs, "joules_per_run", meter)
    job = replace(JOB, validation=held_out)
    assert measure(job, RULES, CpuBackend(), joules=lambda: 7.0).joules == [7.0]
    assert measure(job, RULES, CpuBackend()).joules == []


@pytest.mark.gpu
def test_a_gpu_has_joules(tmp_path):
    output, brief = tmp_path / "cell.json", ["protocol.runs=1", "protocol.rounds=1", "protocol.min_runs=1"]
    assert cli.main(["run", "strategy=graph", "protocol.energy=true", *brief, f"output={output}"]) == 0
    found = json.loads(output.read_text()).get("joules")
    if found is None:
        pytest.skip("this GPU has no energy counter")
    assert len(found) == 3 and 0 < max(found) < 1.5 * min(found)


def test_tables_have_the_joules_of_rows_that_were_measured():
    cells = cells_of({"strategy": ["reference", "graph"]})
    given = [record(cell, [1.0, 1.1], number=number) for cell in cells for number in (1, 2)]
    assert "joules" not in recommend.build(frame_of(*given), {}, THRESHOLDS)
    for one, joules in zip(given[2:], ([30.0, 31.0], [29.0, 30.0]), strict=True):
        one["joules"] = joules
    table = recommend.build(frame_of(*given), {}, THRESHOLDS).set_index("strategy")
    low, mean, high = table.loc["graph", ["joules_ci_low", "joules", "joules_ci_high"]]
    assert low < mean < high and mean == 30 and table["joules"].isna()["reference"]
    assert "30 J (" in text.table(table.reset_index())
    points = [frame_of(*given)]
    answer = recommendation.build(points, overview.build(points, THRESHOLDS))
    assert ("joules" in answer) and answer["joules"].isna().all() == (answer["strategy"].item() != "graph")
