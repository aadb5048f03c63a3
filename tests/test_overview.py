"""The overview: who is fastest, how sure that is, what is not compared; the words, and the report's page."""

import re

import pandas as pd
import pytest
from overview_points import (
    FAST,
    FASTER,
    SLOW,
    THREE,
    TWO,
    UNSURE,
    answers_of,
    cells_of,
    only,
    opening_of,
    origins,
    points_of,
    records_of_cells,
    text_of,
)
from records_of import GPU, HOST, QUIET, THRESHOLDS, halves, record

from snn.report import opening
from snn.report.opening import duration
from snn.report.write import write as write_table
from snn.tables import overview, recommend
from snn.tables.recommendation import Ratio, sentence, with_sentences

NEXT = [1.1 + i / 1000 for i in range(6)]


@pytest.mark.parametrize(
    ("seconds", "lead", "shown"),
    [
        (
            (SLOW, FASTER, FAST),
            "combined|pinned|significant|",
            "3.99 ({}) 2.00 ({}) runner-up: pinned significant",
        ),
        ((FASTER, FAST, SLOW), "reference|combined|significant|", "it is the reference 2.00 ({1})"),
        ((SLOW, FASTER, FASTER), "combined|pinned|same|pinned", "{first} equally fast: pinned"),
        (
            (SLOW, FASTER, UNSURE),
            "combined|pinned|not significant|pinned",
            "{first} has the shortest mean time",
        ),
        (
            (NEXT, FASTER, UNSURE),
            "combined|reference|not significant|pinned",
            "{first} has the shortest mean time",
        ),
        (
            (UNSURE, FASTER, SLOW),
            "combined|reference|not significant|reference",
            "1.23 ({}) not significant 1.23 ({})",
        ),
    ],
)
def test_no_lead_is_called_surer_than_it_is(seconds, lead, shown):
    points = points_of(THREE, seconds)
    row, advice = only(points)
    fastest, runner_up, verdict, tied = (
        row[key] for key in ("fastest", "runner_up", "lead_verdict", "tied_with")
    )
    assert f"{fastest}|{runner_up}|{verdict}|{tied}" == lead
    means = {name: sum(of) / 6 for name, of in zip(THREE["strategy"], seconds, strict=True)}
    for name, other in (("speedup", "reference"), ("lead", runner_up)):
        assert row[f"{name}_ci_low"] <= row[name] <= row[f"{name}_ci_high"]
        assert row[name] == pytest.approx(means[other] / means[fastest])
    speedup, ahead = (Ratio.read(row, name).interval for name in ("speedup", "lead"))
    is_sure, is_open, said = verdict == "significant", verdict == "not significant", advice["answer"]
    assert (advice["strategy"], advice["lead_verdict"], said) == (fastest, verdict, sentence(row))
    assert said.startswith(
        f"{fastest} is the fastest: " if is_sure else f"{fastest} has the shortest mean time, "
    )
    aside = "not significant, " * (row["verdict"] == "not significant")
    assert (f" times as fast as the reference ({aside}95% CI {speedup})" in said) == (fastest != "reference")
    assert (f" times as fast as {runner_up}, the runner-up (95% CI {ahead})" in said) == is_sure
    end = f"{'not significantly slower' if is_open else 'equally fast'}: {tied}"
    assert said.endswith(f"; {end}.") != is_sure
    assert ("factor of 1.5; snn more-rounds" in advice["note"]) == (UNSURE in seconds and NEXT not in seconds)
    page = text_of(opening_of(points)).partition("Lead over every other")[2].partition("all ")[0]
    assert "small, 256" in page and f"{fastest} (kernel naive)" in page and (end in page) != is_sure
    assert shown.format(speedup, ahead, first=f"{fastest} (kernel naive)") in page
    assert ("not significant" in page) == ("no single one" in page) == is_open


def test_a_ratio_has_the_digits_that_suit_it_and_its_interval_as_many():
    ratios = {
        (1.0451, 1.0, 1.1): "1.045 (1.000 to 1.100)",
        (45.67, 9.0, 101.0): "45.7 (9.0 to 101.0)",
        (4321.0, 4000.4, 4999.6): "4321 (4000 to 5000)",
        (3.993, 3e-6, 2.4e5): "3.99 (below 0.01 to above 10,000)",
        (2.0, None, float("nan")): "2.00",
    }
    assert {ratio: str(Ratio(*ratio)) for ratio in ratios} == ratios


