"""The answer that opens the report: what it says of a lead, and what it does not."""

import re

import pandas as pd
import pytest
from overview_points import FAST, FASTER, SLOW, THRESHOLDS, UNSURE, cells_of, opening_of, points_of
from records_of import ON_ITS_HOST, write_all

from snn.hardware.devices import Device
from snn.report.answer import answer, duration, ranking
from snn.tables import overview, recommend, recommendation

THREE = {"strategy": ["reference", "combined", "pinned"]}


def recommended(points):
    return recommendation.build(points, overview.build(points, THRESHOLDS))


def text(page):
    page = re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL)
    return " ".join(re.sub("<[^>]*>", " ", page).split())


def test_a_significant_lead_is_said_with_both_intervals(tmp_path):
    points = points_of(tmp_path, THREE, (SLOW, FASTER, FAST))
    rows = recommended(points)
    (row,) = rows.to_dict("records")
    said = text(answer(rows))
    assert "small, 256 combined (kernel naive) 1.002 s 3.99 (" in said
    for name in ("speedup", "lead"):
        assert f"{row[name]:.2f} ({row[f'{name}_ci_low']:.2f} to {row[f'{name}_ci_high']:.2f})" in said
    assert "runner-up: pinned significant" in said
    assert "no single one" not in said


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        ((SLOW, FASTER, UNSURE), "no single one: combined (kernel naive) has the shortest mean time"),
        ((SLOW, FASTER, FASTER), "combined (kernel naive) equally fast: pinned"),
        ((FASTER, FAST, SLOW), "reference (kernel naive) 1.002 s it is the reference 2.00 ("),
    ],
)
def test_no_strategy_is_called_faster_than_its_verdict(tmp_path, seconds, said):
    page = text(answer(recommended(points_of(tmp_path, THREE, seconds))))
    assert said in page
    assert ("not significant" in page) == ("no single one" in page)


def test_a_speedup_that_is_not_significant_is_called_so(tmp_path):
    rows = recommended(points_of(tmp_path, {"strategy": ["reference", "combined"]}, (UNSURE, FASTER)))
    (row,) = rows.to_dict("records")
    assert row["verdict"] == "not significant"
    assert "times as fast as the reference (not significant, 95% CI " in row["answer"]
    assert re.search(r"1\.23 \([^)]*\) not significant", text(answer(rows)))


def test_a_baseline_on_the_cpu_is_named_without_a_kernel(tmp_path):
    settings = {"strategy": ["reference", "blas"], "protocol.runs": 6}
    cells = cells_of(tmp_path, settings, Device("cpu", "AMD EPYC"))
    points = overview.load(write_all(tmp_path, cells, (SLOW, FASTER), **ON_ITS_HOST), THRESHOLDS)
    rows = recommended(points)
    assert (rows["strategy"].item(), rows["kernel"].item()) == ("blas", "")
    assert "small, 256 blas 1.002 s" in text(answer(rows))


def test_what_diverged_is_not_the_winner(tmp_path):
    cells = cells_of(tmp_path, THREE | {"network.hidden": [1024]})
    points = overview.load(write_all(tmp_path, cells, (SLOW, FASTER, FAST), mse=float("nan")), THRESHOLDS)
    said = text(opening_of(points))
    assert "none: every training diverged ; the shortest time has combined" in said
    assert "significantly fastest" not in said and "In 1 case no training ended well" in said
    assert "significant" not in text(answer(recommended(points)))  # nor has it a lead


def test_of_one_case_the_strategies_are_unfolded_and_of_several_folded(tmp_path):
    points = points_of(tmp_path, {"strategy": ["reference", "combined"]}, (SLOW, FASTER))
    row, ranked = recommended(points), recommend.build(points[0], {}, THRESHOLDS)
    for count, unfolded in ((1, 1), (2, 0)):
        page = answer(pd.concat([row] * count), [ranked] * count)
        assert (page.count("<details"), page.count("<details open>")) == (count, unfolded)
        assert "<br><br>" not in page and "<br></small>" not in page


