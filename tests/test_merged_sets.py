"""Published sets in one table: devices that are told apart, and what docs/results.md says of them."""

import pandas as pd
import pytest
from conftest import ROOT
from merging import merged

from snn.records import archive


@pytest.mark.usefixtures("no_devices_figure")
def test_the_devices_of_published_records_are_told_apart(tmp_path):
    found = [ROOT / f"results/published/nvidia-h200/{of}" for of in ("paper", "peers", "networks")]
    table, _ = merged(tmp_path, *found)
    first, *others = [
        {record["provenance"]["device_uuid"] for record in archive.read_all(each).values()} for each in found
    ]
    columns = [name for name in table if name.startswith("mean_s NVIDIA H200 (GPU-")]
    more = [int(of.split(" and ")[1].split()[0]) for of in columns if " and " in of]
    assert len(columns) + sum(more) == len(first.union(*others) - {None})
    assert len(found) <= len(columns) < len(columns) + sum(more)
    known = pd.read_csv(ROOT / "results/published/nvidia-h200/paper/tables/speedup.csv")
    known = known[known["strategy"] != "reference"].set_index(["strategy", "dataset"])["speedup"]
    of_first = table.reset_index()
    of_first = of_first[(of_first["network"] == "256") & (of_first["network.init"] == "uniform01")]
    (column,) = (name for name in columns if any(uuid[:12] in name for uuid in first))
    speedups = of_first.set_index(["strategy", "dataset"])[column.replace("mean_s", "speedup")]
    assert speedups.dropna()[known.index].to_dict() == pytest.approx(known.to_dict())


@pytest.mark.usefixtures("no_devices_figure")
def test_the_published_table_of_several_devices_is_that_of_the_sets_that_docs_results_names(tmp_path):
    found = ("nvidia-h200/paper", "nvidia-h100-80gb-hbm3/paper", "cpu-intel-r-xeon-r-processor/2-cores")
    merged(tmp_path, *(ROOT / "results/published" / name for name in found))
    again = (tmp_path / "out/devices.csv").read_bytes()
    assert (ROOT / "results/published/devices.csv").read_bytes() == again


@pytest.mark.usefixtures("no_devices_figure")
def test_what_docs_results_says_of_the_h200_and_the_t4(tmp_path):
    table, _ = merged(tmp_path, ROOT / "results/published/nvidia-h200/paper")
    words = table.set_index(["dataset", "network"], append=True)["on_all"]
    combined = {network: words["combined", "large", network] for network in ("128", "256", "256-256", "1024")}
    assert combined == {"128": "faster", "256": "faster", "256-256": "faster", "1024": "slower"}
    streams = table.set_index(["dataset", "network"], append=True).loc["streams", "large", "256"]
    assert streams["advice"] == "streams same on Tesla T4 as published, slower on NVIDIA H200"


def test_what_docs_results_says_of_the_h200_and_the_h100(tmp_path):
    found = [ROOT / f"results/published/nvidia-{gpu}/strategies" for gpu in ("h200", "h100-80gb-hbm3")]
    merged(tmp_path, *found)
    again = (tmp_path / "out/devices.csv").read_bytes()
    assert (ROOT / "results/published/devices_strategies.csv").read_bytes() == again
    table = pd.read_csv(tmp_path / "out/devices.csv")
    words = table[["verdict NVIDIA H200", "verdict NVIDIA H100 80GB HBM3"]].dropna()
    assert len(words) > 50
    assert not [row for row in words.to_numpy() if set(row) == {"faster", "slower"}]
    key = ["dataset", "strategy", "kernel", "strategy.threads", "draws"]
    errors = [pd.read_csv(one / "tables/strategies.csv").set_index(key)["final_mse"] for one in found]
    both = pd.concat(errors, axis=1, join="inner")
    assert len(both) > 40 and both.nunique(axis=1).eq(1).all()