def test_strategies_are_compared_within_a_point_only():
    settings = TWO | {"training.batch_size": [64, 128]}
    table, advice = answers_of(points_of(settings, [SLOW, FAST, FAST, FASTER]))
    assert table["training.batch_size"].tolist() == [64, 128]
    assert table["speedup"].tolist() == pytest.approx([4.0025 / 2.0025, 2.0025 / 1.0025])
    assert advice["case"].tolist() == ["small, 256, batch size 64", "small, 256, batch size 128"]
    assert (
        advice["answer"].str.count("times") == 1
    ).all()  # the reference is the runner-up: it is named once


def test_a_strategy_that_stands_twice_is_named_with_its_options():
    points = points_of({"strategy": "combined", "strategy.tile_rows": [32, 128]}, [FASTER, FAST])
    row, advice = only(points)
    assert (row["fastest"], row["runner_up"]) == ("combined (tile_rows 32)", "combined (tile_rows 128)")
    assert "combined (kernel naive, tile_rows 32) 1.002 s" in text_of(opening_of(points))
    assert pd.isna(row["speedup"]) and "reference" not in advice["answer"]  # there is none


PAIR = {"strategy": ["reference", "pinned"]}


@pytest.mark.parametrize(
    ("strategies", "seconds", "fastest", "said"),
    [
        (THREE, [SLOW, FAST, FASTER], "combined", "is the fastest of what can be compared: 2.00 times"),
        (THREE, [UNSURE, FASTER, FAST], "combined", "has the shortest mean time of what can be compared,"),
        (PAIR, [FAST, SLOW], "reference", "takes 2.002 s; there is nothing to compare it with."),
    ],
)
def test_what_is_not_comparable_does_not_win_and_is_named(monkeypatch, strategies, seconds, fastest, said):
    real = overview.over_baselines

    def with_one_set_aside(frame, baselines, thresholds):
        table = real(frame, baselines, thresholds)
        return table.assign(verdict=table["verdict"].mask(frame["strategy"] == "pinned", "not comparable"))

    monkeypatch.setattr(overview, "over_baselines", with_one_set_aside)
    points = points_of(strategies, seconds)
    row, advice = only(points)
    assert (row["fastest"], row["not_comparable"]) == (fastest, "pinned")
    assert advice["answer"].startswith(f"{fastest} {said}")
    assert advice["answer"].endswith(" Not comparable: pinned.")
    headline = opening.headline(answers_of(points)[0])
    assert headline.startswith("Nothing to compare") == (strategies == PAIR)


def test_headlines():
    def said(*rows):
        columns = ["fastest", "lead_verdict", "speedup", "verdict"]
        table = pd.DataFrame(rows, columns=columns).assign(fastest_status="ok")
        diverged = opening.headline(table.assign(fastest_status="diverged"))
        assert f"In {len(rows)} cases no training run ended well; shortest mean times: a " in diverged
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


def test_a_winner_that_did_not_end_well_is_not_recommended_without_a_word():
    points = points_of(TWO | {"network.hidden": [1024]}, [SLOW, FAST], mse=float("nan"))
    row, advice = only(points)
    assert row["fastest_status"] == "diverged"
    assert advice["answer"].startswith("combined has the shortest mean time: 2.00 times as fast as the ref")
    assert advice["answer"].endswith("But its status is diverged, and no other that is comparable is ok.")
    page = text_of(opening_of(points))
    assert "none: every training run diverged ; the shortest time has combined" in page
    assert "In 1 case no training run ended well" in page
    assert "significant" not in page.partition("all 2")[0]  # nor has it a lead


def records_of_rounds(settings, rounds):
    """Records of cells of these settings; ``rounds`` gives the runs of each round by strategy and seed."""
    cells = cells_of(settings)
    found = records_of_cells(
        cells, [rounds(cell["strategy"]["name"], cell["network"]["seed"]) for cell in cells]
    )
    return {f"{settings['strategy']} {name}": one for name, one in found.items()}


