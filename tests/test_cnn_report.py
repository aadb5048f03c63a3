"""docs/explanation/cnn_report.md: what its text says follows from the code, the report and the tables."""

import re
from functools import cache
from math import ceil, log, prod
from pathlib import Path

import cnn_page
import pandas as pd
import pytest
from cnn_cells import published_values as published
from published_tables import one, records_in
from records_of import THRESHOLDS

from snn.config import groups
from snn.models.network import build

PAGE = cnn_page.PAGE.read_text(encoding="utf-8")
PROSE = " ".join(re.sub(r"<!-- made.*?end -->", "", PAGE, flags=re.DOTALL).split())
BATCH, CLASSES = 64, 10
DATA = ("mnist", "fashion")
records = cache(lambda: list(records_in("nvidia-h200/cnn")))


def network(name):
    return build(groups.load("network", name), (1, 28, 28))


def parameters(name):
    return [prod(parameter.shape) for parameter in network(name).parameters]


def million_operations():
    """Of a step of the naive and of the optimised program: 2 for each multiplication and addition."""
    conv1 = 2 * BATCH * 16 * 26 * 26 * 9
    conv2 = 2 * BATCH * 32 * 24 * 24 * 9 * 16
    linear = 2 * BATCH * 4608 * CLASSES
    forward = conv1 + conv2 + linear
    naive = forward + 2 * linear + 2 * conv2 + 2 * conv1  # the images' gradient, too
    optimised = forward + 2 * linear + (conv1 + conv2) / 32
    return round(naive / 1e6), round(optimised / 1e6)


def facts():
    (w1, b1, w2, b2, w3, b3), threads = parameters("cnn"), (128, 256, 512, 1024)
    naive, optimised = million_operations()
    blocks = [ceil((w2 + b2) / size) for size in threads]
    return [
        f"{sum(parameters('cnn')):,} parameters",
        f"{sum(parameters('cnn_pytorch')):,} parameters",
        f"five epochs of {60000 // BATCH} batches ({5 * (60000 // BATCH):,} steps)",
        f"The last {60000 % BATCH} training images",
        f"{10000 // BATCH * BATCH:,} test images",
        f"needs {BATCH * CLASSES} threads",
        f"a step of {0.01 * BATCH:g} along",
        f"its steps are {BATCH} times shorter than those along the gradient of the sum",
        "off the paths of the report's vector graphics, to 0.02 s and 0.0005 of the loss",
        f"16 x 16 x 16 = {16**3:,} threads",
        f"whose {w1 + b1} parameters keep",
        f"Of {w2:,} weights {w2 // 32} get such a sum, of {b2} biases {('none', 'one')[b2 // 32]}",
        f"Only the linear layer, {w3 + b3:,} parameters",
        f"is {naive:,} million floating-point operations",
        f"is {optimised} million",
        f"{w2 + b2:,} and {w1 + b1}, each with a loop",
        "{}, {}, {} and {} of the first kernel".format(*blocks),
        f"{5 * ceil(60000 / BATCH):,} steps of differently ordered sums",
        f"0.3 percentage points of the published one, {0.003 * 9984:.0f} of 9,984 images",
        "25 images and six classes of the 26th of each batch, in steps of 0.256",
        "ln 10 = 2.3026",
        f"{18 * 18 * 4:,} bytes for a tile of {16 + 3 - 1} x {16 + 3 - 1} floats",
        f"-ln 1e-10 = {-log(1e-10):.2f}",
    ]


@pytest.mark.parametrize("fact", facts())
def test_a_number_of_the_text_follows_from_the_code(fact):
    assert fact in PROSE


