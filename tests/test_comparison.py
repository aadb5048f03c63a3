"""Two results side by side: divided where they may be, and never where they may not."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from real_records import without
from records_of import PROVENANCE, frame_of, halves, record
from whole_grid import sweeps_of

from snn import cli, compare
from snn.grid import naming
from snn.records import store
from snn.records.archive import read_all, write
from snn.tables.comparison import keyed

SWEEPS = sweeps_of()


def of_two_rounds(cells):
    return [cell | {"protocol": cell["protocol"] | {"runs": 8, "rounds": 2}} for cell in cells]


CELLS = of_two_rounds(SWEEPS["dataset_size"].cells[:5])
ANOTHER_CPU = PROVENANCE["host"] | {"cpu": "another"}
TIMES = {"reference": 4.0, "streams": 5.0, "pinned": 3.0, "combined": 2.0, "preallocated": 1.0}


def archive(folder, cells=CELLS, factor=None, noise=0.0003, **details):
    """Records of four runs in two rounds around known times, each strategy's multiplied by its factor."""
    random = np.random.default_rng(len(str(folder)))
    records = []
    for cell in cells:
        name = cell["strategy"]["name"]
        seconds = TIMES[name] * (factor or {}).get(name, 1.0) * (1 + noise * random.standard_normal(8))
        for number, some in enumerate(halves(list(seconds)), 1):
            records.append(record(cell, some, number=number, **details))
    folder.mkdir()
    write(records, folder)
    return folder


@pytest.fixture(autouse=True)
def written(request, monkeypatch):
    """Only one test writes its figure; the others build it, which takes half of the time."""
    if request.function is not test_the_same_device_twice:
        monkeypatch.setattr(compare, "save", lambda figure, paths: [Path(path).touch() for path in paths])


def compared(tmp_path, a, b):
    """The table of two results, by strategy, and what is printed."""
    printed = compare.compare(a, b, tmp_path / "out")
    table = pd.read_csv(tmp_path / "out/comparison.csv", keep_default_na=False, na_values=[""])
    endings = {path.suffix for path in (tmp_path / "out").iterdir()}
    assert endings == {".csv", ".html", ".svg", ".png"}
    return table.set_index("strategy"), printed


def test_the_same_device_twice(tmp_path):
    other = {"factor": {"combined": 0.8, "streams": 1.1}, "git": {"commit": "beef", "dirty": False}}
    table, printed = compared(tmp_path, archive(tmp_path / "a"), archive(tmp_path / "b", **other))
    words = dict.fromkeys(TIMES, "same") | {"streams": "slower", "combined": "faster"}
    assert table["verdict"].to_dict() == words
    assert table.loc["combined", "ratio"] == pytest.approx(1 / 0.8, rel=0.01)
    assert table["ratio"].between(table["ratio_ci_low"], table["ratio_ci_high"]).all()
    assert table.loc["combined", "speedup_b"] == pytest.approx(2.5, rel=0.01)
    assert table.loc[["combined", "pinned"], "agreement"].tolist() == ["differs", "agrees"]
    assert set(table["commit_a"]) == {"c0ffee"} and set(table["commit_b"]) == {"beef"}
    assert table["note"].isna().all()
    assert printed.startswith("5 cells compared: 3 same")
    noisy, _ = compared(tmp_path, *(archive(tmp_path / name, noise=0.2) for name in ("c", "dd")))
    assert "same" not in set(noisy["verdict"])


def test_seconds_of_two_devices_are_never_divided(tmp_path):
    on_t4 = {"device": {"backend": "cuda", "name": "Tesla T4"}}
    cells = [cell | on_t4 | {"protocol": cell["protocol"] | {"runs": 99}} for cell in CELLS]
    other = {"device": "Tesla T4", "device_uuid": "GPU-2", "factor": {"pinned": 0.5}}
    table, printed = compared(tmp_path, archive(tmp_path / "a"), archive(tmp_path / "b", cells, **other))
    said = "different devices: NVIDIA H200 and Tesla T4"
    assert set(table["verdict"]) == {"not comparable"} and set(table["note"]) == {said}
    assert table[["ratio", "ratio_ci_low", "ratio_ci_high"]].isna().all(axis=None)
    assert f"not comparable: {said}" in printed
    # What each did for itself stands beside the other's.
    assert table["speedup_a"].to_dict() == pytest.approx({k: 4 / v for k, v in TIMES.items()}, rel=0.01)
    assert table.loc["pinned", "speedup_b"] == pytest.approx(2 * 4 / 3, rel=0.01)
    assert table["agreement"].to_dict() == dict.fromkeys(TIMES, "agrees") | {"pinned": "differs"}


