"""The overview: who is fastest, how sure that is, what is not compared; the words, and the report's page."""

import math
import re
from pathlib import Path

import pandas as pd
import pytest
from overview_points import (
    FAST,
    FASTER,
    SLOW,
    THREE,
    THRESHOLDS,
    UNSURE,
    answers_of,
    cells_of,
    opening_of,
    origins,
    points_of,
    text_of,
)
from records_of import ON_ITS_HOST, QUIET, record, write_all

from snn.analysis import frame
from snn.hardware.devices import Device
from snn.records.store import read, write
from snn.report import opening
from snn.report.opening import duration
from snn.report.write import write as write_table
from snn.tables import overview, recommend
from snn.tables.recommendation import Ratio, sentence, with_sentences

NEXT = [1.1 + i / 1000 for i in range(6)]
TWO = {"strategy": ["reference", "combined"]}


def only(points):
    """The one row of the overview and of the recommendation of these points."""
    (row,), (advice,) = (table.to_dict("records") for table in answers_of(points))
    return row, advice


LEADS = ("fastest", "runner_up", "lead_verdict", "tied_with")
BOTH = "3.99 times as fast as the reference (95% CI {speedup})"


@pytest.mark.parametrize(
    ("seconds", "lead", "said", "shown"),
    [
        (
            (SLOW, FASTER, FAST),
            ("combined", "pinned", "significant", ""),
            f"combined is the fastest: {BOTH} and 2.00 times as fast as pinned, the runner-up (95% CI "
            "{lead}).",
            "small, 256 {first} 1.002 s 3.99 ({speedup}) 2.00 ({lead}) runner-up: pinned significant",
        ),
        (
            (FASTER, FAST, SLOW),
            ("reference", "combined", "significant", ""),
            "reference is the fastest: 2.00 times as fast as combined, the runner-up (95% CI {lead}).",
            "{first} 1.002 s it is the reference 2.00 ({lead})",
        ),
        (
            (SLOW, FASTER, FASTER),
            ("combined", "pinned", "same", "pinned"),
            f"combined has the shortest mean time, {BOTH}; equally fast: pinned.",
            "{first} equally fast: pinned",
        ),
        (
            (SLOW, FASTER, UNSURE),
            ("combined", "pinned", "not significant", "pinned"),
            f"combined has the shortest mean time, {BOTH}; not significantly slower: pinned.",
            "no single one: {first} has the shortest mean time not significantly slower: pinned",
        ),
        (  # also over a third
            (NEXT, FASTER, UNSURE),
            ("combined", "reference", "not significant", "pinned"),
            "combined has the shortest mean time, 1.100 times as fast as the reference (95% CI {speedup}); "
            "not significantly slower: pinned.",
            "no single one: {first} has the shortest mean time not significantly slower: pinned",
        ),
        (
            (UNSURE, FASTER, SLOW),
            ("combined", "reference", "not significant", "reference"),
            "combined has the shortest mean time, 1.23 times as fast as the reference (not significant, 95% "
            "CI {speedup}); not significantly slower: reference.",
            "1.23 ({speedup}) not significant 1.23 ({lead})",
        ),
    ],
)
def test_no_lead_is_called_surer_than_it_is(tmp_path, seconds, lead, said, shown):
    points = points_of(tmp_path, THREE, seconds)
    row, advice = only(points)
    assert tuple(row[key] for key in LEADS) == lead
    for name in ("speedup", "lead"):
        assert row[f"{name}_ci_low"] <= row[name] <= row[f"{name}_ci_high"]
    means = {name: sum(of) / 6 for name, of in zip(THREE["strategy"], seconds, strict=True)}
    assert row["lead"] == pytest.approx(means[row["runner_up"]] / means[row["fastest"]])
    assert row["speedup"] == pytest.approx(means["reference"] / means[row["fastest"]])
    ratios = {name: Ratio.read(row, name).interval for name in ("speedup", "lead")}
    assert advice["answer"] == sentence(row) == said.format(**ratios)
    assert advice["strategy"] == row["fastest"] and advice["lead_verdict"] == row["lead_verdict"]
    assert ("wide interval, above a factor of 1.5; snn more-rounds" in advice["note"]) == (
        UNSURE in seconds and NEXT not in seconds
    )
    page = text_of(opening_of(points)).partition("Lead over every other")[2].partition("all ")[0]
    assert shown.format(first=f"{row['fastest']} (kernel naive)", **ratios) in page
    assert ("not significant" in page) == ("no single one" in page) == (lead[2] == "not significant")