def test_one_alone_wins_nothing(tmp_path):
    said = text(answer(recommended(points_of(tmp_path, {"strategy": "pinned"}, [FAST]))))
    assert "pinned (kernel naive) there is nothing to compare it with 2.002 s – –" in said


def test_the_kernel_is_what_the_strategy_used(tmp_path):
    rows = recommended(points_of(tmp_path, THREE, (SLOW, FASTER, FAST)))
    planned = rows.assign(kernel="one_layer", plan="one cluster of 16 blocks")
    assert "(kernel one_layer, one cluster of 16 blocks)" in answer(planned)


def test_the_ranking_has_every_strategy_with_its_distance_to_the_first(tmp_path):
    points = points_of(tmp_path, THREE, (SLOW, FASTER, UNSURE))
    page = text(ranking(recommend.build(points[0], {}, THRESHOLDS)))
    first, second, third = re.findall(
        r"(\w+) \(kernel naive\) ([\d.]+ s) ± ([\d.]+ m?s)(.*?) ok, 6 runs", page
    )
    assert first == ("combined", "1.002 s", "1.871 ms", " shortest mean")
    assert second[0] == "pinned" and re.fullmatch(r" 1\.23 \([\d.]+ to [\d.]+\) not significant", second[3])
    assert third[0] == "reference" and re.fullmatch(r" 3\.99 \([\d.]+ to [\d.]+\) slower", third[3])
    assert "all 3 strategies" in opening_of(points)


def test_every_table_of_the_answer_has_a_name_and_no_cell_is_empty(tmp_path):
    page = opening_of(points_of(tmp_path, THREE, (SLOW, FASTER, FAST)))
    assert re.findall(r"<table.*?>", page) == [
        '<table aria-label="What to use for each data set and network">',
        '<table aria-label="Strategies, the shortest mean time first: small, 256">',
    ]
    answered = page.partition("<details")[0]
    assert "<td></td>" not in answered
    assert '<th scope="row" rowspan="2">small, 256</th>' in answered and '<tr><td class="why"' in answered


def test_strategies_that_stand_twice_are_told_apart(tmp_path):
    points = points_of(tmp_path, {"strategy": "combined", "strategy.tile_rows": [32, 128]}, (FAST, FASTER))
    ranked = recommend.build(points[0], {}, THRESHOLDS)
    assert ranked["options"].tolist() == ["tile_rows 128", "tile_rows 32"]
    assert "combined (kernel naive, tile_rows 128) 1.002 s" in text(ranking(ranked))


def test_the_ranking_ends_with_what_failed(tmp_path):
    points = points_of(tmp_path, THREE, (SLOW, FASTER, FAST))
    failed = points[0]["strategy"] == "combined"
    cells = points[0].assign(
        mean_s=points[0]["mean_s"].mask(failed),
        std_s=points[0]["std_s"].mask(failed),
        status=points[0]["status"].mask(failed, "unsupported"),
        reason=points[0]["reason"].mask(failed, "no <b>such</b> device"),
    )
    ranked = recommend.build(cells, {}, THRESHOLDS)
    assert ranked["strategy"].tolist() == ["pinned", "reference", "combined"]
    assert text(ranking(ranked)).endswith(
        "combined (kernel naive) – unsupported no &lt;b&gt;such&lt;/b&gt; device"
    )


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(2.0, "2 s"), (0.0247234, "24.72 ms"), (2.33e-6, "2.33 µs"), (float("nan"), "–"), (0.0, "0 µs")],
)
def test_durations_have_the_unit_that_suits_them(seconds, said):
    assert duration(seconds) == said


def test_an_interval_that_leaves_everything_open_is_not_written_out(tmp_path):
    rows = recommended(points_of(tmp_path, THREE, (SLOW, FASTER, FAST)))
    wide = rows.assign(speedup_ci_low=3e-6, speedup_ci_high=2.4e5)
    assert "3.99 (below 0.01 to above 10,000)" in text(answer(wide))
