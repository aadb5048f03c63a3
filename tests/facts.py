"""What pages of the documentation say that follows from several rows, or from the configuration.

A fact is a function that yields parts of the text, after it has asserted what their words say.
"""

import math
from functools import cache

import facts_of_results as results
import pytest
from conftest import ROOT
from facts_of_results import LIMITS
from published_tables import one, table

from snn.analysis.intervals import Ratio
from snn.analysis.speedups import detectable
from snn.config.yaml_file import read_yaml
from snn.measurement import protocol as protocol_of_runs
from snn.measurement.student import LEVEL

PROTOCOLS = ("paper", "brief", "glance", "precise")


# ---- docs/explanation/reference_to_persistent.md


def of_the_floor():
    rows = table("nvidia-h200/strategies/strategies")
    row = one(rows, strategy="persistent", dataset="large")
    yield f"| *floor* | {row['fraction_of_limit'] * row['mean_s'] / 10_000 * 1e6:.2f} µs |"


def of_shapes():
    shapes = table("nvidia-h200/shapes/shapes")
    rows = shapes[shapes["status"] == "ok"]
    assert (rows["persistent_us_high"] < rows["graph_us_low"]).all()
    yield f"Of {len(shapes)}, an H200 trained {len(rows)} in one launch, all of them faster"
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
        three = (ratios.min(), ratios.median(), ratios.max())
        yield f"| {name} | {len(ratios)} | {' | '.join(f'{one:.{2 if one < 10 else 1}f}' for one in three)} |"
    peers = shapes.dropna(subset="best_peer_us")["speedup_over_best_peer"]
    ratios = peers.dropna()
    assert ratios.min() > 1
    yield f"JAX also trained {len(peers)} of them."
    span = f"{ratios.min():.2f} to {ratios.max():.1f}"
    yield f"It took {span} times as long for the {len(ratios)} that have a plan"
    yield f"{ratios.median():.1f} times in the median"


def of_the_gain():
    laws = table("nvidia-h200/shapes/launch_gain").astype({"hidden_layers": str}).set_index("hidden_layers")
    law = laws.loc["2-4"]
    form = f"{law['ratio']:.2f} t - {law['saved_us']:.2f}"
    ends = [f"{law[f'{name}_low']:.2f} to {law[f'{name}_high']:.2f}" for name in ("ratio", "saved_us")]
    yield f"takes {form} µs in one launch (95% intervals {', '.join(ends)})"
    shapes = f"90% of the {law['shapes']} shapes are within a factor of {law['within']:.2f} of it"
    yield f"the speedup is t / ({form}): {shapes}"
    yield f"to the next, {law['gap_us']:.2f} µs, and {1 - law['ratio']:.0%} of the kernel besides"
    assert law["gap_us"] == pytest.approx(law["saved_us"], rel=0.2)
    assert laws.loc["1", "speedup"] > laws.loc["2", "speedup"]
    yield f"(a factor of {laws.loc['1', 'within']:.2f})"


def of_the_fastest_graphs():
    rows = table("nvidia-h200/graphs/shapes")
    planned = rows[rows["status"] == "ok"]
    counts = rows["best_graph"].value_counts()
    named = "`graph_pdl` for {graph_pdl}, `graph` for {graph} and `graph_loop` for {graph_loop}"
    yield f"Of {len(rows)} of these shapes, the fastest graph was {named.format(**counts)}"
    laws = table("nvidia-h200/graphs/launch_gain").astype({"hidden_layers": str}).set_index("hidden_layers")
    law = laws.loc["2-4"]
    ratio, saved = ([law[f"{name}{end}"] for end in ("_low", "", "_high")] for name in ("ratio", "saved_us"))
    ends = f"{ratio[0]:.2f} to {ratio[2]:.2f}, {-saved[2]:.2f} to {-saved[0]:.2f}"
    yield f"takes {ratio[1]:.2f} t + {-saved[1]:.2f} µs in one launch (95% intervals {ends})"
    assert saved[0] < 0 < saved[2] and round(3 * (1 - ratio[1])) == 1
    yield "Its median is {:.2f} there, and {:.1f} with one hidden layer".format(
        *laws.loc[["2-4", "1"], "speedup"]
    )
    assert (planned["speedup_over_best_graph"] < 1).sum() == 1
    yield f"Of the {len(planned)} shapes with a plan, one took less time as a graph"


def of_the_convolutions():
    """Multiplications and additions of one image: forward, weights, and input where one is needed."""
    conv1, conv2, linear = 16 * 26 * 26 * 9, 32 * 24 * 24 * 9 * 16, 4608 * 10
    share = 3 * conv2 / (2 * conv1 + 3 * conv2 + 3 * linear)
    yield f"{share:.0%} of the arithmetic is in the second convolution"


# ---- docs/reference/kernels.md


def of_the_kernel_study():
    study = read_yaml(ROOT / "config/kernel_study/speedup.yaml")
    yield f'"{study["title"]}"'
    yield f"On an {study['device']} with CUDA {study['cuda']}"
    yield f"all three together are {study['full_over_baseline']} times as fast"
    yield f"| the study's, on a T4, as published | {study['full_over_baseline']} |"
    rows = table("nvidia-h200/networks/networks")
    assert set(rows.loc[rows["network"] == "1024", "status"]) == {"diverged"}
    assert set(rows.loc[rows["kernel"] == "naive", "verdict"]) == {"baseline"}


