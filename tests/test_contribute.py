"""A machine's records of the small grid as one file: what it holds, and what is not one."""

import gzip
import json
import platform
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pandas as pd
import pytest
from conftest import ROOT
from real_records import forged
from records_of import T4, folder, record

from snn import cli, contribute, merge
from snn.errors import OutputError, RecordError
from snn.files import revision
from snn.grid import sweeps
from snn.hardware.devices import Device
from snn.records import archive

GPU = Device("cuda", T4)
UUID = ("provenance", "device_uuid")


def records_on(device=GPU, uuid="GPU-7", slow=1.0):
    """The records of the grid on a device, one job after the other."""
    cells, made = sweeps.all_cells(sweeps.read(contribute.GRID, device)).values(), []
    start = datetime(2026, 3, 1, tzinfo=UTC)
    for number in (1, 2, 3):
        for i, cell in enumerate(cells):
            began = (start + timedelta(minutes=len(made))).isoformat()
            seconds = [slow * (1 + 0.1 * i), slow * (1.01 + 0.1 * i), slow * (1.02 + 0.1 * i)]
            host = {"system": "Linux x86_64", "cpu": "AMD EPYC", "cpus": 2, "id": 16 * "a", "boot": 16 * "b"}
            where = {"device": device.name, "device_uuid": uuid, "backend": device.backend, "host": host}
            where |= {"workflow": {"run": 16 * "c", "seed": 16 * "d", "position": 1}, "started": began}
            made.append(record(cell, seconds, number=number, **where))
    return made


