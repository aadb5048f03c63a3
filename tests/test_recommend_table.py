"""The ranked table of candidates: order, both ratios, who is called fastest, and what has no rank."""

import math

import numpy as np
import pandas as pd
import pytest
import yaml
from conftest import ROOT
from records_of import ON_ITS_HOST, PROVENANCE, QUIET, record

from snn.analysis import frame
from snn.config.groups import read_yaml
from snn.grid import sweeps
from snn.hardware.devices import Device
from snn.recommending import text
from snn.recommending.budget import Length
from snn.tables import overview, recommend

GPU = Device("cuda", "NVIDIA H200")
THRESHOLDS = read_yaml(ROOT / "config/verdicts.yaml")


@pytest.fixture
def ranked(tmp_path):
    """The table where the strategies took these seconds, in two rounds of three runs."""

    def table(mse=None, device=GPU, provenance=PROVENANCE, **seconds):
        path = tmp_path / "grid.yaml"
        sweep = {"protocol.rounds": 2, "protocol.runs": 6, "strategy": list(seconds)}
        path.write_text(yaml.safe_dump({"sweeps": {"recommend": sweep}}))
        cells = sweeps.read(path, device)["recommend"].named
        records = {}
        for name, cell in cells.items():
            strategy = cell["strategy"]["name"]
            for number in (1, 2):
                loss = (mse or {}).get(strategy, 41.0)
                of = seconds[strategy]
                ended = ("unsupported", "it needs a CUDA device") if of is None else None
                runs = [] if of is None else [of * (1 + 0.001 * (number + i)) for i in range(3)]
                records[f"{name} {number}"] = record(
                    cell, runs, mse=loss, number=number, ended=ended, **provenance
                )
        return recommend.build(frame.tabulate(records, THRESHOLDS), {}, THRESHOLDS)

    return table


def test_the_order_is_that_of_common_rounds(tmp_path):
    """Of two with one mean time, the one that was measured while the machine was fast is the slower one."""
    path = tmp_path / "grid.yaml"
    sweep = {"protocol.rounds": 2, "strategy": ["reference", "combined", "graph"]}
    path.write_text(yaml.safe_dump({"sweeps": {"recommend": sweep}}))
    rounds = {"reference": [3.0], "combined": [2.9, 4.0], "graph": [1.0, 3.0]}
    records = {
        f"{name} {number}": record(cell, [seconds, seconds * 1.01], number=number)
        for name, cell in sweeps.read(path, GPU)["recommend"].named.items()
        for number, seconds in enumerate(rounds[cell["strategy"]["name"]], 1)
    }
    table = recommend.build(frame.tabulate(records, THRESHOLDS), {}, THRESHOLDS)
    assert table["strategy"].tolist() == ["graph", "combined", "reference"]
    once = (
        "one round: how much rounds differ is unknown, so only a factor beyond 2 is significant; "
        "the same command with a larger --budget adds rounds"
    )
    assert table["note"].tolist() == [once, once, ""]
    assert table["behind"].tolist() == pytest.approx([1, 6.9 / 4, 3])
    assert table["mean_s"][1] > table["mean_s"][2]  # of slower rounds


def test_points_are_in_the_order_of_the_grid(tmp_path):
    path = tmp_path / "grid.yaml"
    sweep = {"protocol.rounds": 1, "dataset": ["small", "large"], "strategy": ["reference", "graph"]}
    path.write_text(yaml.safe_dump({"sweeps": {"recommend": sweep}}))
    named = sweeps.read(path, GPU)["recommend"].named
    records = {name: record(cell, [1.0, 1.1]) for name, cell in named.items()}
    table = recommend.build(frame.tabulate(records, THRESHOLDS), {}, THRESHOLDS)
    assert table["dataset"].tolist() == ["small", "small", "large", "large"]


def answered(table, answer=None, trained=None, **network):
    training = {"epochs": 100, "learning_rate": 0.002}
    network = {"init": "uniform01", "hidden": [1024, 64]} | network
    cell = {"training": training, "dataset": {"rows": 60_000}, "network": network}
    return text.answer(table, pd.DataFrame() if answer is None else answer, trained, cell)


