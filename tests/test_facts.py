"""Numbers of the documentation that follow from several rows, or from the configuration.

A block of them has the comment ``checked by tests/test_facts.py``, and no measured number but those of facts.
"""

import re
from itertools import pairwise
from math import ceil

import pandas as pd
import prose
import pytest
from conftest import ROOT

from snn.config.yaml_file import read_yaml
from snn.files.published_sets import PUBLISHED
from snn.measurement import protocol as protocol_of_runs

PROTOCOLS = ("paper", "brief", "glance", "precise")
GPUS = ("NVIDIA H200", "NVIDIA H100 80GB HBM3")
LIMITS = read_yaml(ROOT / "config/verdicts.yaml")
CPU = "CPU Intel(R) Xeon(R) Processor"


def table(name):
    folder, _, file = name.rpartition("/")
    return pd.read_csv(PUBLISHED / folder / ("tables" if folder else "") / f"{file}.csv")


def one(rows, **wanted):
    for key, value in wanted.items():
        rows = rows[rows[key] == value]
    (row,) = rows.to_dict("records")
    return row


def variation(rows):
    return rows["std_s"] / rows["mean_s"]


# ---- docs/results.md


def of_the_papers_experiment():
    times = table("nvidia-h200/paper/training_time")
    of_streams = times[(times["strategy"] == "streams") & (times["dataset"] == "small")]
    yield f"`streams` on `small` have a coefficient of variation of {variation(of_streams).item():.0%}"
    yield f"more than a factor of {LIMITS['wide']} apart"


def of_the_final_errors():
    rows = table("nvidia-h200/strategies/strategies")
    paper = read_yaml(ROOT / "config/paper/correctness.yaml")
    mine = rows[(rows["dataset"] == "small") & rows["strategy"].isin([*paper, "preallocated"])]
    (error,) = set(mine["final_mse"])
    (published,) = {row["mse"] for row in paper.values()}
    assert len(mine) == 5 and set(mine["draws"]) == {"1 to 10"}
    assert set(table("nvidia-h200/paper/correctness")["agreement"].dropna()) == {"agrees"}
    yield f"all five strategies end at a mean squared error of {error:.6f} on `small`"
    yield f"the paper's is {published}"


def of_the_prediction():
    rows = table("nvidia-h200/paper/attribution")
    apart = (rows["predicted_speedup"] / rows["speedup"] - 1).abs().max()
    yield f"is within {ceil(20 * apart) / 20:.0%} of the measured one for every strategy and data set"
    rows["parts"] = rows["attributed_s"] / rows["mean_s"]
    slow = rows[rows["parts"] > LIMITS["parts_differ"]]
    assert len(slow) == 2
    yield f"In two of {len(rows)} rows"
    pinned, streams = (
        one(slow, strategy=name, dataset=data) for name, data in (("pinned", "large"), ("streams", "medium"))
    )
    yield f"for `pinned` on `large` the parts add up to {pinned['parts']:.2f} times"
    yield f"for `streams` on `medium` to {streams['parts']:.2f} times"


def of_copies_in():
    rows = table("nvidia-h200/paper/attribution")
    of = {
        name: one(rows, strategy=name, dataset="large")["copy_in_s"] for name in ("preallocated", "combined")
    }
    assert of["preallocated"] < of["combined"] / 2
    yield "its copies in take less than half the time of those of `combined`"


def of_ties():
    row = one(table("nvidia-h200/sweeps/overview"), case="medium, 256, init uniform01")
    assert row["fastest"] == "resident (kernel tiled_fused, block 32-32)"
    assert row["tied_with"] == ", ".join(
        f"resident (kernel tiled_fused, block {block})" for block in ("16-16", "8-8")
    )
    yield "`resident` with `tiled_fused` and blocks of 32 x 32 has the shortest mean"
    yield "only the same kernel with blocks of 16 x 16 and 8 x 8 is not significantly slower"


def of_the_h100():
    largest = variation(table("nvidia-h100-80gb-hbm3/strategies/strategies")).max()
    yield f"coefficients of variation of up to {largest:.0%}"


