"""From which width or batch size on a GPU is faster than its host: table, sentence and figure."""

from types import SimpleNamespace

import pytest
from records_of import THRESHOLDS, frame_of, record, sweep_of

from snn.figures import curves
from snn.recommending.crossover import _point
from snn.tables import crossover

KEYS = {"width": "network.hidden", "batch": "training.batch_size"}


def table_of(axis, cpu_over_gpu):
    """The table of rounds with these ratios by number; graph and two threads take longer than the others."""
    key, records = KEYS[axis], []
    for number, ratios in cpu_over_gpu.items():
        point = {key: [[number, number]] if axis == "width" else number}
        cells = sweep_of(
            [
                {"dataset": "large", **point, "strategy": ["persistent", "graph"]},
                {"dataset": "large", **point, "strategy": "blas", "strategy.threads": [1, 2]},
            ],
            defaults={"protocol.rounds": len(ratios), "protocol.runs": 9},
        ).cells
        for cell in cells:
            for i, ratio in enumerate(ratios, 1):
                seconds = 2.0 * (ratio if cell.strategy == "blas" else 1)
                slower = 1.5 if cell.strategy == "graph" or cell["strategy"].get("threads") == 2 else 1
                records.append(record(cell, [seconds * slower] * 2, number=i))
    return crossover.build(frame_of(*records), axis, THRESHOLDS)


@pytest.mark.parametrize("axis", ["width", "batch"])
def test_the_gpu_wins_from_where_the_line_through_both_neighbours_is_one(axis):
    given = {16: [0.25, 0.24, 0.26], 64: [0.5, 0.49, 0.51], 256: [2.0, 2.02, 1.98], 1024: [8.0, 8.1, 7.9]}
    table = table_of(axis, given)
    assert table["number"].tolist() == [16, 64, 256, 1024]
    assert table["gpu_strategy"].tolist() == ["persistent"] * 4
    assert table["cpu_strategy"].tolist() == ["blas (threads 1)"] * 4
    assert table["verdict"].tolist() == ["slower", "slower", "faster", "faster"]
    assert table["speedup"].tolist() == pytest.approx([0.25, 0.5, 2, 8])
    found = crossover.crossing(list(table["number"]), list(table["rounds"]))
    assert found.value == pytest.approx(128, rel=0.01) and 120 < found.low < 128 < found.high < 136
    said = crossover.sentence(table, axis)
    assert f"from a {crossover.AXES[axis]} of about 128 on (95% CI 1" in said
    assert f"At a {crossover.AXES[axis]} of 16, blas (threads 1) on the CPU is 4 times as fast" in said
    assert "of 1024, persistent on the GPU is 8 times as fast" in said
    figure = curves.crossover(crossover.AXES[axis])(table)
    assert figure.axes[0].get_xscale() == figure.axes[0].get_yscale() == "log"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({16: [2.0, 2.1], 64: [3.0, 3.1]}, "at every hidden width from 16 to 64. At"),
        ({16: [1.0, 3.0], 64: [3.0, 3.1]}, "from 16 to 64, though not significantly"),
        ({16: [0.2, 0.21], 64: [0.3, 0.31]}, "as fast as the GPU or faster up to a hidden width of 64"),
        ({16: [2.0, 2.1], 64: [0.5, 0.6], 128: [2.0, 2.1]}, "from a hidden width of about "),
        ({16: [0.5], 64: [2.0]}, "of about 32 on. At a hidden width of 16"),  # one round has no interval
        ({}, "nothing to compare"),
    ],
)
def test_there_may_be_no_crossing_or_no_interval(given, said):
    table = table_of("width", given) if given else crossover.build(EMPTY, "width", THRESHOLDS)
    assert said in crossover.sentence(table, "width")


EMPTY = frame_of(record(sweep_of({"strategy": "graph"}).cells[0], [1.0]))


@pytest.mark.parametrize("network", [{"hidden": [64, 32]}, {"layers": ["linear 64", "tanh", "linear 1"]}])
def test_wider_networks_than_the_one_asked_about_get_lower_rates(network):
    asked = SimpleNamespace(crossover="width", cell={"network": network, "training": {"learning_rate": 0.1}})
    rates = [_point(asked, width).get("training.learning_rate", 0.1) for width in (16, 64, 256)]
    assert rates == [0.1, 0.1, 0.025]