def test_rows_are_in_the_order_of_time_with_both_ratios(ranked):
    table = ranked(reference=4.0, combined=1.0, graph=2.0)
    assert table["strategy"].tolist() == ["combined", "graph", "reference"]
    assert table["rank"].tolist() == [1, 2, 3]
    assert table["speedup"].tolist() == pytest.approx([4, 2, 1])
    assert table["verdict"].tolist() == ["faster", "faster", "reference"]
    assert table["behind"].tolist() == pytest.approx([1, 2, 4])
    assert table["against_fastest"].tolist() == ["fastest", "slower", "slower"]
    assert (table["rounds"] == 2).all() and (table["runs"] == 6).all()
    row = table.iloc[1]
    assert row["mean_ci_low"] < row["mean_s"] < row["mean_ci_high"]
    assert row["behind_ci_low"] <= 2 <= row["behind_ci_high"]


def test_nobody_is_the_fastest_by_a_lead_that_is_not_significant(ranked):
    table = ranked(reference=4.0, combined=1.0, graph=1.0001)
    assert table["against_fastest"].tolist() == ["shortest mean", "as fast", "slower"]


def test_what_diverged_or_is_unsupported_has_no_rank(ranked):
    table = ranked({"combined": math.nan}, reference=4.0, combined=1.0, graph=None)
    assert table["strategy"].tolist() == ["reference", "combined", "graph"]
    assert table["rank"].isna().tolist() == [False, True, True]
    assert table["against_fastest"].tolist()[1:] == ["", ""]
    assert table["status"].tolist() == ["ok", "diverged", "unsupported"]
    assert table["reason"].tolist()[2] == "it needs a CUDA device"


def test_the_table_that_is_printed_says_why_a_row_has_no_time(ranked):
    said = answered(ranked(reference=4.0, graph=None, pinned=None)).splitlines()
    assert "Unsupported: graph, pinned: it needs a CUDA device." in said


def test_the_table_that_is_printed_says_why_rows_with_a_time_have_no_rank(ranked):
    """In a few lines: each that diverged may have its own loss."""
    names = ("combined", "graph", "pinned", "streams", "workspace")
    table = ranked(dict.fromkeys(names, math.nan), reference=4.0, **dict.fromkeys(names, 1.0))
    reasons = table.set_index("strategy")["reason"]
    assert reasons["reference"] == "" and all(reasons[list(names)])
    said = [line for line in answered(table).splitlines() if line.startswith("Diverged: ")]
    assert said == [f"Diverged: {', '.join(table['strategy'][1:])}: {reasons['graph']}."]
    table["reason"] = [f"reason {i}" for i in range(len(table))]
    said = [line for line in answered(table).splitlines() if line.startswith("Diverged: ")]
    assert ["reason 3" in line for line in said] == [False, False, True, False]
    assert f"{', '.join(table['strategy'][4:])}: see the column reason of ranking.csv" in said[-1]


def test_a_diverged_winner_is_never_recommended(ranked):
    table = ranked({"reference": math.nan, "combined": math.nan}, reference=4.0, combined=1.0)
    said = answered(table)
    assert table["rank"].isna().all() and (table["against_fastest"] == "").all()
    assert "No recommendation: no training ended well. diverged: combined, reference." in said
    uniform = "Its initial weights are all positive (uniform01): others may help, "
    smaller = ", or a --learning-rate below 0.002."
    assert f"{uniform}--network mlp --hidden 1024,64{smaller}" in said
    assert f"{uniform}network.init=he_uniform{smaller}" in answered(table, hidden=[])
    assert "reference. A --learning-rate below 0.002 may help." in answered(table, init="he_uniform")


def test_the_table_that_is_printed_names_rounds_and_states(ranked):
    table = ranked(reference=4.0, combined=0.001).assign(machine="noisy", rounds=[1, 2])
    answer = pd.DataFrame([{"answer": "combined is the fastest.", "reason": "It copies less."}])
    lines = answered(table, answer).splitlines()
    assert lines[1:3] == ["combined is the fastest.", "It copies less."]
    assert "1 ms" in lines[6] and " 4000 " in lines[6]
    assert lines[-3].startswith("Rounds are unequal: a ratio is of those that both have")
    assert lines[-2].startswith("Measured in one round only") and "combined" in lines[-2]
    assert lines[-2].endswith("so a ratio is only significant beyond a factor of 2.")
    assert "noisy in 2 rows" in lines[-1]
    table["machine"] = ["noisy", "quiet"]
    assert "noisy in 1 row (" in answered(table, answer)
    assert "unequal" not in answered(table.assign(rounds=2), answer)