def of_two_gpus():
    rows = table("devices_strategies")
    verdicts = rows[[f"verdict {gpu}" for gpu in GPUS]]
    assert not [pair for pair in verdicts.to_numpy() if {"faster", "slower"} <= set(pair)]
    yield "No strategy is significantly faster than `reference` on one GPU and significantly slower on the"
    keys = ["strategy", "dataset", "kernel", "strategy.threads", "draws"]
    both = pd.merge(
        *(table(f"{name}/strategies/strategies") for name in ("nvidia-h200", "nvidia-h100-80gb-hbm3")),
        on=keys,
    )
    assert len(both) > 20 and both["final_mse_x"].equals(both["final_mse_y"])
    yield "the final error in their two `strategies.csv` is the same to the last digit"


def of_several_devices():
    rows = table("devices")
    combined = rows[(rows["strategy"] == "combined") & (rows["dataset"] == "large")].set_index("network")
    faster = [
        network
        for network in ("128", "256", "256-256")
        if combined.loc[network, f"verdict {GPUS[0]}"] == "faster"
    ]
    assert (combined.loc[faster, "published_speedup Tesla T4"] > 1.02).all()
    yield "`combined` is faster on the H200 and the T4 with {}, {} and {} hidden neurons".format(*faster)
    assert combined.loc["1024", f"verdict {GPUS[0]}"] == "slower"
    assert combined.loc["1024", "published_speedup Tesla T4"] < 0.98
    yield "slower on both with 1024"
    papers = ["streams", "pinned", "combined"]
    cpu = {name: table(f"cpu-intel-r-xeon-r-processor/2-cores/{name}") for name in ("speedup", "strategies")}
    assert "faster" not in set(rows.loc[rows["strategy"].isin(papers), f"verdict {CPU}"])
    assert not any("faster" in set(of.loc[of["strategy"].isin(papers), "verdict"]) for of in cpu.values())
    yield "none of the paper's strategies is faster than `reference`"
    slower = {
        (strategy, data): sum(
            one(of, strategy=strategy, dataset=data)["verdict"] == "slower" for of in cpu.values()
        )
        for strategy in ("streams", "combined")
        for data in ("small", "medium", "large")
    }
    assert [slower["streams", data] for data in ("small", "medium", "large")] == [2, 2, 2]
    yield "`streams` is slower on all three data sets in both sweeps"
    assert [slower["combined", data] for data in ("large", "small", "medium")] == [2, 1, 1]
    assert one(cpu["speedup"], strategy="combined", dataset="small")["verdict"] == "slower"
    assert one(cpu["strategies"], strategy="combined", dataset="medium")["verdict"] == "slower"
    yield "`combined` is slower on `large` in both, on `small` only in `dataset_size`"
    yield "and on `medium` only in `strategies`"
    assert one(table("nvidia-h200/paper/speedup"), strategy="streams", dataset="large")["verdict"] == "slower"
    yield "On `large`, `streams` is slower on the H200, too."


def of_neighbours():
    rows = table("nvidia-h100-80gb-hbm3/neighbours/neighbours")
    assert set(rows.loc[rows["verdict"] == "untouched", "strategy"]) == {"graph"}
    assert set(rows.loc[rows["machine"].str.contains("noisy"), "strategy"]) == set(rows["strategy"]) - {
        "graph"
    }
    within = f"{LIMITS['untouched']:.0%}"
    yield f"Only `graph` gets the verdict `untouched`: its intervals lie within {within} around 1."


def of_the_loader():
    rows = table("nvidia-h200/cnn/cnn_loader").dropna(subset="mean_s")
    assert rows["machine"].str.contains("drifted").all()
    yield "In all rows of `cnn_loader` that were measured here"


# ---- docs/explanation/reference_to_persistent.md


def of_the_floor():
    rows = table("nvidia-h200/strategies/strategies")
    row = one(rows, strategy="persistent", dataset="large")
    yield f"| *floor* | {row['fraction_of_limit'] * row['mean_s'] / 10_000 * 1e6:.2f} µs |"


