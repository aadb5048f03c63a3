"""docs/explanation/cnn_report.md: what its text says follows from the code, the report and the tables."""

import re
from functools import cache
from math import ceil, log, prod
from pathlib import Path
from statistics import median

import cnn_page
import pandas as pd
import pytest
from cnn_cells import published_values as published
from published_tables import one, records_in, some, table
from records_of import THRESHOLDS

from snn.config import groups
from snn.models.network import build

PAGE = cnn_page.PAGE.read_text(encoding="utf-8")
PROSE = " ".join(re.sub(r"<!-- made.*?end -->", "", PAGE, flags=re.DOTALL).split())
BATCH, CLASSES = 64, 10
FURTHER = "nvidia-h100-80gb-hbm3/further_questions"
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


def says(*texts):
    """The page has each of these."""
    for text in texts:
        assert text in PROSE


def test_the_numbers_of_the_text_follow_from_the_code():
    says(*facts())


def loaders(backend):
    """Seconds of the report's PyTorch program by data set, workers and pinned memory."""
    found = published("cnn_loader")
    return {
        (data, row["workers"], row["pin_memory"]): row["seconds"]
        for data in DATA
        for row in found[data]["rows"]
        if row["backend"] == backend
    }


def test_the_bandwidths_of_the_text_are_those_of_the_gpus():
    of = {row["gpu"]: row["bandwidth"] for row in published("gpus")["rows"]}
    ada, quadro = of["RTX 6000 Ada"], of["Quadro RTX 6000"]
    says(
        f"the A40 has {of['A40']} GB/s, and the V100, the slowest of the three, {of['V100']} GB/s",
        f"A Quadro RTX 6000 has {quadro} GB/s and an RTX 6000 Ada {ada} GB/s",
    )
    for seconds in (published("cnn_programs")[data]["naive"]["seconds"] for data in DATA):
        assert seconds["a40"] < seconds["rtx6000"] < seconds["v100"]
    for rtx in (ada, quadro):  # faster is not wider, whichever card it was
        assert [of["A40"], rtx, of["V100"]] != sorted((of["A40"], rtx, of["V100"]), reverse=True)


def test_the_time_of_the_cpu_in_figure_1_is_no_row_of_mnist():
    curve = published("cnn_epochs")["curves"]["PyTorch on the CPU"]
    end, of_cpu = curve["cumulative_s"][-1], loaders("cpu")
    mnist = [time for (data, *_), time in of_cpu.items() if data == "mnist"]
    assert curve["dataset"] == "not stated"
    assert {key[:2]: time for key, time in of_cpu.items() if round(time) == end} == {("fashion", 8): 181.07}
    says(f"ends at {end:.0f} s", "Table 2 has 181.07 s")
    says(f"take {min(mnist)} to {max(mnist)} s, and {of_cpu['mnist', 4, None]} s with four workers")
    rows = measured("cnn_epochs")
    assert set(rows.loc[rows["program"] == "PyTorch on the CPU", "dataset"]) == {"not stated"}


def test_the_published_numbers_of_the_text_are_those_of_the_report():
    programs = published("cnn_programs")
    for program in ("naive", "optimised"):
        times = [time for data in DATA for time in programs[data][program]["test_seconds"].values()]
        says(f"{min(times):.2f} to {max(times):.2f} s with the {program}")
    says("published {:.2%} and {:.2%}".format(*(published("cnn_loader")[data]["accuracy"] for data in DATA)))
    of_gpu = loaders("cuda")
    steps = [1000 * seconds / (5 * ceil(60000 / BATCH)) for seconds in of_gpu.values()]
    says(f"A step on the GPU takes {min(steps):.0f} to {max(steps):.0f} ms")
    means = {n: sum(s for (_, workers, _), s in of_gpu.items() if workers == n) / 4 for n in (2, 4, 8)}
    assert means[4] / means[2] == pytest.approx(0.75, abs=0.03) and means[8] >= means[4]
    says(f"{published('cnn_block_size')['curves']['1024']['mean_loss'][-1]:g}")
    assert THRESHOLDS["agrees_accuracy"] == 0.003


