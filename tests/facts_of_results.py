"""What docs/results.md says that follows from several rows, or from records; as ``facts``."""

from math import ceil

import pandas as pd
from conftest import ROOT
from published_tables import one, table, variation

from snn.config.yaml_file import read_yaml
from snn.files.published_sets import PUBLISHED
from snn.records import archive

GPUS = ("NVIDIA H200", "NVIDIA H100 80GB HBM3")
LIMITS = read_yaml(ROOT / "config/verdicts.yaml")
CPU = "CPU Intel(R) Xeon(R) Processor"


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


def farthest_prediction(name):
    rows = table(f"{name}/attribution")
    apart = (rows["predicted_speedup"] / rows["speedup"] - 1).abs().max()
    return f"is within {ceil(20 * apart) / 20:.0%} of the measured one for every strategy and data set"


def of_the_prediction():
    rows = table("nvidia-h200/paper/attribution")
    yield farthest_prediction("nvidia-h200/paper")
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


def of_the_papers_experiment_on_the_h100():
    rounds = {
        network: len(set(rows["round"]))
        for network, rows in table("nvidia-h100-80gb-hbm3/paper/warnings").groupby("network")
    }
    assert set(rounds.values()) == {5} and len(rounds) == 5
    yield "one run in each of five rounds"
    yield from of_the_cards_of_the_h100()
    drifted = {
        row
        for name, column in (("speedup", "dataset"), ("neurons", "neurons"), ("depth", "network"))
        for row in drifted_rows(table(f"nvidia-h100-80gb-hbm3/paper/{name}"), column)
    }
    on_medium = {("medium", name) for name in ("reference", "streams", "pinned", "combined", "preallocated")}
    assert drifted == {*on_medium, ("large", "streams"), ("1024", ""), ("256-1024-256", "")}
    yield "The machine was noisy. In at least one round it drifted with each strategy on `medium`"
    yield "with `streams` on `large`, with 1024 neurons and with 256-1024-256"
    yield farthest_prediction("nvidia-h100-80gb-hbm3/paper")


def drifted_rows(rows, column):
    """What a row is of, and its strategy; all rows are noisy."""
    assert rows["machine"].str.contains("noisy").all()
    found = rows[rows["machine"].str.contains("drifted")]
    names = found["strategy"] if "strategy" in found else [""] * len(found)
    return set(zip(found[column].astype(str), names, strict=True))


def of_the_cards_of_the_h100():
    """Rounds by card: both cells of a round's ratio ran on one card."""
    cards, rounds = {}, {}
    for record in archive.read_all(PUBLISHED / "nvidia-h100-80gb-hbm3/paper").values():
        network = "-".join(map(str, record["cell"]["network"]["hidden"]))
        of_round = (record["cell"]["dataset"]["name"], network, record["round"])
        card = record["provenance"]["device_uuid"]
        assert cards.setdefault(of_round, card) == card
        rounds.setdefault(card, set()).add(of_round)
    *further, first = sorted(rounds, key=lambda card: len(rounds[card]))
    wide = {("large", "1024", number) for number in (3, 4, 5)}
    assert set.union(*(rounds[card] for card in further)) == {
        *wide,
        *(("large", "256-1024-256", number) for number in (2, 3, 4, 5)),
    }
    assert len(further) == 2 and not rounds[first] & wide
    yield "Rounds 3 to 5 with 1024 neurons and 2 to 5 with 256-1024-256 ran on two other cards"


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
        if all(combined.loc[network, f"verdict {gpu}"] == "faster" for gpu in GPUS)
    ]
    assert (combined.loc[faster, "published_speedup Tesla T4"] > 1.02).all()
    yield "`combined` is faster on the H200, the H100 and the T4 with {}, {} and {} hidden neurons".format(
        *faster
    )
    wide = combined.loc["1024"]
    assert {wide[f"verdict {gpu}"] for gpu in GPUS} == {"slower"}
    assert wide["published_speedup Tesla T4"] < 0.98
    assert {wide[f"status {gpu}"] for gpu in GPUS} == {"diverged"}
    yield "With 1024, where the loss overflows, it is slower on all three"
    deepest = combined.loc["256-1024-256"]
    assert [deepest[f"verdict {gpu}"] for gpu in GPUS] == ["faster", "not significant"]
    yield "with 256-1024-256 it is faster on the H200 and not significantly different on the H100"
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
    streams = one(rows, strategy="streams", dataset="large")
    assert {streams[f"verdict {gpu}"] for gpu in GPUS} == {"slower"}
    of_all = one(table("devices_strategies"), strategy="streams", dataset="large")
    assert [of_all[f"verdict {gpu}"] for gpu in GPUS] == ["slower", "not significant"]
    yield "`streams` is slower on the H200 in both of its sets, and on the H100 in this one"


def of_neighbours():
    rows = table("nvidia-h100-80gb-hbm3/neighbours/neighbours")
    assert set(rows.loc[rows["verdict"] == "untouched", "strategy"]) == {"graph"}
    assert set(rows.loc[rows["machine"].str.contains("noisy"), "strategy"]) == set(rows["strategy"]) - {
        "graph"
    }
    within = f"{LIMITS['untouched']:.0%}"
    yield f"Only `graph` gets the verdict `untouched`: its intervals lie within {within} around 1."
    touched = rows[rows["verdict"] == "touched"]
    assert len(touched) == 5 and set(touched["neighbour"]) == {"reference"}
    yield f"Five of the {len(rows)} rows are `touched`, all beside `reference`"
    slower = touched["slowdown"] > 1
    assert set(touched.loc[slower, "strategy"]) == {"persistent", "pinned", "streams"}
    assert set(touched.loc[~slower, "strategy"]) == {"pipelined", "workspace"}
    yield "longer than alone take `persistent`, `pinned` and `streams`, shorter `pipelined` and `workspace`"
    from_one = [
        low - 1 if low > 1 else 1 - high
        for low, high in touched[["slowdown_ci_low", "slowdown_ci_high"]].to_numpy()
    ]
    assert sum(distance < 0.015 for distance in from_one) > len(from_one) / 2
    yield "Most of these intervals end near 1"
    rows = table("nvidia-h200/neighbours/neighbours")
    (rounds,) = set(rows["rounds"])
    assert rounds == 5
    yield "On two H200s, in five rounds as well"
    assert set(rows.loc[rows["verdict"] == "untouched", "strategy"]) == {"graph"}
    yield "`graph` is again the only one that is `untouched`"
    touched = rows[rows["verdict"] == "touched"]
    assert set(touched["strategy"]) == {"reference", "async_pool"}
    assert set(touched["neighbour"]) == {"reference"}
    yield f"two of the {len(rows)} rows are `touched`: `reference` and `async_pool`, both beside `reference`."


def of_the_cnns_machine():
    def drifted(rows):
        return rows["machine"].str.contains("drifted")

    assert drifted(table("nvidia-h200/cnn/cnn_loader").dropna(subset="mean_s")).all()
    yield "In all rows of `cnn_loader` that were measured here"
    peers = table("nvidia-h200/cnn/cnn_peers")
    fp32, tf32 = (drifted(peers[peers["precision"] == name]) for name in ("fp32", "tf32"))
    assert fp32.all() and (tf32.sum(), len(tf32)) == (2, 7)
    yield "in all fp32 rows of `cnn_peers` and two of its seven TF32 rows, the machine is `drifted`"