def of_shapes():
    rows = table("nvidia-h200/shapes/shapes")
    rows = rows[rows["status"] == "ok"]
    one_layer = rows["plan"].str.match(r"(one|\d+) clusters? of")
    groups = rows["plan"].str.match(r"\d+ groups? of")
    plain = ~one_layer & ~groups & (rows["outputs"] == 1) & (rows["biases"] == 0)
    kinds = {
        "`one_layer.cu`": one_layer,
        "`two_layers.cu`, `three_layers.cu`": groups,
        "`grid.cu`, `layers.cu`: perceptrons with one output": plain,
        "`layers.cu`: biases, or several outputs": ~one_layer & ~groups & ~plain,
    }
    for name, which in kinds.items():
        ratios = rows.loc[which, "speedup_over_graph"]
        three = " | ".join(
            f"{ratio:.{2 if ratio < 10 else 1}f}" for ratio in (ratios.min(), ratios.median(), ratios.max())
        )
        yield f"| {name} | {len(ratios)} | {three} |"
    assert rows["speedup_over_graph"].min() > 1
    peers = table("nvidia-h200/shapes/shapes").dropna(subset="best_peer_us")
    ratios = peers["speedup_over_best_peer"].dropna()
    assert ratios.min() > 1
    yield f"JAX also trained {len(peers)} of them."
    span = f"{ratios.min():.2f} to {ratios.max():.1f}"
    yield f"It took {span} times as long for the {len(ratios)} that have a plan"
    yield f"{ratios.median():.1f} times in the median"


def of_the_convolutions():
    """Multiplications and additions of one image: forward, weights, and input where one is needed."""
    conv1, conv2, linear = 16 * 26 * 26 * 9, 32 * 24 * 24 * 9 * 16, 4608 * 10
    share = 3 * conv2 / (2 * conv1 + 3 * conv2 + 3 * linear)
    yield f"{share:.0%} of the arithmetic is in the second convolution"


# ---- docs/explanation/protocol.md


def of_protocols():
    for name in PROTOCOLS:
        path = ROOT / f"config/protocol/{name}.yaml"
        protocol = read_yaml(path)
        row = f"| `{name}` | {protocol['rounds']} | {protocol['runs']} | {protocol['max_seconds']:g} s |"
        tells = re.search(r"Tells\s+(?:#\s+)?(\d+%)\s", path.read_text(encoding="utf-8"))
        yield f"{row} {tells[1]} |" if tells else f"{row} 10%, or a few percent if rounds differ by 2% |"
    yield f"changes by no more than {protocol_of_runs._STEADY:.0%} between successive windows"
    exact = read_yaml(ROOT / "config/protocol/precise.yaml")["relative_error"]
    yield f"once the 95% interval of its mean is within {exact:.0%} of that mean"


def of_verdicts():
    yield f"whole interval is within {LIMITS['same']:.0%} of 1"
    yield f"above {LIMITS['noisy']:.0%} of their mean"
    yield f"used over {LIMITS['other_cores']:.0%} of the CPU cores"
    yield f"took over {LIMITS['stolen_cores']:.0%} of the cores"
    yield f"by more than {LIMITS['drifted']:.0%} (and by more than {LIMITS['drifted_least_us']} µs)"
    yield f"more than {LIMITS['memory_full']:.0%} of the memory was in use"
    yield f"for {LIMITS['lasting_s']} s or longer"
    assert LIMITS["idle_drop"] == 0.5
    yield "below half of its usual value"
    yield f"over {LIMITS['irregular_power']:.0%} above or below"
    yield f"mean relative difference is within {LIMITS['converges']:.0%}"


def of_two_thresholds():
    yield f"wider than a factor of {LIMITS['wide']}"
    yield f"too few rounds to find a difference of {LIMITS['tell_apart']:.0%}"


def of_the_warning():
    yield f"over {LIMITS['memory_full']:.0%} of the device memory was in use"


def of_same():
    yield f"more than {LIMITS['same']:.0%} from 1"