def test_what_a_strategy_chose_is_named_and_several_of_a_name_have_their_kernel(ranked):
    table = ranked(reference=4.0, combined=2.0, persistent=1.0)
    table["strategy"] = table["strategy"].replace("combined", "reference")
    table.loc[table["strategy"] == "reference", "kernel"] = ["tiled", "naive"]
    for plan, kernel in (("one cluster of 8 blocks", "one_layer"), ("graph: no shape for it", "naive")):
        table.loc[table["strategy"] == "persistent", "kernel"] = kernel
        said = answered(table.assign(plan=[plan, math.nan, math.nan], rounds=[2, 1, 1])).splitlines()
        row = next(line for line in said if line.split()[1:2] == ["persistent"])
        assert f"persistent {kernel}" in " ".join(row.split())
        assert f"persistent ran as {plan}." in said
        assert "ran out: reference (tiled), reference (naive). Their" in "\n".join(said)


def test_a_baseline_on_the_cpu_has_none_of_the_kernels(ranked):
    table = ranked(device=Device("cpu", "AMD EPYC"), provenance=ON_ITS_HOST, reference=4.0, blas=1.0)
    rows = [" ".join(line.split()) for line in answered(table).splitlines()]
    assert any(row.startswith("1 blas its own 1 s ") for row in rows)
    assert any(row.startswith("2 reference naive 4.01 s ") for row in rows)


def test_without_a_recommendation_the_answer_is_that_of_the_ranking(ranked):
    """The table of recommendations has none in reduced precision, or of a gradient that is published."""
    over = "4.00 times as fast as the reference"
    said = answered(ranked(reference=4.0, combined=1.0, graph=1.0001)).splitlines()[1]
    assert said == f"combined has the shortest mean time, {over}; equally fast: graph."
    table = ranked(reference=4.0, combined=1.0, graph=2.0)
    said = answered(table).splitlines()[1]
    assert said == f"combined is the fastest: {over} and 2.00 times as fast as graph, the runner-up."
    unsure = table.assign(against_fastest=["shortest mean", "not significant", "slower"])
    said = answered(unsure).splitlines()[1]
    assert said == f"combined has the shortest mean time, {over}; not significantly slower: graph."


def test_a_lead_of_one_round_is_preliminary(ranked):
    table = ranked(reference=4.0, combined=1.0)
    assert "Preliminary" not in answered(table)
    said = answered(table.assign(rounds=1))
    assert "\nPreliminary: measured in one round only" in said and "Measured in one" not in said


def test_the_times_are_said_to_be_of_fewer_epochs(ranked):
    table = ranked(reference=4.0, combined=1.0)
    assert "Times are of trainings of 100 epochs.\n" in answered(table) + "\n"
    said = "Times are of trainings of 7 of the 100 epochs: what is done once per training weighs more"
    assert said in answered(table, trained=Length(7))
    said = "Times are of trainings of 1 of the 100 epochs, on 512 of the 60,000 rows: what is done once"
    assert said in answered(table, trained=Length(1, 512, 85))


def test_scores_are_of_those_that_ended_well(ranked):
    table = ranked({"combined": math.nan}, reference=4.0, combined=1.0)
    said = answered(table.assign(test_r2=[0.7, -9.0], test_rmse=[2.0, 99.0], runs=[1, 8]))
    assert "R² 0.7, RMSE in the target's units 2 (one training by reference)." in said
    assert "predicting the mean" not in said
    worse = answered(table.assign(test_r2=-0.07, test_rmse=2.0))
    assert "R² -0.07, RMSE in the target's units 2, no better than always predicting the mean (" in worse
    assert "held-out" not in answered(table.assign(test_r2=[math.nan, 0.5]))
    assert "nan" not in answered(table.assign(test_r2=[math.nan, 0.5]))


def test_large_scores_are_written_out(ranked):
    table = ranked(reference=4.0, combined=1.0).assign(test_r2=0.5, test_rmse=31345.6, test_rmse_std=654.3)
    assert "in the target's units 31,300 ± 650 (mean" in answered(table)
    assert "units 99.9 ± 0.01 (" in answered(table.assign(test_rmse=99.91, test_rmse_std=0.01))


