"""What docs/results.md says that follows from several rows, from records, or from traces; as ``facts``."""

import re
from collections import Counter, defaultdict
from functools import cache
from itertools import chain

import pandas as pd
from conftest import ROOT
from published_tables import entries_of, one, records_in, some, table, variation

from snn.config.yaml_file import read_yaml
from snn.files import published_sets
from snn.files.published_sets import PUBLISHED
from snn.records import archive, microbenchmarks
from snn.report import claims, published_set

MIB = 1 << 20
GPUS = ("NVIDIA H200", "NVIDIA H100 80GB HBM3")
H200, H100 = FOLDERS = ("nvidia-h200", "nvidia-h100-80gb-hbm3")
CPU = "CPU Intel(R) Xeon(R) Processor"
LIMITS = read_yaml(ROOT / "config/verdicts.yaml")
SIZES = ("small", "medium", "large")
WIDE, DEEP = "1024", "256-1024-256"


def of_the_papers_experiment():
    of_streams = table(f"{H200}/paper/training_time", strategy="streams", dataset="small")
    yield f"`streams` on `small` have a coefficient of variation of {variation(of_streams).item():.0%}"
    yield f"more than a factor of {LIMITS['wide']} apart"


def of_the_final_errors():
    paper = read_yaml(ROOT / "config/paper/correctness.yaml")
    rows = table(f"{H200}/strategies/strategies", dataset="small")
    mine = rows[rows["strategy"].isin([*paper, "preallocated"])]
    (error,) = set(mine["final_mse"])
    (published,) = {row["mse"] for row in paper.values()}
    assert len(mine) == 5 and set(mine["draws"]) == {"1 to 10"}
    assert set(table(f"{H200}/paper/correctness")["agreement"].dropna()) == {"agrees"}
    yield f"all five strategies end at a mean squared error of {error:.6f} on `small`"
    yield f"the paper's is {published}"


def of_the_five_conclusions():
    """The words in the table's columns of verdicts, which begin with those of the claims."""
    verdict_of = {claim.name: claim.verdict for claim in claims.judge("paper").claims}
    effects = {
        "streams_minimal": "refuted",
        "pinned_by_as_much": "not significant",
        "combined_faster": "conditional",
        "neurons_1024_slower": "confirmed",
        "three_layers_no_benefit": "not significant",
    }
    rows = {
        "`streams` changes little": "streams_minimal",
        "`pinned` does as much as on a T4": "pinned_by_as_much",
        "`combined` is faster": "combined_faster",
        "`combined` is slower with 1,024 neurons": "neurons_1024_slower",
        "`combined` gains next to nothing with 256-1024-256": "three_layers_no_benefit",
        "constraints of the hardware": "hardware_constraints",
        "copies are cheaper": "pinned_by_faster_copies",
        "no more `cudaMalloc` and `cudaFree`": "combined_by_eliminating_calls",
        "computation and tiles": "computation_dominates_1024",
        "computation": "computation_dominates_depth",
    }
    page = (ROOT / "docs/results.md").read_text(encoding="utf-8")
    for cell, name in rows.items():
        assert re.search(rf"\| {re.escape(cell)} \| {verdict_of[name]}(?::| \|)", page), cell
    reasons = {
        "hardware_constraints": "refuted",
        "pinned_by_faster_copies": "conditional",
        "combined_by_eliminating_calls": "conditional",
        "computation_dominates_1024": "refuted",
        "tiling_overhead_1024": "refuted",
        "computation_dominates_depth": "refuted",
    }
    assert {name: verdict_of[name] for name in effects | reasons} == effects | reasons
    (faster,) = (claim for claim in claims.judge("paper").claims if claim.name == "combined_faster")
    cases = [
        (finding.table, *case.at)
        for finding in faster.findings
        for case in finding.cases
        if case.outcome != "holds"
    ]
    assert cases == [(f"{H100}/strategies/strategies", "medium")]
    yield "The exception is `combined` on `medium` on a second H100, which is not significant"
    yield "one of the effects is confirmed, one holds in all cases but one"
    yield "two are not significant and one is refuted"
    yield "None of the reasons is confirmed in all cases"


