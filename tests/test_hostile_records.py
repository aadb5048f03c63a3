"""Files in place of records that no program of ours wrote: each is refused by name, at once."""

import json
import os
import re
from pathlib import Path

import pytest
from conftest import ROOT
from hypothesis import given
from hypothesis import strategies as st
from real_records import edited, forged, old, reference, without
from records_of import limits_of, write_all
from whole_grid import sweeps_of

from snn import perfetto
from snn.analysis import frame
from snn.config.groups import read_yaml
from snn.errors import OutputError, RecordError
from snn.grid import naming
from snn.records import archive, limits, rounds, store, untrusted
from snn.records.digest import sealed

# ---- one file


TEXTS = {
    "nothing": b"",
    "text": b"no record",
    "a list": b"[]",
    "half": b'{"schema_version": 4, "runs"',
    "not UTF-8": json.dumps({"schema_version": 4}).encode("utf-16"),
    "nested": b"[" * 200_000,
    "NaN": b'{"schema_version": NaN}',
    "Infinity": b'{"schema_version": -Infinity}',
    "a key twice": b'{"schema_version": 4, "schema_version": 4}',
    "a huge integer": b'{"schema_version": ' + b"9" * 10_000 + b"}",
    "half a character": b'{"schema_version": 4, "reason": "\\ud800"}',
    "another version": b'{"schema_version": 5}',
    "no version": b'{"schema_version": [4]}',
    "version 2 of nothing": b'{"schema_version": 2, "runs": [1], "summary": 3}',
    "version 3 of nothing": b'{"schema_version": 3, "cell": 1}',
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=list(TEXTS))
def test_what_is_no_record_is_refused_by_name(tmp_path, text):
    path = tmp_path / "r.json"
    path.write_bytes(text)
    with pytest.raises(RecordError, match=f"^{re.escape(str(path))}: "):
        store.read(path)


def test_only_a_regular_file_is_read(tmp_path):
    """A pipe would be waited for, /dev/zero read for ever."""
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "folder.json").mkdir()
    (tmp_path / "dangling.json").symlink_to("nowhere")
    (tmp_path / "endless.json").symlink_to("/dev/zero")
    for path in (*tmp_path.iterdir(), tmp_path / "none.json", tmp_path / ("x" * 300)):
        with pytest.raises(RecordError, match=f"^{re.escape(str(path))}: "):
            store.read(path)


def test_a_file_that_is_too_large_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(untrusted, "MOST_BYTES", 100)
    store.write(tmp_path / "r.json", reference())
    with pytest.raises(RecordError, match="it has more than"):
        store.read(tmp_path / "r.json")


def test_a_key_that_occurs_twice_is_found_among_very_many():
    """In one pass: to count each of them would take minutes."""
    members = ",".join(f'"{number}": 0' for number in [*range(300_000), 299_999])
    with pytest.raises(RecordError, match=r"^it: not a record: the key '299999' occurs twice in one object"):
        untrusted.parse(f"{{{members}}}", "it")


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_no_value_of_json_gets_past_the_door(value):
    for record in (value, reference() | {"cell": value}, reference() | {"explanation": value}):
        for one in (record, old(record) if isinstance(record, dict) and "digest" in record else record):
            try:
                found = store.checked(one, "it")
            except RecordError:
                continue
            assert value is None and found["explanation"] is None  # a record may have none


def test_a_workflows_record_is_refused_with_the_command_that_measures_it_again(tmp_path):
    path = tmp_path / naming.record_path("some/cell", 1)
    store.write(path, reference() | {"round": 2})
    with pytest.raises(
        RecordError, match=r"changed after it was written.*snakemake --cores 1 --force .*some"
    ):
        store.read(path)
    assert perfetto.main([str(path), str(tmp_path / "trace.json")]) == 2


def test_a_table_refuses_a_workflows_record_without_a_digest(tmp_path):
    """Else an edit would pass under the version of a time when there was none."""
    cell = next(iter(sweeps_of().values())).cells[0]
    expected = write_all(tmp_path, [cell], [[1.0, 2.0]])
    path = next(iter(expected))
    store.write(Path(path), old(store.read(Path(path))))
    with pytest.raises(RecordError, match=r"without a digest: measure it again: .*--force"):
        frame.checked(expected)