@pytest.fixture(scope="module", autouse=True)
def known():
    """The commits of records_of.py are in the history."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(revision, "has_commit", lambda commit: commit != "deadbeef")
        yield


@pytest.fixture(scope="module")
def records():
    return records_on()


@pytest.fixture(scope="module")
def packed(records, tmp_path_factory):
    place = tmp_path_factory.mktemp("packed")
    return contribute.pack(folder(place / "results", records), place / "t4.jsonl.gz")


def lines_of(path):
    return gzip.decompress(path.read_bytes()).decode().splitlines()


def written(path, lines):
    path.write_bytes(gzip.compress("".join(line + "\n" for line in lines).encode()))
    return path


def test_it_holds_every_record_and_nothing_of_the_host(packed, records):
    seal, *lines = map(json.loads, lines_of(packed))
    assert seal["records"] == len(lines) == len(records) == 27
    for line in lines:
        assert line["provenance"]["host"].keys() <= {"system", "cpu", "cpus"}
        assert "workflow" not in line["provenance"]
        assert [run["seconds"] for run in line["runs"]]
    said = contribute.summary(packed)
    assert T4 in said and "results/contributed/t4.jsonl.gz" in said and "pull request" in said


def test_merge_adds_a_column(packed, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(merge, "save", lambda figure, paths: [Path(path).touch() for path in paths])
    other = contribute.pack(
        folder(tmp_path / "b", records_on(Device("cuda", "NVIDIA L4"), "GPU-8", 0.5)),
        tmp_path / "l4.jsonl.gz",
    )
    assert cli.main(["merge", str(packed), str(other), f"output={tmp_path / 'out'}"]) == 0
    table, said = pd.read_csv(tmp_path / "out/devices.csv"), capsys.readouterr().out
    for name in (T4, "NVIDIA L4"):
        assert f"speedup {name}" in table and f"{name}: 27 records" in said


def test_two_files_of_one_card(packed, tmp_path):
    """The same records count once; other ones of the same rounds are an error that names both."""
    copied = tmp_path / "copied.jsonl.gz"
    copied.write_bytes(packed.read_bytes())
    assert len(next(iter(merge.collect([packed, copied]).values()))) == 27
    again = contribute.pack(folder(tmp_path / "again", records_on(slow=1.1)), tmp_path / "again.jsonl.gz")
    with pytest.raises(RecordError, match=rf"{packed.name}.* and .*{again.name}.* different records"):
        merge.collect([packed, again])


def truncated(path, packed):
    path.write_bytes(packed.read_bytes()[:-2000])


def a_changed_number(path, packed):
    written(path, [line.replace('"seconds":1.0,', '"seconds":0.5,', 1) for line in lines_of(packed)])


def a_line_less(path, packed):
    written(path, lines_of(packed)[:-1])


def a_line_twice(path, packed):
    written(path, [*lines_of(packed), lines_of(packed)[-1]])


def another_schema(path, packed):
    _, first, *rest = lines_of(packed)
    archive.write_contribution([json.loads(first) | {"schema_version": 6}, *map(json.loads, rest)], path)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (truncated, "cannot be read"),
        (a_changed_number, "changed after it was written"),
        (a_line_less, "its first line does not match its 26 records"),
        (a_line_twice, "its first line does not match its 28 records"),
        (another_schema, "schema version is 6"),
    ],
)
def test_a_damaged_file_is_an_error_and_nothing_is_written(packed, tmp_path, damage, message):
    path = tmp_path / "damaged.jsonl.gz"
    damage(path, packed)
    with pytest.raises(RecordError, match=message):
        merge.run([path], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def changed(*changes, every=False):
    """Forges the first record, or every one, under digests and a seal that fit."""
    return lambda records: [forged(one, *changes) if every or not i else one for i, one in enumerate(records)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (changed((("cell", "training", "epochs"), 5)), "is not of contribute.yaml"),
        (changed((("round",), 4)), "is not of contribute.yaml"),
        (lambda records: records[1:], "26 of the 27 rounds"),
        (lambda records: [*records, records[0]], "in 28 records"),
        (changed((UUID, "GPU-8")), "several devices or commits"),
        (changed((("provenance", "git"), {"commit": "abc", "dirty": False})), "several devices or commits"),
        (
            changed((("provenance", "git"), {"commit": "abc", "dirty": True}), every=True),
            "may have been edited",
        ),
        (changed((("provenance", "git"), {"commit": "deadbeef", "dirty": False}), every=True), "history"),
        (changed((("provenance", "source_hash"), "f" * 16)), "different sources"),
        (changed((("provenance", "elapsed_seconds"), 2.0)), "in a job of 2 s"),
        (changed((("runs", 0, "seconds"), 1e-9)), "operations"),
        (changed((("runs", 0, "final_loss"), 30.0)), "losses of round 1 differ"),
        (changed((("provenance", "elapsed_seconds"), 90.0)), "a job began"),
    ],
)
def test_records_that_cannot_be_of_one_measurement(packed, tmp_path, change, message):
    records = change([entry.record for entry in archive.unchecked(packed).values()])
    path = tmp_path / "forged.jsonl.gz"
    archive.write_contribution(records, path)
    with pytest.raises(RecordError, match=message):
        merge.collect([path])


def test_records_that_are_missing_name_the_command(records, tmp_path, capsys):
    assert cli.main(["contribute", str(folder(tmp_path / "some", records[:5]))]) == 2
    said = capsys.readouterr().err
    assert "5 records" in said and "grid=config/contribute.yaml" in said


@pytest.mark.parametrize("text", ["/home/ada/x.cu is gone", "on ada-machine", "C:\\Users"])
def test_a_text_that_names_the_host_is_not_packed(records, tmp_path, monkeypatch, text):
    monkeypatch.setattr(platform, "node", lambda: "ada-machine.example.org")
    contribute._names.cache_clear()
    results = folder(tmp_path / "results", [forged(records[0], (("plan",), text)), *records[1:]])
    with pytest.raises(OutputError, match="plan is"):
        contribute.pack(results, tmp_path / "file.jsonl.gz")
    contribute._names.cache_clear()
    assert not (tmp_path / "file.jsonl.gz").exists()


def test_what_is_contributed_is_valid():
    """The files that others sent; the commits must be in a whole clone."""
    for path in sorted((ROOT / "results/contributed").glob("*.jsonl.gz")):
        merge.collect([path])
