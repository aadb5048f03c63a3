"""Whether reduced precision trains to fp32's loss: the rule on known numbers, and the table of it."""

import math

import pytest
from records_of import THRESHOLDS, frame_of, frame_of_cells, record, sweep_of

from snn.figures import draw
from snn.measurement.protocol import student_quantile
from snn.tables.sweep import convergence, precision

FP32 = {1: 0.80, 2: 0.77, 3: 0.79, 4: 0.70, 5: 0.77}
REACH = student_quantile(2) * 0.01 / math.sqrt(3)


def times(factors):
    return {seed: loss * factor for (seed, loss), factor in zip(FP32.items(), factors, strict=True)}


@pytest.mark.parametrize(
    ("fp32", "other", "verdict"),
    [
        (FP32, times([0.999, 0.999, 0.998, 0.999, 1.000]), "converges"),
        (FP32, times([1.05, 1.04, 1.06, 1.05, 1.05]), "differs"),
        (FP32, times([0.95, 0.96, 0.94, 0.95, 0.95]), "differs"),  # a lower loss is another one too
        (FP32, times([1.013, 1.010, 1.006, 0.990, 1.009]), "inconclusive"),
        (FP32, FP32 | {3: None}, "differs"),
        (FP32, {1: FP32[1]}, "inconclusive"),
        (FP32, {}, "inconclusive"),
        (FP32 | {1: None}, FP32 | {1: None}, "converges"),  # fp32 is not finite either: it says nothing
        ({1: 1.0}, {1: None}, "differs"),
    ],
)
def test_the_rule(fp32, other, verdict):
    assert convergence(fp32, other, 0.01)["convergence"] == verdict


@pytest.mark.parametrize(
    ("fp32", "other", "expected"),
    [
        # The seeds' losses differ by 5%; a difference of half a percent in each is found all the same.
        (FP32, times([1.005] * 5), (0.005, 0.005, 0.005, "converges")),
        (
            {1: 1.0, 2: 1.0, 3: 2.0, 4: None},
            {1: 1.02, 2: 1.0, 3: 2.02, 4: 5.0, 5: 1.0},
            (0.01, 0.01 - REACH, 0.01 + REACH, "inconclusive"),
        ),
        ({1: 1.0}, {1: 1.0}, (0.0, None, None, "inconclusive")),
        ({1: 1.0, 2: 1.0}, {1: 1.5, 2: None}, (0.5, None, None, "differs")),
    ],
    ids=["pair by pair", "Student's over seeds", "one seed", "a lost loss"],
)
def test_the_difference_and_its_interval(fp32, other, expected):
    assert tuple(convergence(fp32, other, 0.01).values()) == pytest.approx(expected)


def test_the_word_at_the_margins():
    one = {1: 1.0, 2: 1.0}

    def word(first, second, margin):
        return convergence(one, {1: first, 2: second}, margin)["convergence"]

    for both in (0.75, 1.25):
        assert [word(both, both, margin) for margin in (0.25, 0.125)] == ["converges", "differs"]
    for first, second, margin in ((0.75, 1.25, 0.25), (1.0, 1.5, 0.25), (0.5, 1.0, 3.2), (1.0, 1.5, 3.2)):
        assert word(first, second, margin) == "inconclusive"
    for pair, end in (((3.0, 3.002), "low"), ((0.5, 0.49975), "high")):
        margin = abs(convergence(one, {1: pair[0], 2: pair[1]}, 9)[f"relative_difference_ci_{end}"])
        assert [word(*pair, margin * factor) for factor in (1, 0.999)] == ["inconclusive", "differs"]


def cells_of(**settings):
    return sweep_of(
        [
            {"kernel": "cublas", "precision": ["fp32", "tf32", "bf16"]},
            {"kernel": "tensor_core", "precision": "tf32"},
        ],
        "precision",
        defaults={"strategy": "resident", "network.seed": [1, 2, 3], "protocol.rounds": 1, **settings},
    ).cells


@pytest.fixture
def table():
    seconds = {"fp32": [4.0, 4.2], "tf32": [2.0, 2.1], "bf16": [1.0, 1.0]}
    factor = {"fp32": 1.0, "tf32": 1.001, "bf16": 1.2}
    cells = cells_of()
    losses = [factor[cell.precision] * (1 + cell["network"]["seed"] / 10) for cell in cells]
    return build(frame_of_cells(cells, [seconds[cell.precision] for cell in cells], mse=losses))


def build(rows):
    return precision.build(rows, {}, THRESHOLDS)


def test_rounds_and_losses_are_compared_with_those_of_their_own_seed_where_some_are_missing():
    """A slow round of fp32 is one of the others too, and each draw of weights has a loss of its own."""
    measured = {"fp32": {1: 1, 2: 3, 3: 3}, "tf32": {1: 3, 2: 1, 3: 3}, "bf16": {1: 3, 2: 3, 3: 3}}
    factor = {"fp32": (1.0, 1.0), "tf32": (0.5, 1.001), "bf16": (0.25, 1.2)}
    records = []
    for cell in cells_of(**{"protocol.rounds": 3, "protocol.runs": 3}):
        seed, name = cell["network"]["seed"], cell.precision
        for number in range(1, measured[name][seed] + 1):
            seconds, loss = (one * (10 * seed + number) for one in factor[name])
            records.append(record(cell, [seconds], mse=loss, number=number))
    table = build(frame_of(*records))
    assert table["speedup"].tolist() == pytest.approx([1.0, 2.0, 4.0, 2.0])
    assert (table["speedup_ci_high"] / table["speedup_ci_low"]).tolist() == pytest.approx([1.0] * 4)
    assert table["relative_difference"].tolist() == pytest.approx([0.0, 0.001, 0.2, 0.001])
    assert table["convergence"].tolist() == ["", "converges", "differs", "converges"]


def test_a_seed_of_another_driver_is_not_compared():
    cells = cells_of()
    newer = [(cell.precision, cell["network"]["seed"]) == ("bf16", 3) for cell in cells]
    drivers = ["999.1" if one else "580.1" for one in newer]
    table = build(frame_of_cells(cells, [[1.0, 1.1]] * len(cells), driver=drivers))
    assert [verdict == "not comparable" for verdict in table["verdict"]] == [False, False, True, False]
    assert table["note"][2].startswith("different drivers: ") and "999.1" in table["note"][2]


def test_the_figure_says_the_words_and_stands_without_any_time(table):
    drawn = draw("precision", table, "Tesla T4")
    said = {text.get_text() for text in drawn.axes[1].texts}
    assert {"converges", "differs"} <= said
    nothing = table.assign(mean_s=float("nan"), status="unsupported")
    assert "no row has a value" in draw("precision", nothing, "Tesla T4").axes[0].texts[0].get_text()
