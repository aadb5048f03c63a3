"""The alternative texts of figures in README and docs/: each says what it shows, and what rows say."""

import re

import prose
import pytest
from published_tables import table

IMAGE = re.compile(r"!\[([^\]]*)\]\(\S*?results/published/([^)]*)\.\w+\)")
SHORTEST = 80
"""Characters: less is a title, and says nothing of what is seen."""


def texts():
    """The alternative texts of each published figure."""
    found = {}
    for page in prose.PAGES:
        for text, figure in IMAGE.findall(page.read_text(encoding="utf-8")):
            found.setdefault(figure.replace("/figures/", "/"), set()).add(text)
    return found


def all_are(rows, column="verdict", by="strategy", **named):
    """Whether all rows of these strategies, of which there are some, have the verdict that names them."""
    found = {verdict: rows[rows[by].astype(str).isin(names.split())] for verdict, names in named.items()}
    return all(len(of) > 0 and (of[column] == verdict).all() for verdict, of in found.items())


def ranking():
    """persistent, graph and resident are faster than reference on every data set, and managed is slower"""
    rows = table("nvidia-h200/strategies/strategies")
    return set(rows["dataset"]) == SIZES and all_are(
        rows, faster="persistent graph resident", slower="managed"
    )


def attribution():
    """device allocation is the longest part of reference, streams and pinned on every data set, and host
    arithmetic that of combined and preallocated"""
    rows = table("nvidia-h200/paper/attribution")
    own = ["attributed_s", "mean_s", "std_s", "predicted_s"]
    rows["longest"] = rows.filter(regex="_s$").drop(columns=own, errors="ignore").idxmax(axis=1)
    on_host = "combined preallocated"
    return all_are(rows, "longest", allocation_s="reference streams pinned", host_arithmetic_s=on_host)


def attribution_neurons():
    """with 1024, host allocation is the largest part of combined; with 128 and 256 it is not"""
    rows = parts_of_combined("neurons").idxmax(axis=1)
    return (rows == "host_allocation_s").to_dict() == {"128": False, "256": False, "1024": True}


def attribution_depth():
    """host allocation is a larger part of combined with 256-1024-256 than with 256 or 256-256"""
    rows = parts_of_combined("depth")
    shares = rows["host_allocation_s"] / rows.sum(axis=1)
    return len(shares) == 3 and shares.idxmax() == "256-1024-256"


def attribution_allocation():
    """host allocation is the largest part of combined with 1024, and combined_kept has none"""
    rows = table("nvidia-h200/questions/attribution_allocation").astype({"network": str})
    rows = rows.set_index(["strategy", "network"])
    parts = rows.filter(regex="_s$").drop(columns=["attributed_s", "mean_s", "std_s", "predicted_s"])
    is_largest = parts.loc["combined", "1024"].idxmax() == "host_allocation_s"
    return is_largest and (parts.loc["combined_kept", "host_allocation_s"] == 0).all()


def parts_of_combined(name):
    """The parts of a training run by network."""
    rows = table(f"nvidia-h200/paper/attribution_{name}").astype({"network": str}).set_index("network")
    rows = rows[rows["strategy"] == "combined"].filter(regex="_s$")
    return rows.drop(columns=["attributed_s", "mean_s", "std_s", "predicted_s"])


def cpu():
    """graph and resident on the GPU are faster than that core on every data set, and reference is slower"""
    rows = table("nvidia-h200/strategies/cpu")
    return all_are(rows, "verdict_over_sequential", faster="graph resident", slower="reference")


def kernels():
    """on small, resident with tiled_fused has a significant lead"""
    rows = table("nvidia-h200/sweeps/overview", dataset="small")
    first = rows["fastest"].str.startswith("resident (kernel tiled_fused")
    return len(rows) > 0 and first.all() and (rows["lead_verdict"] == "significant").all()


def peers():
    """for each of five networks persistent is faster than the best peer"""
    rows = table("nvidia-h200/peers/peers")
    return rows["network"].nunique() == 5 and all_are(rows, faster="persistent")


GPUS = ["verdict NVIDIA H200", "verdict NVIDIA H100 80GB HBM3"]


def devices_strategies():
    """none is faster on one of them and slower on the other"""
    rows = table("devices_strategies")[GPUS]
    return not any({"faster", "slower"} <= set(row) for row in rows.itertuples(index=False))


def devices():
    """on both GPUs that were measured, combined is faster with 256 neurons and slower with 1024"""
    rows = table("devices", strategy="combined")
    return all(all_are(rows, gpu, "network", faster="256", slower="1024") for gpu in GPUS)


def neighbours():
    """graph is untouched by both neighbours"""
    rows = table("nvidia-h100-80gb-hbm3/neighbours/neighbours")
    return rows["neighbour"].nunique() == 2 and all_are(rows, untouched="graph")


def launch_gain():
    """about 1.4 in the median of networks with two hidden layers and more, for shorter kernels and for longer
    ones, and more with one hidden layer"""
    rows = table("nvidia-h200/graphs/shapes").dropna(subset=["kernel_us", "speedup_over_best_graph"])
    deep = rows["hidden"].astype(str).str.contains("-")
    by_kernel = rows[deep].groupby(rows["kernel_us"] < rows.loc[deep, "kernel_us"].median())
    medians = by_kernel["speedup_over_best_graph"].median()
    more = rows.loc[~deep, "speedup_over_best_graph"].median()
    return medians.between(1.3, 1.5).all() and more > medians.max()


def cnn_peers():
    """graph is faster than the best peer, in fp32 and in TF32"""
    rows = table("nvidia-h200/cnn/cnn_peers")
    return all(all_are(rows[rows["precision"] == one], faster="graph") for one in ("fp32", "tf32"))


def cnn_cumulative_time():
    """every measured time on the H200 is below the published one of the same program on an RTX 6000"""
    rows = table("nvidia-h200/cnn/cnn_epochs").dropna(subset=["cumulative_s", "published_cumulative_s"])
    return len(rows) > 10 and (rows["cumulative_s"] < rows["published_cumulative_s"]).all()


SIZES = {"small", "medium", "large"}
CHECKS = (
    *(ranking, attribution, cpu, kernels, peers, devices_strategies, devices, neighbours),
    *(attribution_neurons, attribution_depth, attribution_allocation, cnn_peers, cnn_cumulative_time),
    launch_gain,
)
PLAIN = {"memory_calls", "cnn_loss", "timeline"}
"""Figures whose text says what is drawn, and nothing that a row could contradict."""


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_rows_say_what_the_text_says(check):
    (said,) = next(said for figure, said in texts().items() if figure.rpartition("/")[2] == check.__name__)
    assert said.partition(": ")[2] == " ".join(check.__doc__.split())
    assert check()


def test_every_figure_has_one_text_that_says_what_it_shows():
    found = texts()
    assert {figure.rpartition("/")[2] for figure in found} == {check.__name__ for check in CHECKS} | PLAIN
    for figure, said in found.items():
        assert len(said) == 1, (figure, said)
        assert len(min(said)) >= SHORTEST, (figure, said)
        assert "\n" not in min(said), figure  # the site would join the words around it
        assert (": " in min(said)) != (figure.rpartition("/")[2] in PLAIN), figure