def of_the_questions():
    sweeps = {
        name: table(f"{H200}/questions/{name}") for name in ("allocation", "streams", "sources", "fidelity")
    }
    rows = pd.concat(sweeps.values())
    assert rows["machine"].str.contains("noisy").all()
    compared = rows[~rows["verdict"].isin(["reference", "baseline"])]
    decided = compared["verdict"].isin(["faster", "slower"]).sum()
    yield "Every row is `noisy`, and so few rounds leave most of them undecided"
    yield f"{decided} of {len(compared)} speedups are significant"
    rounds = Counter(
        (record["cell"]["protocol"]["rounds"], record["cell"]["strategy"]["name"], network_of(record))
        for record in records_in(f"{H200}/questions")
    )
    short = {of: count for of, count in rounds.items() if count % of[0]}
    assert short == {(3, "reference", WIDE): 2}
    yield "in three rounds in the sweep `allocation` (two of `reference` with 1024 neurons)"
    of = sweeps["allocation"].astype({"network": str}).set_index(["strategy", "network"])["verdict"]
    networks = ("256", WIDE, DEEP)
    assert {of["keepalive", network] for network in networks} == {"not significant"}
    faster = {key for key in of.index if of[key] == "faster"}
    kept = {(name, "256") for name in ("combined", "combined_kept", "preallocated")}
    assert faster == kept | {("preallocated", DEEP)}
    yield "none of the three speedups is significant"
    yield "and with 256-1024-256 only `preallocated` is"
    parts = table(f"{H200}/questions/attribution_allocation").astype({"network": str})
    parts = parts.set_index(["strategy", "network"])
    spent = parts["allocation_s"]
    shares = [f"{spent['keepalive', network] / spent['reference', network]:.0%}" for network in networks]
    yield f"device allocations take {shares[0]} of their time in `reference` with 256 neurons"
    yield f"{shares[1]} with 1024 and {shares[2]} with 256-1024-256"
    sums, wide = parts["attributed_s"], parts.loc["combined", WIDE]
    share = wide["host_allocation_s"] / wide["attributed_s"]
    yield f"host allocation is {share:.0%} of the parts of `combined`"
    assert parts.loc["combined_kept", "host_allocation_s"].max() == 0
    assert sums["combined_kept", WIDE] < sums["reference", WIDE] / 2
    yield "add up to less than half of `reference`'s"
    (engines,) = table(f"{H200}/questions/gpu", parameter="Copy engines")["value"]
    yield f"{engines} copy engines"


def predictions(device):
    words = table(f"{device}/paper/attribution")["prediction"].dropna()
    assert set(words) == {"agrees", "inconclusive"}
    return f"Of the {len(words)} predicted speedups, {(words == 'agrees').sum()} agree"


def of_the_prediction():
    yield f"is a factor of {LIMITS['predicts']}, which was written down after these were measured"
    yield predictions(H200)
    networks = table(f"{H200}/paper/attribution_neurons"), table(f"{H200}/paper/attribution_depth")
    words = [
        one(rows.astype({"network": str}), strategy="combined", network=network)["prediction"]
        for rows, network in zip(networks, (WIDE, DEEP), strict=True)
    ]
    assert words == ["agrees", "differs"]
    rows = table(f"{H200}/paper/attribution")
    slow = rows.assign(parts=rows["attributed_s"] / rows["mean_s"]).query("parts > @LIMITS['parts_differ']")
    assert len(slow) == 2
    yield f"In two of {len(rows)} rows"
    pinned = one(slow, strategy="pinned", dataset="large")["parts"]
    yield f"for `pinned` on `large` the parts add up to {pinned:.2f} times"
    yield f"for `streams` on `medium` to {one(slow, strategy='streams', dataset='medium')['parts']:.2f} times"


def of_copies_in():
    rows = table(f"{H200}/paper/attribution", dataset="large").set_index("strategy")["copy_in_s"]
    assert rows["preallocated"] < rows["combined"] / 2
    yield "its copies in take less than half the time of those of `combined`"


def of_ties():
    row = one(table(f"{H200}/sweeps/overview"), case="medium, 256, init uniform01")
    names = [f"resident (kernel tiled_fused, block {block})" for block in ("32-32", "16-16", "8-8")]
    assert [row["fastest"], *row["tied_with"].split("), ")] == [*names[:1], names[1][:-1], names[2]]
    yield "`resident` with `tiled_fused` and blocks of 32 x 32 has the shortest mean"
    yield "only the same kernel with blocks of 16 x 16 and 8 x 8 is not significantly slower"


def of_the_h100():
    yield f"coefficients of variation of up to {variation(table(f'{H100}/strategies/strategies')).max():.0%}"


def of_the_papers_experiment_on_the_h100():
    rounds = table(f"{H100}/paper/warnings").groupby("network")["round"].nunique()
    assert rounds.tolist() == [5] * 5
    yield "one run in each of five rounds"
    drifted = set()
    for name, column in (("speedup", "dataset"), ("neurons", "neurons"), ("depth", "network")):
        rows = table(f"{H100}/paper/{name}").assign(of=lambda rows, column=column: rows[column].astype(str))
        assert rows["machine"].str.contains("noisy").all()
        found = rows[rows["machine"].str.contains("drifted")]
        drifted |= set(zip(found["of"], found.get("strategy", [""] * len(found)), strict=True))
    on_medium = {("medium", name) for name in ("reference", "streams", "pinned", "combined", "preallocated")}
    assert drifted == {*on_medium, ("large", "streams"), ("128", ""), (WIDE, ""), (DEEP, "")}
    yield "The machine was noisy. In at least one round it drifted with each strategy on `medium`"
    yield "with `streams` on `large`, with 128 and 1024 neurons and with 256-1024-256"
    yield predictions(H100)


