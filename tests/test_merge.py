"""Results of many machines in one table: each device beside the others, and never over another's."""

import html
from functools import cache
from pathlib import Path

import pandas as pd
import pytest
from conftest import ROOT
from published_tables import entries_of, records_in
from records_of import CPU, H200, LATER, T4, TIMES, cells_on, folder, records_of
from strangers import GPUS

from snn import cli, merge
from snn.analysis import published
from snn.config.cell import Cell
from snn.config.groups import read_yaml
from snn.errors import OutputError, RecordError
from snn.files.outputs import replaced_folder
from snn.files.published_sets import PUBLISHED, name_of
from snn.grid import naming
from snn.merge import collect
from snn.records import archive, store
from snn.tables import cards

PAPER = {name: read_yaml(ROOT / f"config/paper/{name}.yaml") for name in published.TABLES}
FILES = {f"devices.{ending}" for ending in ("csv", "html", "svg", "png")}
OF_CARDS = {"cards.csv", "cards.html"}


def merged(tmp_path, *folders):
    printed = merge.run(folders, tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").iterdir()} - OF_CARDS == FILES
    assert {path.name for path in tmp_path.iterdir() if path.name.startswith(".")} == set()
    table = pd.read_csv(tmp_path / "out/devices.csv", keep_default_na=False, na_values=[""])
    return table.set_index("strategy"), printed


@pytest.fixture(scope="module", autouse=True)
def quick():
    """No figure is written; a published set is read once, and not checked. Either takes most of the time."""
    read = archive.unchecked

    @cache
    def published_entries(folder):
        return {f"{folder}:{number}": entry for number, entry in enumerate(entries_of(name_of(folder)))}

    def read_once(folder):
        return (published_entries if PUBLISHED in folder.parents else read)(folder)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merge, "save", lambda figure, paths: [Path(path).touch() for path in paths])
        patch.setattr(archive, "unchecked", read_once)
        yield


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    """A GPU, another on which `combined` is slower, and a CPU of two strategies."""
    slower = records_of(
        cells_on("cuda", T4), {"combined": 4.0, "reference": 0.5}, device=T4, device_uuid="GPU-2"
    )
    host = [c for c in cells_on("cpu", "AMD EPYC") if c["strategy"]["name"] in ("reference", "combined")]
    found = (records_of(cells_on("cuda", H200)), slower, records_of(host, {"combined": 1.2}))
    place = tmp_path_factory.mktemp("three")
    return [folder(place / name, records) for name, records in zip("abc", found, strict=True)]


@pytest.fixture(scope="module")
def of_three(three, tmp_path_factory):
    """Table, printed lines and page of the three."""
    place = tmp_path_factory.mktemp("of_three")
    return *merged(place, *three), (place / "out/devices.html").read_text()


def test_each_device_has_speedups_over_its_own_baseline(of_three):
    table, printed, _ = of_three
    assert set(table["baseline"]) == {"reference"}
    at_half = {name: 2.0 / time for name, time in TIMES.items()} | {"reference": 1.0, "combined": 0.25}
    for name, expected in (
        (H200, {name: 4.0 / time for name, time in TIMES.items()}),
        (T4, at_half),
        (CPU, {"reference": 1.0, "combined": 4.0 / 2.4}),
    ):
        inside = table[f"speedup {name}"].dropna()
        assert inside.to_dict() == pytest.approx(expected)
        assert (table.loc[inside.index, f"speedup_ci_low {name}"] <= inside).all()
        assert (table.loc[inside.index, f"speedup_ci_high {name}"] >= inside).all()
    assert f"{H200}: 10 records\n{T4}: 10 records\n{CPU}: 4 records\n" in printed
    epochs = [table.loc["combined", f"training.epochs {name}"] for name in (H200, CPU)]
    assert epochs == [100, 50]  # of one row: the workflow trains a CPU for fewer


def test_advice_says_on_which_devices_it_holds(of_three):
    table, printed, _ = of_three
    advice = f"combined faster on {H200} and {CPU} and Tesla T4 as published, slower on {T4}"
    assert f"  large, 256: {advice}\n" in printed
    assert table["on_all"].fillna("").to_dict() == {
        "reference": "",
        **dict.fromkeys(("streams", "pinned", "combined"), "differs"),
        "preallocated": "faster",
    }
    told = table["advice"].dropna().to_dict()
    assert told["combined"] == advice and "reference" not in told
    assert told["preallocated"] == f"preallocated faster on {H200} and {T4}"