# ---- what the text says of what was measured


AS_PUBLISHED, EXACT = ("as published", 0.01), ("exact", 0.25)


def measured(name):
    (path,) = filter(Path.exists, [folder / f"tables/{name}.csv" for folder in cnn_page.FOLDERS])
    return pd.read_csv(path)


def of_programs(column, data, how=EXACT):
    """A column of the naive and of the optimised program."""
    rows = some(measured("cnn_programs"), dataset=data, gradient=how[0], learning_rate=how[1])
    return [one(rows, program=name)[column] for name in ("naive", "optimised")]


def right(data, how=EXACT):
    """How many test images the first runs of the two programs have right."""
    return [round(accuracy * 9984) for accuracy in of_programs("accuracy", data, how)]


def test_the_programs_are_as_the_text_says():
    rows = measured("cnn_programs")
    published_order = rows["kernel"].eq("naive") & rows["gradient"].eq("as published")
    assert rows.loc[published_order, "images_apart"].tolist() == [0] * 4
    optimised = some(rows, program="optimised")
    assert set(optimised["verdict"]) == {"faster"}
    exact, as_published = (some(optimised, gradient=name) for name in ("exact", "as published"))
    assert exact["speedup_ci_low"].min() > as_published["speedup_ci_high"].max()
    assert 1 / 6.5 < exact["step_us"].mean() / as_published["step_us"].mean() < 1 / 5
    naive, fused = some(rows, program="naive")["test_s"], optimised["test_s"]
    assert naive.min() / fused.max() > 4.5 and naive.max() / fused.min() < 6.5
    says("takes less than a fifth of the time", "gets five to six times as fast")
    (first,) = (
        record["runs"][0]["epochs"][0]["mean_loss"]
        for record in records()
        if record["cell"]["training"]["gradient"] == "published_naive"
        and record["cell"]["dataset"]["name"] == "fashion"
        and record["round"] == 1
    )
    says(f"mean loss is {first:.6f} here, and {first - 0.002202:.6f} with the 1e-10", "by the same 0.0022")
    says(f"of {60000 // BATCH * BATCH:,} whose label")