def of_single_techniques():
    rows = table("nvidia-h200/sweeps/kernel_gains", strategy="resident").astype({"network": str})
    for network, gaining in (("256", ["fused"]), ("256-1024-256", ["tiled", "pretransposed"])):
        of_network = rows[(rows["network"] == network) & (rows["kernel"] != "cublas")]
        faster = set(of_network.loc[of_network["verdict"] == "faster", "kernel"])
        assert faster == {*gaining, "tiled_fused"}
        assert set(of_network.loc[of_network["kernel"].isin(gaining), "verdict"]) == {"faster"}
        means = of_network.groupby(["dataset", "kernel"])["mean_s"].first().unstack()
        assert set(means.idxmin(axis=1)) == {"tiled_fused"}
    yield "only fusion is significantly faster alone"
    cnn = table("nvidia-h200/cnn/cnn_kernel_gains", strategy="resident").set_index("kernel")
    assert cnn["mean_s"].idxmin() == "tiled_fused"
    parts = ["forward_us", "dgrad_us", "weights_us"]
    deep = rows[rows["network"] == "256-1024-256"].set_index("kernel")
    for of_network, most in ((deep, "dgrad_us"), (cnn, "weights_us")):
        gains = of_network.loc["naive", parts] / of_network.loc["tiled_fused", parts]
        assert (gains > 1).all() and gains.astype(float).idxmax() == most
    yield "With `tiled_fused` every part takes less time"
    both = deep.loc["naive", "dgrad_us"] / deep.loc[["tiled", "pretransposed"], "dgrad_us"]
    assert (both > 2).all()


# ---- docs/explanation/protocol.md


def of_protocols():
    for name in PROTOCOLS:
        path = ROOT / f"config/protocol/{name}.yaml"
        protocol = read_yaml(path)
        row = f"| `{name}` | {protocol['rounds']} | {protocol['runs']} | {protocol['max_seconds']:g} s |"
        spreads = (math.sqrt(2) * noise for noise in (0.02, 0.05, 0.11))
        found = (Ratio(1.0, 1.0, 1.0, protocol["rounds"], spread) for spread in spreads)
        yield f"{row} {' | '.join(f'{detectable(one, LEVEL) - 1:.0%}' for one in found)} |"
    yield f"changes by no more than {protocol_of_runs._STEADY:.0%} between successive windows"
    exact = read_yaml(ROOT / "config/protocol/precise.yaml")["relative_error"]
    yield f"once the 95% interval of its mean is within {exact:.0%} of that mean"


def of_verdicts():
    yield f"whole interval is within {LIMITS['same']:.0%} of 1"
    yield f"may use {LIMITS['first_look']:.0%} of this chance"
    yield f"above {LIMITS['noisy']:.0%} of their mean"
    yield f"used over {LIMITS['other_cores']:.0%} of the CPU cores"
    yield f"took over {LIMITS['stolen_cores']:.0%} of the cores"
    yield f"rose or fell by more than a factor of {LIMITS['drifted']:g}"
    yield f"(and by more than {LIMITS['drifted_least_us']} µs)"
    yield f"more than {LIMITS['memory_full']:.0%} of the memory was in use"
    yield f"for {LIMITS['lasting_s']} s or longer"
    assert LIMITS["idle_drop"] == 0.5
    yield "below half of its usual value"
    yield f"over {LIMITS['irregular_power']:.0%} above or below"
    yield f"mean relative difference is within {LIMITS['converges']:.0%}"


def of_two_thresholds():
    yield f"wider than a factor of {LIMITS['wide']}"
    yield f"too few rounds to find a difference of {LIMITS['tell_apart']:.0%}"


def of_the_bound_of_predictions():
    yield f"a factor of {LIMITS['predicts']:g} (`predicts` in"


def of_the_warning():
    yield f"over {LIMITS['memory_full']:.0%} of the device memory was in use"


def of_same():
    yield f"more than {LIMITS['same']:.0%} from 1"


def of_untouched():
    yield f"lies within {LIMITS['untouched']:.0%} around 1"


def of_glance():
    seconds = read_yaml(ROOT / "config/protocol/glance.yaml")["max_seconds"]
    yield f"stops after about {seconds:g} s of timed runs per cell"


FACTS = {
    "results.md": [fact for name, fact in vars(results).items() if name.startswith("of_")],
    "reference/kernels.md": [of_the_kernel_study, of_single_techniques],
    "explanation/reference_to_persistent.md": [
        of_the_floor,
        of_shapes,
        of_the_gain,
        of_the_fastest_graphs,
        of_the_convolutions,
    ],
    "explanation/protocol.md": [of_protocols, of_verdicts],
    "explanation/attribution.md": [of_the_bound_of_predictions, of_the_warning],
    "howto/compare_machines.md": [of_same],
    "howto/more_rounds.md": [of_two_thresholds],
    "howto/several_gpus.md": [of_untouched],
    "troubleshooting.md": [of_glance],
}  # fmt: skip


@cache
def facts_of(page):
    """The facts of a page of docs/."""
    return [fact for of in FACTS.get(page, ()) for fact in of()]