def test_what_was_read_in_the_code_follows_from_the_networks_where_it_can():
    """config/cnn_report/code.yaml, which claims are tested on."""
    read = {(row["what"], row["program"]): row for row in published("code")["rows"]}
    assert read["parameters", "cuda"]["value"] == sum(parameters("cnn"))
    assert read["parameters", "pytorch"]["value"] == sum(parameters("cnn_pytorch"))
    operations = "million floating-point operations in a step"
    counted = tuple(read[operations, program]["value"] for program in ("naive", "optimised"))
    assert counted == million_operations()
    _, _, weights, biases, _, _ = parameters("cnn")
    written = read["parameters of the second convolution whose gradient is written", "optimised"]
    assert (written["value"], written["of"]) == (weights // 32 + biases // 32, weights + biases)
    assert all(row["file"].startswith(("src/", "config.h")) for row in read.values())


def test_the_bandwidths_of_the_text_are_those_of_the_gpus():
    of = {row["gpu"]: row["bandwidth"] for row in published("gpus")["rows"]}
    assert f"the A40 has {of['A40']} GB/s, and the V100, the slowest of the three, {of['V100']} GB/s" in PROSE
    ada, quadro = of["RTX 6000 Ada"], of["Quadro RTX 6000"]
    assert f"A Quadro RTX 6000 has {quadro} GB/s and an RTX 6000 Ada {ada} GB/s" in PROSE
    for seconds in (published("cnn_programs")[data]["naive"]["seconds"] for data in DATA):
        assert seconds["a40"] < seconds["rtx6000"] < seconds["v100"]
    for rtx in (ada, quadro):  # faster is not wider, whichever card it was
        assert [of["A40"], rtx, of["V100"]] != sorted((of["A40"], rtx, of["V100"]), reverse=True)


def test_the_time_of_the_cpu_in_figure_1_is_no_row_of_mnist():
    curve = published("cnn_epochs")["curves"]["PyTorch on the CPU"]
    assert curve["dataset"] == "not stated" and f"ends at {curve['cumulative_s'][-1]:.0f} s" in PROSE
    loader = published("cnn_loader")
    of_cpu = {
        (data, row["workers"]): row["seconds"]
        for data in DATA
        for row in loader[data]["rows"]
        if row["backend"] == "cpu"
    }
    near = {key: time for key, time in of_cpu.items() if round(time) == curve["cumulative_s"][-1]}
    assert near == {("fashion", 8): 181.07} and "Table 2 has 181.07 s" in PROSE
    mnist = [time for (data, _), time in of_cpu.items() if data == "mnist"]
    assert f"take {min(mnist)} to {max(mnist)} s, and {of_cpu['mnist', 4]} s with four workers" in PROSE
    rows = measured("cnn_epochs")
    assert set(rows.loc[rows["program"] == "PyTorch on the CPU", "dataset"]) == {"not stated"}


def test_the_published_numbers_of_the_text_are_those_of_the_report():
    tests = {
        program: [
            time
            for data in DATA
            for time in published("cnn_programs")[data][program]["test_seconds"].values()
        ]
        for program in ("naive", "optimised")
    }
    for program, times in tests.items():
        assert f"{min(times):.2f} to {max(times):.2f} s with the {program}" in PROSE
    accuracies = [published("cnn_loader")[data]["accuracy"] for data in DATA]
    assert "published {:.2%} and {:.2%}".format(*accuracies) in PROSE
    of_gpu = [
        (row["workers"], row["seconds"])
        for data in DATA
        for row in published("cnn_loader")[data]["rows"]
        if row["backend"] == "cuda"
    ]
    steps = [1000 * seconds / (5 * ceil(60000 / BATCH)) for _, seconds in of_gpu]
    assert f"A step on the GPU takes {min(steps):.0f} to {max(steps):.0f} ms" in PROSE
    means = {n: sum(s for workers, s in of_gpu if workers == n) / 4 for n in (2, 4, 8)}
    assert means[4] / means[2] == pytest.approx(0.75, abs=0.03) and means[8] >= means[4]
    assert f"{published('cnn_block_size')['curves']['1024']['mean_loss'][-1]:g}" in PROSE
    assert THRESHOLDS["agrees_accuracy"] == 0.003


# ---- what the text says of what was measured


def measured(table):
    paths = [folder / f"tables/{table}.csv" for folder in cnn_page.FOLDERS]
    (path,) = filter(Path.exists, paths)
    return pd.read_csv(path)


def row_of(rows, program, data, gradient="exact", rate=0.25):
    return one(rows, program=program, dataset=data, gradient=gradient, learning_rate=rate)


def right_of(*which):
    """How many test images the first run of a program has right."""
    return round(row_of(*which)["accuracy"] * 9984)


def mean_of(*which):
    """The mean accuracy of a program over its runs and its standard deviation, in percent."""
    row = row_of(*which)
    return 100 * row["mean_accuracy"], 100 * row["accuracy_std"]


def test_the_programs_are_as_the_text_says():
    rows = measured("cnn_programs")
    published_order = rows["kernel"].eq("naive") & rows["gradient"].eq("as published")
    assert rows.loc[published_order, "images_apart"].tolist() == [0] * 4
    optimised = rows[rows["program"] == "optimised"]
    assert set(optimised["verdict"]) == {"faster"}
    exact, as_published = (optimised[optimised["gradient"] == name] for name in ("exact", "as published"))
    assert exact["speedup_ci_low"].min() > as_published["speedup_ci_high"].max()
    assert 1 / 6.5 < exact["step_us"].mean() / as_published["step_us"].mean() < 1 / 5
    assert "takes less than a fifth of the time" in PROSE
    naive, fused = (rows.loc[rows["program"] == name, "test_s"] for name in ("naive", "optimised"))
    assert naive.min() / fused.max() > 4.5 and naive.max() / fused.min() < 6.5
    assert "gets five to six times as fast" in PROSE


def test_the_loss_with_1e_10_in_the_logarithm_is_beside_the_row_that_has_none():
    (first,) = (
        record["runs"][0]["epochs"][0]["mean_loss"]
        for record in records()
        if record["cell"]["training"]["gradient"] == "published_naive"
        and record["cell"]["dataset"]["name"] == "fashion"
        and record["round"] == 1
    )
    assert f"mean loss is {first:.6f} here, and {first - 0.002202:.6f} with the 1e-10" in PROSE
    assert "by the same 0.0022" in PROSE and f"of {60000 // BATCH * BATCH:,} whose label" in PROSE


def test_the_accuracies_are_as_the_text_says():
    rows = measured("cnn_programs")
    images = {name: [right_of(rows, name, data) for data in DATA] for name in ("naive", "optimised")}
    fewer = [naive - optimised for naive, optimised in zip(*images.values(), strict=True)]
    assert fewer == [1, 18] and "one image of MNIST and 18 of Fashion-MNIST fewer right" in PROSE
    for data in DATA:
        exact = [right_of(rows, name, data) for name in ("naive", "optimised")]
        as_published = [right_of(rows, name, data, "as published", 0.01) for name in ("naive", "optimised")]
        assert min(exact) > max(as_published)
        summed = [right_of(rows, name, data, "exact", 0.01) for name in ("naive", "optimised")]
        assert max(summed) < 0.11 * 9984
    for gradient, rate in (("as published", 0.01), ("exact", 0.25)):
        for data in DATA:
            of_both = [mean_of(rows, name, data, gradient, rate) for name in ("naive", "optimised")]
            for mean, spread in of_both:
                assert f"{mean:.2f} ± {spread:.2f}%" in PROSE
            if gradient == "as published":  # the spread is more than what the published ones are apart
                (naive, wide), (optimised, _) = of_both
                assert (optimised > naive) == (data == "mnist") and wide > 35 / 99.84
    more = (rows["program"] == "naive") & (rows["dataset"] == "mnist") & (rows["runs"] != 5)
    assert set(rows.loc[more, "runs"]) == {8} and set(rows.loc[~more, "runs"]) == {5}
    assert "eight of the naive program on MNIST and five otherwise" in PROSE
    learned, _ = mean_of(rows, "naive", "fashion", "exact", 0.01)
    assert learned == pytest.approx((4 * 9.986 + 86.75) / 5, abs=0.05)
    assert f"learns on Fashion-MNIST, which gives its mean of {learned:.0f}%" in PROSE
    reordered = rows[(rows["program"] == "optimised") & (rows["gradient"] == "as published")]
    assert reordered.set_index("dataset")["images_apart"].to_dict() == {"mnist": 0, "fashion": -21}
    assert "same number of images right on MNIST, and 21 fewer on Fashion-MNIST" in PROSE
    means = {
        gradient: [mean_of(rows, name, "fashion", gradient, rate) for name in ("naive", "optimised")]
        for gradient, rate in (("as published", 0.01), ("exact", 0.25))
    }
    apart = {gradient: naive[0] - optimised[0] for gradient, (naive, optimised) in means.items()}
    assert 0.45 < apart["exact"] / apart["as published"] < 0.55 and "half of the difference" in PROSE
    assert apart["exact"] < min(spread for _, spread in means["exact"])
    exact, faulty = (
        [mean_of(rows, name, "mnist", gradient, rate)[0] for name in ("naive", "optimised")]
        for gradient, rate in (("exact", 0.25), ("as published", 0.01))
    )
    assert abs(exact[1] - exact[0]) < 0.05 * (faulty[1] - faulty[0])
    assert "almost nothing of the difference is left on MNIST" in PROSE


def test_another_order_of_summation_changes_what_the_text_says():
    of_draw = {}
    for record in records():
        cell = record["cell"]
        training, kernel = cell["training"], cell["kernel"]
        same = cell["dataset"]["rows"] == 60000 and kernel["block"] == [16, 16] and training["epochs"] == 5
        if same and kernel["name"] in ("naive", "fused") and training["gradient"] != "published_naive":
            case = [training[key] for key in ("gradient", "reduction", "learning_rate")]
            draw = (cell["dataset"]["name"], *case, record["round"])
            of_draw.setdefault(draw, {})[kernel["name"]] = record["runs"][0]["test_accuracy"]
    pairs = {draw: (of["naive"], of["fused"]) for draw, of in of_draw.items() if len(of) == 2}
    assert len(pairs) == 30
    points = {draw: 100 * abs(one - other) for draw, (one, other) in pairs.items()}
    learns = {draw for draw, both in pairs.items() if min(both) > 0.11}
    first = max(points[draw] for draw in learns if draw[-1] == 1)
    assert f"changes the accuracy by up to {first:.1f} percentage points: with" in PROSE
    assert f"up to {max(points[draw] for draw in learns):.1f} percentage points where both learn" in PROSE
    one_learns = [draw for draw, both in pairs.items() if min(both) < 0.11 < max(both)]
    assert [draw[2] for draw in one_learns] == ["sum"] and "in one draw whether the network learns" in PROSE


def three_digits(value):
    return f"{value:#.3g}".rstrip(".") if value < 999.5 else f"{value:.0f}"


def ratio(row, name):
    mean, low, high = (three_digits(row[name + end]) for end in ("", "_ci_low", "_ci_high"))
    return f"{mean} ({low} to {high})"


def test_the_cpu_is_beside_the_gpu_as_the_text_says():
    rows = measured("cnn_cpu")
    over = "speedup_over_fastest_cpu"
    assert set(rows["fastest_cpu"]) == {"threads (threads 8)"}
    assert set(rows["options"].dropna()) == {"threads 8"}
    on_gpu = rows[rows["ran_on"] == "device"].sort_values("mean_s").to_dict("records")
    first, last = on_gpu[0], on_gpu[-1]
    assert (first["strategy"], first["kernel"], last["strategy"]) == ("persistent", "convolution", "combined")
    naive = next(row for row in on_gpu if (row["strategy"], row["kernel"]) == ("synchronous", "naive"))
    assert f"the same GPU is {ratio(first, over)} times as fast with `persistent`" in PROSE
    assert f"{ratio(last, over)} times as fast with `combined`" in PROSE
    times = [
        {
            (row["workers"], row["backend"], row["pin_memory"]): row["seconds"]
            for row in published("cnn_loader")[data]["rows"]
        }
        for data in DATA
    ]
    ratios = [of[n, "cpu", None] / of[n, "cuda", True] for of in times for n in (2, 4, 8)]
    assert f"gives {ratio(naive, over)}. That this is between the report's {min(ratios):.1f} and" in PROSE
    assert f"and {max(ratios):.1f} proves nothing" in PROSE and min(ratios) < naive[over] < max(ratios)
    (loop,) = rows.loc[rows["strategy"] == "threads", "step_us"]
    operations = million_operations()[0] - 2 * BATCH * 16 * 26 * 26 * 9 / 1e6  # without the images' gradient
    assert f"at {loop / 1000:.1f} ms per step, or {operations / loop * 1000:.0f} GFLOP/s" in PROSE
    on_host = {"workspace", "preallocated", "pool", "async_pool", "managed", "managed_prefetch"}
    on_host |= {"reference", "streams", "pinned", "combined"}
    for row in on_gpu:
        if row["strategy"] in on_host:
            assert row[f"{over}_ci_high"] < 1
        else:
            assert row[f"{over}_ci_low"] > 1


def test_the_loader_is_as_the_text_says():
    rows = measured("cnn_loader").dropna(subset="mean_s")
    pinned = rows[rows["pin_memory"].astype(str) == "True"]
    other = rows[(rows["pin_memory"].astype(str) == "False") & (rows["workers"] > 2)]
    assert set(other["verdict"]) == {"not significant"} and set(pinned["verdict"]) == {"faster"}
    low, high = other["speedup_ci_low"].min(), other["speedup_ci_high"].max()
    assert f"no interval reaches beyond {low:#.3g} or {high:#.3g}" in PROSE
    low, high = pinned["speedup"].min(), pinned["speedup"].max()
    assert f"without it, {low:#.3g} to {high:#.3g} times as fast" in PROSE
    of_data = rows.groupby("dataset", sort=False)[["mean_accuracy", "accuracy_std"]].first()
    drawn = [f"{100 * mean:.2f} ± {100 * spread:.2f}%" for mean, spread in of_data.to_numpy()]
    assert "they are {} on MNIST and {} on Fashion-MNIST".format(*drawn) in PROSE
    assert f"A step of {rows['step_us'].min():,.0f} to {rows['step_us'].max():,.0f} µs" in PROSE
    beside = measured("cnn_peers")
    eager = one(beside, strategy="torch_eager", precision="fp32")
    low, high = eager["step_ci_low_us"], eager["step_ci_high_us"]
    assert f"eager PyTorch takes {eager['step_us']:.0f} µs ({low:.0f} to {high:,.0f}) per step" in PROSE
    of_graph = beside[(beside["strategy"] == "graph") & (beside["precision"] == "fp32")]
    assert f"`graph` {of_graph['step_us'].min():.0f} (table of conclusion 2" in PROSE


def test_the_block_sizes_are_as_the_text_says():
    epochs = measured("cnn_block_epochs")
    as_published = epochs[epochs["gradient"] == "as published"]
    assert len(as_published) == 4 * 5
    assert ((as_published["loss"] - as_published["published_loss"]).abs() <= 0.0005).all()
    assert "to within the 0.0005 to which they could be read" in PROSE
    exact = epochs[epochs["gradient"] == "exact"]
    assert set(exact.groupby("epoch")["loss"].nunique()) == {1}
    rows = measured("cnn_block_size").set_index(["gradient", "threads"])
    assert rows.loc["exact", "accuracy"].nunique() == 1
    assert rows.loc[("exact", 1024), "verdict"] == "slower"
    assert rows.loc[("as published", 1024), "accuracy"] < 0.11
    assert (
        rows.loc[("as published", 512), "accuracy"] > 0.9 > rows.loc[("as published", 512), "mean_accuracy"]
    )
    assert rows.loc[("as published", 128), "verdict"] == "slower"
    assert rows.loc["exact", "mean_accuracy"].nunique() == 1
    draws = [
        record["runs"][0]["test_accuracy"]
        for record in records()
        if record["cell"]["kernel"]["block"] == [32, 16]
    ]
    assert sorted(accuracy > 0.11 for accuracy in draws) == [False] * 4 + [True] * 4
    assert "from the published ones and three of the seven other draws" in PROSE and draws[0] > 0.11
