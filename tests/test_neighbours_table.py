"""What a busy neighbour does to each strategy: the table, its figure, and whether the file says the same."""

import numpy as np
import pytest
from conftest import ROOT
from figure_layout import dots, faults, said_in
from records_of import COSTS, GPU, HOST, QUIET, THRESHOLDS, frame_of, record, sweep_of

from snn.config import groups as file
from snn.config.groups import read_yaml
from snn.errors import ConfigError, RecordError
from snn.figures import draw
from snn.tables import comparison, devices, overview
from snn.tables.neighbours import neighbours

UNTOUCHED = THRESHOLDS["untouched"]
ALONE = [[1.0, 1.01], [1.1, 1.11], [0.9, 0.91]]
"""Rounds that differ by more than what is looked for, as a pair of one round does not."""

SLOWER = {
    ("reference", "reference"): (1.30, 1.31, 1.32),
    ("combined", "reference"): (1.0, 1.04, 1.08),
    ("graph", "reference"): (1.0, 1.001, 1.002),
    ("graph", "graph"): (0.99, 1.0, 1.01),
    ("resident", "reference"): (1.0, 1.001, 1.0),
    ("persistent", "reference"): (1.05, 1.06, 1.05),
}


def cells_of(device=GPU, **settings):
    return sweep_of(settings, "neighbours", device, {"protocol.rounds": 3}).cells


def times(factors):
    """The seconds of three rounds, each round by a factor longer than alone."""
    return [[factor * one for one in of_round] for factor, of_round in zip(factors, ALONE, strict=True)]


AT_WORK = QUIET | {
    "probe": {when: {key: 3 * cost for key, cost in COSTS.items()} for when in ("before", "after")},
    "readings": [QUIET["readings"][0] | {"other_cores": 1.0}],
    "neighbours": ["GPU-2"],
}
"""A machine with a neighbour: allocations cost three times as much, and its GPU and a core are busy."""


def records_of(cells, slower, gpus=("GPU-1",) * 3, **options):
    """Three rounds of each cell on these GPUs; ``slower`` says by strategy and neighbour how much each is."""
    found = {}
    for i, cell in enumerate(cells):
        by = cell["protocol"]["neighbour"]
        busy = {"strategy": by, "device_uuid": "GPU-2", "epochs": 10, "seconds": 3.0}
        machine = QUIET if by == "none" else AT_WORK | {"neighbour": busy}
        factors = (1.0,) * 3 if by == "none" else slower[cell.strategy, by]
        for number, seconds in enumerate(times(factors), 1):
            where = {"device_uuid": gpus[number - 1] if by == "none" else "GPU-1", "machine": machine}
            found[f"{i}-{number}"] = record(cell, seconds, number=number, **where, **options)
    return found


def build(records):
    return neighbours.build(frame_of(*records.values()), {}, THRESHOLDS)


@pytest.fixture(scope="module")
def cells():
    names = ["reference", "combined", "graph", "resident", "persistent"]
    beside = {"strategy": names, "protocol.neighbour": ["none", "reference"]}
    return cells_of(dataset="small", union=[beside, {"strategy": "graph", "protocol.neighbour": "graph"}])


@pytest.fixture
def table(cells, monkeypatch):
    monkeypatch.setattr(file, "untouched", lambda: frozenset({"graph", "persistent"}))
    return build(records_of(cells, SLOWER))


@pytest.mark.parametrize(
    ("factors", "rounds", "verdict"),
    [
        ((1.03, 1.05, 1.04), 3, "touched"),  # was not significant, for it may be by less than the threshold
        ((0.90, 0.91, 0.92), 3, "touched"),  # was untouched, as everything shorter
        ((0.90, 0.96, 1.01), 3, "not significant"),  # was untouched
        ((0.98, 0.981, 0.982), 3, "untouched"),
        *(((one,) * 3, 1, "not significant") for one in (1.0, 1.2)),  # how much rounds differ is unknown
        ((2.5,) * 3, 1, "touched"),
    ],
)
def test_a_time_that_differs_is_touched_in_either_direction(cells, factors, rounds, verdict):
    records = records_of(cells, dict.fromkeys(SLOWER, factors))
    rows = build({name: one for name, one in records.items() if one["round"] <= rounds})
    assert set(rows["rounds"]) == {rounds} and set(rows["verdict"]) == {verdict}
    assert set(rows["untouched"]) == {"yes" if verdict == "untouched" else "no"}


def test_the_table_says_where_the_file_differs(table, cells):
    verdicts = table.set_index(["strategy", "neighbour"])["verdict"].to_dict()
    touched = {"reference": "touched", "combined": "not significant", "persistent": "touched"}
    assert verdicts == {key: touched.get(key[0], "untouched") for key in SLOWER}
    rows = table.drop_duplicates("strategy").set_index("strategy")
    untouched = {name: "no" if name in touched else "yes" for name in rows.index}
    assert rows["untouched"].to_dict() == untouched
    assert rows["in_file"].to_dict() == untouched | {"resident": "no", "persistent": "yes"}
    notes = {"resident": "does not name resident", "persistent": "names persistent"}
    said = {name: f"config/neighbours.yaml {note} as untouched" for name, note in notes.items()}
    assert rows["note"].to_dict() == dict.fromkeys(rows.index, "") | said
    by_both = build(records_of(cells, SLOWER | {("graph", "graph"): (1.2, 1.21, 1.2)}))
    assert by_both.loc[by_both["strategy"] == "graph", "untouched"].tolist() == ["no", "no"]