def lead_of(records):
    """The overview's row of records of one point, and its lead."""
    (row,) = overview.build(overview.points_of(records, THRESHOLDS), THRESHOLDS).to_dict("records")
    return row, (row["fastest"], row["runner_up"], row["lead_verdict"])


def test_seeds_are_rounds_of_one_cell_and_are_compared_with_its_interval():
    """Two rounds of each of two seeds beside four of another strategy, which has one run in each."""
    times = {1: [2.01, 2.02], 2: [2.03, 2.04]}
    reference, alone = {"strategy": "reference", "protocol.rounds": 4}, {"strategy": "pinned"}
    records = records_of_rounds(reference, lambda *_: [[4.0 + n / 100] for n in (1, 2, 3, 4)])
    seeds = alone | {"network.seed": [1, 2]}
    records |= records_of_rounds(seeds, lambda _, seed: [[t, t + 0.02] for t in times[seed]])
    (point,) = overview.points_of(records, THRESHOLDS)
    pinned = point[point["strategy"] == "pinned"].iloc[0]
    assert pinned["rounds"] == [[time, time + 0.02] for of_seed in times.values() for time in of_seed]
    row, lead = lead_of(records)
    assert (row["strategies"], *lead) == (2, "pinned", "reference", "significant")
    assert row["lead_ci_low"] < row["lead"] < row["lead_ci_high"] and not row["note"]


@pytest.mark.parametrize("more", ["reference", "pinned", None])
def test_a_round_of_a_seed_is_compared_with_the_same_round_of_the_same_seed(more):
    """Also where one of two cells of the first seed has more rounds than all others."""

    def rounds(name, seed):  # the machine is slower in some passes of the workflow
        passes = range(1, 5 if (name, seed) == (more, 1) else 3)
        return [[(1 + seed / 10 + number / 7) * (2 if name == "reference" else 1)] for number in passes]

    row, _ = lead_of(records_of_rounds({"strategy": ["reference", "pinned"], "network.seed": [1, 2]}, rounds))
    assert (row["fastest"], row["speedup"]) == ("pinned", pytest.approx(2))
    assert row["speedup_ci_high"] == pytest.approx(2)


def test_the_first_is_not_one_that_lacks_a_slow_round():
    """In the rounds that both have, the one with the longer mean is faster."""
    speed, slow = {"reference": 3.0, "pinned": 1.05, "streams": 1.0}, [1.0, 1.01, 1.02, 2.0]
    records = records_of_rounds(
        {"strategy": [*speed]},
        lambda name, _: [[speed[name] * passed] for passed in slow[: 3 if name == "pinned" else 4]],
    )
    (point,) = overview.points_of(records, THRESHOLDS)
    assert point.set_index("strategy")["mean_s"].idxmin() == "pinned"
    row, lead = lead_of(records)
    assert lead == ("streams", "pinned", "significant") and row["lead"] == pytest.approx(1.05)


def test_a_single_common_round_displaces_no_shorter_mean():
    rounds = {"pinned": [[1.05, 1.051]], "streams": [[1.0, 1.001], [1.3, 1.301], [1.3, 1.301]]}
    records = records_of_rounds({"strategy": [*rounds], "protocol.rounds": 3}, lambda name, _: rounds[name])
    assert lead_of(records)[1] == ("pinned", "streams", "not significant")


def test_a_launch_of_several_networks_takes_no_part_even_alone(tmp_path):
    """Not in overview, recommendation, summary or page, which are then empty and can be written."""
    points = points_of({"strategy": "ensemble", "strategy.starts": 2}, [FAST])
    assert points == []
    table, advice = answers_of(points)
    assert len(table) == len(advice) == 0 and {"fastest", "lead_verdict"} <= set(table)
    for name, empty in (("overview", with_sentences(table)), ("recommendation", advice)):
        write_table(empty, str(tmp_path / f"{name}.csv"), str(tmp_path / f"{name}.html"), name)
    assert '<p class="headline">Nothing to compare' in opening.summary(table, points, origins())  # of no CPU
    assert "ensemble" not in opening_of(points)