def test_published_values_stand_beside_without_an_interval(of_three):
    table, _, page = of_three
    published_by_strategy = {"reference": 1.0, "streams": 0.99, "pinned": 1.04, "combined": 1.65}
    assert table["published_speedup Tesla T4"].dropna().to_dict() == published_by_strategy
    assert table.loc["combined", "published_note"] == "elsewhere in the paper 2.14"
    assert not [name for name in table if "ci_" in name and "Tesla T4" in name]
    assert f"speedup 95% CI low {H200}" in page and '<span class="word bad">slower</span>' in page


def test_devices_of_any_name_have_their_columns(tmp_path):
    folders = [
        folder(tmp_path / str(i), records_of(cells_on("cuda", name), device=name, device_uuid=f"GPU-{i}"))
        for i, name in enumerate(GPUS)
    ]
    table, printed = merged(tmp_path, *folders)
    for name in GPUS:
        assert table.loc["combined", f"speedup {name}"] == pytest.approx(2.0)
        assert f"{name}: 10 records\n" in printed
    page = (tmp_path / "out/devices.html").read_text(encoding="utf-8")
    assert "<b>" not in page and all(name in html.unescape(page) for name in GPUS)


def test_noise_is_not_significant_anywhere(tmp_path):
    a = folder(tmp_path / "a", records_of(cells_on("cuda", H200), spread=0.5))
    b = folder(tmp_path / "b", records_of(cells_on("cuda", T4), device=T4, device_uuid="GPU-2"))
    table, _ = merged(tmp_path, a, b)
    assert table.loc["combined", f"verdict {H200}"] == "not significant"
    assert table.loc["combined", "on_all"] == "inconclusive"


def test_a_device_without_a_baseline_has_times_and_no_speedup(tmp_path, three):
    """The reference of another device, of the same name even, is none of its own."""
    alone = [cell for cell in cells_on("cuda", H200) if cell["strategy"]["name"] == "combined"]
    b = folder(tmp_path / "d", records_of(alone, device_uuid="GPU-9"))
    table, _ = merged(tmp_path, three[0], b)
    rows = table.loc[["combined"]].set_index("baseline", drop=False)
    assert rows.loc["reference", f"speedup {H200} (GPU-1)"] == pytest.approx(2.0)
    unpaired = rows[rows["baseline"].isna()].iloc[0]
    assert unpaired[f"mean_s {H200} (GPU-9)"] == pytest.approx(2.0, rel=0.01)
    assert f"speedup {H200} (GPU-9)" not in table


def test_a_folder_of_a_workflow_is_as_good_as_an_archive(tmp_path, three, of_three):
    for one in archive.read_all(three[1]).values():
        store.write(tmp_path / "w" / naming.record_path(Cell(one["cell"]).name, one["round"]), one)
    again, _ = merged(tmp_path, three[0], tmp_path / "w/results", three[2])
    assert again.equals(of_three[0])


def test_two_machines_with_one_cpu_stay_two(tmp_path):
    """They have no UUID, and their host may be described alike: their folders tell them apart."""
    reference, *others = cells_on("cpu", "AMD EPYC")
    a = folder(tmp_path / "a", records_of([reference, *others]))
    b = folder(tmp_path / "b", records_of([reference, *others], {"combined": 4.0}, started=LATER[0]))
    c = folder(tmp_path / "c", records_of(others, started=LATER[1]))
    table, _ = merged(tmp_path, a, b, c)
    assert table.loc["combined", f"verdict {CPU} (a)"].dropna().tolist() == ["faster"]
    assert table.loc["combined", f"verdict {CPU} (b)"].dropna().tolist() == ["slower"]
    assert f"speedup {CPU} (c)" not in table  # the others' reference is not its own


