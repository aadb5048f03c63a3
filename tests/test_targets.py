"""What is said of a table or figure that the grid does not have."""

import pytest

from snn.workflow import start_checks

MADE = [
    "results/tables/speedup.csv",
    "results/tables/speedup.html",
    "results/tables/l4/mine.csv",
    "results/figures/speedup_vs_neurons.svg",
]


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("tables/speedups.csv", "(did you mean speedup?)"),
        ("tables/overview.csv", "of g: --config"),
        ("tables/mine.csv", "(did you mean results/tables/l4/mine.csv?)"),
        ("tables/h100/speedup.csv", "(did you mean results/tables/speedup.csv?)"),
        ("figures/mine.svg", "(did you mean results/tables/l4/mine.csv?)"),
        ("tables/peers.csv", "of the sweep peers"),
        ("figures/ranking.svg", "of the table strategies"),
        ("figures/memory_map.svg", "of the table memory_map"),
        ("tables/memory_map.csv", "of g: --config"),
    ],
)
def test_what_a_table_or_figure_lacks_is_said(target, said):
    assert said in start_checks.error_of_target(f"results/{target}", MADE, "g")


def test_what_is_made_and_what_is_no_table_is_not_refused():
    for target in (*MADE, "results/cells/a.json", "all", "results/tables/x.txt", "data/mine.csv"):
        assert start_checks.error_of_target(target, MADE, "g") is None


SHOWN = ["results/tables/speedup.html", "results/figures/speedup_vs_neurons.svg"]
PICTURE = "results/figures/speedup_vs_neurons.png"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["--report", "r.html"],
            f"1 of 2 tables and figures of mine.yaml are not made, such as {SHOWN[1]}: ",
        ),
        (["--config", "grid=mine.yaml", "--report=r.html"], "1 of 2 tables and figures of mine.yaml are"),
        (["--report", "r.html", PICTURE], "1 of 1 tables and figures of mine.yaml are not made, such as "),
        (
            ["--report", "r.html", PICTURE, SHOWN[1]],
            f"2 of 2 tables and figures of mine.yaml are not made, such as {PICTURE}",
        ),
        (["--report", "r.html", SHOWN[0]], None),
        (["--report", "r.html", "build_tables"], None),  # which tables a rule makes is Snakemake's to know
        (["--report-stylesheet", "mine.css"], None),
        (["-n"], None),
    ],
)
def test_a_report_of_what_is_not_made_is_refused(tmp_path, monkeypatch, arguments, said):
    monkeypatch.chdir(tmp_path)
    made = tmp_path / SHOWN[0]
    made.parent.mkdir(parents=True)
    made.write_text("table")
    found = start_checks.error_of_report(arguments, SHOWN, {"all", "build_tables"}, "mine.yaml")
    assert found is None if said is None else found.startswith(f"--report: {said}")