def test_the_accuracies_are_as_the_text_says():
    rows = measured("cnn_programs")
    fewer = [naive - optimised for naive, optimised in map(right, DATA)]
    assert fewer == [1, 18]
    says("one image of MNIST and 18 of Fashion-MNIST fewer right")
    means = {}
    for data in DATA:
        assert min(right(data)) > max(right(data, AS_PUBLISHED))
        assert max(right(data, ("exact", 0.01))) < 0.11 * 9984
        for how in (AS_PUBLISHED, EXACT):
            both = (of_programs(column, data, how) for column in ("mean_accuracy", "accuracy_std"))
            means[data, how], spreads = ([100 * value for value in values] for values in both)
            for mean, spread in zip(means[data, how], spreads, strict=True):
                says(f"{mean:.2f} ± {spread:.2f}%")
            naive, optimised = means[data, how]
            if how == AS_PUBLISHED:  # the spread is more than what the published ones are apart
                assert (optimised > naive) == (data == "mnist") and spreads[0] > 35 / 99.84
            elif data == "fashion":
                assert naive - optimised < min(spreads)
    more = (rows["program"] == "naive") & (rows["dataset"] == "mnist") & (rows["runs"] != 5)
    assert set(rows.loc[more, "runs"]) == {8} and set(rows.loc[~more, "runs"]) == {5}
    says("eight of the naive program on MNIST and five otherwise")
    learned = 100 * of_programs("mean_accuracy", "fashion", ("exact", 0.01))[0]
    assert learned == pytest.approx((4 * 9.986 + 86.75) / 5, abs=0.05)
    says(f"learns on Fashion-MNIST, which gives its mean of {learned:.0f}%")
    reordered = some(rows, program="optimised", gradient="as published")
    assert reordered.set_index("dataset")["images_apart"].to_dict() == {"mnist": 0, "fashion": -21}
    says("same number of images right on MNIST, and 21 fewer on Fashion-MNIST")
    apart = {key: naive - optimised for key, (naive, optimised) in means.items()}
    assert 0.45 < apart["fashion", EXACT] / apart["fashion", AS_PUBLISHED] < 0.55
    assert abs(apart["mnist", EXACT]) < -0.05 * apart["mnist", AS_PUBLISHED]
    says("half of the difference", "almost nothing of the difference is left on MNIST")


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
    pairs = {draw: tuple(of.values()) for draw, of in of_draw.items() if len(of) == 2}
    assert len(pairs) == 30
    points = {draw: 100 * abs(a - b) for draw, (a, b) in pairs.items() if min(a, b) > 0.11}
    first = max(apart for draw, apart in points.items() if draw[-1] == 1)
    says(
        f"changes the accuracy by up to {first:.1f} percentage points: with",
        f"up to {max(points.values()):.1f} percentage points where both learn",
        "in one draw whether the network learns",
    )
    assert [draw[2] for draw, both in pairs.items() if min(both) < 0.11 < max(both)] == ["sum"]


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
    on_gpu = some(rows, ran_on="device").sort_values("mean_s")
    first, last = (on_gpu.iloc[i] for i in (0, -1))
    assert [first["strategy"], first["kernel"], last["strategy"]] == ["persistent", "convolution", "combined"]
    naive = one(on_gpu, strategy="synchronous", kernel="naive")
    on_gpu_times, on_cpu_times = loaders("cuda"), loaders("cpu")
    ratios = [on_cpu_times[data, n, None] / on_gpu_times[data, n, True] for data in DATA for n in (2, 4, 8)]
    assert min(ratios) < naive[over] < max(ratios)
    (loop,) = rows.loc[rows["strategy"] == "threads", "step_us"]
    operations = million_operations()[0] - 2 * BATCH * 16 * 26 * 26 * 9 / 1e6  # without the images' gradient
    says(
        f"the same GPU is {ratio(first, over)} times as fast with `persistent`",
        f"{ratio(last, over)} times as fast with `combined`",
        f"gives {ratio(naive, over)}. That this is between the report's {min(ratios):.1f} and",
        f"and {max(ratios):.1f} proves nothing",
        f"at {loop / 1000:.1f} ms per step, or {operations / loop * 1000:.0f} GFLOP/s",
    )
    on_host = {"workspace", "preallocated", "pool", "async_pool", "managed", "managed_prefetch"}
    is_slower = on_gpu["strategy"].isin(on_host | {"reference", "streams", "pinned", "combined"})
    assert (on_gpu.loc[is_slower, f"{over}_ci_high"] < 1).all()
    assert (on_gpu.loc[~is_slower, f"{over}_ci_low"] > 1).all()


def test_the_loader_is_as_the_text_says():
    rows = measured("cnn_loader").dropna(subset="mean_s")
    is_pinned = rows["pin_memory"].astype(str) == "True"
    pinned, other = rows[is_pinned], rows[~is_pinned & (rows["workers"] > 2)]
    assert set(other["verdict"]) == {"not significant"} and set(pinned["verdict"]) == {"faster"}
    low, high = other["speedup_ci_low"].min(), other["speedup_ci_high"].max()
    says(f"no interval reaches beyond {low:#.3g} or {high:#.3g}")
    low, high = pinned["speedup"].min(), pinned["speedup"].max()
    says(f"without it, {low:#.3g} to {high:#.3g} times as fast")
    of_data = rows.groupby("dataset", sort=False)[["mean_accuracy", "accuracy_std"]].first()
    drawn = [f"{100 * mean:.2f} ± {100 * spread:.2f}%" for mean, spread in of_data.to_numpy()]
    says("they are {} on MNIST and {} on Fashion-MNIST".format(*drawn))
    says(f"A step of {rows['step_us'].min():,.0f} to {rows['step_us'].max():,.0f} µs")
    beside = some(measured("cnn_peers"), precision="fp32")
    eager = one(beside, strategy="torch_eager")
    low, high = eager["step_ci_low_us"], eager["step_ci_high_us"]
    says(f"eager PyTorch takes {eager['step_us']:.0f} µs ({low:.0f} to {high:,.0f}) per step")
    says(f"`graph` {some(beside, strategy='graph')['step_us'].min():.0f} (table of conclusion 2")