def test_a_cell_is_found_also_beside_records_of_before_a_setting(tmp_path):
    """Their settings come first, and the new one after all of them."""
    for i, cell in enumerate((CELLS[0], CELLS[-1])):
        older = [without(one, ("training", "accumulate")) for one in CELLS if one != cell]
        a, b = (tmp_path / f"{side}{i}" for side in "ab")
        table, _ = compared(tmp_path, archive(a, [*older, cell]), archive(b, [cell]))
        assert list(table.index) == [cell["strategy"]["name"]]


def test_a_cell_is_the_same_where_its_class_or_its_file_has_moved():
    rows = frame_of(*(record(cell, [1.0] * 4) for cell in CELLS))

    def keys(**changes):
        return list(keyed(rows.assign(**here | changes)).index)

    here = {"dataset.path": "/a/mine.csv", "dataset.sha256": "ab"}
    assert keys() == keys(**{"dataset.path": "/b/mine.csv", "strategy._target_": "elsewhere"})
    assert not set(keys()) & set(keys(**{"dataset.sha256": "cd"}))
    longer = CELLS[0] | {"protocol": CELLS[0]["protocol"] | {"runs": 99}}
    for given in ((CELLS[0], longer), (longer, CELLS[0])):  # of two protocols the one with more runs is kept
        rows = frame_of(*(record(cell, [1.0] * (2 + 2 * (cell is longer))) for cell in given))
        assert keyed(rows)["runs"].tolist() == [4]


def test_cells_of_the_same_names_are_told_apart_by_the_settings_in_which_they_differ(tmp_path):
    table, _ = compared(tmp_path / "one", *(archive(tmp_path / name) for name in "ab"))
    assert list(table.columns[:3]) == ["dataset", "network", "kernel"]
    assert not any("." in name for name in table)  # the names say it all
    smaller = [cell | {"training": cell["training"] | {"batch_size": 64}} for cell in CELLS]
    table, _ = compared(
        tmp_path / "two", *(archive(tmp_path / name, cells=[*CELLS, *smaller]) for name in "cd")
    )
    assert set(table.loc["pinned", "training.batch_size"]) == {64, 256}


def test_an_archive_that_lacks_rounds_is_compared_by_those_that_both_have(tmp_path):
    whole = archive(tmp_path / "whole", noise=0.2)
    (tmp_path / "second").mkdir()
    write([one for one in read_all(whole).values() if one["round"] == 2], tmp_path / "second")
    table, _ = compared(tmp_path, whole, tmp_path / "second")
    assert table["ratio"].tolist() == [1.0] * len(CELLS)
    assert (table["a_s"] != table["b_s"]).all()
    said = "rounds are unequal: the ratio is of 1 in common, the times are of all"
    assert set(table["note"].str.partition("; ")[0]) == {said}


@pytest.mark.parametrize(
    ("others", "said"),
    [
        (None, "cannot be read"),
        ([{"cells": of_two_rounds(SWEEPS["neurons"].cells[:2])}], "have no cell in common"),
        (
            [{"cells": CELLS[1:]}, {"cells": CELLS[:1], "device_uuid": "GPU-2", "host": ANOTHER_CPU}],
            "two devices do not go into one table",
        ),
    ],
    ids=["no folder", "no common cell", "two devices"],
)
def test_refuses(tmp_path, capsys, others, said):
    a, b = archive(tmp_path / "a"), tmp_path / "b"
    if others:
        folders = [archive(tmp_path / f"b{i}", **one) for i, one in enumerate(others)]
        b.mkdir()
        write([one for folder in folders for one in read_all(folder).values()], b)
    assert cli.main(["compare", str(a), str(b), str(tmp_path / "out")]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_what_is_on_one_side_only_is_counted_and_a_folder_of_results_will_do(tmp_path):
    a, b = archive(tmp_path / "a"), archive(tmp_path / "b", cells=CELLS[2:])
    table, printed = compared(tmp_path, a, b)
    assert len(table) == 3
    assert table["speedup_b"].isna().all()  # there is no reference on that side
    assert "2 cells are only in A" in printed
    for cell in CELLS:
        for number, path in enumerate(naming.record_paths(cell)[:2], 1):
            made = record(cell, [TIMES[cell["strategy"]["name"]]] * 3, number=number)
            store.write(tmp_path / "c" / path, made)
    table, _ = compared(tmp_path, a, tmp_path / "c/results")
    assert len(table) == 5 and set(table["verdict"]) == {"same"}
