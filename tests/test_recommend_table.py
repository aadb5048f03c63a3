"""The ranked table of candidates: order, both ratios, who is called fastest, and what is printed of it."""

import math

import pandas as pd
import pytest
from overview_points import cells_of, records_of_cells
from records_of import GPU, HOST, QUIET, THRESHOLDS, frame_of, record

from snn.analysis import frame
from snn.config.cell import Cell
from snn.recommending import candidates, text
from snn.recommending.budget import Length
from snn.tables import overview, recommend, recommendation

WHOLE = Length(100)


def even(seconds):
    """Two rounds of three runs alike."""
    return [[seconds * (1 + 0.001 * (number + i)) for i in range(3)] for number in (1, 2)]


def rows_of(lost=(), device=GPU, machine=None, **seconds):
    """The rows of strategies that took these seconds: a number in even rounds, or the runs of each round.

    Those of ``None`` are unsupported, those of ``lost`` diverged; ``machine`` is by strategy."""
    records = []
    for cell in cells_of({"protocol.runs": 6, "strategy": list(seconds)}, device):
        name = cell["strategy"]["name"]
        took, given = (
            seconds[name],
            {"mse": math.nan if name in lost else 41.0, "machine": (machine or {}).get(name)},
        )
        given["ended"] = ("unsupported", "it needs a CUDA device") if took is None else None
        rounds = took if isinstance(took, list) else even(took) if took else [[], []]
        records += [record(cell, runs, number=number, **given) for number, runs in enumerate(rounds, 1)]
    return frame_of(*records)


def rank(*given, **seconds):
    """The table of these rows."""
    return recommend.build(rows_of(*given, **seconds), {}, THRESHOLDS)


def print_answer(table, trained=WHOLE, missing=(), **network):
    """What is printed of a table."""
    said = pd.DataFrame([{"answer": "combined is the fastest.", "reason": "It copies less."}])
    training = {"epochs": 100, "learning_rate": 0.002}
    network = {"init": "uniform01", "hidden": [1024, 64]} | network
    cell = Cell({"training": training, "dataset": {"rows": 60_000}, "network": network})
    return text.answer(table, said, trained, cell, missing) + "\n"


# ---- the table


def test_rows_are_in_the_order_of_time_with_both_ratios():
    table = rank(reference=4.0, combined=1.0, graph=2.0)
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


def test_the_order_is_that_of_common_rounds():
    """Of two with one mean time, the one that was measured while the machine was fast is the slower one."""
    rounds = {"reference": [3.0], "combined": [2.9, 4.0], "graph": [1.0, 3.0]}
    table = rank(**{name: [[one, one * 1.01] for one in of] for name, of in rounds.items()})
    assert table["strategy"].tolist() == ["graph", "combined", "reference"]
    assert table["behind"].tolist() == pytest.approx([1, 6.9 / 4, 3])
    assert table["mean_s"][1] > table["mean_s"][2]  # of slower rounds
    for note, once in zip(table["note"], (True, True, False), strict=True):
        assert ("one round: " in note and "--budget" in note and "snn more-rounds" not in note) == once


def test_points_are_in_the_order_of_the_grid():
    cells = cells_of({"dataset": ["small", "large"], "strategy": ["reference", "graph"]})
    records = records_of_cells(cells, [[[1.0, 1.1]]] * 4)
    table = recommend.build(frame.tabulate(records, THRESHOLDS), {}, THRESHOLDS)
    assert table["dataset"].tolist() == ["small", "small", "large", "large"]


def test_nobody_is_the_fastest_by_a_lead_that_is_not_significant():
    table = rank(reference=4.0, combined=1.0, graph=1.0001)
    assert table["against_fastest"].tolist() == ["shortest mean", "as fast", "slower"]


def test_what_diverged_or_is_unsupported_has_no_rank():
    table = rank(["combined"], reference=4.0, combined=1.0, graph=None)
    assert table["strategy"].tolist() == ["reference", "combined", "graph"]
    assert table["rank"].isna().tolist() == [False, True, True]
    assert table["against_fastest"].tolist()[1:] == ["", ""]
    assert table["status"].tolist() == ["ok", "diverged", "unsupported"]
    assert table["reason"].tolist()[2] == "it needs a CUDA device"


