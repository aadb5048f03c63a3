"""More rounds for what is not settled: how many, for which cells, and what a workflow makes of the plan."""

import math
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT
from hypothesis import given
from hypothesis import strategies as st
from records_of import COSTS, QUIET, record

from snn import cli
from snn import more_rounds as command
from snn.analysis import frame
from snn.analysis.intervals import Ratio, ratio, speedup_verdict
from snn.analysis.speedups import (
    MOST,
    detectable,
    for_difference,
    for_width,
    is_wide,
    look,
    next_look,
    rounds_needed,
    share_of_look,
)
from snn.config.groups import read_yaml
from snn.errors import ConfigError
from snn.grid import more_rounds, naming, plans, sweeps
from snn.hardware.devices import Device
from snn.measurement.student import student_quantile
from snn.records import store

THRESHOLDS = read_yaml(ROOT / "config/verdicts.yaml")
GPU, HOST = Device("cuda", "NVIDIA H200"), Device("cpu", "AMD EPYC")


def found(spread, difference, rounds, seed=1):
    """A ratio of so many rounds whose logarithms have exactly this spread and this mean."""
    logs = np.random.default_rng(seed).standard_normal(rounds)
    logs = (logs - logs.mean()) / logs.std(ddof=1) * spread + difference
    return ratio([[math.exp(x)] for x in logs], [[1.0]] * rounds)


@pytest.mark.parametrize("spread", [0.02, 0.05, 0.0707, 0.15])
def test_the_rounds_find_the_difference_as_often_as_they_should(spread):
    random = np.random.default_rng(3)
    rounds = for_difference(spread, math.log(1.1))
    hits = 0
    for _ in range(1000):
        logs = random.normal(math.log(1.1), spread, rounds)
        hits += ratio([[x] for x in np.exp(logs)], [[1.0]] * rounds).low > 1
    assert hits >= 870  # 90%, three standard deviations below


@given(st.floats(0.001, 0.5), st.floats(0.01, 1), st.floats(1.01, 3))
def test_more_noise_or_a_smaller_difference_needs_more_rounds(spread, difference, factor):
    assert for_difference(spread, difference) <= for_difference(1.5 * spread, difference) <= MOST
    assert for_difference(spread, difference) <= for_difference(spread, difference / 1.5)
    rounds = for_width(spread, factor)
    if rounds < MOST:
        later = found(spread, 0.0, rounds)
        assert later.high / later.low <= factor * (1 + 1e-9)


@given(st.floats(0.0, 0.6), st.floats(-1, 1), st.integers(2, 12))
def test_what_is_clear_needs_no_more(spread, difference, rounds):
    now = found(spread, difference, rounds)
    needed = rounds_needed(now, THRESHOLDS)
    assert needed >= rounds
    word = speedup_verdict(now.low, now.high, THRESHOLDS["same"])
    if needed == rounds:
        assert not is_wide(now, THRESHOLDS)
    if word != "not significant" and not is_wide(now, THRESHOLDS):
        assert needed == rounds
    if 2 < needed < MOST:  # nor does it, once it has them, if rounds go on as they did
        assert not is_wide(found(spread, difference, needed), THRESHOLDS)


def test_a_single_round_needs_five():
    assert rounds_needed(ratio([[1.0, 1.1]], [[1.0, 1.1]]), THRESHOLDS) == 5
    assert rounds_needed(ratio([], []), THRESHOLDS) == 5


@pytest.mark.parametrize("rounds", [2, 3, 7, 20, 99])
def test_the_rounds_are_the_first_that_are_enough(rounds):
    margin = student_quantile(rounds - 1) * 0.05 / math.sqrt(rounds)
    difference = math.log(detectable(Ratio(1.0, 0.9, 1.1, rounds, 0.05), 0.05))
    for slack, expected in ((1e-9, rounds), (-1e-9, rounds + 1)):
        assert for_difference(0.05, difference * (1 + slack)) == expected
        assert for_width(0.05, math.exp(2 * margin * (1 + slack))) == expected
    assert for_difference(0.0, 0.0) == for_width(0.0, 1.0) == 2
    assert for_difference(1.0, 0.0) == for_width(1.0, 1.0) == MOST


