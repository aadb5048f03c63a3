"""Speedups of rows over their baselines: which times may be divided, and what a warning says."""

from statistics import fmean

import numpy as np
import pandas as pd
import pytest
from records_of import THRESHOLDS

from snn.analysis.intervals import Ratio, ratio
from snn.analysis.speedups import (
    FAMILY,
    common_rounds,
    compare,
    detectable,
    joint,
    left_out,
    over_baselines,
    reason,
    warning,
)
from snn.records.origin import GPUS, HOSTS, PASSES, Origin, origin
from snn.tables.table import mark_families, reference


def row(*rounds, **values):
    usual = {"strategy": "pinned", "rounds": list(rounds), "runs": sum(map(len, rounds)), "status": "ok"}
    usual |= {"device": "x", "device_uuid": "y", "driver": "1", "blas_threads": 1, "probe": {}}
    times = [one for some in rounds for one in some]
    return usual | {"machine": "quiet", "mean_s": fmean(times) if times else None} | values


def table_of(*rows):
    return pd.DataFrame(list(rows), index=[10 * i for i, _ in enumerate(rows)])


@pytest.mark.parametrize(
    ("found", "note"),
    [
        (ratio([], []), "there is no common round"),
        (Ratio(1.0, 0.9, 1.1, 1, np.nan), "one round: "),
        (Ratio(1.0, 0.8, 1.3, 2, 0.1), "wide interval, above a factor of 1.5; snn more-rounds adds rounds"),
        (Ratio(1.0, 0.8, 1.2, 2, 0.1), ""),
    ],
)
def test_a_warning_says_what_is_missing(found, note):
    said = warning(found, THRESHOLDS)
    assert said.startswith(note) and bool(said) == bool(note)


def test_rows_are_compared_with_their_reference():
    rows = table_of(
        row([2.0], strategy="reference", dataset="a"),
        row([1.0], dataset="a", machine="noisy"),
        row([3.0], dataset="b"),
        row([9.0], strategy="reference", dataset="b", machine="shared, noisy"),
        row(dataset="b", status="unsupported"),
        row([1.0], dataset="b", device="z"),
    )
    found = over_baselines(rows, reference("dataset")(rows), THRESHOLDS)
    assert found.index.tolist() == rows.index.tolist()
    none = np.nan
    assert found["speedup"].tolist() == pytest.approx([1.0, 2.0, 3.0, 1.0, none, none], nan_ok=True)
    words = ["reference", *["not significant"] * 2, "reference", "", "not comparable"]
    assert found["verdict"].tolist() == words
    assert [bool(note) for note in found["note"]] == [False, True, True, False, False, True]
    assert found["note"].tolist()[-1] == "different devices: x and z"
    assert found["machine"].tolist() == ["quiet", "noisy", *["shared, noisy"] * 2, "quiet", "shared, noisy"]


def test_a_row_may_have_no_baseline_or_be_one():
    rows = table_of(row([2.0]), row([1.0], machine="noisy"), row([5.0]), row())
    found = over_baselines(rows, [0, 0, -1, -1], THRESHOLDS)
    assert found["speedup"].tolist() == pytest.approx([1.0, 2.0, np.nan, np.nan], nan_ok=True)
    assert found["verdict"].tolist() == ["baseline", "not significant", "", ""]
    assert [bool(note) for note in found["note"]] == [False, True, False, False]
    alone = over_baselines(rows, [-1] * 4, THRESHOLDS)
    assert alone.columns.tolist() == found.columns.tolist()
    assert alone["speedup"].isna().all() and set(alone["verdict"]) == {""}
    nothing = over_baselines(table_of(row(), row([1.0])), [0, 0], THRESHOLDS)
    assert nothing["verdict"].tolist() == ["", "not comparable"]
    assert nothing["note"].tolist() == ["", "pinned has no time: ok"]
    columns = (pd.Series(["quiet", "noisy, shared", ""]), pd.Series(["quiet", "shared, drifted", ""]))
    assert joint("quiet", *columns) == ["quiet", "noisy, shared, drifted", "quiet"]