def test_an_edited_record_of_limits_is_refused(tmp_path):
    path, record = tmp_path / "limits.json", limits_of()
    store.write(path, record)
    assert limits.read(path) == record
    changed = edited(record, ("limits", 0, "samples", 0), 1e15)
    for one, said in (
        (changed, "it was changed after it was written"),
        (without(changed, ("digest",)), "it has no digest"),
        (sealed(edited(record, ("limits", 0, "samples"), [-1.0])), r"limits\[0\].samples\[0\] is -1.0"),
    ):
        store.write(path, one)
        with pytest.raises(RecordError, match=said):
            limits.read(path)
    store.write(path, without(record, ("digest",)) | {"limits_version": 1})
    assert limits.read(path)["limits"] == record["limits"]


def test_a_full_disk_is_named_and_leaves_the_old_record(tmp_path, monkeypatch):
    path = tmp_path / "r.json"
    store.write(path, reference())

    def full(file):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OutputError, match=f"{re.escape(str(path))}: cannot be written: No space left"):
        store.write(path, reference())
    monkeypatch.undo()
    assert store.read(path) == reference()
    assert list(tmp_path.iterdir()) == [path]


# ---- records beside each other


def round_of(number, *changes):
    whole = (("cell", "protocol", "rounds"), 2), (("cell", "protocol", "runs"), 4)
    return forged(reference(), *whole, (("round",), number), *changes)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ([(("provenance", "versions", "numpy"), "1.0")], "different versions of numpy, .*, 1.0"),
        ([(("provenance", "versions", "python"), "2.7")], "different versions of python"),
        ([(("provenance", "versions", "cupy"), "1.0")], "different versions of cupy"),
        ([(("provenance", "versions", "blas_threads"), "8")], "different BLAS threads"),
        ([(("provenance", "blas_threads"), 8)], "different BLAS threads"),
        ([(("provenance", "source_hash"), "0" * 16)], "different sources"),
        ([(("ledger", "mallocs"), 999)], "different ledgers"),
        ([(("round",), 1)], "are both round 1 of one cell"),
    ],
)
def test_rounds_of_a_cell_must_be_measured_with_the_same(tmp_path, changes, said):
    archive.write([round_of(1), round_of(2, *changes)], tmp_path)
    places = r"records.jsonl.gz, line 1 and .*records.jsonl.gz, line 2"
    with pytest.raises(RecordError, match=f"{places}.*{said}"):
        archive.read_all(tmp_path)


def test_of_two_rounds_of_a_workflow_the_older_is_to_be_measured_again():
    at = (("provenance", "started"), "2020-01-01T00:00:00+00:00")
    older = round_of(2, at, (("provenance", "versions", "numpy"), "1.0"))
    with pytest.raises(
        RecordError, match=r"b-round2.json is the oldest: .*--force results/cells/b-round2.json"
    ):
        rounds.check({"results/cells/b-round1.json": round_of(1), "results/cells/b-round2.json": older})


def test_a_package_that_takes_no_part_may_come_between_two_rounds():
    known = (("provenance", "versions", "torch"), "1.0")
    rounds.check({"a": round_of(1), "b": round_of(2, known)})
    peer = (("traits", "own_runtime"), "torch")
    with pytest.raises(RecordError, match="different versions of torch"):
        rounds.check({"a": round_of(1, peer), "b": round_of(2, peer, known)})


def test_cells_of_one_table_may_be_measured_with_different_versions():
    other = forged(
        reference(),
        (("cell", "network", "seed"), 2),
        (("provenance", "versions", "numpy"), "1.0"),
        (("provenance", "versions", "python"), "2.7"),
    )
    records = {"a": reference(), "b": other}
    rounds.check(records)
    assert len(frame.tabulate(records, read_yaml(ROOT / "config/verdicts.yaml"))) == 2
