"""What docs/results.md says about the paper's own statements, from rows and from traces; as ``facts``."""

from functools import cache

from conftest import ROOT
from facts_of_results import GPUS
from published_tables import one, table

from snn.config.yaml_file import read_yaml
from snn.files.published_sets import PUBLISHED
from snn.records import archive

MIB = 1 << 20
H200, H100 = FOLDERS = ("nvidia-h200", "nvidia-h100-80gb-hbm3")
PARTS = (
    *("allocation_s", "host_allocation_s", "copy_in_s", "copy_out_s"),
    *("launch_s", "kernels_s", "host_arithmetic_s"),
)
WIDE, DEEP = "1024", "256-1024-256"


def attribution(device, network, strategy="combined"):
    form = "neurons" if "-" not in network else "depth"
    rows = table(f"{device}/paper/attribution_{form}").astype({"network": str})
    return one(rows, strategy=strategy, network=network)


@cache
def records(name, strategy):
    """The records of a strategy with an instrumented pass, on ``large`` in the paper's set."""
    found = archive.read_all(PUBLISHED / name).values()
    return [one for one in found if one["cell"]["strategy"]["name"] == strategy and one["explanation"]]


def traced(device, call):
    """Microseconds of every call in the traced steps of ``combined`` on ``large``, by network and size."""
    found = {}
    for record in records(f"{device}/paper", "combined"):
        if record["cell"]["dataset"]["name"] != "large":
            continue
        trace = record["explanation"]["trace"]
        assert trace["steps"] == 2
        network = "-".join(map(str, record["cell"]["network"]["hidden"]))
        for event in trace["events"]:
            of = dict(zip(trace["columns"], event, strict=True))
            if of["call"] == call:
                of_network = found.setdefault(network, {})
                of_network.setdefault(of["size"][0] >= MIB, []).append(of["end_us"] - of["start_us"])
    assert set(found) == {"128", "256", WIDE, "256-256", DEEP}
    return found


def of_pinned_allocations():
    """Some allocations of 1 MiB are slow, and no other one is: 3 rounds of 2 steps in each network."""
    for device, text in (
        (H200, "take {} to {} µs; with 256-1024-256, two of seven take {} to {} µs"),
        (H100, "take {} to {} µs with 1,024 neurons, and two of seven {} to {} µs with 256-1024-256"),
    ):
        found = traced(device, "host_alloc")
        assert all(True not in found[network] for network in ("128", "256", "256-256"))
        slow = {network: [us for us in found[network][True] if us > 200] for network in (WIDE, DEEP)}
        assert (len(found[WIDE][True]), len(found[DEEP][True])) == (3 * 6, 7 * 6)
        assert len(slow[WIDE]) == len(slow[DEEP]) == 2 * 6
        ends = [f"{end(slow[network]):,.0f}" for network in (WIDE, DEEP) for end in (min, max)]
        yield text.format(*ends)
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
        parts = {part: attribution(H100, network)[part] for part in PARTS}
        assert max(parts, key=parts.get) == "host_allocation_s"
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
    rows = table("nvidia-h200/memory/memory_calls")
    rows = rows[(rows["kind"] == "allocation") & (rows["call"] == "malloc")]
    none, one_is = (rows[(rows["bytes"] <= MIB) & (rows["live"] == live)]["median"] for live in (0, 1))
    yield f"cudaMalloc with cudaFree takes {none.min():.0f} to {none.max():.0f} µs if no other block is"
    yield f"and {one_is.min():.1f} to {one_is.max():.1f} µs if one is"
    (large,) = rows[(rows["bytes"] == 4 * MIB) & (rows["live"] == 1)]["median"]
    yield f"4 MiB take {large:.1f} µs even then"


def of_device_allocations_with_1024_neurons():
    mean = {
        name: 1e6 * row["allocation_s"] / row["mallocs"]
        for name in ("combined", "reference")
        for row in [attribution(H200, WIDE, name)]
    }
    yield f"{mean['combined']:.1f} µs in `combined` and {mean['reference']:.1f} µs in `reference`"
    found = traced(H200, "malloc")[WIDE]
    yield f"allocations of 1 MiB take {min(found[True]):.0f} to {max(found[True]):.0f} µs"
    yield f"all others at most {max(found[False]):.0f} µs"


def of_overlap():
    rows = table("nvidia-h200/memory/memory_calls")
    rows = rows[(rows["kind"] == "overlap") & (rows["call"] == "overlap") & (rows["streams"] > 1)]
    assert len(rows) == 5
    yield f"{rows['median'].min():.0%} to {rows['median'].max():.0%} of the shorter of the two is hidden"


def of_tiles():
    """The time breakdown of the tile sizes is in the records alone; the table has the counts."""
    rows = table("nvidia-h200/sweeps/tile_rows")
    rows = rows[(rows["network"] == 1024) & (rows["strategy"] == "combined")]
    (blocks,) = set(rows["host_allocs"])
    yield f"`combined` allocates the same {blocks:,} pinned host blocks"
    at_256 = one(rows, **{"strategy.tile_rows": "256"})["launches"]
    assert at_256 == 1000 * (4 + 4)  # 10 batches, 100 epochs; one product of a step has four tiles
    yield "which leaves four of a step's five products with one tile"
    found = {}
    for name in ("combined", "reference"):
        for record in records("nvidia-h200/sweeps", name):
            cell = record["cell"]
            if cell["network"].get("hidden") == [1024] and "tile_rows" in cell["strategy"] | {"tile_rows": 0}:
                of = found.setdefault((name, cell["strategy"].get("tile_rows")), [])
                of.append(record["explanation"]["attribution"]["seconds"]["host_allocation"])
    medians = {key: sorted(of)[len(of) // 2] for key, of in found.items()}
    assert {len(of) for of in found.values()} == {3} and len(medians) == 6
    mine = [value for (name, _), value in medians.items() if name == "combined"]
    yield f"{min(mine):.2f} to {max(mine):.2f} s of one training run on `medium`"
    yield f"`reference` spends {medians['reference', None]:.2f} s on its host memory"


def of_tables_one_to_three():
    for device in FOLDERS:
        rows = table(f"{device}/paper/gpu")
        unknown = rows["note"] == "not recorded"
        assert set(rows.loc[unknown, "parameter"]) == {
            *("CUDA cores", "Memory bandwidth (GB/s)", "Compute capability", "Copy engines")
        }
        assert set(rows.loc[~unknown, "parameter"]) == {
            *("Memory (GB)", "Measured read bandwidth (GB/s)", "Multiprocessors", "L2 cache (MB)", "Driver")
        }
        assert rows["value"].isna().equals(unknown)
    yield "those rows are marked `not recorded`"
    (five,) = set(table("nvidia-h200/paper/correctness")["final_mse"])
    yield f"the mean over five draws is a different number, {five:.6f}"
    for device in FOLDERS:
        rows = table(f"{device}/strategies/correctness")
        papers = rows[rows["paper_s"].notna()]
        assert len(papers) == 4 and set(papers["agreement"]) == {"agrees"}
        assert set(papers["paper_mse"]) == {41.192574} and len(set(papers["final_mse"])) == 1
    assert {table(f"{device}/strategies/correctness")["device"].iloc[0] for device in FOLDERS} == {*GPUS}
    yield "`small` has ten runs, on both GPUs"