def test_pytorch_on_both_devices_is_as_the_text_says():
    rows = table(f"{FURTHER}/cnn_conclusions")
    of_strategy = {(row["strategy"], row["backend"]): row for row in rows.to_dict("records")}
    on_cpu, on_gpu = ("torch_loader", "cpu"), ("torch_loader", "cuda")
    naive, optimised = ("synchronous", "cuda"), ("pipelined", "cuda")
    run = {}
    for record in records_in(FURTHER):
        cell = record["cell"]
        key = cell["strategy"]["name"], cell["device"]["backend"]
        is_other = cell["training"]["epochs"] != 5 or (key == optimised and cell["kernel"]["name"] != "fused")
        if key in of_strategy and not is_other:
            (run[*key, record["round"]],) = record["runs"]
    assert len(run) == 8

    def times(a, b):
        """The ratio of the mean times, then that of each round."""
        means = of_strategy[a]["mean_s"] / of_strategy[b]["mean_s"]
        rounds = [run[*a, i]["seconds"] / run[*b, i]["seconds"] for i in (1, 2)]
        return list(map(three_digits, (means, *rounds)))

    cpu_gpu, cpu_optimised = times(on_cpu, on_gpu), times(on_cpu, optimised)
    of_gpu, of_cpu = loaders("cuda"), loaders("cpu")
    ratios = [of_cpu[data, n, None] / of_gpu[data, n, True] for data in DATA for n in (2, 4, 8)]
    (busy,) = some(table(f"{FURTHER}/warnings"), backend="cpu")["median_utilisation"].round().unique()
    seconds = {key: row["mean_s"] for key, row in of_strategy.items()}
    says(
        "{} times as fast as the CPU with PyTorch, in the two rounds {} and {} times".format(*cpu_gpu),
        f"less than the report's {min(ratios):.1f} to {max(ratios):.1f}",
        f"an Intel Xeon, has 16 cores, {busy:.0f}% busy",
        f"program is {times(on_cpu, naive)[0]} times as fast as PyTorch on the CPU, and slower than PyTorch",
        "{} times as fast as PyTorch on the CPU, {} and {} in the two rounds".format(*cpu_optimised),
        f"and {times(naive, optimised)[0]} times as fast as the naive one",
        f"it saves the most time, {seconds[on_cpu] - seconds[on_gpu]:.0f} s",
        f"saves {seconds[naive] - seconds[optimised]:.0f} s compared",
    )
    assert seconds[optimised] < seconds[on_gpu] < seconds[naive]
    machines = [of_strategy[key]["machine"] for key in (on_cpu, on_gpu, naive, optimised)]
    assert machines == ["drifted, noisy", "drifted, noisy", "drifted", "quiet"]
    assert rows["speedup_ci_low"].dropna().tolist() == [1]  # the baseline's
    same, apart = ([round(10000 * run[*key, i]["test_accuracy"]) for key in (on_cpu, on_gpu)] for i in (1, 2))
    assert same[0] == same[1]
    says(
        f"the same {same[0]:,} of 10,000 images right in one, and {apart[0]:,} and {apart[1]:,} in the other"
    )


def of_five_draws(layers, init="kaiming_uniform", rate=0.25):
    """Accuracies of the rounds of a cell of cnn_networks, in their order."""
    of_round = {}
    for record in records_in(FURTHER):
        cell = record["cell"]
        found = cell["network"].get("layers"), cell["network"]["init"], cell["training"]["learning_rate"]
        if found == (layers, init, rate) and not cell["training"]["drop_last"]:
            (run,) = record["runs"]
            of_round[record["round"]] = run["test_accuracy"]
    assert sorted(of_round) == [1, 2, 3, 4, 5]
    return [of_round[number] for number in range(1, 6)]


