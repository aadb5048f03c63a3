"""Records of several folders, told apart by the device that measured them."""

from pathlib import Path

import pytest
from machines import CPU, H200, LATER, cells_on, folder, records_of

from snn.errors import RecordError
from snn.merge import collect
from snn.records import archive


def counted(*folders):
    """How many records of each device there are in some folders."""
    return {name: len(records) for name, records in collect(folders).items()}


def test_a_gpu_is_known_by_its_uuid_in_whichever_folder(tmp_path):
    cells = cells_on("cuda", H200)
    found = records_of(cells)
    first, second = found[::2], found[1::2]  # by round
    a, b = folder(tmp_path / "a", first), folder(tmp_path / "b", second, first[:2])
    assert counted(a, b) == {H200: 10}


def test_cards_that_measured_rounds_of_one_cell_in_one_folder_stand_together(tmp_path):
    """As in the tables of that folder; in another folder they are two, and so is a card of other cells."""
    cells = cells_on("cuda", H200)
    found = records_of(cells)
    second = [one for one in records_of(cells, device_uuid="GPU-2") if one["round"] == 2]
    first = [one for one in found if one["round"] == 1]
    a = folder(tmp_path / "a", first, second)
    assert counted(a) == {H200: 10}
    other = folder(tmp_path / "b", records_of(cells_on("cuda", H200, "small"), device_uuid="GPU-3"))
    assert counted(a, other) == {f"{H200} (GPU-1 and 1 more)": 10, f"{H200} (GPU-3)": 10}
    apart = [folder(tmp_path / name, of) for name, of in (("c", first), ("d", second))]
    assert counted(*apart) == {f"{H200} (GPU-1)": 5, f"{H200} (GPU-2)": 5}


@pytest.mark.parametrize("changed", ["driver", "host", "versions"])
def test_cards_whose_records_may_not_stand_in_one_table_stay_apart(tmp_path, changed):
    """Also where it is records of another folder that may not; the order of folders does not matter."""
    large, small = cells_on("cuda", H200), cells_on("cuda", H200, "small")
    found, where = records_of(large), records_of(small)[0]["provenance"]
    other = {"driver": "999"} | {key: where[key] | {"cpus": 2, "cupy": "1.0"} for key in ("host", "versions")}
    second = [one for one in records_of(large, device_uuid="GPU-2") if one["round"] == 2]
    a = folder(tmp_path / "a", [one for one in found if one["round"] == 1], second)
    both = [
        one
        for uuid, number, further in (("GPU-1", 1, {}), ("GPU-2", 2, {changed: other[changed]}))
        for one in records_of(small, device_uuid=uuid, **further)
        if one["round"] == number
    ]
    b, c = (folder(tmp_path / name, of) for name, of in (("b", both[:5]), ("c", both[5:])))
    assert counted(a) == {H200: 10}
    assert counted(a, b, c) == counted(c, a, b) == {f"{H200} (GPU-1)": 10, f"{H200} (GPU-2)": 10}


def test_cards_that_measured_the_same_round_of_a_cell_stay_apart(tmp_path):
    cells = cells_on("cuda", H200)
    both = records_of(cells), records_of(cells, device_uuid="GPU-2")
    mixed = [one for number, of in enumerate(both, 1) for one in of if one["round"] == number]
    a, b = folder(tmp_path / "a", mixed), folder(tmp_path / "b", both[1])
    assert counted(a, b) == {f"{H200} (GPU-1)": 5, f"{H200} (GPU-2)": 10}


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