def test_one_strategy_alone_has_nothing_to_compare_it_with(tmp_path):
    page = text_of(opening_of(points_of(tmp_path, {"strategy": "pinned"}, [FAST])))
    assert "pinned (kernel naive) there is nothing to compare it with 2.002 s – –" in page


@pytest.mark.parametrize(
    ("ratio", "said"),
    [
        ((3.733, 2.55, 5.462), "3.73 (2.55 to 5.46)"),
        ((1.0451, 1.0, 1.1), "1.045 (1.000 to 1.100)"),
        ((45.67, 9.0, 101.0), "45.7 (9.0 to 101.0)"),
        ((4321.0, 4000.4, 4999.6), "4321 (4000 to 5000)"),
        ((3.993, 3e-6, 2.4e5), "3.99 (below 0.01 to above 10,000)"),
        ((1.0, 1.0, 1.0), "1"),
        ((2.0, None, float("nan")), "2.00"),
    ],
)
def test_a_ratio_has_the_digits_that_suit_it_and_its_interval_as_many(ratio, said):
    assert str(Ratio(*ratio)) == said


def test_strategies_are_compared_within_a_point_only(tmp_path):
    settings = TWO | {"training.batch_size": [64, 128]}
    table, _ = answers_of(points_of(tmp_path, settings, [SLOW, FAST, FAST, FASTER]))
    assert table["training.batch_size"].tolist() == [64, 128]
    assert table["speedup"].tolist() == pytest.approx([4.0025 / 2.0025, 2.0025 / 1.0025])
    said = with_sentences(table)
    assert list(said.columns[:3]) == ["case", "answer", "dataset"]
    assert said["case"].tolist() == ["small, 256, batch size 64", "small, 256, batch size 128"]
    assert said["answer"].str.startswith("combined is the faster of two: 2.00 times").all()
    assert (said["answer"].str.count("times") == 1).all()  # the reference is the runner-up: it is named once
    won = "combined is significantly fastest in 2 of 2 cases (2.00 times as fast as the reference)."
    assert opening.headline(table) == won


def test_a_strategy_that_stands_twice_is_named_with_its_options(tmp_path):
    settings = {"strategy": "combined", "strategy.tile_rows": [32, 128]}
    points = points_of(tmp_path, settings, [FASTER, FAST])
    row, advice = only(points)
    assert (row["fastest"], row["runner_up"]) == ("combined (tile_rows 32)", "combined (tile_rows 128)")
    assert "combined (kernel naive, tile_rows 32) 1.002 s" in text_of(opening_of(points))
    assert pd.isna(row["speedup"]) and "reference" not in advice["answer"]  # there is none


def test_what_is_not_comparable_does_not_win_and_is_named(tmp_path, monkeypatch):
    real = overview.over_baselines

    def with_one_set_aside(frame, baselines, thresholds):
        table = real(frame, baselines, thresholds)
        aside = frame["strategy"] == "pinned"
        return table.assign(verdict=table["verdict"].mask(aside, "not comparable"))

    monkeypatch.setattr(overview, "over_baselines", with_one_set_aside)
    row, advice = only(points_of(tmp_path, THREE, [SLOW, FAST, FASTER]))
    assert (row["fastest"], row["runner_up"]) == ("combined", "reference")
    assert advice["answer"].startswith("combined is the fastest of what can be compared: 2.00 times as fast")
    assert advice["answer"].endswith("Not comparable: pinned.")
    _, advice = only(points_of(tmp_path, THREE, [UNSURE, FASTER, FAST]))
    assert advice["answer"].startswith("combined has the shortest mean time of what can be compared, ")
    points = points_of(tmp_path, {"strategy": ["reference", "pinned"]}, [FAST, SLOW])
    said = "reference takes 2.002 s; there is nothing to compare it with. Not comparable: pinned."
    assert only(points)[1]["answer"] == said
    assert opening.headline(answers_of(points)[0]).startswith("Nothing to compare")


