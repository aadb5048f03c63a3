"""Results of many machines in one table: each device beside the others, and never over another's."""

import html

import pandas as pd
import pytest
from conftest import ROOT
from machines import CPU, H200, LATER, T4, TIMES, cells_on, folder, records_of
from merging import merged
from strangers import GPUS

from snn import merge
from snn.analysis import published
from snn.config.groups import read_yaml
from snn.errors import OutputError
from snn.files.outputs import replaced_folder
from snn.records import archive
from snn.tables import devices

PAPER = {name: read_yaml(ROOT / f"config/paper/{name}.yaml") for name in published.TABLES}


@pytest.fixture
def three(tmp_path, no_devices_figure):
    """A GPU, another on which `combined` is slower, and a CPU of two strategies; no figure is written."""
    other = cells_on("cuda", T4)
    slower = records_of(other, {"combined": 4.0, "reference": 0.5}, device=T4, device_uuid="GPU-2")
    host = [c for c in cells_on("cpu", "AMD EPYC") if c["strategy"]["name"] in ("reference", "combined")]
    return (
        folder(tmp_path / "a", records_of(cells_on("cuda", H200))),
        folder(tmp_path / "b", slower),
        folder(tmp_path / "c", records_of(host, {"combined": 1.2})),
    )


def test_each_device_has_speedups_over_its_own_baseline(tmp_path, three):
    table, printed = merged(tmp_path, *three)
    assert set(table["baseline"]) == {"reference"}
    ratios = {name: table[f"speedup {name}"].dropna().to_dict() for name in (H200, T4, CPU)}
    assert ratios[H200] == pytest.approx({name: 4.0 / time for name, time in TIMES.items()})
    at_half = {name: 2.0 / time for name, time in TIMES.items()} | {"reference": 1.0, "combined": 0.25}
    assert ratios[T4] == pytest.approx(at_half)
    assert ratios[CPU] == pytest.approx({"reference": 1.0, "combined": 4.0 / 2.4})
    for name in (H200, T4, CPU):
        inside = table[f"speedup {name}"].dropna()
        assert (table.loc[inside.index, f"speedup_ci_low {name}"] <= inside).all()
        assert (table.loc[inside.index, f"speedup_ci_high {name}"] >= inside).all()
    assert f"{H200}: 10 records\n{T4}: 10 records\n{CPU}: 4 records\n" in printed


def test_devices_of_any_name_have_their_columns(tmp_path, no_devices_figure):
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


def test_advice_says_on_which_devices_it_holds(tmp_path, three):
    table, printed = merged(tmp_path, *three)
    on_t4 = "Tesla T4 as published"
    advice = f"combined faster on {H200} and {CPU} and {on_t4}, slower on {T4}"
    assert table.loc["combined", "advice"] == advice
    assert f"  large, 256: {advice}\n" in printed
    words = table["on_all"].fillna("").to_dict()
    assert words == {
        "reference": "",
        "streams": "differs",  # same on the H200 and as published, slower on the T4
        "pinned": "differs",
        "combined": "differs",
        "preallocated": "faster",
    }
    assert table.loc["preallocated", "advice"] == f"preallocated faster on {H200} and {T4}"
    assert pd.isna(table.loc["reference", "advice"])


def test_published_values_stand_beside_without_an_interval(tmp_path, three):
    table, _ = merged(tmp_path, *three)
    assert table["published_speedup Tesla T4"].dropna().to_dict() == {
        "reference": 1.0,
        "streams": 0.99,
        "pinned": 1.04,
        "combined": 1.65,
    }
    assert table.loc["combined", "published_note"] == "elsewhere in the paper 2.14"
    assert not [name for name in table if "ci_" in name and "Tesla T4" in name]
    page = (tmp_path / "out/devices.html").read_text()
    assert f"speedup 95% CI low {H200}" in page and '<span class="word bad">slower</span>' in page


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


def test_a_folder_of_a_workflow_is_as_good_as_an_archive(tmp_path, three):
    from snn.grid import naming
    from snn.records import store

    for one in archive.read_all(three[1]).values():
        store.write(tmp_path / "w" / naming.record_path(naming.name_of(one["cell"]), one["round"]), one)
    again, _ = merged(tmp_path, three[0], tmp_path / "w/results", three[2])
    assert again.equals(merged(tmp_path, *three)[0])


@pytest.mark.usefixtures("no_devices_figure")
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
    assert f"{tmp_path}/m is left out: it has microbenchmarks alone\n" in printed
    assert merge.main([str(tmp_path / "m"), f"output={tmp_path / 'out'}"]) == 2
    assert "m: there are no records in it: it has neither cells nor" in capsys.readouterr().err


def cut(path):
    file = path / archive.RECORDS
    file.write_bytes(file.read_bytes()[:-40])
    return path


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: path / "none", "none: cannot be read: No such file or directory\n"),
        (
            lambda path: path / "nvidia-h200-paper",
            f"or directory; it is {ROOT}/results/published/nvidia-h200/paper now\n",
        ),
        (lambda path: path / "a/README.md", "a/README.md: cannot be read: No such file or directory\n"),
        (
            lambda path: ROOT / "README.md",
            "/README.md: it is neither a folder of results nor a records",
        ),
        (lambda path: folder(path / "empty"), "empty: there are no records in it"),
        (
            lambda path: cut(folder(path / "cut", records_of(cells_on("cuda", T4)))),
            "cut/records.jsonl.gz",
        ),
    ],
)
def test_what_is_no_folder_of_records_is_refused(tmp_path, capsys, three, make, said):
    bad = make(tmp_path)
    before = {path.name for path in tmp_path.iterdir()}
    assert merge.main([str(three[0]), str(bad), f"output={tmp_path / 'out'}"]) == 2
    assert said in capsys.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} == before


def test_the_output_is_a_new_folder_or_an_earlier_one(tmp_path, capsys, three):
    out = tmp_path / "mine"
    out.mkdir()
    (out / "thesis.txt").write_text("kept")
    (tmp_path / "file").write_text("kept")
    for path in (out, tmp_path / "file", tmp_path / "file/below"):
        assert merge.main([str(three[0]), f"output={path}"]) == 2
        assert f"{path}: cannot be written" in capsys.readouterr().err
    assert merge.main([f"output={tmp_path}"]) == 2
    assert "no folder is named" in capsys.readouterr().err
    assert merge.main([str(three[0]), "output="]) == 2
    assert "output is empty" in capsys.readouterr().err
    assert merge.main([str(three[0]), "output=a", "output=b"]) == 2
    assert "output is given twice, as 'a' and 'b'" in capsys.readouterr().err
    assert (out / "thesis.txt").read_text() == (tmp_path / "file").read_text() == "kept"
    merged(tmp_path, three[0])
    table, _ = merged(tmp_path, *three)  # in place of the first
    assert f"speedup {T4}" in table


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
        ({"dataset": {"rows": 300}}, []),
        ({"strategy": {"tile_rows": 32}}, []),
        ({"kernel": {"name": "tiled"}}, []),
        ({"kernel": {"block": [8, 8]}}, []),
        ({"precision": {"name": "tf32"}}, []),
    ],
)
def test_published_speedups_are_of_the_papers_settings(changes, values):
    assert published.speedups(cell_of(**changes), PAPER) == values


def test_usage(capsys):
    assert merge.main([]) == 2
    assert "FOLDER..." in capsys.readouterr().err
    assert merge.main(["--help"]) == 0
    assert devices.TITLE