def test_microbenchmarks_alone_are_left_out(tmp_path, capsys, three):
    (tmp_path / "m/microbenchmarks").mkdir(parents=True)
    _, printed = merged(tmp_path, *three, tmp_path / "m")
    assert f"{tmp_path}/m is left out: it has only microbenchmarks\n" in printed
    assert cli.main(["merge", str(tmp_path / "m"), f"output={tmp_path / 'out'}"]) == 2
    assert "m: no records found: it has neither cells nor" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ("none", "none: cannot be read: No such file or directory\n"),
        ("nvidia-h200-paper", f"or directory; it is {ROOT}/results/published/nvidia-h200/paper now\n"),
        ("README.md", "README.md: it is neither a folder of results nor a records"),
        ("README.md/below", "README.md/below: cannot be read"),
        ("empty", "empty: no records found"),
        ("cut", "cut/records.jsonl.gz"),
    ],
)
def test_what_is_no_folder_of_records_is_refused(tmp_path, capsys, three, bad, said):
    (tmp_path / "README.md").touch()
    folder(tmp_path / "empty")
    file = folder(tmp_path / "cut", records_of(cells_on("cuda", T4))) / archive.RECORDS
    file.write_bytes(file.read_bytes()[:-40])
    before = {path.name for path in tmp_path.iterdir()}
    assert cli.main(["merge", str(three[0]), str(tmp_path / bad), f"output={tmp_path / 'out'}"]) == 2
    assert said in capsys.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{a} output=mine", "mine: cannot be written"),
        ("{a} output=file", "file: cannot be written"),
        ("{a} output=file/below", "below: cannot be written"),
        ("output=x", "give one or more folders"),
        ("{a} output=", "output is empty"),
        ("{a} output=a output=b", "output is given twice, as 'a' and 'b'"),
    ],
)
def test_an_output_that_is_something_else_is_refused(tmp_path, monkeypatch, capsys, three, line, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    for name in ("mine/thesis.txt", "file"):
        (tmp_path / name).write_text("kept")
    assert cli.main(["merge", *line.format(a=three[0]).split()]) == 2
    assert said in capsys.readouterr().err
    assert (tmp_path / "mine/thesis.txt").read_text() == (tmp_path / "file").read_text() == "kept"


def test_an_earlier_output_is_replaced(tmp_path, three):
    assert f"speedup {T4}" not in merged(tmp_path, three[0])[0]
    assert f"speedup {T4}" in merged(tmp_path, *three)[0]


def test_a_folder_is_replaced_whole_or_not_at_all(tmp_path):
    old = tmp_path / "out"
    old.mkdir()
    (old / "a").write_text("old")
    with pytest.raises(RuntimeError), replaced_folder(old, ("a", "b")) as new:
        (new / "a").write_text("new")
        raise RuntimeError
    with pytest.raises(OutputError, match="No space left"), replaced_folder(old, ("a", "b")) as new:
        (new / "a").write_text("new")
        raise OSError(28, "No space left on device")
    assert [path.read_text() for path in old.iterdir()] == ["old"]
    with replaced_folder(old, ("a", "b")) as new:
        (new / "b").write_text("new")
    assert [path.name for path in old.iterdir()] == ["b"]
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def cell_of(**changes):
    (found,) = [c for c in cells_on("cuda", H200) if c["strategy"]["name"] == "combined"]
    return found | {name: found[name] | values for name, values in changes.items()}


@pytest.mark.parametrize(
    ("changes", "values"),
    [
        ({}, [1.65, 2.14]),
        ({"protocol": {"runs": 99}}, [1.65, 2.14]),
        ({"network": {"hidden": [128]}}, [2.24]),
        ({"network": {"hidden": [1024]}}, [0.93]),
        ({"network": {"hidden": [64]}}, []),
        ({"network": {"hidden": [256, 256], "clip_norm": 5.0}}, [1.52]),
        ({"network": {"hidden": [256, 256]}}, []),
        ({"network": {"init": "he_uniform"}}, []),
        ({"training": {"epochs": 10}}, []),
        ({"training": {"fidelity": "published"}}, [1.65, 2.14]),
        ({"dataset": {"rows": 300}}, []),
        ({"strategy": {"tile_rows": 32}}, []),
        ({"kernel": {"name": "tiled"}}, []),
        ({"kernel": {"block": [8, 8]}}, []),
        ({"precision": {"name": "tf32"}}, []),
    ],
)
def test_published_speedups_are_of_the_papers_settings(changes, values):
    assert published.speedups(cell_of(**changes), PAPER) == values


# ---- devices that are told apart


def counted(*folders):
    """How many records of each device there are in some folders."""
    return {name: len(records) for name, records in collect(folders).items()}


def of_card(uuid="GPU-1", rounds=(1, 2), dataset="large", **further):
    """Records of five cells on a card."""
    found = records_of(cells_on("cuda", H200, dataset), device_uuid=uuid, **further)
    return [one for one in found if one["round"] in rounds]


def test_cards_are_one_by_uuid_or_where_their_records_may_stand_in_one_table(tmp_path):
    """As in the tables of a folder in which they measured rounds of one cell; in whichever order they are."""
    first, second = of_card(rounds=(1,)), of_card("GPU-2", rounds=(2,))
    one, two = f"{H200} (GPU-1)", f"{H200} (GPU-2)"
    cases = {
        "one UUID in two folders": ([first, of_card(rounds=(2,)) + first[:2]], {H200: 10}),
        "rounds of one cell in one folder": ([first + second], {H200: 10}),
        "rounds in two folders": ([first, second], {one: 5, two: 5}),
        "the same round elsewhere": ([first + second, of_card("GPU-2")], {one: 5, two: 10}),
        "a card of other cells": (
            [first + second, of_card("GPU-3", dataset="small")],
            {f"{H200} (GPU-1 and 1 more)": 10, f"{H200} (GPU-3)": 10},
        ),
    }
    where = first[0]["provenance"]
    others = {key: where[key] | {"cpus": 2, "cupy": "1.0"} for key in ("host", "versions")}
    for key, other in ({"driver": "999"} | others).items():
        small = [of_card(rounds=(1,), dataset="small")]
        small.append(of_card("GPU-2", rounds=(2,), dataset="small", **{key: other}))
        cases[f"another {key} elsewhere"] = ([first + second, *small], {one: 10, two: 10})
    for what, (folders, counts) in cases.items():
        made = [folder(tmp_path / what / str(i), records) for i, records in enumerate(folders)]
        assert counted(*made) == counted(*made[::-1]) == counts, what


def test_cards_that_did_the_same_work_have_a_table_of_their_own(tmp_path):
    found = [folder(tmp_path / card, of_card(card)) for card in ("GPU-1", "GPU-2")]
    printed = merge.run(found, tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").iterdir()} == FILES | OF_CARDS
    table = pd.read_csv(tmp_path / "out/cards.csv")
    assert set(table["cards"]) == {2} and "0 of 4 pairs" in printed
    merge.run(found[:1], tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").iterdir()} == FILES


def test_two_different_records_of_one_round_are_refused(tmp_path):
    a = folder(tmp_path / "a", records_of(cells_on("cuda", H200)))
    b = folder(tmp_path / "b", records_of(cells_on("cuda", H200)[:1], {"reference": 1.5}))
    with pytest.raises(RecordError) as refused:
        collect([a, b])
    said = str(refused.value)
    assert f"{a}/records.jsonl.gz, line 1 and {b}/records.jsonl.gz, line 1 are different records" in said
    assert "round 1 of one cell on NVIDIA H200 GPU-1: remove one of them" in said


def test_rounds_of_a_cell_in_two_folders_must_belong_together(tmp_path):
    cells = cells_on("cuda", H200)[:1]
    first, second = records_of(cells)
    versions = second["provenance"]["versions"] | {"cupy": "1.0"}
    a, b = folder(tmp_path / "a", [first]), folder(tmp_path / "b", records_of(cells, versions=versions)[1:])
    with pytest.raises(RecordError, match="the rounds of one cell have different versions of cupy"):
        collect([a, b])


def test_folders_of_one_name_are_told_apart_by_those_they_are_in(tmp_path):
    cells = cells_on("cpu", "AMD EPYC")
    found = [
        folder(tmp_path / place / "results", records_of(cells, started=at))
        for place, at in zip(("laptop", "desk", "old/desk"), LATER, strict=True)
    ]
    names = ("laptop/results", f"{tmp_path.name}/desk/results", "old/desk/results")
    assert counted(*found) == {f"{CPU} ({name})": 10 for name in names}


def test_one_cpu_by_several_paths_is_one(tmp_path, monkeypatch):
    """By another spelling, by a link, by the file in the folder, and in a copy that has further records."""
    large, small = records_of(cells_on("cpu", "AMD EPYC")), records_of(cells_on("cpu", "AMD EPYC", "small"))
    a = folder(tmp_path / "a", large)
    (tmp_path / "link").symlink_to(a)
    b, c = folder(tmp_path / "b", small, large[:1]), folder(tmp_path / "c", small[:4])
    monkeypatch.chdir(a)
    places = (a, Path(), tmp_path / "c/../a", tmp_path / "link", a / archive.RECORDS, c, b)
    assert counted(*places) == {CPU: 20}


def test_a_cpu_of_a_published_set_or_of_the_current_folder_has_a_name(tmp_path, monkeypatch):
    cells = cells_on("cpu", "AMD EPYC")
    for place, at in zip(("published/gpu/all", "published/another/other", "desk"), LATER, strict=True):
        folder(tmp_path / place, records_of(cells, started=at))
    monkeypatch.chdir(tmp_path / "desk")
    found = [tmp_path / "published/gpu/all", Path("../published/another/other"), Path()]
    names = ("gpu/all", "another/other", "desk")
    assert counted(*found) == {f"{CPU} ({name})": 10 for name in names}


def test_one_cpu_with_fewer_cores_is_another_device(tmp_path):
    fewer = {"system": "Linux x86_64", "cpu": "AMD EPYC", "cpus": 4}
    cells = cells_on("cpu", "AMD EPYC")
    a = folder(
        tmp_path / "a", records_of(cells), records_of(cells_on("cpu", "AMD EPYC", "small"), host=fewer)
    )
    assert counted(a) == {f"{CPU} (a, {cpus} CPUs, Linux x86_64)": 10 for cpus in (16, 4)}


# ---- published sets, and what docs/results.md says of them


def test_the_devices_of_published_records_are_told_apart(tmp_path):
    found = [ROOT / f"results/published/nvidia-h200/{of}" for of in ("paper", "peers", "networks")]
    table, _ = merged(tmp_path, *found)
    first, *others = [
        {record["provenance"]["device_uuid"] for record in records_in(f"nvidia-h200/{each.name}")}
        for each in found
    ]
    columns = [name for name in table if name.startswith("mean_s NVIDIA H200 (GPU-")]
    more = [int(of.split(" and ")[1].split()[0]) for of in columns if " and " in of]
    assert len(columns) + sum(more) == len(first.union(*others) - {None})
    assert len(found) <= len(columns) < len(columns) + sum(more)
    known = pd.read_csv(ROOT / "results/published/nvidia-h200/paper/tables/speedup.csv")
    known = known[known["strategy"] != "reference"].set_index(["strategy", "dataset"])["speedup"]
    of_first = table.reset_index()
    of_first = of_first[(of_first["network"] == "256") & (of_first["network.init"] == "uniform01")]
    (column,) = (name for name in columns if any(uuid[:12] in name for uuid in first))
    speedups = of_first.set_index(["strategy", "dataset"])[column.replace("mean_s", "speedup")]
    assert speedups.dropna()[known.index].to_dict() == pytest.approx(known.to_dict())


@pytest.mark.parametrize(
    ("name", "sets"),
    [
        (
            "devices",
            ("nvidia-h200/paper", "nvidia-h100-80gb-hbm3/paper", "cpu-intel-r-xeon-r-processor/2-cores"),
        ),
        ("devices_strategies", ("nvidia-h200/strategies", "nvidia-h100-80gb-hbm3/strategies")),
    ],
)
def test_the_published_tables_are_those_of_the_sets_that_docs_results_names(tmp_path, name, sets):
    merged(tmp_path, *(ROOT / "results/published" / one for one in sets))
    again = (tmp_path / "out/devices.csv").read_bytes()
    assert (ROOT / f"results/published/{name}.csv").read_bytes() == again


def test_the_published_table_of_cards_is_that_of_the_sets_that_docs_results_names():
    names = ("paper", "paper_ten_rounds", "paper_fourth_card", "strategies", "sweeps", "neighbours", "cnn")
    of_h200 = [f"nvidia-h200/{of}" for of in names]
    of_h100 = [f"nvidia-h100-80gb-hbm3/{of}" for of in ("paper", "strategies", "neighbours")]
    found = collect([ROOT / "results/published" / one for one in (*of_h200, *of_h100)])
    table = cards.build(found, read_yaml(ROOT / "config/verdicts.yaml"))
    assert (ROOT / "results/published/cards.csv").read_text() == table.to_csv(index=False)


def test_what_docs_results_says_of_the_published_tables():
    rows = pd.read_csv(ROOT / "results/published/devices.csv")
    table = rows.set_index(["strategy", "dataset", "network"]).sort_index()
    verdicts = table.loc[("combined", "large"), "verdict NVIDIA H200"]
    combined = {network: verdicts[network] for network in ("128", "256", "256-256", "1024")}
    assert combined == {"128": "faster", "256": "faster", "256-256": "faster", "1024": "slower"}
    streams = table.loc["streams", "large", "256"]
    assert (
        "slower on NVIDIA H200" in streams["advice"] and "same on Tesla T4 as published" in streams["advice"]
    )
    table = pd.read_csv(ROOT / "results/published/devices_strategies.csv")
    words = table[["verdict NVIDIA H200", "verdict NVIDIA H100 80GB HBM3"]].dropna()
    assert len(words) > 50
    assert not [row for row in words.to_numpy() if set(row) == {"faster", "slower"}]
    found = [ROOT / f"results/published/nvidia-{gpu}/strategies" for gpu in ("h200", "h100-80gb-hbm3")]
    key = ["dataset", "strategy", "kernel", "strategy.threads", "draws"]
    errors = [pd.read_csv(one / "tables/strategies.csv").set_index(key)["final_mse"] for one in found]
    both = pd.concat(errors, axis=1, join="inner")
    assert len(both) > 40 and both.nunique(axis=1).eq(1).all()