def test_headlines():
    def said(*rows):
        columns = ["fastest", "lead_verdict", "speedup", "verdict"]
        table = pd.DataFrame(rows, columns=columns).assign(fastest_status="ok")
        diverged = opening.headline(table.assign(fastest_status="diverged"))
        assert f"In {len(rows)} cases no training ended well; shortest mean times: a " in diverged
        return opening.headline(table)

    won = [(name, "significant", speedup, "faster") for name, speedup in (("a", 1.5), ("a", 3.0), ("b", 2.0))]
    tied = [("a", "not significant", 1.1, "not significant"), ("b", "same", 1.1, "faster")]
    assert said(*won, *tied) == (
        "a is significantly fastest in 2 of 5 cases (1.50 to 3.00 times as fast as the reference); "
        "b is significantly fastest in 1 of 5 cases (2.00 times as fast as the reference). "
        "In 1 case the fastest are equally fast; shortest mean times: b 1. "
        "In 1 case the lead is not significant; shortest mean times: a 1."
    )
    assert said(*2 * tied[:1]) == (
        "No strategy is significantly fastest in any of 2 cases. "
        "In 2 cases the lead is not significant; shortest mean times: a 2."
    )


def test_a_winner_that_did_not_end_well_is_not_recommended_without_a_word(tmp_path):
    points = points_of(tmp_path, TWO | {"network.hidden": [1024]}, [SLOW, FAST], mse=float("nan"))
    row, advice = only(points)
    assert row["fastest_status"] == "diverged"
    assert advice["answer"].startswith("combined has the shortest mean time: 2.00 times as fast as the ref")
    assert advice["answer"].endswith("But its status is diverged, and no other that is comparable is ok.")
    page = text_of(opening_of(points))
    assert "none: every training diverged ; the shortest time has combined" in page
    assert "In 1 case no training ended well" in page
    assert "significant" not in page.partition("all 2")[0]  # nor has it a lead


def made(folder, settings, rounds):
    """Records of cells of these settings; ``rounds`` gives the runs of each round by strategy and seed."""
    return {
        f"{cell['strategy']['name']} {cell['network']['seed']} {number}": record(cell, runs, number=number)
        for cell in cells_of(folder, settings)
        for number, runs in enumerate(rounds(cell["strategy"]["name"], cell["network"]["seed"]), 1)
    }


def row_of(records):
    """The overview's row of records, by name, of one point, and its lead."""
    (row,) = overview.build(overview.points_of(records, THRESHOLDS), THRESHOLDS).to_dict("records")
    return row, (row["fastest"], row["runner_up"], row["lead_verdict"])


def test_seeds_are_rounds_of_one_cell_and_are_compared_with_its_interval(tmp_path):
    """Two rounds of each of two seeds beside four of another strategy, which has one run in each."""
    times = {1: [2.01, 2.02], 2: [2.03, 2.04]}
    reference, alone = {"strategy": "reference", "protocol.rounds": 4}, {"strategy": "pinned"}
    records = made(tmp_path, reference, lambda *_: [[4.0 + n / 100] for n in (1, 2, 3, 4)])
    records |= made(
        tmp_path, alone | {"network.seed": [1, 2]}, lambda _, seed: [[t, t + 0.02] for t in times[seed]]
    )
    (point,) = overview.points_of(records, THRESHOLDS)
    pinned = point[point["strategy"] == "pinned"].iloc[0]
    assert pinned["rounds"] == [[time, time + 0.02] for of_seed in times.values() for time in of_seed]
    row, lead = row_of(records)
    assert (row["strategies"], *lead) == (2, "pinned", "reference", "significant")
    assert row["lead_ci_low"] < row["lead"] < row["lead_ci_high"] and not row["note"]