def of_the_cards_of_the_h100():
    """Rounds by card: both cells of a round's ratio ran on one card."""
    cards, rounds = {}, defaultdict(set)
    for record in records_in(f"{H100}/paper"):
        of_round = (record["cell"]["dataset"]["name"], network_of(record), record["round"])
        card = record["provenance"]["device_uuid"]
        assert cards.setdefault(of_round, card) == card
        rounds[card].add(of_round)
    *further, first = sorted(rounds, key=lambda card: len(rounds[card]))
    wide = {("large", WIDE, number) for number in (3, 4, 5)}
    deep = {("large", DEEP, number) for number in (2, 3, 4, 5)}
    assert len(further) == 2 and rounds[further[0]] | rounds[further[1]] == wide | deep
    assert not rounds[first] & wide
    yield "Rounds 3 to 5 with 1024 neurons and 2 to 5 with 256-1024-256 ran on two other cards"


def network_of(record):
    return "-".join(map(str, record["cell"]["network"].get("hidden", [])))


def of_cards_as_units():
    rows = table("cards")
    yield f"has the {len(rows)} rows that two cards or more of one model measured"
    yield f"In {rows['pairs_apart'].sum()} of {rows['pairs'].sum()} pairs of cards the two speedups differ"


def of_the_memory_of_peers():
    rows = table(f"{H200}/peers/peers_memory").astype({"network": str})
    (before,) = set(rows["before_bytes"] // MIB)
    yield f"which is {before + 1} MiB for CUDA and CuPy"
    of_256 = rows[rows["network"] == "256"].set_index("strategy")
    for name in ("torch_eager", "torch_graph", "jax_scan"):
        yield f"{of_256.loc[name, 'added_bytes'] / MIB:.0f} MiB with `{name}`"
    ours = ["graph", "persistent"]
    yield f"at most {of_256.loc[ours, 'most_added_bytes'].max() // MIB} MiB with `persistent` and `graph`"
    (peak,) = {f"{one / MIB:.1f}" for one in of_256.loc[ours, "peak_bytes"]}
    yield f"which allocate {peak} MiB"
    compiled = rows[rows["strategy"] == "torch_compile"]
    added = compiled["added_bytes"] / MIB
    yield f"takes {added.min():.0f} to {added.max():.0f} MiB in the median round"
    yield f"up to {compiled['most_added_bytes'].max() / MIB:.0f} MiB in another"
    deep = rows[rows["network"] == DEEP].set_index("strategy")["peak_bytes"] / MIB
    yield f"`persistent` allocates {deep['persistent']:.1f} MiB and `graph` {deep['graph']:.1f} MiB"
    cnn = table(f"{H200}/cnn/cnn_peers_memory", precision="fp32")
    taken = (cnn.groupby("strategy")["added_bytes"].first() / MIB).map("{:.0f} MiB".format)
    yield f"`graph` takes {taken['graph']}, `torch_eager` {taken['torch_eager']} and"
    yield f"`jax_scan` {taken['jax_scan']} in fp32"


def of_the_cards_of_the_peers():
    seconds = defaultdict(lambda: defaultdict(dict))
    for record in records_in(f"{H200}/peers"):
        if (name := record["cell"]["strategy"]["name"]) in ("persistent", "jax_scan"):
            runs = [run["seconds"] for run in record["runs"]]
            of_card = seconds[network_of(record), record["provenance"]["device_uuid"]]
            of_card[name][record["round"]] = sum(runs) / len(runs)
    for network in ("256", DEEP):
        ratios = []
        for (of, _), times in seconds.items():
            both = times["jax_scan"].keys() & times["persistent"].keys()
            if of == network and len(both) > 1:
                ratios.append(
                    sum(times["jax_scan"][n] for n in both) / sum(times["persistent"][n] for n in both)
                )
        yield "{:.2f} and {:.2f} times".format(*sorted(ratios))


def of_two_gpus():
    verdicts = table("devices_strategies")[[f"verdict {gpu}" for gpu in GPUS]]
    assert not [pair for pair in verdicts.to_numpy() if {"faster", "slower"} <= set(pair)]
    yield "No strategy is significantly faster than `reference` on one GPU and significantly slower on the"
    keys = ["strategy", "dataset", "kernel", "strategy.threads", "draws"]
    both = pd.merge(*(table(f"{device}/strategies/strategies") for device in FOLDERS), on=keys)
    assert len(both) > 20 and both["final_mse_x"].equals(both["final_mse_y"])
    yield "the final error in their two `strategies.csv` is the same to the last digit"


def verdicts(row):
    return [row[f"verdict {gpu}"] for gpu in GPUS]


def of_several_devices():
    rows = table("devices")
    combined = some(rows, strategy="combined", dataset="large").set_index("network")
    for network in ("128", "256", "256-256"):
        assert verdicts(combined.loc[network]) == ["faster"] * 2
        assert combined.loc[network, "published_speedup Tesla T4"] > 1.02
    yield "`combined` is faster on the H200, the H100 and the T4 with 128, 256 and 256-256 hidden neurons"
    wide = combined.loc[WIDE]
    assert verdicts(wide) == ["slower"] * 2 and wide["published_speedup Tesla T4"] < 0.98
    assert {wide[f"status {gpu}"] for gpu in GPUS} == {"diverged"}
    yield "With 1024, where the loss overflows, it is slower on all three"
    assert verdicts(combined.loc[DEEP]) == ["faster", "not significant"]
    yield "with 256-1024-256 it is faster on the H200 and not significantly different on the H100"
    cpu = {name: table(f"cpu-intel-r-xeon-r-processor/2-cores/{name}") for name in ("speedup", "strategies")}
    for column, of in ((f"verdict {CPU}", rows), *(("verdict", of) for of in cpu.values())):
        assert "faster" not in set(of.loc[of["strategy"].isin(["streams", "pinned", "combined"]), column])
    yield "none of the paper's strategies is faster than `reference`"
    slower = {
        strategy: {
            data: [
                name
                for name, of in cpu.items()
                if one(of, strategy=strategy, dataset=data)["verdict"] == "slower"
            ]
            for data in SIZES
        }
        for strategy in ("streams", "combined")
    }
    assert all(names == [*cpu] for names in slower["streams"].values())
    yield "`streams` is slower on all three data sets in both sweeps"
    assert slower["combined"] == {"small": ["speedup"], "medium": ["strategies"], "large": ["speedup"]}
    yield "`combined` is slower on `small` and `large` only in `dataset_size`"
    yield "and on `medium` only in `strategies`"
    for of in (rows, table("devices_strategies")):
        assert verdicts(one(of, strategy="streams", dataset="large")) == ["slower", "not significant"]
    yield "`streams` is slower there on the H200, in both of its sets, but not significantly on the H100"


def of_neighbours():
    rows = table(f"{H100}/neighbours/neighbours")
    assert set(some(rows, verdict="untouched")["strategy"]) == {"graph"}
    noisy = set(rows.loc[rows["machine"].str.contains("noisy"), "strategy"])
    assert noisy == set(rows["strategy"]) - {"graph"}
    within = f"{LIMITS['untouched']:.0%}"
    yield f"Only `graph` gets the verdict `untouched`: its intervals lie within {within} around 1."
    assert set(rows["verdict"]) == {"untouched", "not significant"}
    yield "The other rows are `not significant`"
    rows = table(f"{H200}/neighbours/neighbours")
    assert set(rows["rounds"]) == {5}
    yield "On two H200s, in five rounds as well"
    assert set(some(rows, verdict="untouched")["strategy"]) == {"graph"}
    yield "`graph` is again the only one that is `untouched`"
    assert set(rows["verdict"]) == {"untouched", "not significant"}
    yield "and all other rows are `not significant`."


def of_the_cnns_machine():
    loader = table(f"{H200}/cnn/cnn_loader").dropna(subset="mean_s")
    assert loader["machine"].str.contains("drifted").all()
    yield "In all rows of `cnn_loader` that were measured here"
    fp32, tf32 = (
        table(f"{H200}/cnn/cnn_peers", precision=name)["machine"].str.contains("drifted")
        for name in ("fp32", "tf32")
    )
    assert fp32.all() and (tf32.sum(), len(tf32)) == (2, 7)
    yield "in all fp32 rows of `cnn_peers` and two of its seven TF32 rows, the machine is `drifted`"


# ---- the paper's own statements

PARTS = (
    *("allocation_s", "host_allocation_s", "copy_in_s", "copy_out_s"),
    *("launch_s", "kernels_s", "host_arithmetic_s"),
)


def attribution(device, network, strategy="combined"):
    form = "neurons" if "-" not in network else "depth"
    rows = table(f"{device}/paper/attribution_{form}").astype({"network": str})
    return one(rows, strategy=strategy, network=network)


@cache
def records(name, strategy):
    """The records of a strategy with an instrumented pass."""
    found = records_in(name)
    return [one for one in found if one["cell"]["strategy"]["name"] == strategy and one["explanation"]]


def traced(device, call):
    """Microseconds of every call in the traced steps of ``combined`` on ``large``, by network and size."""
    found = defaultdict(lambda: defaultdict(list))
    for record in records(f"{device}/paper", "combined"):
        if record["cell"]["dataset"]["name"] == "large":
            trace = record["explanation"]["trace"]
            assert trace["steps"] == 2
            for event in trace["events"]:
                of = dict(zip(trace["columns"], event, strict=True))
                if of["call"] == call:
                    is_large = of["size"][0] >= MIB
                    found[network_of(record)][is_large].append(of["end_us"] - of["start_us"])
    assert set(found) == {"128", "256", WIDE, "256-256", DEEP}
    return found


def of_pinned_allocations():
    """Some allocations of 1 MiB are slow, and no other one is: 3 rounds of 2 steps in each network."""
    for device, text in (
        (H200, "take {} to {} µs; with 256-1024-256, two of seven take {} to {} µs"),
        (H100, "take {} to {} µs with 1,024 neurons, and two of seven {} to {} µs with 256-1024-256"),
    ):
        found = traced(device, "host_alloc")
        assert {network: len(of[True]) for network, of in found.items() if of[True]} == {
            WIDE: 3 * 6,
            DEEP: 7 * 6,
        }
        slow = [[us for us in found[network][True] if us > 200] for network in (WIDE, DEEP)]
        assert [*map(len, slow)] == [2 * 6] * 2
        yield text.format(*(f"{end(times):,.0f}" for times in slow for end in (min, max)))
        others = [us for of in found.values() for sizes in of.values() for us in sizes if us <= 200]
        yield f"very other allocation of pinned memory takes at most {max(others):.0f} µs"


def of_the_parts_of_combined():
    mine, other = (attribution(H200, WIDE, strategy) for strategy in ("combined", "reference"))
    longer = {part for part in PARTS if mine[part] > other[part]}
    assert longer == {"host_allocation_s", "launch_s", "kernels_s"}
    yield "Apart from that, only launches and waits for kernels take more time than in `reference`"
    yield f"the parts of `reference` would be {without_host_allocation(WIDE):.2f} times those of `combined`."
    of_deep = [attribution(H200, DEEP, strategy) for strategy in ("combined", "reference")]
    (share,) = {f"{row['kernels_s'] / row['attributed_s']:.0%}" for row in of_deep}
    yield f"waits for kernels are {share} of the parts of both"
    assert all(row["host_arithmetic_s"] == max(row[part] for part in PARTS) for row in of_deep)
    ratios = [without_host_allocation(network) for network in (DEEP, "256")]
    yield "{:.2f} times those of `combined`, against {:.2f} times with 256 neurons".format(*ratios)
    for network in (WIDE, DEEP):
        assert max(PARTS, key=attribution(H100, network).get) == "host_allocation_s"
    yield "allocating pinned host memory is again the largest part of `combined`"


def without_host_allocation(network):
    """The ratio of the other parts of both strategies."""
    reference, combined = (
        row["attributed_s"] - row["host_allocation_s"]
        for row in (attribution(H200, network, strategy) for strategy in ("reference", "combined"))
    )
    return reference / combined


def of_device_allocations():
    counts = {name: attribution(H200, "256", name)["mallocs"] for name in ("reference", "combined")}
    products = read_yaml(ROOT / "config/paper/datasets.yaml")["large"]["operations"]
    assert counts["reference"] == 3 * products
    yield f"The paper counts {products:,} pairs of allocation and free on `large`"
    yield f"so `reference` makes {counts['reference']:,} device allocations"
    assert counts["combined"] - products == 9
    yield f"`combined` still makes {counts['combined']:,}: one for each product, and nine"
    rows = table(f"{H200}/memory/memory_calls", kind="allocation", call="malloc")
    none, one_is = (some(rows[rows["bytes"] <= MIB], live=live)["median"] for live in (0, 1))
    yield f"cudaMalloc with cudaFree takes {none.min():.0f} to {none.max():.0f} µs if no other block is"
    yield f"and {one_is.min():.1f} to {one_is.max():.1f} µs if one is"
    yield f"4 MiB take {one(rows, bytes=4 * MIB, live=1)['median']:.1f} µs even then"


def of_device_allocations_with_1024_neurons():
    rows = [attribution(H200, WIDE, name) for name in ("combined", "reference")]
    means = [1e6 * row["allocation_s"] / row["mallocs"] for row in rows]
    yield "{:.1f} µs in `combined` and {:.1f} µs in `reference`".format(*means)
    found = traced(H200, "malloc")[WIDE]
    yield f"allocations of 1 MiB take {min(found[True]):.0f} to {max(found[True]):.0f} µs"
    yield f"all others at most {max(found[False]):.0f} µs"


def of_overlap():
    rows = table(f"{H200}/memory/memory_calls", kind="overlap", call="overlap").query("streams > 1")
    assert len(rows) == 5
    yield f"{rows['median'].min():.0%} to {rows['median'].max():.0%} of the shorter of the two is hidden"


def of_tiles():
    """The time breakdown of the tile sizes is in the records alone; the table has the counts."""
    rows = table(f"{H200}/sweeps/tile_rows", network=1024, strategy="combined")
    (blocks,) = set(rows["host_allocs"])
    yield f"`combined` allocates the same {blocks:,} pinned host blocks"
    at_256 = one(rows, **{"strategy.tile_rows": "256"})["launches"]
    assert at_256 == 1000 * (4 + 4)  # 10 batches, 100 epochs; one product of a step has four tiles
    yield "which leaves four of a step's five products with one tile"
    found = defaultdict(list)
    for name in ("combined", "reference"):
        for record in records(f"{H200}/sweeps", name):
            tile_rows = record["cell"]["strategy"].get("tile_rows")
            if network_of(record) == WIDE and (tile_rows or name == "reference"):
                seconds = record["explanation"]["attribution"]["seconds"]
                found[name, tile_rows].append(seconds["host_allocation"])
    assert {len(of) for of in found.values()} == {3} and len(found) == 6
    *mine, others = (sorted(of)[1] for of in found.values())
    yield f"{min(mine):.2f} to {max(mine):.2f} s of one training run on `medium`"
    yield f"`reference` spends {others:.2f} s on its host memory"


def of_tables_one_to_three():
    unknown = ("CUDA cores", "Memory bandwidth (GB/s)", "Compute capability", "Copy engines")
    measured = ("Memory (GB)", "Measured read bandwidth (GB/s)", "Multiprocessors", "L2 cache (MB)", "Driver")
    for device, gpu in zip(FOLDERS, GPUS, strict=True):
        rows = table(f"{device}/paper/gpu").set_index("parameter")
        assert rows["value"].isna().to_dict() == dict.fromkeys(unknown, True) | dict.fromkeys(measured, False)
        assert set(rows.index[rows["note"] == "not recorded"]) == set(unknown)
        rows = table(f"{device}/strategies/correctness")
        papers = rows[rows["paper_s"].notna()]
        assert len(papers) == 4 and set(papers["agreement"]) == {"agrees"}
        assert set(papers["paper_mse"]) == {41.192574} and len(set(papers["final_mse"])) == 1
        assert rows["device"].iloc[0] == gpu
    yield "those rows are marked `not recorded`"
    (five,) = set(table(f"{H200}/paper/correctness")["final_mse"])
    yield f"the mean over five draws is a different number, {five:.6f}"
    yield "`small` has ten runs, on both GPUs"


# ---- rounds, and where they ran


@cache
def rounds_of(name):
    """The place of each round, by sweep and cell: the card, or of a CPU the day."""
    places = defaultdict(dict)
    for entry in entries_of(f"{H200}/{name}"):
        where = entry.record["provenance"]
        place = where["device_uuid"] or where["started"][:10]
        places[published_set.name_as_written(entry)][entry.record["round"]] = place
    sweeps = archive.read_sweeps(PUBLISHED / H200 / name).items()
    return {sweep: {cell: places[cell] for cell in found["cells"]} for sweep, found in sweeps}


def on_cpu(cell):
    return cell.startswith("cpu-")


def of_the_papers_rounds():
    sweeps = rounds_of("paper")
    deepest = {cell: of for cell, of in sweeps["depth"].items() if f"/{DEEP}/" in cell}
    others = [of for cells in sweeps.values() for cell, of in cells.items() if cell not in deepest]
    (first,) = {card for of in others for card in of.values()}
    assert {len(of) for of in others} == {5}
    yield "one run in each of five rounds, six with 256-1024-256"
    (combined,) = (of for cell, of in deepest.items() if "combined" in cell)
    (reference,) = (of for cell, of in deepest.items() if "reference" in cell)
    second = combined[6]
    assert len(deepest) == 2 and second != first
    assert reference == dict.fromkeys(range(1, 6), first) | {6: second}
    assert combined == reference | {5: second}
    yield "The sixth, and the fifth of `combined`, ran on a second card"


def of_the_rounds_of_every_strategy():
    cells = {cell: of for sweep in rounds_of("strategies").values() for cell, of in sweep.items()}
    assert {len(of) for cell, of in cells.items() if not on_cpu(cell)} == {5}
    cpu = [of for cell, of in cells.items() if on_cpu(cell)]
    assert {len(of) for of in cpu} == {6}
    (day,) = {of[number] for of in cpu for number in (1, 2, 3, 4)}
    assert day not in {of[6] for of in cpu}
    assert len(cpu) / 2 < sum(of[5] != day for of in cpu) < len(cpu)
    yield "The rows of the CPU have six rounds, the sixth and most of the fifth on other hosts"


def of_the_rounds_of_tiles():
    cells = rounds_of("sweeps")["tile_rows"]
    (first,) = {of[number] for of in cells.values() for number in (1, 2, 3, 4)}
    (second,) = {of[6] for of in cells.values()}
    fifth = [of[5] for cell, of in cells.items() if of[5] != first and "/1024/" in cell]
    assert {len(of) for of in cells.values()} == {6} and second != first
    assert sum(of[5] != first for of in cells.values()) == len(fifth) == 7
    assert sorted(Counter(fifth).values()) == [2, 5] and fifth.count(second) == 5
    yield "the sixth on a second card, as the fifth of five cells with 1024 neurons"
    yield "and the fifth of two such cells on a third"


def of_the_rounds_of_remedies():
    cells = rounds_of("memory")["memory_remedies"]
    assert {len(of) for of in cells.values()} == {7}
    assert len({card for of in cells.values() for card in of.values()}) == 3
    yield "the sweep `memory_remedies`: seven rounds of three runs, on three cards"


def of_the_cnns_rounds():
    sweeps = rounds_of("cnn")
    counts = {name: {*map(len, cells.values())} for name, cells in sweeps.items()}
    assert min(map(min, counts.values())) == 5 and counts["cnn_block_size"] == {8}
    yield "Every sweep has at least five rounds, `cnn_block_size` eight"
    assert [len(of) for cell, of in sweeps["cnn_strategies"].items() if on_cpu(cell)] == [7, 7, 7]
    yield "The three CPU rows of `cnn_strategies` have seven rounds"
    programs = sweeps["cnn_programs"]
    own = {cell: rounds for cell, rounds in sweeps["cnn_block_size"].items() if cell not in programs}
    for cells, first in ((programs, 3), (own, 3), (sweeps["cnn_loader"], 3), (sweeps["cnn_strategies"], 4)):
        for rounds in cells.values():
            earlier, later = (
                {rounds[n] for n in rounds if (n < first) == is_early} for is_early in (True, False)
            )
            assert not earlier & later
    later = [{of[number] for of in cells.values() for number in (3, 4, 5)} for cells in (programs, own)]
    assert not later[0] & later[1]
    yield "Rounds from the third on of `cnn_programs`, `cnn_block_size` and `cnn_loader`"
    yield "and from the fourth on of `cnn_strategies` ran on other cards than the earlier ones"
    yield "rounds 3 to 5 of `cnn_block_size` on another than those of `cnn_programs`"
    for base in {cell for cell in sweeps["cnn_block_size"] if cell in programs}:
        assert all(sum(of[number] == programs[base][number] for number in of) == 5 for of in own.values())
    yield "Those of `cnn_block_size` are of five rounds"


def of_remedies_of_deep_networks():
    rows = table(f"{H200}/open_questions/memory_remedies")
    assert set(rows["draws"]) == {"1 to 3"} and set(rows["status"]) == {"diverged"}
    assert not set(rows["verdict"]) & {"faster", "slower"}
    for network, (whole, _, again, both) in rows.groupby(rows["network"].str.count("-") + 1)["peak_bytes"]:
        ratio = rows[(rows["network"].str.count("-") + 1 == network)]["time_ratio"].iloc[2]
        shares = f"{again / whole:.0%}", f"{both / whole:.0%}"
        if network == 24:
            yield f"a step peaks at {shares[0]} of the memory and takes {ratio:.2f} times as long"
            yield f"With four micro-batches as well it peaks at {shares[1]}"
        else:
            yield f"With {network} layers, of which every tenth keeps them, it peaks at {shares[0]}"
            yield f"and takes {ratio:.2f} times as long, and with micro-batches it peaks at {shares[1]}"
            saved = f"{1 - again / whole:.0%}"
            yield f'Recomputing alone saves up to {saved}, close to a guide\'s "up to 80%"'


def of_the_allocators_of_peers():
    rows = table(f"{H200}/open_questions/peers_memory").set_index("strategy")
    added = {name: f"{value / 2**20:.0f} MiB" for name, value in rows["added_bytes"].items()}
    yield f"with `persistent` adds {added['persistent']} of device memory to the process"
    yield f"with `graph` {added['graph']}"
    yield "`torch_eager` {torch_eager}, `torch_graph` {torch_graph} and `jax_scan` {jax_scan}".format(**added)
    held = rows.loc[["torch_eager", "torch_graph", "jax_scan"], "allocated_bytes"] / 2**20
    yield "hold at most {:.0f}, {:.0f} and {:.0f} MiB of it".format(*held)


def of_16_bits():
    rows = table(f"{H200}/memory_questions/memory_remedies").set_index(["kernel", "remedy"])
    assert not set(rows["verdict"]) & {"faster", "slower"}
    its = rows.loc["tiled_fused"]
    half, both = its.loc["bf16 activations"], its.loc["recompute 1-3-5, bf16 activations"]
    yield f"save {half['saved_fraction']:.0%} of the peak, and a step"
    assert half["saved_fraction"] == its.loc["fp16 activations", "saved_fraction"]
    yield f"{half['time_ratio']:.2f} times as long with BF16"
    yield f"{its.loc['fp16 activations', 'time_ratio']:.2f} times with FP16"
    yield f"they save {both['saved_fraction']:.0%}, at {both['time_ratio']:.2f} times"
    on_tensor_cores = rows.loc["tensor_core", "time_ratio"]
    yield f"takes {on_tensor_cores['bf16']:.2f} times as long as with `tiled_fused` in fp32"
    halved = on_tensor_cores["bf16 activations, bf16"]
    yield f"{halved:.2f} times if activations are in 16 bits too. None of these"
    peers = table(f"{H200}/memory_questions/peers")
    rows = peers.set_index(["strategy", "precision", "training.storage"]).sort_index()
    us = rows["step_us"]
    of_torch = us["torch_graph", "fp32", "fp32"], us["torch_graph", "fp32", "bf16"]
    yield "reduces a step from {:.0f} to {:.0f} µs".format(*of_torch)
    ours = rows.loc[("graph", "fp32", "bf16")]
    assert (ours["verdict"], ours["best_peer"]) == ("slower", "torch_graph")
    yield f"`graph` takes {ours['step_us']:.0f} µs, which is slower"
    assert pd.isna(rows.loc[("graph", "bf16", "fp32"), "verdict"])
    yield f"it takes {us['graph', 'bf16', 'fp32']:.0f} µs, which has no verdict"


def of_batch_sizes():
    rows = table(f"{H200}/memory_questions/batch_sizes").set_index(["storage", "batch_size"])
    ns, largest = rows.loc["fp32", "row_ns"], 8_388_608
    yield f"a row takes {ns[32] / 1000:.2f} µs in batches of 32, {ns[8192]:.0f} ns in batches of 8,192"
    yield f"{ns[largest]:.0f} ns in one of {largest:,}"
    peaks = [rows.loc[(held, largest), "peak_bytes"] / 2**30 for held in ("fp32", "bf16")]
    yield f"which peaks at {peaks[0]:.0f} GiB"
    of_half = rows.loc[("bf16", largest), "row_ns"]
    yield f"such a batch peaks at {peaks[1]:.0f} GiB, but a row takes {of_half:.0f} ns"
    (failed,) = rows.index[rows["status"] == "out_of_memory"]
    yield f"A batch of {failed[1]:,} rows runs out of memory"


def of_sizes_of_allocations():
    rows = table(f"{H200}/open_questions/allocation_size").query("kind == 'allocation'")
    of = rows.set_index(["call", "live", "bytes"])["median"].sort_index()
    small, large = 2**20, 2**22
    assert set(rows["samples"]) == {6, 12, 23, 29, 31}
    assert set(rows.query("live == 1")["knee_bytes"]) == {2 * 2**20}
    yield "`cudaMalloc` takes {:.1f} µs for 1 MiB and {:.0f} µs for 4 MiB".format(
        *of["malloc", 1][[small, large]]
    )
    yield f"takes {of['malloc', 0, small]:.0f} µs even for 1 MiB"
    yield f"{of['host_alloc', 1, small]:.1f} µs for 1 MiB, {of['host_alloc', 1, large]:.0f} µs for 4 MiB"
    yield f"another block {of['host_alloc', 0, small]:.0f} µs for 1 MiB"


def of_commits():
    """The commits of records; if one is not recorded, what their sources say of it."""
    commits, sources = defaultdict(Counter), defaultdict(set)
    for folder in published_sets.sets():
        name = published_sets.name_of(folder)
        found = microbenchmarks.of_devices(folder).values()
        if archive.has_cells(folder):
            found = chain(found, (entry.written for entry in entries_of(name)))
        for record in found:
            commit = (record["provenance"]["git"]["commit"] or "")[:7]
            commits[name][commit] += 1
            if commit == "9e7de56":
                assert record["name"] == "memory_access"
            sources[commit].add(record["provenance"]["source_hash"])
    usual = Counter(commit for of in commits.values() for commit in of).most_common(1)[0][0]
    others = {name: of for name, of in commits.items() if set(of) != {usual}}
    neighbours, cnn = (others.pop(name) for name in (f"{H100}/neighbours", f"{H200}/cnn"))
    assert {name: sorted(of, reverse=True) for name, of in others.items()} == {
        f"{H100}/paper": ["ad365fa"],
        f"{H100}/further_questions": ["d88d651", "426a915", "0ed7404"],
        f"{H200}/questions": ["ba760a0"],
        **{f"{H200}/{name}": ["3b63e89"] for name in ("several_gpus", "open_questions", "graphs")},
        f"{H200}/memory_questions": ["6e40dba", "3b63e89"],
        f"{H200}/paper_ten_rounds": ["908b53e"],
        f"{H200}/paper_fourth_card": ["7f091bc"],
        f"{H200}/memory": ["9e7de56", usual],
    }
    yield f"All records are of commit {usual}, except those of the H100's sets `paper` (ad365fa)"
    yield "and `further_questions` (426a915, 0ed7404 and d88d651)"
    yield "of the H200's sets `questions` (ba760a0)"
    yield "`open_questions`, `graphs` and `memory_questions` (3b63e89, of the last one also 6e40dba)"
    yield "`paper_ten_rounds` (908b53e), `paper_fourth_card` (7f091bc)"
    yield "and of the microbenchmark `memory_access` (9e7de56)"
    assert set(neighbours) == {""} and set(cnn) == {"", usual}
    yield "The records of the H100's set `neighbours`"
    yield f"and {cnn['']} of the {cnn.total()} of nvidia-h200/cnn hold no commit"
    assert sources[""] <= sources[usual]
    yield f"Their source hashes match those in records of {usual}"