def test_a_ratio_is_wide_beyond_the_threshold_and_told_apart_by_its_own():
    wide = {"wide": 1.5, "same": 0.02, "tell_apart": 0.1}
    edge, beyond = Ratio(1.0, 0.8, 1.2, 5, 0.2), Ratio(1.0, 0.8, 1.2001, 5, 0.2)
    assert not is_wide(edge, wide) and is_wide(beyond, wide)
    assert rounds_needed(edge, wide) == for_difference(0.2, math.log(1.1))
    for value in (1.3, 1 / 1.3):
        unclear = Ratio(value, value * 0.75, value / 0.75, 5, 0.2)
        assert rounds_needed(unclear, wide | {"wide": 2}) == for_difference(0.2, math.log(1.3))
    assert rounds_needed(beyond, wide) == max(for_width(0.2, 1.5), for_difference(0.2, math.log(1.1)))


@given(st.integers(2, 12), st.integers(0, 30))
def test_each_further_look_has_a_number_of_its_own(first, more):
    """So that the shares of the level that looks spend sum to at most 1."""
    rounds, spent = first, [look(first, first)]
    for extra in (more, 0, 2 * more, 1):
        rounds = next_look(rounds, first) + extra
        spent.append(look(rounds, first))
    assert spent[0] == 1 and spent == sorted(set(spent))
    assert sum(share_of_look(number, THRESHOLDS) for number in range(1, 60)) <= 1


@pytest.mark.parametrize(
    ("rounds", "first", "number"),
    [(3, 5, 1), (5, 5, 1), (6, 5, 2), (10, 5, 2), (11, 5, 3), (40, 5, 4), (2, 2, 1), (5, 2, 2), (10, 2, 3)],
)
def test_the_rounds_tell_the_number_of_a_look(rounds, first, number):
    assert look(rounds, first) == number