COSTS = {"copy_us": 10.0, "launch_us": 9.0}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, ""),
        ({"device": "z"}, "different devices: x and z"),
        ({"device_uuid": "z"}, "different devices: y and z"),
        ({"driver": "2"}, "different drivers: 1 and 2"),
        ({"blas_threads": 2}, "different numbers of BLAS threads: 1 and 2"),
        ({"blas_threads": None}, "different numbers of BLAS threads: 1 and None"),
        ({"runs": 0, "status": "diverged"}, "pinned has no time: diverged"),
        ({"probe": COSTS | {"copy_us": 20.0}}, "the probe's costs drifted between the two: copy cost +100%"),
        ({"probe": COSTS}, "the probe's costs drifted between the two: launch cost +80%"),
        *(({"probe": COSTS, key: "8-8"}, "") for key in ("kernel.name", "kernel.block", "kernel.work")),
        *(({"probe": COSTS, key: "other"}, "") for key in ("precision", "runtime")),
        (
            {"probe": {"copy_us": 20.0}, "runtime": "torch 2"},
            "the probe's costs drifted between the two: copy cost",
        ),
    ],
)
def test_why_two_times_may_not_be_divided(changes, said):
    a = row([1.0], probe={"copy_us": 10.0, "launch_us": 5.0}, kernel="naive", precision="fp32")
    b = a | changes
    assert reason(a, b, THRESHOLDS).startswith(said) and bool(reason(a, b, THRESHOLDS)) == bool(said)
    if "probe" not in changes or not said:
        assert bool(reason(b, a, THRESHOLDS)) == bool(said)


HERE, HOUR = ("Linux", "EPYC", 16, "a", "b"), 3600.0
OF_GPU = Origin("A", HERE, "run", 0.0)


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (OF_GPU, ""),
        (OF_GPU._replace(gpu=None), ""),  # the CPU of its host
        (OF_GPU._replace(gpu="B"), GPUS),
        (OF_GPU._replace(started=9 * HOUR), ""),  # a long pass
        (OF_GPU._replace(run="other", started=HOUR), ""),  # was killed and continued
        (OF_GPU._replace(run="other", started=HOUR + 1), PASSES),
        (OF_GPU._replace(run=None, started=HOUR + 1), PASSES),
        (OF_GPU._replace(run=None, started=-HOUR - 1), PASSES),
        (OF_GPU._replace(host=(*HERE[:3], None, None)), ""),  # an older record
        (OF_GPU._replace(host=(*HERE[:2], 8, None, None)), HOSTS),
        (OF_GPU._replace(host=(*HERE[:3], "c", "b")), HOSTS),
        (OF_GPU._replace(host=(*HERE[:3], "a", "c")), HOSTS),
        (OF_GPU._replace(gpu=None, host=(*HERE[:3], None, "c")), HOSTS),
        (Origin("A"), ""),
    ],
)
def test_rounds_are_paired_if_they_are_of_one_gpu_host_and_pass(other, why):
    assert OF_GPU.apart(other) == other.apart(OF_GPU) == why


@pytest.mark.parametrize("turned", [False, True])
def test_rounds_that_are_apart_are_left_out_and_said(turned):
    of_a = [OF_GPU, OF_GPU, OF_GPU._replace(gpu="B"), OF_GPU._replace(run="later", started=9 * HOUR), OF_GPU]
    of_b = [OF_GPU, OF_GPU._replace(gpu="B"), OF_GPU._replace(gpu=None), OF_GPU]
    a = row([1.0], [2.0], [3.0], [4.0], [5.0], origins=of_a)
    b = row([5.0], [6.0], [7.0], [8.0], origins=of_b)
    pair = (a, b)[:: -1 if turned else 1]
    kept = ([[1.0], [], [3.0], []], [[5.0], [], [7.0], []])
    assert common_rounds(*pair) == kept[:: -1 if turned else 1]
    assert left_out(*pair) == f"left out: 1 round of {GPUS}, 1 round of {PASSES}"
    assert not reason(*pair, THRESHOLDS)
    found = over_baselines(table_of(a, b), [0, 0], THRESHOLDS)
    assert found["note"].tolist()[1].startswith(left_out(*pair))


@pytest.mark.parametrize(
    ("other", "word", "note"),
    [
        ({"gpu": "B"}, "not comparable", "different devices: A and A"),
        ({"host": ("Mac",)}, "not comparable", HOSTS),
        ({"run": None, "started": 9 * HOUR}, "not significant", f"left out: 2 rounds of {PASSES}; "),
    ],
)
def test_without_a_common_round_there_is_no_ratio(other, word, note):
    """More rounds, of both in one pass, give one."""
    a = row([1.0], [1.0], origins=[OF_GPU] * 2, device_uuid="A")
    b = row([9.0], [9.0], origins=[OF_GPU._replace(**other)] * 2, device_uuid="A")
    found = over_baselines(table_of(a, b), [0, 0], THRESHOLDS).to_dict("records")[1]
    assert np.isnan(found["speedup"]) and found["verdict"] == word and found["note"].startswith(note)