def test_the_neighbour_that_was_asked_for_is_no_reason_to_call_the_machine_shared(cells):
    records = records_of(cells, SLOWER)
    assert set(build(records)["machine"]) == {"noisy"}  # as these times are
    for one in records.values():
        one["machine"] = {**one["machine"], "neighbours": [*one["machine"].get("neighbours", []), "GPU-3"]}
    found = frame_of(*records.values())
    assert set(found["machine"]) == {"shared, noisy"}  # of graph, too: it was to be alone
    assert found["machine_note"].str.contains("other cells ran on GPU-3").all()


def test_rounds_on_two_gpus_are_not_divided(cells):
    rows = build(records_of(cells, SLOWER, ("GPU-1", "GPU-2", "GPU-1")))
    row, slowdowns = rows.iloc[0], SLOWER["reference", "reference"]
    kept = [[of[i] for i in (0, 2)] for of in (times(slowdowns), ALONE)]
    assert row["rounds"] == 2 and row["slowdown"] == pytest.approx(np.mean(kept[0]) / np.mean(kept[1]))
    rows = build(records_of(cells, SLOWER, ("GPU-2",) * 3))
    assert set(rows["verdict"]) == {"not comparable"} and rows["slowdown"].isna().all()
    assert set(rows["untouched"]) == {""} and set(rows["rounds"]) == {0}


def test_with_one_gpu_the_table_says_what_is_missing(cells):
    ended = ("unsupported", "protocol.neighbour=reference needs a second NVIDIA H200")
    records = records_of(cells, SLOWER)
    for name, one in records.items():
        if one["cell"]["protocol"]["neighbour"] != "none":
            records[name] = record(one["cell"], [], ended=ended, number=one["round"], foretold=1.0)
    rows = build(records)
    expected = {"status": ended[0], "reason": ended[1], "untouched": ""}
    assert {name: set(rows[name]) for name in expected} == {name: {one} for name, one in expected.items()}
    assert rows["slowdown"].isna().all() and rows["alone_s"].notna().all()
    said = draw("neighbours", rows, "T4").axes[0].texts[0].get_text()
    assert said == "no row has a value: time beside the neighbour / time alone"


def test_on_a_cpu_nothing_is_said_of_the_file():
    both = {"protocol.neighbour": ["none", "reference"]}
    rows = build(records_of(cells_of(HOST, strategy="reference", **both), SLOWER, driver=None))
    assert rows["untouched"].tolist() == ["no"] and rows["in_file"].tolist() == [""]


@pytest.mark.parametrize("neighbour", ["none", "reference", ["reference", "graph"], ["any", "reference"]])
def test_a_sweep_of_neighbours_has_each_cell_alone(neighbour):
    with pytest.raises(ConfigError, match=r"neighbours: protocol\.neighbour must be a list of none and one"):
        cells_of(strategy=["reference", "graph"], **{"protocol.neighbour": neighbour})


def test_times_beside_a_neighbour_are_in_no_table_of_other_times(cells):
    """Nor those of cells alone in the overview, which has fewer rounds of them than of others."""
    records = records_of(cells, SLOWER)
    assert overview.points_of(records, THRESHOLDS) == []
    keyed = comparison.keyed(frame_of(*records.values()))
    assert len(keyed) == 5 and set(keyed["protocol.neighbour"]) == {"none"}
    paper = {name: read_yaml(ROOT / f"config/paper/{name}.yaml") for name in ("speedup", "depth", "neurons")}
    assert len(devices.build({"H200": records}, paper, "Tesla T4", THRESHOLDS)) == 5
    busy = {key: one for key, one in records.items() if one["cell"]["protocol"]["neighbour"] != "none"}
    with pytest.raises(RecordError, match="every cell was measured next to a busy neighbour"):
        devices.build({"H200": busy}, paper, "Tesla T4", THRESHOLDS)


def test_the_figure_has_a_panel_per_neighbour_and_tells_verdicts_apart(table):
    def ticks(drawn):
        return [text.get_text() for text in drawn.axes[0].get_yticklabels()]

    drawn = draw("neighbours", table, "T4")
    assert [axes.get_title() for axes in drawn.axes] == ["beside reference", "beside graph"]
    names = ["reference", "combined", "graph", "resident", "persistent"]
    assert ticks(drawn) == names
    by_row = sorted(dots(drawn.axes[0]), key=lambda dot: dot[1])
    looks = [(marker, face != "white") for _, _, marker, face in by_row]
    shown = {"untouched": ("o", True), "touched": ("D", True), "not significant": ("o", False)}
    assert looks == [shown[one] for one in table.loc[table["neighbour"] == "reference", "verdict"]]
    said = said_in(drawn)
    assert all(f" {verdict}" in said for verdict in ("untouched", "touched", "neither"))
    assert f"the whole interval lies within {UNTOUCHED:.0%} around 1" in said and "is blank" in said
    assert "blank" not in said_in(draw("neighbours", table[table["neighbour"] == "reference"], "T4"))
    assert faults(drawn) == []
    own = table["kernel"].mask(table["strategy"] == "persistent", "one_layer")
    drawn = draw("neighbours", table.assign(kernel=own), "T4")
    assert ticks(drawn) == [*names[:4], "persistent, one_layer"]
    assert "The kernel is naive where none is named." in said_in(drawn)
