"""Whether reduced precision trains to fp32's loss: the rule on known numbers, and the table of it."""

import math
from dataclasses import asdict

import pytest
import yaml
from conftest import ROOT
from records_of import record

from snn.analysis import frame
from snn.config.groups import read_yaml
from snn.figures import draw
from snn.grid import sweeps
from snn.hardware.devices import Device
from snn.measurement.protocol import student_quantile
from snn.tables.sweep import Convergence, convergence, precision

THRESHOLDS = read_yaml(ROOT / "config/verdicts.yaml")
FP32 = {1: 0.80, 2: 0.77, 3: 0.79, 4: 0.70, 5: 0.77}


def times(factors):
    return {seed: loss * factor for (seed, loss), factor in zip(FP32.items(), factors, strict=True)}


@pytest.mark.parametrize(
    ("other", "verdict"),
    [
        (times([0.999, 0.999, 0.998, 0.999, 1.000]), "converges"),
        (times([1.05, 1.04, 1.06, 1.05, 1.05]), "differs"),
        (times([0.95, 0.96, 0.94, 0.95, 0.95]), "differs"),  # a lower loss is another one too
        (times([1.013, 1.010, 1.006, 0.990, 1.009]), "inconclusive"),
        (FP32 | {3: None}, "differs"),
        ({1: FP32[1]}, "inconclusive"),
        ({}, "inconclusive"),
    ],
)
def test_the_rule(other, verdict):
    assert convergence(FP32, other, 0.01).verdict == verdict


def test_seeds_are_compared_pair_by_pair():
    """The seeds' losses differ by 5%; a difference of half a percent in each is found all the same."""
    found = convergence(FP32, times([1.005] * 5), 0.001)
    assert found.relative_difference == pytest.approx(0.005)
    assert found.ci_low == pytest.approx(0.005) == found.ci_high
    assert (found.seeds, found.verdict) == (5, "differs")


def test_the_interval_is_students_over_seeds():
    found = convergence({1: 1.0, 2: 1.0, 3: 2.0, 4: None}, {1: 1.02, 2: 1.0, 3: 2.02, 4: 5.0, 5: 1.0}, 0.01)
    reach = student_quantile(2) * 0.01 / math.sqrt(3)
    expected = Convergence(3, 0.01, 0.01 - reach, 0.01 + reach, "inconclusive")
    assert asdict(found) == pytest.approx(asdict(expected))


def test_the_word_at_the_margins():
    low, high = ({1: 1.0 + side, 2: 1.0 + side} for side in (-0.25, 0.25))
    one = {1: 1.0, 2: 1.0}
    for other in (low, high):
        assert convergence(one, other, 0.25).verdict == "converges"
        assert convergence(one, other, 0.125).verdict == "differs"
    assert convergence(one, {1: 0.75, 2: 1.25}, 0.25).verdict == "inconclusive"
    for first, second in ((0.5, 1.0), (1.0, 1.5)):
        found = convergence(one, {1: first, 2: second}, 3.2)
        assert (found.ci_low < -3.2) != (found.ci_high > 3.2) and found.verdict == "inconclusive"
    above, below = ({1: 1 + 2 * side, 2: 1 + 2.001 * side} for side in (1, -0.25))
    low, high = convergence(one, above, 9).ci_low, convergence(one, below, 9).ci_high
    assert convergence(one, above, low).verdict == convergence(one, below, -high).verdict == "inconclusive"
    assert convergence(one, above, low * 0.999).verdict == "differs"
    assert convergence(one, below, -high * 0.999).verdict == "differs"
    wide = convergence(one, {1: 1.0, 2: 1.5}, 0.25)
    assert wide.ci_low < -0.25 and wide.ci_high > 0.25 and wide.verdict == "inconclusive"


def test_one_seed_has_no_interval_and_a_lost_loss_differs():
    single = convergence({1: 1.0}, {1: 1.0}, 0.01)
    assert single == Convergence(1, 0.0, None, None, "inconclusive")
    assert convergence({1: 1.0, 2: 1.0}, {1: 1.5, 2: None}, 0.01) == Convergence(
        2, 0.5, None, None, "differs"
    )
    assert convergence({1: 1.0}, {1: None}, 0.01) == Convergence(1, None, None, None, "differs")
    assert convergence({1: 1.0}, {}, 0.01) == Convergence(0, None, None, None, "inconclusive")


def test_a_seed_in_which_fp32_is_not_finite_says_nothing():
    found = convergence(FP32 | {1: None}, FP32 | {1: None}, 0.01)
    assert (found.seeds, found.relative_difference, found.verdict) == (4, 0.0, "converges")