def test_what_lowers_pytorchs_accuracy_is_as_the_text_says():
    without = ["conv2d 16 3 1", "relu", "conv2d 32 3 1", "relu", "maxpool2d 2", "linear 10"]
    capped, free = of_five_draws([*without, "relu"], rate=0.01), of_five_draws(without, rate=0.01)
    lost = [100 * (one - other) for one, other in zip(free, capped, strict=True)]
    says(
        f"in each of the five draws, by {min(lost):.1f} to {max(lost):.1f} percentage points",
        f"the draws end between {min(capped):.1%} and {max(capped):.1%}",
        f"without it between {min(free):.1%} and {max(free):.1%}",
    )
    assert min(lost) > 0 and set(of_five_draws(without, rate=0.64)) == {0.1}


def test_other_networks_are_as_the_text_says():
    def learning(layers, **of):
        return sum(accuracy > 0.11 for accuracy in of_five_draws(layers, **of))

    own = ["conv2d 16 3", "relu", "conv2d 32 3", "relu", "maxpool2d 2", "linear 10"]
    assert learning(own, init="pytorch") == 4
    says("from one of PyTorch's five draws the network does not learn")
    assert learning(["conv2d 16 3", "relu"] * 2 + own) == 1
    says("with ReLU, which learns from one of five draws only")
    assert learning([layer.replace("relu", "sigmoid") for layer in ["conv2d 16 3", "relu"] * 2 + own]) == 5
    says("learns with sigmoid from all five draws")
    assert learning(own) == 5 and learning([layer for layer in own if "pool" not in layer]) == 3
    says("because two of five draws do not learn")
    (tanh,) = some(table(f"{FURTHER}/cnn_networks"), status="diverged")["network"]
    assert tanh == "conv16x3-tanh-conv32x3-tanh-maxpool2-linear10"
    says("with tanh training diverges")


def test_other_sizes_are_as_the_text_says():
    rows = table(f"{FURTHER}/cnn_sizes").set_index(["strategy", "training.batch_size", "dataset.rows"])
    gains = (rows["mean_s"]["synchronous"] / rows["mean_s"]["pipelined"]).map(three_digits)
    assert len(gains) == 4
    says(
        f"{gains[64, 60000]} times as fast as the naive one on 60,000 images and {gains[64, 15000]} times on",
        f"batches of 16 it is {gains[16, 60000]} and with 256 it is {gains[256, 60000]} times as fast",
    )


def test_workers_are_as_the_text_says():
    rows = table(f"{FURTHER}/cnn_workers")
    rounds, busy = {}, {"none": [], "some": []}
    for record in records_in(FURTHER):
        strategy = record["cell"]["strategy"]
        if strategy["name"] == "torch_loader" and record["cell"]["training"]["epochs"] == 1:
            key = strategy["workers"], strategy["pin_memory"], record["cell"]["device"]["backend"]
            rounds.setdefault(key, {})[record["round"]] = record["runs"][0]["seconds"]
            columns = record["machine"]["samples"]["columns"]
            timed = zip(columns["utilisation"], columns["timed"], strict=True)
            if key[2] == "cuda":
                busy["some" if strategy["workers"] else "none"].append(
                    median(of for of, is_timed in timed if is_timed)
                )
    several = {key: times for key, times in rounds.items() if len(times) > 1}
    assert len(rounds) == 11 and set(several) == {(n, True, "cuda") for n in (2, 4, 8)} | {
        (16, False, "cuda")
    }
    apart = max(max(times.values()) / min(times.values()) - 1 for times in several.values())
    says(f"two rounds, which differ by up to {apart:.0%}")
    assert not set(rows["verdict"]) & {"faster", "slower"}
    on_gpu, on_cpu = some(rows, backend="cuda"), some(rows, backend="cpu")["mean_s"]
    mean = on_gpu.set_index(["strategy.workers", "strategy.pin_memory"])["mean_s"].sort_index()
    says(f"at most {mean.drop(0).xs(False, level=1).max() / mean[0, False]:.0%} of the time without")
    assert len(busy["none"]) == 1
    says(f"busy for {busy['none'][0]:.0f}% of the time without workers")
    says(f"is busy for {min(busy['some']):.0f}% to {ceil(max(busy['some']))}% with them")
    two, four = rounds[2, True, "cuda"], rounds[4, True, "cuda"]
    low, high = sorted(1 - four[number] / two[number] for number in (1, 2))
    says(f"four workers take {low:.0%} to {high:.0%} less time than two, in each round")
    fastest = mean.min()
    says(f"is {three_digits(on_cpu.min() / fastest)} times as fast as the fastest on the CPU")
    says(f"and {three_digits(on_cpu.max() / fastest)} times as fast as the slowest")