def test_devices_may_differ_between_points_and_are_not_compared_in_one():
    cells = cells_of(TWO | {"training.batch_size": [64, 128]})

    def load(others):
        records = records_of_cells(cells, [halves(FAST)] * 4)
        again = records_of_cells(cells, [halves(FAST)] * 4, device_uuid="GPU-999")
        records |= {name: one for name, one in again.items() if int(name.split()[0]) in others}
        return overview.points_of(records, THRESHOLDS)

    batches = [cell["training"]["batch_size"] for cell in cells]
    assert len(load({i for i, size in enumerate(batches) if size == 128})) == 2
    (apart,) = {i for i, size in enumerate(batches) if size == 64} & {0, 1}
    assert answers_of(load({apart}))[0]["not_comparable"].tolist() == ["combined", ""]


# ---- the first page of the report


USED = {"kernel": "one_layer", "plan": "one cluster of 16 blocks"}


@pytest.mark.parametrize(
    ("settings", "on", "used", "said"),
    [
        (
            {"strategy": ["pinned"]},
            GPU,
            {},
            "pinned (kernel naive) there is nothing to compare it with 4.003 s – –",
        ),
        ({"strategy": ["reference", "blas"]}, HOST, {}, "small, 256 blas 1.002 s"),  # without a kernel
        (THREE, GPU, USED, "(kernel one_layer, one cluster of 16 blocks)"),
    ],
)
def test_the_first_is_shown_with_what_it_used(settings, on, used, said):
    points = points_of(settings, (SLOW, FASTER, FAST)[: len(settings["strategy"])], on)
    advice = answers_of(points)[1]
    assert (advice["kernel"].item() == "") == (on == HOST)
    assert said in text_of(opening_of(points, advice.assign(**used)))


@pytest.mark.parametrize(("count", "unfolded"), [(1, 1), (2, 0)])
def test_of_one_case_the_strategies_are_unfolded_and_of_several_folded(count, unfolded):
    settings = TWO | {"training.batch_size": [64, 128][:count]}
    page = opening_of(points_of(settings, [SLOW] * count + [FASTER] * count))
    assert (page.count("<details"), page.count("<details open>")) == (count, unfolded)
    assert "<br><br>" not in page and "<br></small>" not in page


def test_the_ranking_has_every_strategy_with_its_distance_to_the_first():
    page = text_of(opening_of(points_of(THREE, (SLOW, FASTER, UNSURE))))
    first, second, third = re.findall(
        r"(\w+) \(kernel naive\) ([\d.]+ s) ± ([\d.]+ m?s)(.*?) ok, 6 runs", page.partition("all 3 strat")[2]
    )
    assert first == ("combined", "1.002 s", "1.871 ms", " shortest mean")
    assert second[0] == "pinned" and re.fullmatch(r" 1\.23 \([\d.]+ to [\d.]+\) not significant", second[3])
    assert third[0] == "reference" and re.fullmatch(r" 3\.99 \([\d.]+ to [\d.]+\) slower", third[3])


def test_every_table_of_the_answer_has_a_name_and_no_cell_is_empty():
    page = opening_of(points_of(THREE, (SLOW, FASTER, FAST)))
    assert re.findall(r"<table.*?>", page) == [
        '<table aria-label="What to use for each data set and network">',
        '<table aria-label="Strategies, the shortest mean time first: small, 256">',
    ]
    answered = page.partition("<details")[0]
    assert "<td></td>" not in answered
    assert '<th scope="row" rowspan="2">small, 256</th>' in answered and '<tr><td class="why"' in answered


def test_the_ranking_ends_with_what_failed():
    (cells,) = points_of(THREE, (SLOW, FASTER, FAST))
    lost = {"mean_s": None, "std_s": None, "status": "unsupported", "reason": "no <b>such</b> device"}
    failed = cells["strategy"] == "combined"
    cells = cells.assign(**{key: cells[key].mask(failed, value) for key, value in lost.items()})
    said = text_of(opening_of([cells])).partition("all 3 strat")[2].partition("State of the machine")[0]
    assert said.endswith("combined (kernel naive) – unsupported no &lt;b&gt;such&lt;/b&gt; device ")


def test_durations_have_the_unit_that_suits_them():
    said = {2.0: "2 s", 0.0247234: "24.72 ms", 2.33e-6: "2.33 µs", float("nan"): "–", 0.0: "0 µs"}
    assert {seconds: duration(seconds) for seconds in said} == said


