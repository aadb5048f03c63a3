"""The published time breakdown by network, computed again from the records without the project's code."""

import gzip
import json
from functools import cache
from statistics import fmean, median

import pandas as pd
import pytest

from snn.files.published_sets import PUBLISHED

GPUS = ("nvidia-h200", "nvidia-h100-80gb-hbm3")
SWEEPS = {"neurons": ["128", "256", "1024"], "depth": ["256", "256-256", "256-1024-256"]}


@cache
def records(gpu):
    """By strategy and network, the records of ``large`` in order of rounds."""
    found = {}
    with gzip.open(PUBLISHED / gpu / "paper/records.jsonl.gz", "rt") as lines:
        for record in map(json.loads, lines):
            cell = record["cell"]
            if cell["dataset"]["name"] == "large":
                network = "-".join(map(str, cell["network"]["hidden"]))
                found.setdefault((cell["strategy"]["name"], network), []).append(record)
    return found


@pytest.mark.parametrize("sweep", SWEEPS)
@pytest.mark.parametrize("gpu", GPUS)
def test_parts_are_medians_of_the_passes_and_counts_those_of_the_ledger(gpu, sweep):
    table = pd.read_csv(PUBLISHED / gpu / f"paper/tables/attribution_{sweep}.csv", dtype={"network": str})
    networks = SWEEPS[sweep]
    assert sorted(zip(table["network"], table["strategy"], strict=True)) == sorted(
        (network, strategy) for network in networks for strategy in ("reference", "combined")
    )
    for row in table.to_dict("records"):
        of = sorted(records(gpu)[row["strategy"], row["network"]], key=lambda record: record["round"])
        passes = [record["explanation"] for record in of if record["explanation"]]
        assert len(passes) == 3
        parts = {
            name: median(one["attribution"]["seconds"][name] for one in passes)
            for name in passes[0]["attribution"]["seconds"]
        }
        assert {name: row[f"{name}_s"] for name in parts} == parts
        assert row["attributed_s"] == pytest.approx(sum(parts.values()), rel=1e-12)
        predicted = median(one["predicted_calls_seconds"] for one in passes)
        assert row["predicted_s"] == pytest.approx(predicted + parts["host_arithmetic"], rel=1e-12)
        assert row["mean_s"] == pytest.approx(fmean(run["seconds"] for one in of for run in one["runs"]))
        for name in ("mallocs", "host_allocs", "h2d_copies", "launches", "synchronizations"):
            assert {record["ledger"][name] for record in of} == {row[name]}


@pytest.mark.parametrize(("sweep", "key"), [("neurons", "neurons"), ("depth", "network")])
@pytest.mark.parametrize("gpu", GPUS)
def test_speedups_are_those_of_the_papers_table(gpu, sweep, key):
    folder = PUBLISHED / gpu / "paper/tables"
    found = pd.read_csv(folder / f"attribution_{sweep}.csv", dtype={"network": str})
    combined = found[found["strategy"] == "combined"].set_index("network")["speedup"]
    measured = pd.read_csv(folder / f"{sweep}.csv", dtype={key: str}).set_index(key)["speedup"]
    assert combined.sort_index().to_dict() == pytest.approx(measured.sort_index().to_dict(), rel=1e-12)
    assert set(found.loc[found["strategy"] == "reference", "speedup"]) == {1.0}