def test_scores_say_how_many_rows_they_are_of_and_why_there_may_be_no_r2(ranked):
    table = ranked(reference=4.0, combined=1.0).assign(test_rmse=0.5, test_r2=np.nan, test_rows=1.0)
    said = answered(table)
    assert (
        "On 1 held-out row, after the epochs that were timed: RMSE in the target's units 0.5, no R², " in said
    )
    table = table.assign(test_r2=0.25, test_rows=2000.0)
    assert "On 2,000 held-out rows, after the epochs that were timed: R² 0.25, RMSE" in answered(table)


def test_scores_are_of_the_candidate_with_the_most_draws_beside_the_commonest_class(ranked):
    """Candidates with fewer rounds have other means only because they have fewer draws of the weights."""
    table = ranked(reference=4.0, combined=1.0).assign(runs=[3, 9], test_accuracy=[0.89, 0.91])
    said = answered(table.assign(test_accuracy_std=[0.001, 0.0234], majority_accuracy=0.857))
    of_runs = "mean ± standard deviation of 9 trainings by reference from different weights"
    assert f"accuracy 0.91 ± 0.023, of always predicting the commonest class 0.857 ({of_runs})." in said
    said = answered(table.assign(majority_accuracy=[0.91, 0.91]))
    assert "of always predicting the commonest class 0.91, which is no worse (" in said


def test_what_ended_well_and_cannot_be_compared_is_not_said_to_have_failed(ranked):
    table = ranked(reference=4.0, combined=1.0).assign(rank=None)
    assert "No recommendation: no training can be compared with the reference.\n" in answered(table)


def test_why_a_time_cannot_be_compared_is_said_below_the_table(ranked):
    table = ranked(reference=4.0, combined=5.0, graph=None)
    assert "Not comparable" not in answered(table)
    at = table["strategy"] == "combined"
    table.loc[at, ["rank", "verdict", "note"]] = [math.nan, "not comparable", "copy cost +113%"]
    assert "\nNot comparable: combined: copy cost +113%.\n" in answered(table) + "\n"


def test_a_row_that_cannot_be_compared_with_the_first_is_not_tied_with_it(tmp_path):
    """The machine's costs were in between while the reference ran: either may be compared with that."""
    path = tmp_path / "grid.yaml"
    path.write_text(
        yaml.safe_dump({"sweeps": {"recommend": {"strategy": ["reference", "combined", "graph", "pinned"]}}})
    )
    seconds = {"reference": 4.0, "combined": 3.0, "graph": 1.0, "pinned": 3.5}
    copies = {"reference": 13.0, "combined": 9.5, "graph": 18.0, "pinned": 13.0}
    records = {}
    for name, cell in sweeps.read(path, GPU)["recommend"].named.items():
        strategy = cell["strategy"]["name"]
        costs = {"malloc_us": 50.0, "copy_us": copies[strategy]}
        machine = QUIET | {"probe": {"before": costs, "after": costs}}
        runs = [seconds[strategy] * (1 + i / 1000) for i in range(3)]
        records |= {f"{name} {i}": record(cell, runs, machine=machine, number=i) for i in (1, 2)}
    rows = frame.tabulate(records, THRESHOLDS)
    table = recommend.build(rows, {}, THRESHOLDS)
    assert table["strategy"].tolist() == ["graph", "pinned", "reference", "combined"]
    assert table["rank"].tolist() == [1, 2, 3, pd.NA]
    assert table["against_fastest"].tolist() == ["fastest", "slower", "slower", "not comparable"]
    assert table["verdict"].tolist() == ["faster", "faster", "reference", "faster"]
    why = "not comparable with graph: the probe's costs drifted between the two: copy"
    assert table["note"].tolist()[:3] == ["", "", ""] and table["note"][3].startswith(why)
    assert f"\ncombined: {why}" in answered(table)
    (row,) = overview.build([rows], THRESHOLDS).to_dict("records")
    assert (row["fastest"], row["lead_verdict"], row["tied_with"]) == ("graph", "significant", "")
    assert (row["runner_up"], row["not_comparable"]) == ("pinned", "combined")