@pytest.mark.parametrize("more", ["reference", "pinned", None])
def test_a_round_of_a_seed_is_compared_with_the_same_round_of_the_same_seed(tmp_path, more):
    """Also where one of two cells of the first seed has more rounds than all others."""

    def rounds(name, seed):  # the machine is slower in some passes of the workflow
        passes = range(1, 5 if (name, seed) == (more, 1) else 3)
        return [[(1 + seed / 10 + number / 7) * (2 if name == "reference" else 1)] for number in passes]

    row, _ = row_of(made(tmp_path, {"strategy": ["reference", "pinned"], "network.seed": [1, 2]}, rounds))
    assert (row["fastest"], row["speedup"]) == ("pinned", pytest.approx(2))
    assert row["speedup_ci_high"] == pytest.approx(2)


def test_the_first_is_not_one_that_lacks_a_slow_round(tmp_path):
    """In the rounds that both have, the one with the longer mean is faster."""
    speed, slow = {"reference": 3.0, "pinned": 1.05, "streams": 1.0}, [1.0, 1.01, 1.02, 2.0]
    records = made(
        tmp_path,
        {"strategy": [*speed]},
        lambda name, _: [[speed[name] * passed] for passed in slow[: 3 if name == "pinned" else 4]],
    )
    (point,) = overview.points_of(records, THRESHOLDS)
    assert point.set_index("strategy")["mean_s"].idxmin() == "pinned"
    row, lead = row_of(records)
    assert lead == ("streams", "pinned", "significant") and row["lead"] == pytest.approx(1.05)


def test_a_single_common_round_displaces_no_shorter_mean(tmp_path):
    rounds = {"pinned": [[1.05, 1.051]], "streams": [[1.0, 1.001], [1.3, 1.301], [1.3, 1.301]]}
    records = made(tmp_path, {"strategy": [*rounds], "protocol.rounds": 3}, lambda name, _: rounds[name])
    assert row_of(records)[1] == ("pinned", "streams", "not significant")


def test_a_launch_of_several_networks_takes_no_part_even_alone(tmp_path):
    """Not in overview, recommendation, summary or page, which are then empty and can be written."""
    points = points_of(tmp_path, {"strategy": "ensemble", "strategy.starts": 2}, [FAST])
    assert points == []
    table, advice = answers_of(points)
    assert len(table) == len(advice) == 0 and {"fastest", "lead_verdict"} <= set(table)
    for name, empty in (("overview", with_sentences(table)), ("recommendation", advice)):
        write_table(empty, str(tmp_path / f"{name}.csv"), str(tmp_path / f"{name}.html"), name)
    assert '<p class="headline">Nothing to compare' in opening.summary(table, points, origins())  # of no CPU
    assert "ensemble" not in opening_of(points)


def test_what_a_published_program_computes_is_not_the_same_work(tmp_path):
    beside = {"network": "cnn", "dataset": "patterns", "training.batch_size": 64, "training.drop_last": True}
    cells = beside | {"strategy": "pipelined", "training.gradient": ["exact", "published_optimised"]}
    row, _ = only(points_of(tmp_path, cells, [[2.0, 2.0], [1.0, 1.0]]))
    assert (row["strategies"], row["mean_s"]) == (1, 2.0)


def test_devices_may_differ_between_points_and_are_not_compared_in_one(tmp_path):
    settings = TWO | {"training.batch_size": [64, 128]}
    cells = cells_of(tmp_path, settings)

    def load(others):
        expected = write_all(tmp_path, cells, [FAST] * 4)
        again = [cell for i, cell in enumerate(cells) if i in others]
        expected |= write_all(tmp_path, again, [FAST] * len(again), device_uuid="GPU-999")
        return overview.points_of(frame.checked(expected), THRESHOLDS)

    batches = [cell["training"]["batch_size"] for cell in cells]
    assert len(load({i for i, size in enumerate(batches) if size == 128})) == 2
    (apart,) = {i for i, size in enumerate(batches) if size == 64} & {0, 1}
    assert answers_of(load({apart}))[0]["not_comparable"].tolist() == ["combined", ""]


# ---- the first page of the report