def cells_of(tmp_path, **settings):
    (tmp_path / "grid.yaml").write_text(
        yaml.safe_dump(
            {
                "defaults": {"strategy": "resident", "network.seed": [1, 2, 3], **settings},
                "sweeps": {
                    "precision": {
                        "union": [
                            {"kernel": "cublas", "precision": ["fp32", "tf32", "bf16"]},
                            {"kernel": "tensor_core", "precision": "tf32"},
                        ]
                    }
                },
            }
        )
    )
    return sweeps.read(tmp_path / "grid.yaml", Device("cuda", "NVIDIA H200"))["precision"].cells


@pytest.fixture
def table(tmp_path):
    cells = cells_of(tmp_path, **{"protocol.rounds": 1})
    seconds = {"fp32": [4.0, 4.2], "tf32": [2.0, 2.1], "bf16": [1.0, 1.0]}
    factor = {"fp32": 1.0, "tf32": 1.001, "bf16": 1.2}

    def made(cell):
        name = cell["precision"]["name"]
        return record(cell, seconds[name], mse=factor[name] * (1 + cell["network"]["seed"] / 10))

    records = {str(i): made(cell) for i, cell in enumerate(cells)}
    return precision.build(frame.tabulate(records, THRESHOLDS), {}, THRESHOLDS)


def test_rounds_and_losses_are_compared_with_those_of_their_own_seed_where_some_are_missing(tmp_path):
    """A slow round of fp32 is one of the others too, and each draw of weights has a loss of its own."""
    measured = {"fp32": {1: 1, 2: 3, 3: 3}, "tf32": {1: 3, 2: 1, 3: 3}, "bf16": {1: 3, 2: 3, 3: 3}}
    factor = {"fp32": (1.0, 1.0), "tf32": (0.5, 1.001), "bf16": (0.25, 1.2)}
    records = {}
    for cell in cells_of(tmp_path, **{"protocol.rounds": 3, "protocol.runs": 3}):
        seed, name = cell["network"]["seed"], cell["precision"]["name"]
        for number in range(1, measured[name][seed] + 1):
            slowed = 10 * seed + number
            seconds, loss = (one * slowed for one in factor[name])
            records[str(len(records))] = record(cell, [seconds], mse=loss, number=number)
    table = precision.build(frame.tabulate(records, THRESHOLDS), {}, THRESHOLDS)
    assert table["speedup"].tolist() == pytest.approx([1.0, 2.0, 4.0, 2.0])
    assert (table["speedup_ci_high"] / table["speedup_ci_low"]).tolist() == pytest.approx([1.0] * 4)
    assert table["relative_difference"].tolist() == pytest.approx([0.0, 0.001, 0.2, 0.001])
    assert table["convergence"].tolist() == ["", "converges", "differs", "converges"]


def test_each_round_counts_alike_in_the_mean_over_seeds(tmp_path):
    records = {}
    for cell in cells_of(tmp_path, **{"protocol.rounds": 1}):
        seconds = [3.0, 3.0, 3.0] if cell["network"]["seed"] == 3 else [1.0]
        records[str(len(records))] = record(cell, seconds)
    table = precision.build(frame.tabulate(records, THRESHOLDS), {}, THRESHOLDS)
    assert table["mean_s"].tolist() == pytest.approx([5 / 3] * 4)


def test_a_seed_of_another_driver_is_not_compared(tmp_path):
    records = {}
    for i, cell in enumerate(cells_of(tmp_path, **{"protocol.rounds": 1})):
        newer = (cell["precision"]["name"], cell["network"]["seed"]) == ("bf16", 3)
        records[str(i)] = record(cell, [1.0, 1.1], **({"driver": "999.1"} if newer else {}))
    table = precision.build(frame.tabulate(records, THRESHOLDS), {}, THRESHOLDS)
    assert [verdict == "not comparable" for verdict in table["verdict"]] == [False, False, True, False]
    assert table["note"][2].startswith("different drivers: ") and "999.1" in table["note"][2]


def test_the_figure_says_the_words_and_stands_without_any_time(table, tmp_path):
    drawn = draw("precision", table, "Tesla T4")
    said = {text.get_text() for text in drawn.axes[1].texts}
    assert {"converges", "differs"} <= said
    nothing = table.assign(mean_s=float("nan"), status="unsupported")
    assert "no cell has a time" in draw("precision", nothing, "Tesla T4").axes[0].texts[0].get_text()