@pytest.fixture
def planned(tmp_path, monkeypatch):
    """A folder of results where ``combined`` is as noisy as it may be, and what the command says of it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(plans, "find", lambda wanted: GPU)
    (tmp_path / "grid.yaml").write_text(
        "sweeps: {mine: {strategy: [reference, combined, pinned], protocol: glance}}\n"
    )
    cells = sweeps.read(tmp_path / "grid.yaml", GPU, HOST)["mine"].named
    factors = {"reference": [1, 1.01, 0.99, 1.02, 1], "combined": [0.7, 1.6, 0.8, 1.2, 0.9]}
    factors["pinned"] = [0.5, 0.505, 0.495, 0.51, 0.5]
    for name, cell in cells.items():
        for number, factor in enumerate(factors[cell["strategy"]["name"]], 1):
            store.write(
                tmp_path / naming.record_path(name, number), record(cell, [factor, factor], number=number)
            )
    names = {cell["strategy"]["name"]: name for name, cell in cells.items()}
    return names, lambda *more: cli.main(["more-rounds", "results/tables/mine.csv", "grid=grid.yaml", *more])


def test_only_what_is_unclear_and_its_baseline_get_rounds(planned, capsys):
    names, plan = planned
    assert plan() == 0
    assert more_rounds.read() == {names["reference"]: 10, names["combined"]: 10}
    said = capsys.readouterr().out
    assert "small 256: combined over reference: 0.965 (0.645 to " in said
    assert "after 5 rounds, likely settled after about" in said and "it gets 10" in said
    assert "snakemake --cores 1 results/tables/mine.csv --config grid=grid.yaml" in said
    assert plan() == 2  # what is planned is not measured yet
    said = capsys.readouterr().err
    assert "-round6.json is missing, and 9 more" in said
    assert said.endswith("snakemake --cores 1 results/tables/mine.csv --config grid=grid.yaml\n")


def test_what_is_not_comparable_gets_no_rounds_and_is_never_called_settled(planned, capsys):
    """Neither beside rows that get rounds, nor where every other row is settled."""
    names, plan = planned
    (cells,) = (read.named for read in sweeps.read("grid.yaml", GPU, HOST).values())
    slower = {key: 3 * cost for key, cost in COSTS.items()}
    drifted = QUIET | {"probe": {"before": slower, "after": slower}}

    def drift(strategy):
        for number in range(1, 6):
            path = Path(naming.record_path(names[strategy], number))
            path.unlink()
            store.write(path, record(cells[names[strategy]], [0.5, 0.5], number=number, machine=drifted))

    drift("pinned")
    assert plan() == 0
    said = capsys.readouterr().out
    assert "small 256: pinned over reference: not comparable, so it gets no rounds: the probe's costs" in said
    assert more_rounds.read() == {names["reference"]: 10, names["combined"]: 10}
    more_rounds.FILE.unlink()
    drift("combined")
    assert plan() == 0
    said = capsys.readouterr().out
    assert said.count("not comparable, so it gets no rounds: the probe's costs drifted") == 2
    assert said.endswith("In mine everything that is comparable is settled: no rounds were added.\n")
    assert not more_rounds.FILE.exists()


@pytest.mark.parametrize(("apart", "given"), [((4, 5), 2 + 2 * 3), ((1, 2, 3, 4, 5), 5 + 5)])
def test_rounds_of_two_passes_are_measured_beyond_those_that_are_there(planned, capsys, apart, given):
    names, plan = planned
    (cells,) = (read.named for read in sweeps.read("grid.yaml", GPU, HOST).values())
    for number in apart:
        path, cell = Path(naming.record_path(names["combined"], number)), cells[names["combined"]]
        path.unlink()
        store.write(path, record(cell, [0.9, 0.9], number=number, started="2026-02-12T10:00:00+00:00"))
    assert plan() == 0
    assert more_rounds.read() == {names["reference"]: given, names["combined"]: given}
    assert f"after {5 - len(apart)} rounds" in capsys.readouterr().out


def test_a_grid_that_is_not_named_may_be_what_is_missing(planned, capsys):
    assert cli.main(["more-rounds", "results/tables/speedup.csv"]) == 2
    said = capsys.readouterr().err
    assert said.endswith("results/tables/speedup.csv; or name the grid that was measured, with grid=FILE\n")


def test_the_number_may_be_given_and_no_cell_loses_a_round(planned, capsys):
    names, plan = planned
    more_rounds.add({names["pinned"]: 5, "another": 7})
    more_rounds.add({"another": 1})
    assert plan("rounds=6") == 0
    more_rounds.add({names["combined"]: 5})
    assert more_rounds.read() == {
        names["reference"]: 6,
        names["combined"]: 6,
        names["pinned"]: 5,
        "another": 7,
    }


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["mine", "rounds=0"], "rounds is '0': it must be a number from 1 to 1000"),
        (["mine", "rounds=²"], "rounds is '²'"),
        (["mine", f"rounds={'9' * 5000}"], "rounds is '999"),
        (["mine", "cores=2"], "there is no key 'cores': rounds, grid, device, devices"),
        (["mine", "speedup"], "'speedup'"),
        (["yours"], "grid.yaml has no table 'yours' to plan rounds for: one of recommendation, overview"),
        (["mines"], "has no table 'mines' to plan rounds for (did you mean mine?): one of"),
        (["gpu"], "has no table 'gpu'"),
    ],
)
def test_what_cannot_be_planned_is_refused(planned, capsys, arguments, said):
    assert cli.main(["more-rounds", *arguments, "grid=grid.yaml"]) == 2
    assert said in capsys.readouterr().err


def test_devices_are_named_as_to_snakemake(monkeypatch):
    asked = []
    monkeypatch.setattr(plans, "read", lambda file, where: asked.append(where["devices"]) or [])
    for devices in ("[cuda, cpu]", "[cuda,cpu]", "cuda"):
        with pytest.raises(ConfigError, match="there are no tables in results/tables/gpu"):
            command.plan("gpu/speedup.csv", [f"devices={devices}"])
    assert asked == [["cuda", "cpu"], ["cuda", "cpu"], "cuda"]


def test_the_cpu_table_and_peers_say_which_rows_they_compare(tmp_path):
    (tmp_path / "grid.yaml").write_text(
        "defaults: {protocol.rounds: 1}\n"
        "sweeps: {cpu: {strategy: [reference, sequential, blas]},"
        " peers: {strategy: [graph, jax_scan, torch_eager]}}\n"
    )
    found = sweeps.read(tmp_path / "grid.yaml", GPU, HOST)
    for table, seconds, compared in (
        ("cpu", (1.0, 2.0, 1.5), [(1, 0), (2, 0), (1, 1), (2, 1), (1, 2), (2, 2)]),
        ("peers", (1.0, 2.0, 3.0), [(1, 0), (1, 1), (1, 2)]),
    ):
        records = {
            name: record(cell, [time])
            for (name, cell), time in zip(found[table].named.items(), seconds, strict=True)
        }
        rows = frame.tabulate(records, THRESHOLDS)
        if table == "peers":
            rows["runtime"] = ["", "jax 1", "torch 2"]
        assert command._numbers(table, rows, found) == compared