def test_a_baseline_on_the_cpu_is_named_without_a_kernel(tmp_path):
    settings = {"strategy": ["reference", "blas"], "protocol.runs": 6}
    points = points_of(tmp_path, settings, (SLOW, FASTER), Device("cpu", "AMD EPYC"), **ON_ITS_HOST)
    assert answers_of(points)[1]["kernel"].item() == ""
    assert "small, 256 blas 1.002 s" in text_of(opening_of(points))


def test_of_one_case_the_strategies_are_unfolded_and_of_several_folded(tmp_path):
    for count, unfolded in ((1, 1), (2, 0)):
        settings = TWO | {"training.batch_size": [64, 128][:count]}
        page = opening_of(points_of(tmp_path, settings, [SLOW] * count + [FASTER] * count))
        assert (page.count("<details"), page.count("<details open>")) == (count, unfolded)
        assert "<br><br>" not in page and "<br></small>" not in page


def test_the_kernel_is_what_the_strategy_used(tmp_path):
    points = points_of(tmp_path, THREE, (SLOW, FASTER, FAST))
    planned = answers_of(points)[1].assign(kernel="one_layer", plan="one cluster of 16 blocks")
    assert "(kernel one_layer, one cluster of 16 blocks)" in opening_of(points, planned)


def test_the_ranking_has_every_strategy_with_its_distance_to_the_first(tmp_path):
    page = text_of(opening_of(points_of(tmp_path, THREE, (SLOW, FASTER, UNSURE))))
    first, second, third = re.findall(
        r"(\w+) \(kernel naive\) ([\d.]+ s) ± ([\d.]+ m?s)(.*?) ok, 6 runs", page.partition("all 3 strat")[2]
    )
    assert first == ("combined", "1.002 s", "1.871 ms", " shortest mean")
    assert second[0] == "pinned" and re.fullmatch(r" 1\.23 \([\d.]+ to [\d.]+\) not significant", second[3])
    assert third[0] == "reference" and re.fullmatch(r" 3\.99 \([\d.]+ to [\d.]+\) slower", third[3])


def test_every_table_of_the_answer_has_a_name_and_no_cell_is_empty(tmp_path):
    page = opening_of(points_of(tmp_path, THREE, (SLOW, FASTER, FAST)))
    assert re.findall(r"<table.*?>", page) == [
        '<table aria-label="What to use for each data set and network">',
        '<table aria-label="Strategies, the shortest mean time first: small, 256">',
    ]
    answered = page.partition("<details")[0]
    assert "<td></td>" not in answered
    assert '<th scope="row" rowspan="2">small, 256</th>' in answered and '<tr><td class="why"' in answered


def test_the_ranking_ends_with_what_failed(tmp_path):
    (cells,) = points_of(tmp_path, THREE, (SLOW, FASTER, FAST))
    lost = {"mean_s": None, "std_s": None, "status": "unsupported", "reason": "no <b>such</b> device"}
    failed = cells["strategy"] == "combined"
    cells = cells.assign(**{key: cells[key].mask(failed, value) for key, value in lost.items()})
    said = text_of(opening_of([cells])).partition("all 3 strat")[2].partition("State of the machine")[0]
    assert said.endswith("combined (kernel naive) – unsupported no &lt;b&gt;such&lt;/b&gt; device ")


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(2.0, "2 s"), (0.0247234, "24.72 ms"), (2.33e-6, "2.33 µs"), (float("nan"), "–"), (0.0, "0 µs")],
)
def test_durations_have_the_unit_that_suits_them(seconds, said):
    assert duration(seconds) == said


def test_what_did_not_end_well_is_named_with_its_reason(tmp_path):
    cells = cells_of(tmp_path, THREE | {"network.hidden": [1024]})
    expected = write_all(tmp_path, cells, [SLOW, FAST, FASTER])
    for path in map(Path, expected):
        found = read(path)
        cell, number = found["cell"], found["round"]
        if cell["strategy"]["name"] == "combined":
            write(path, record(cell, [1.0, 1.0], math.nan, number=number))
        if cell["strategy"]["name"] == "pinned":
            write(path, record(cell, [], number=number, ended=("out_of_memory", "12 bytes")))
    points = overview.points_of(frame.checked(expected), THRESHOLDS)
    table, _ = answers_of(points)
    assert table["failed"][0] == "combined, pinned"
    assert table["status"][0] == "diverged, out_of_memory"
    assert table["runner_up"][0] != "pinned"  # it has no time
    assert opening.failures(points, table) == [
        ("combined on small, 1024", "diverged", "the loss is not finite"),
        ("pinned on small, 1024", "out_of_memory", "12 bytes"),
    ]
    page = opening_of(points)
    assert 'combined on small, 1024: <span class="word bad">diverged</span> the loss is not finite' in page