def test_a_row_that_cannot_be_compared_with_the_first_is_not_tied_with_it():
    """The machine's costs were in between while the reference ran: either may be compared with that."""
    copies = {"reference": 13.0, "combined": 9.5, "graph": 18.0, "pinned": 13.0}
    costs = {name: {"malloc_us": 50.0, "copy_us": copy} for name, copy in copies.items()}
    machine = {name: QUIET | {"probe": {"before": of, "after": of}} for name, of in costs.items()}
    rows = rows_of(machine=machine, reference=4.0, combined=3.0, graph=1.0, pinned=3.5)
    table = recommend.build(rows, {}, THRESHOLDS)
    assert table["strategy"].tolist() == ["graph", "pinned", "reference", "combined"]
    assert table["rank"].tolist() == [1, 2, 3, pd.NA]
    assert table["against_fastest"].tolist() == ["fastest", "slower", "slower", "not comparable"]
    assert table["verdict"].tolist() == ["faster", "faster", "reference", "faster"]
    why = "not comparable with graph: the probe's costs drifted between the two: copy"
    assert table["note"].tolist()[:3] == ["", "", ""] and table["note"][3].startswith(why)
    assert f"\ncombined: {why}" in print_answer(table)
    (row,) = overview.build([rows], THRESHOLDS).to_dict("records")
    assert (row["fastest"], row["lead_verdict"], row["tied_with"]) == ("graph", "significant", "")
    assert (row["runner_up"], row["not_comparable"]) == ("pinned", "combined")


def test_a_gpu_its_host_and_a_framework_are_compared_with_the_first():
    """The CPU's times are otherwise never divided by those of a GPU."""
    rows = recommend.prepared(rows_of(torch_eager=3.0, reference=4.0, blas=2.0, graph=1.0))
    table = recommend.build(rows, {}, THRESHOLDS)
    assert table["strategy"].tolist() == ["graph", "blas", "torch_eager", "reference"]
    assert table["rank"].tolist() == [1, 2, 3, 4]
    assert table["speedup"].tolist() == pytest.approx([3, 1.5, 1, 0.75])
    assert table["verdict"].tolist() == ["faster", "faster", "baseline", "slower"]
    assert table["against_fastest"].tolist() == ["fastest", "slower", "slower", "slower"]
    lines = [line.split() for line in print_answer(table, missing=["jax"]).splitlines()]
    assert lines[4][2:7] == ["on", "kernel", "time", "vs", "torch_eager"]
    assert [line[2] for line in lines[5:9]] == ["GPU", "CPU", "GPU", "GPU"]
    assert "jax:" in lines[-1] and "envs/requirements-peers.txt`" in lines[-1]
    (row,) = overview.build([rows], THRESHOLDS).to_dict("records")
    assert (row["fastest"], row["runner_up"]) == ("graph", "blas (on the CPU)")
    said = recommendation.sentence(row)
    assert "graph is the fastest: 3.00 times as fast as torch_eager" in said
    assert "and 2.00 times as fast as blas (on the CPU), the runner-up" in said
    (row,) = overview.build([recommend.prepared(rows_of(blas=2.0, graph=1.0))], THRESHOLDS).to_dict("records")
    assert (row["baseline"], row["backend"]) == ("blas (on the CPU)", "cuda")


# ---- what is printed

SCORES = {"test_r2": 0.5, "test_rmse": 2.0, "runs": [1, 8]}
ACCURACY = {"runs": [3, 9], "test_accuracy": [0.89, 0.91], "test_accuracy_std": [0.001, 0.0234]}
APART = {"rank": [1, None], "verdict": ["faster", "not comparable"], "note": ["", "copy cost +113%"]}
ONE_LOST = {"status": ["ok", "diverged"], "reason": ""}
KERNELS = {"strategy": "reference", "kernel": ["tiled", "naive"], "rounds": [2, 1]}


@pytest.mark.parametrize(
    ("changes", "said", "unsaid"),
    [
        # Rounds and states of the machine
        ({}, "\nTimes are for training runs of 100 epochs.\n", "Preliminary"),
        ({"rounds": 1}, "\nPreliminary: measured in one round only", "Measured in one"),
        ({"rounds": [1, 2]}, "\nRows differ in rounds: a ratio uses the rounds that both have", "quiet"),
        ({"rounds": [2, 1]}, "\nMeasured in one round only, because", "Preliminary"),
        ({"rounds": [2, 1]}, ": reference. Their intervals ", "combined, "),
        ({"rounds": [2, 1]}, "beyond a factor of 2.", ""),
        (KERNELS, " ran out: reference (naive). Their", ""),  # several of a name have their kernel
        ({"rounds": 2, "machine": "noisy"}, "noisy in 2 rows (column machine_note", "unequal"),
        ({"machine": ["noisy", "quiet"]}, "noisy in 1 row (", "quiet in"),
        # Scores: of the candidate with the most runs, since others differ only in the draws of their weights
        (SCORES, "On held-out rows, after the epochs that were timed: R² 0.5, RMSE", "predicting the mean"),
        (SCORES, " 2 (mean ± standard deviation of 8 training runs by reference", ""),
        (SCORES | {"runs": 1}, " units 2 (one training run by combined).", "deviation"),
        (SCORES | {"test_r2": -0.07}, "R² -0.07, RMSE in the target's units 2, no better than always", ""),
        (SCORES | {"test_rmse": 31345.6, "test_rmse_std": 654.3}, "in the target's units 31,300 ± 650 (", ""),
        (SCORES | {"test_rmse": 99.91, "test_rmse_std": 0.01}, "units 99.9 ± 0.01 (", ""),
        (SCORES | {"test_r2": math.nan, "test_rows": 1.0}, "On 1 held-out row, after the epochs", "R² nan"),
        (SCORES | {"test_r2": math.nan}, "RMSE in the target's units 2, no R², since", "R² nan"),
        (SCORES | {"test_rows": 2000.0}, "On 2,000 held-out rows, after", ""),
        (SCORES | ONE_LOST, "2 (one training run by combined)", "reference from"),
        (ACCURACY | {"majority_accuracy": 0.857}, "accuracy 0.91 ± 0.023, of always ", "no worse"),
        (ACCURACY | {"majority_accuracy": 0.857}, "the commonest class 0.857 (mean", ""),
        ({"test_accuracy": 0.91, "majority_accuracy": 0.91}, "class 0.91, which is no worse (", ""),
        # Without a winner, or with one that cannot be compared
        ({"rank": None}, "\nNo recommendation: no training run can be compared with the ref", "ended well"),
        (APART, "\nNot comparable: reference: copy cost +113%.\n", ""),
        ({"plan": ["one cluster", math.nan]}, "\ncombined ran as one cluster.\n", "reference ran"),
    ],
)
def test_what_a_reader_must_know_is_said(changes, said, unsaid):
    printed = print_answer(rank(reference=4.0, combined=1.0).assign(**changes))
    assert said in printed and (not unsaid or unsaid not in printed), printed