def test_single_calls_are_as_the_text_says():
    rows = some(measured("cnn_calls"), strategy="resident")
    naive = some(rows, kernel="naive")
    in_all = (naive["calls"] * naive["device_us"]).sum()
    first, second = sorted(some(naive, call="conv2d_wgrad")["device_us"], reverse=True)
    says(f"take {first:,.0f} and {second:,.0f} µs of {in_all:,.0f} µs for all calls")
    says(f"ReLUs after the convolutions take {some(naive, call='relu')['share'].sum():.1%} together")
    products = some(rows, call="matmul", size="64x4608x10").set_index("kernel")["device_us"]
    says(f"takes {products['naive']:.0f} µs in the forward pass, and {products['tiled']:.0f} µs with `tiled`")


def test_the_block_sizes_are_as_the_text_says():
    epochs, rows = measured("cnn_block_epochs"), measured("cnn_block_size").set_index(["gradient", "threads"])
    as_published = some(epochs, gradient="as published")
    assert len(as_published) == 4 * 5
    assert ((as_published["loss"] - as_published["published_loss"]).abs() <= 0.0005).all()
    says("to within the 0.0005 to which they could be read")
    assert set(some(epochs, gradient="exact").groupby("epoch")["loss"].nunique()) == {1}
    assert rows.loc["exact", ["accuracy", "mean_accuracy"]].nunique().tolist() == [1, 1]
    assert rows.loc[("exact", 1024), "verdict"] == rows.loc[("as published", 128), "verdict"] == "slower"
    assert rows.loc[("as published", 1024), "accuracy"] < 0.11
    unclear = rows.loc[("as published", 512)]
    assert unclear["accuracy"] > 0.9 > unclear["mean_accuracy"]
    of_block = [record for record in records() if record["cell"]["kernel"]["block"] == [32, 16]]
    draws = [record["runs"][0]["test_accuracy"] for record in of_block]
    assert sorted(accuracy > 0.11 for accuracy in draws) == [False] * 4 + [True] * 4 and draws[0] > 0.11
    says("from the published ones and three of the seven other draws")
    calls = some(
        measured("cnn_block_calls"), **{"call": "conv2d_wgrad", "training.gradient": "published_naive"}
    )
    of_128, of_256, of_1024 = (
        sorted(some(calls, **{"kernel.block": block})["device_us"], reverse=True)
        for block in ("16-8", "16-16", "32-32")
    )
    says(f"takes {of_128[0]:,.0f} µs, with 256 it takes {of_256[0]:,.0f} µs")
    says(f"that of the second takes {of_128[1]:,.0f} and {of_256[1]:,.0f} µs")
    longer = rows.loc[("as published", 128), "step_us"] - rows.loc[("as published", 256), "step_us"]
    says(f"Together these are {longer:.0f} µs")
    assert sum(of_128) - sum(of_256) == pytest.approx(longer, rel=0.01)
    says(f"With 1,024 threads that of the second takes {of_1024[0]:,.0f} µs")
    (parts,) = some(measured("cnn_kernel_gains"), strategy="resident", kernel="naive").to_dict("records")
    by_direction = [parts[f"{one}_us"] for one in ("weights", "forward", "dgrad")]
    says(f"gradients and updates of weights take {by_direction[0] / sum(by_direction):.0%} of it")
