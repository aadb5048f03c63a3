"""What ``benchmarks/several_gpus.py`` prints of a sweep on several GPUs, from times of our choosing."""

import dag
import pandas as pd
import pytest
import several_gpus
from conftest import ROOT

from snn.records.origin import Origin


def cells(gpus, **rounds):
    """Cells of these strategies, by name, whose rounds took these seconds on these GPUs."""
    rows = [
        {
            "cell": name,
            "strategy": name,
            "kernel": "naive",
            "dataset": "small",
            "status": "ok" if seconds else "unsupported",
            "mean_s": sum(map(sum, seconds)) / len(seconds) if seconds else None,
            "rounds": seconds or [[]] * len(gpus),
            "origins": [Origin(gpu) for gpu in gpus],
            "device_uuid": ", ".join(gpus),
        }
        for name, seconds in rounds.items()
    ]
    return pd.DataFrame(rows).set_index("cell")


ONE = cells(["A"] * 3, graph=[[1.0], [1.0], [1.0]], reference=[[2.0], [2.0], [2.0]], managed=[])


def test_times_are_divided_where_both_are_of_one_gpu():
    several = cells(["A", "B", "A"], graph=[[1.1], [9.0], [1.1]], reference=[[2.0], [9.0], [2.0]], managed=[])
    graph, reference, managed, mean = several_gpus.compared(several, ONE)[1:]
    assert graph.split()[:3] == ["graph", "naive", "small"]
    assert "1.100  1.100 to 1.100, 2 rounds" in graph
    assert "1.000  1.000 to 1.000, 2 rounds" in reference
    assert managed.endswith("unsupported, or no round of both on one GPU")
    assert mean.startswith("geometric mean of 2 cells: 1.049 (")


def test_the_mean_of_one_cell_has_no_interval_and_of_none_there_is_none():
    assert several_gpus.mean_of([0.0]) == "the ratio of the only cell is 1.000"
    assert several_gpus.compared(cells(["B"] * 3, graph=[], reference=[], managed=[]), ONE)[-1] == (
        "no cell has a time in both"
    )


def test_the_grid_is_that_sweep_alone():
    grid = several_gpus.grid_of("strategies", "cuda", ["small"], 2)
    assert list(grid["sweeps"]) == ["strategies"] and grid["device"] == "cuda"
    assert (
        grid["sweeps"]["strategies"] | {"dataset": ["small"], "protocol.rounds": 2}
        == (grid["sweeps"]["strategies"])
    )
    with pytest.raises(SystemExit, match="has no sweep 'nothing'"):
        several_gpus.grid_of("nothing", "cuda", ["small"], 2)


def test_a_copy_of_the_checkout_can_read_its_grid(tmp_path):
    """It leaves out caches, and no module that is called so."""
    copy = dag.copy_of(ROOT, tmp_path / "copy", None)
    of_checkout = {path.relative_to(ROOT) for path in (ROOT / "snn").rglob("*.py")}
    assert {path.relative_to(copy) for path in (copy / "snn").rglob("*.py")} == of_checkout
    assert not (copy / ".venv").exists() and not (copy / "results").exists()