def test_the_answer_comes_first_and_then_a_line_per_candidate():
    table = rank(reference=4.0, combined=0.001)
    lines = [" ".join(line.split()) for line in print_answer(table).splitlines()]
    assert lines[:4] == ["", "combined is the fastest.", "It copies less.", ""]
    assert lines[5:7] == [
        "1 combined naive 1 ms 4000 faster 1 fastest 2 ok",
        "2 reference naive 4.01 s 1 reference 4000 slower 2 ok",
    ]
    on_cpu = print_answer(rank(device=HOST, reference=4.0, blas=1.0))
    rows = [" ".join(line.split()) for line in on_cpu.splitlines()]
    assert rows[5].startswith("1 blas its own 1 s ") and rows[6].startswith("2 reference naive 4.01 s ")


def test_there_is_an_answer_in_reduced_precision():
    """Although the overview shows fp32 alone."""
    cells = cells_of({"strategy": ["reference", "combined"], "precision": "bf16"})
    records = {
        cell.name: [*records_of_cells([cell], [even(seconds)]).values()]
        for cell, seconds in zip(cells, (4.0, 1.0), strict=True)
    }
    ranking, answer = candidates.ranking_and_answer(records, THRESHOLDS)
    assert ranking["strategy"].tolist() == ["combined", "reference"]
    assert answer["answer"].item().startswith("combined is the faster of two: 4.00 times as fast")


@pytest.mark.parametrize(
    ("length", "said"),
    [
        (Length(7), "7 of the 100 epochs: one-off work weighs more"),
        (Length(1, 512, 85), "1 of the 100 epochs, on 512 of the 60,000 rows: one-off work"),
    ],
)
def test_the_times_are_said_to_be_of_fewer_epochs(length, said):
    assert f"Times are for training runs of {said}" in print_answer(rank(reference=4.0, combined=1.0), length)


def test_why_rows_have_no_time_or_no_rank_is_said_in_a_few_lines():
    """Each that diverged may have its own loss."""

    def diverged(table):
        return [line for line in print_answer(table).splitlines() if line.startswith("Diverged: ")]

    said = print_answer(rank(reference=4.0, graph=None, pinned=None)).splitlines()
    assert "Unsupported: graph, pinned: it needs a CUDA device." in said
    names = ("combined", "graph", "pinned", "streams", "workspace")
    table = rank(names, reference=4.0, **dict.fromkeys(names, 1.0))
    reasons = table.set_index("strategy")["reason"]
    assert reasons["reference"] == "" and all(reasons[list(names)])
    assert diverged(table) == [f"Diverged: {', '.join(table['strategy'][1:])}: {reasons['graph']}."]
    said = diverged(table.assign(reason=[f"reason {i}" for i in range(len(table))]))
    assert ["reason 3" in line for line in said] == [False, False, True, False]
    assert f"{', '.join(table['strategy'][4:])}: see the column reason of ranking.csv" in said[-1]


def test_a_diverged_winner_is_never_recommended():
    table = rank(["reference", "combined"], reference=4.0, combined=1.0)
    assert table["rank"].isna().all() and (table["against_fastest"] == "").all()
    said = "No recommendation: no training run ended well. diverged: combined, reference. "
    uniform = f"{said}Its initial weights are all positive (uniform01): others may help, "
    smaller = ", or a training.learning_rate below 0.002."
    assert f"{uniform}--network mlp --hidden 1024,64{smaller}" in print_answer(table)
    assert f"{uniform}network.init=he_uniform{smaller}" in print_answer(table, hidden=[])
    assert f"{said}A training.learning_rate below 0.002 may help." in print_answer(table, init="he_uniform")