def test_the_origin_of_a_round_is_that_of_its_record():
    where = {"device_uuid": "A", "started": "1970-01-01T01:00:00+00:00"}
    assert origin(where) == ("A", (None,) * 5, None, HOUR)
    where |= {"host": dict(zip(("system", "cpu", "cpus", "id", "boot"), HERE, strict=True))}
    assert origin(where | {"workflow": {"run": "run"}}) == OF_GPU._replace(started=HOUR)
    assert origin(where | {"workflow": None}).run is None


# ---- families of comparisons, and looks


def ratios_of(factor, noise, rounds=5):
    """Rounds of a row whose ratio to one second has exactly this mean and spread of its logarithm."""
    logs = np.resize([-1.0, 1.0], rounds) - np.mean(np.resize([-1.0, 1.0], rounds))
    return [[float(factor * np.exp(noise * x / logs.std(ddof=1)))] for x in logs]


REFERENCE = row(*[[1.0]] * 5, strategy="reference")


def test_a_verdict_is_adjusted_for_the_other_comparisons_and_the_interval_is_not():
    near = row(*ratios_of(0.85, 0.09))
    alone = over_baselines(table_of(REFERENCE, near), [0, 0], THRESHOLDS)
    others = [row(*ratios_of(1.0, 0.09)) for _ in range(20)]
    among = over_baselines(table_of(REFERENCE, near, *others), [0] * 22, THRESHOLDS)
    assert alone["verdict"].iloc[1] == "faster" and among["verdict"].iloc[1] == "not significant"
    assert among[["speedup_ci_low", "speedup_ci_high"]].iloc[1].tolist() == pytest.approx(
        alone[["speedup_ci_low", "speedup_ci_high"]].iloc[1].tolist()
    )
    assert among["speedup_ci_low"].iloc[1] > 1 and among["p_adjusted"].iloc[1] > 0.05
    assert among["detectable"].iloc[1] > 1 / 0.85


def test_primary_comparisons_are_a_family_of_their_own():
    rows = [row(*ratios_of(0.85, 0.09), dataset="large")]
    rows += [row(*ratios_of(1.0, 0.09), dataset="small") for _ in range(20)]
    marked = mark_families(table_of(REFERENCE | {"dataset": "large"}, *rows), {"dataset": "large"})
    assert over_baselines(marked, [0] * 22, THRESHOLDS)["verdict"].iloc[1] == "faster"
    with_all = mark_families(marked.drop(columns=FAMILY), None)
    assert over_baselines(with_all, [0] * 22, THRESHOLDS)["verdict"].iloc[1] == "not significant"


def test_a_further_look_needs_more_than_the_first():
    """The same ten rounds, planned at once or after a look at five of them."""
    base, other = row(*[[1.0]] * 10), row(*ratios_of(0.9, 0.12, 10))
    planned = [one | {"protocol.rounds": 10} for one in (base, other)]
    added = [one | {"protocol.rounds": 5} for one in (base, other)]
    once, again = (over_baselines(table_of(*two), [0, 0], THRESHOLDS).iloc[1] for two in (planned, added))
    assert once["verdict"] == "faster" and again["verdict"] == "not significant"
    assert again["p_adjusted"] == pytest.approx(once["p_adjusted"] * 0.7 / 0.15)
    assert again["speedup_ci_low"] < 1 < once["speedup_ci_low"]
    assert compare(*added, THRESHOLDS).low == pytest.approx(again["speedup_ci_low"])


@pytest.mark.parametrize("level", [0.05, 0.001])
def test_the_detectable_ratio_is_found_with_a_power_of_nine_tenths(level):
    random = np.random.default_rng(4)
    found = Ratio(1.0, 0.9, 1.1, 8, 0.12)
    ratio_found = detectable(found, level)
    hits = 0
    for _ in range(1000):
        logs = random.normal(np.log(ratio_found), 0.12, 8)
        hits += ratio([[x] for x in np.exp(logs)], [[1.0]] * 8, level).low > 1
    assert 860 <= hits <= 940
    assert np.isnan(detectable(found._replace(rounds=1, spread=np.nan), level))
    assert detectable(Ratio(1.0, 0.01, 100.0, 2, 3.0), level) == np.inf