def of_untouched():
    yield f"lies within {LIMITS['untouched']:.0%} around 1"


def of_glance():
    seconds = read_yaml(ROOT / "config/protocol/glance.yaml")["max_seconds"]
    yield f"takes about {seconds:g} s of timed runs per cell at most"


FACTS = {
    "results.md": [
        of_the_papers_experiment, of_the_final_errors, of_the_prediction, of_copies_in, of_ties, of_the_h100,
        of_two_gpus, of_several_devices, of_neighbours, of_the_loader,
    ],
    "explanation/reference_to_persistent.md": [of_the_floor, of_shapes, of_the_convolutions],
    "explanation/protocol.md": [of_protocols, of_verdicts],
    "explanation/attribution.md": [of_the_warning],
    "howto/compare_machines.md": [of_same],
    "howto/more_rounds.md": [of_two_thresholds],
    "howto/several_gpus.md": [of_untouched],
    "troubleshooting.md": [of_glance],
}  # fmt: skip


def checked_here():
    """The blocks of every page that name this file."""
    for page in prose.PAGES:
        for block in prose.parsed(page.read_text(encoding="utf-8")):
            if any(mark["test"] == "tests/test_facts.py" for mark in block.marks):
                yield str(page.relative_to(ROOT / "docs")), block.prose


@pytest.mark.parametrize("page", FACTS)
def test_the_page_says_what_follows(page):
    said = [text for name, text in checked_here() if name == page]
    for fact in (fact for of in FACTS[page] for fact in of()):
        assert any(fact in text for text in said), fact


def test_every_number_of_a_checked_block_is_of_a_fact():
    for page, text in checked_here():
        rest = text
        for fact in (fact for of in FACTS[page] for fact in of()):
            rest = rest.replace(fact, "")
        assert not prose.MEASURED.search(rest), text


def test_each_row_of_the_steps_is_over_the_row_above_it():
    """The last column of reference_to_persistent.md: a ratio of means, and a lead in the last row."""
    rows = table("nvidia-h200/strategies/strategies")
    text = (ROOT / "docs/explanation/reference_to_persistent.md").read_text(encoding="utf-8")
    steps = ["reference", "preallocated", "resident", "graph"]
    times = [one(rows, strategy=name, dataset="large", kernel="naive")["mean_s"] for name in steps]
    times.append(one(rows, strategy="graph", dataset="large", kernel="tiled_fused")["mean_s"])
    lines = re.findall(r"^\| `(?:preallocated|resident|graph)`.*?\| ([\d.]+) \| <!--", text, re.MULTILINE)
    assert lines == [f"{above / time:.1f}" for above, time in pairwise(times)]
    two = [
        one(rows, strategy=name, dataset="large", kernel="tiled_fused")["mean_s"]
        for name in ("graph", "resident")
    ]
    assert two[0] < two[1] / 2 and "`graph` takes less than half the time of `resident`" in text


@pytest.mark.parametrize("name", ["speedup", "neurons", "depth", "training_time", "correctness"])
def test_published_tables_show_the_papers_values(name):
    """Square brackets in the documentation are columns ``paper_...`` of these tables."""
    paper = read_yaml(ROOT / f"config/paper/{name}.yaml")
    rows = table(f"nvidia-h200/paper/{name}")
    compared = 0
    for row in rows.to_dict("records"):
        of_row = paper.get(str(row.get("neurons") or row.get("network") or row["strategy"]), {})
        expected = {
            "speedup": {"paper_speedup": of_row.get(row.get("dataset"))},
            "training_time": {"paper_s": of_row.get(row.get("dataset"))},
            "correctness": {"paper_s": of_row.get("seconds")},
        }.get(
            name, {f"paper_{key}{'' if key == 'speedup' else '_s'}": value for key, value in of_row.items()}
        )
        for column, value in expected.items():
            if name != "correctness" or pd.notna(row[column]):
                assert row[column] == value if value is not None else pd.isna(row[column])
                compared += value is not None
    assert compared >= (4 if name == "correctness" else 9)