def test_of_one_case_the_opening_begins_with_its_answer_as_the_terminal_has_it(tmp_path):
    points = points_of(tmp_path, TWO, [SLOW, FAST])
    once = [
        cells.assign(rounds=[[of[0]] for of in cells["rounds"]], test_r2=0.94, test_r2_std=0.01)
        for cells in points
    ]
    said = opening_of(once)
    preliminary = recommend.preliminary(recommend.build(once[0], {}, THRESHOLDS), THRESHOLDS)
    assert preliminary.startswith("Preliminary: measured in one round only")
    assert f'<p class="headline">{answers_of(once)[1]["answer"].item()} {preliminary}</p>' in said
    assert "On held-out rows, after the epochs that were timed: R² 0.94 ± 0.01" in said
    assert "Preliminary" not in opening_of(points)


def test_no_strategy_finished(tmp_path):
    points = points_of(tmp_path, TWO, [SLOW, FAST])
    lost = [cells.assign(mean_s=None, std_s=None, status="out_of_memory") for cells in points]
    assert answers_of(lost)[1]["answer"].item() == "No strategy finished."
    assert "Nothing to compare" in opening_of(lost)


def test_the_device_is_said_and_a_cpu_is_called_one():
    (said,) = opening.devices(origins())
    assert said == "Measured on one NVIDIA H200, driver 580.1, CUDA runtime 13.2, CuPy 14.2."
    (said,) = opening.devices(origins(backend="cpu", device="Abacus"))
    assert "on the CPU, Abacus" in said and "no GPU was used" in said
    both = pd.concat([origins(), origins(backend="cpu", device="Abacus")])
    assert opening.devices(both)[1] == "CPU baselines were measured on its host: Abacus, NumPy 2.5."


def test_the_machines_words_are_counted_by_cell(tmp_path):
    loaded = QUIET | {"readings": [{"seconds": 1.0, "other_cores": 4.0, "stolen_cores": 0.0}]}
    points = points_of(tmp_path, TWO, [FASTER, UNSURE], machine=loaded)
    assert opening.machine_states(points) == {"shared": 2, "noisy": 1}
    assert opening.machine_states(points_of(tmp_path, TWO, [FASTER, FAST])) == {"quiet": 2}


def test_the_opening_shows_the_first_of_many_cases_and_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(opening, "_MOST_CASES", 2)
    settings = TWO | {"training.batch_size": [10, 11, 12, 13, 14]}
    page = opening_of(points_of(tmp_path, settings, [SLOW] * 5 + [FAST] * 5))
    assert page.count("</b> <small>(kernel naive)</small></td><td>2.002 s</td>") == 2
    assert "The table overview shows 3 more cases." in page
    assert "10 cells were measured: 10 quiet" in text_of(page)


@pytest.mark.parametrize(("count", "listed", "more"), [(5, 5, ""), (6, 6, ""), (7, 6, "and 1 more,")])
@pytest.mark.parametrize("status", ["diverged", "unsupported"])
def test_of_many_failures_the_first_six_are_listed(tmp_path, status, count, listed, more):
    """And how many more there are, if there are more."""
    points = points_of(tmp_path, TWO, [SLOW, FAST])
    row = points[0].iloc[:1]
    lost = [row.assign(cell=str(i), status=status, reason=f"reason {i}.", mean_s=None) for i in range(count)]
    said = opening_of([pd.concat([points[0], *lost], ignore_index=True)]).partition("</table>")[2]
    said = said.rpartition("</table>")[2]
    assert [f"reason {i}." in said for i in range(count)] == [i < listed for i in range(count)]
    assert more in said and ("more," in said) == bool(more)