def test_what_did_not_end_well_is_named_with_its_reason():
    records = records_of_cells(
        cells_of(THREE | {"network.hidden": [1024]}), map(halves, [SLOW, FAST, FASTER])
    )
    for name, found in records.items():
        cell, number = found["cell"], found["round"]
        if cell["strategy"]["name"] == "combined":
            records[name] = record(cell, [1.0, 1.0], float("nan"), number=number)
        if cell["strategy"]["name"] == "pinned":
            records[name] = record(cell, [], number=number, ended=("out_of_memory", "12 bytes"))
    points = overview.points_of(records, THRESHOLDS)
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


def test_of_one_case_the_opening_begins_with_its_answer_as_the_terminal_has_it():
    points = points_of(TWO, [SLOW, FAST])
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


def test_no_strategy_finished():
    points = points_of(TWO, [SLOW, FAST])
    lost = [cells.assign(mean_s=None, std_s=None, status="out_of_memory") for cells in points]
    assert answers_of(lost)[1]["answer"].item() == "No strategy finished."
    assert "Nothing to compare" in opening_of(lost)


def test_the_device_is_said_and_a_cpu_is_called_one():
    of_cpu = origins(backend="cpu", device="Abacus")
    on_gpu, on_host = opening.devices(pd.concat([origins(), of_cpu]))
    assert on_gpu == "Measured on one NVIDIA H200, driver 580.1, CUDA runtime 13.2, CuPy 14.2."
    assert opening.devices(origins()) == [on_gpu]
    assert on_host == "CPU baselines were measured on its host: Abacus, NumPy 2.5."
    (said,) = opening.devices(of_cpu)
    assert "on the CPU, Abacus" in said and "no GPU was used" in said


def test_the_machines_words_are_counted_by_cell():
    loaded = QUIET | {"readings": [{"seconds": 1.0, "other_cores": 4.0, "stolen_cores": 0.0}]}
    points = points_of(TWO, [FASTER, UNSURE], machine=loaded)
    assert opening.machine_states(points) == {"shared": 2, "noisy": 1}
    assert opening.machine_states(points_of(TWO, [FASTER, FAST])) == {"quiet": 2}


def test_the_opening_shows_the_first_of_many_cases_and_says_so(monkeypatch):
    monkeypatch.setattr(opening, "_MOST_CASES", 2)
    settings = TWO | {"training.batch_size": [10, 11, 12, 13, 14]}
    page = opening_of(points_of(settings, [SLOW] * 5 + [FAST] * 5))
    assert page.count("</b> <small>(kernel naive)</small></td><td>2.002 s</td>") == 2
    assert "The table overview shows 3 more cases." in page
    assert "10 cells were measured: 10 quiet" in text_of(page)


@pytest.mark.parametrize("count", [6, 7])
@pytest.mark.parametrize("status", ["diverged", "unsupported"])
def test_of_many_failures_the_first_six_are_listed_and_the_others_counted(status, count):
    (cells,) = points_of(TWO, [SLOW, FAST])
    row = cells.iloc[:1]
    lost = [row.assign(cell=str(i), status=status, reason=f"reason {i}.", mean_s=None) for i in range(count)]
    said = opening_of([pd.concat([cells, *lost], ignore_index=True)]).rpartition("</table>")[2]
    assert [f"reason {i}." in said for i in range(count)] == [i < 6 for i in range(count)]
    assert re.findall(r"and (\d+) more,", said) == (["1"] if count > 6 else [])
    assert ("more," in said) == (count > 6)


def test_the_cross_validated_speedup_chooses_without_the_round_that_it_measures():
    """Each of three candidates is the fastest once, by luck: chosen by the other rounds, it gains nothing."""
    baseline = [[2.0], [2.0], [2.0]]
    lucky = [[[1.0], [2.0], [2.1]], [[2.0], [1.0], [2.1]], [[2.1], [2.0], [1.0]]]
    assert overview.cross_validated(baseline, lucky) < 1.0 < 2.0 / 1.7
    fast = [[1.0], [1.1], [0.9]]
    expected = (2.0**3 / (1.0 * 1.1 * 0.9)) ** (1 / 3)
    assert overview.cross_validated(baseline, [*lucky, fast]) == pytest.approx(expected)
    assert overview.cross_validated(baseline[:2], [fast]) is None
    assert overview.cross_validated(baseline, [[[1.0], [], [1.0]]]) is None
