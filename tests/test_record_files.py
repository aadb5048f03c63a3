"""The files of records: what is read of them, at its edges, and what is said where they are refused."""

import gzip
import hashlib
import json

import pytest
from conftest import ROOT
from records_of import limits_of
from small_records import refusal

from snn.hardware.limits import VERSION
from snn.records import archive, digest, limits, store, untrusted

# ---- JSON


def test_a_file_is_read_up_to_64_mib_and_an_archive_to_256():
    assert untrusted.MOST_BYTES == 64 * 2**20
    assert untrusted.MOST_ARCHIVE_BYTES == 256 * 2**20
    assert "larger than 64 MiB" in (ROOT / "docs/reference/records.md").read_text()


def test_a_file_of_just_that_size_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(untrusted, "MOST_BYTES", 6)
    (tmp_path / "a.json").write_text('["ab"]')
    assert untrusted.read_json(tmp_path / "a.json") == ["ab"]
    (tmp_path / "a.json").write_text('["ab"] ')
    assert "it has more than 6 bytes" in refusal(untrusted.read_json, tmp_path / "a.json")


def test_an_archive_of_just_that_size_is_read(tmp_path, monkeypatch):
    path = tmp_path / "a.gz"
    for line, whole in ((4, 12), (3, 12), (4, 11)):
        monkeypatch.setattr(untrusted, "MOST_BYTES", line)
        monkeypatch.setattr(untrusted, "MOST_ARCHIVE_BYTES", whole)
        path.write_bytes(gzip.compress(b"abc\ndef\nghi\n"))
        if (line, whole) == (4, 12):
            found = list(untrusted.lines(path))
            assert found == [
                (f"{path}, line {n}", f"{text}\n") for n, text in enumerate(("abc", "def", "ghi"), 1)
            ]
        else:
            at = 1 if line == 3 else 3
            assert f"{path}, line {at}: decompresses to more than 0 MiB in a line" in refusal(
                list, untrusted.lines(path)
            )


def test_the_limits_are_said_in_mib(tmp_path, monkeypatch):
    monkeypatch.setattr(untrusted, "MOST_BYTES", 1 << 20)
    monkeypatch.setattr(untrusted, "MOST_ARCHIVE_BYTES", 3 << 20)
    (tmp_path / "a.gz").write_bytes(gzip.compress(bytes(2 << 20)))
    said = refusal(list, untrusted.lines(tmp_path / "a.gz"))
    assert "to more than 1 MiB in a line, or 3 MiB in all: this is no archive of records" in said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"a": 1, "b": 2, "b": 3}', "the key 'b' occurs twice in one object"),
        ("[NaN]", "NaN is not a number of JSON"),
        ("[-Infinity]", "-Infinity is not a number of JSON"),
        ('["\\ud800"]', "surrogates not allowed"),
        ('["\\uDfFf"]', "surrogates not allowed"),
        ("[" * 100_000, "it is nested too deeply"),
        ("[1", "Expecting ',' delimiter"),
    ],
)
def test_what_is_not_strict_json_is_refused(text, said):
    found = refusal(untrusted.parse, text, "it")
    assert found.startswith("it: not a record: ") and said in found


@pytest.mark.parametrize(
    "content",
    [
        *(b"no gzip", b"", gzip.compress(b"\xff\n", mtime=0)),
        gzip.compress(b"{}\n", mtime=0)[:-4],
        gzip.compress(b"{}\n", mtime=0)[:10] + b"no block",
    ],
    ids=["other", "empty", "no UTF-8", "cut off", "no block"],
)
def test_an_archive_that_is_none_is_named(tmp_path, content):
    (tmp_path / "a.gz").write_bytes(content)
    if content:
        assert refusal(list, untrusted.lines(tmp_path / "a.gz")).startswith(
            f"{tmp_path / 'a.gz'}: cannot be read: "
        )
    else:
        assert list(untrusted.lines(tmp_path / "a.gz")) == []


def test_a_file_that_is_not_utf_8_is_named(tmp_path):
    (tmp_path / "a.json").write_bytes(b"\xff")
    assert refusal(untrusted.read_json, tmp_path / "a.json").startswith(
        f"{tmp_path / 'a.json'}: not a record: "
    )


def test_strict_json_is_read():
    text = '{"a": [1, 1.5, null, true, "\\ud83d\\ude00 \\u00e9"], "b": {"a": {}}}'
    assert untrusted.parse(text, "it") == {"a": [1, 1.5, None, True, "😀 é"], "b": {"a": {}}}


# ---- digests


def test_a_digest_is_of_the_canonical_json():
    record = {"b": [1, 2.5, None], "a": "é"}
    text = rb'{"a":"\u00e9","b":[1,2.5,null]}'
    assert digest.of(record) == digest.of(record | {"digest": "x"}) == hashlib.sha256(text).hexdigest()
    assert digest.sealed(record) == record | {"digest": hashlib.sha256(text).hexdigest()}


def test_what_a_digest_refuses_is_said():
    with pytest.raises(ValueError, match="JSON"):
        digest.sealed({"a": float("inf")})
    assert refusal(digest.check, {"a": float("inf"), "digest": "x"}, "it").startswith("it: not a record: ")
    assert (
        refusal(digest.check, {"a": 1}, "it") == "it: it has no digest: it was changed after it was written"
    )
    record = digest.sealed({"a": 1})
    digest.check(record, "it")
    for other in ("0123456789abcdef0123", None, record["digest"][:16]):
        assert refusal(digest.check, record | {"digest": other}, "it") == (
            f"it: it was changed after it was written: its digest is {str(other)[:16]}..., "
            f"that of its content {record['digest'][:16]}..."
        )


# ---- versions


def test_the_versions_that_are_read_are_said():
    for version in (1, store.SCHEMA_VERSION + 1, None, "4", [4]):
        assert refusal(store.checked, {"schema_version": version}, "it") == (
            f"it: the schema version is {version!r}, but this program reads 2 to {store.SCHEMA_VERSION}"
        )
    assert refusal(store.checked, [1], "it").startswith("it: the schema version is None, but")
    for version in range(2, store.SCHEMA_VERSION + 1):
        said = refusal(store.checked, {"schema_version": version}, "it")
        assert "the schema version is" not in said
        assert ("it has no digest" in said) == (version > 3)


def test_version_2_is_lifted():
    """Its loss was the mean squared error."""
    old = {
        "schema_version": 2,
        "runs": [{"seconds": 1.0, "final_mse": 2.0}, {"seconds": 1.0, "final_mse": None}],
        "summary": {"runs": 2, "mean_final_mse": 3.0},
    }
    before = json.dumps(old)
    assert store.lift(old) == {
        "schema_version": 3,
        "runs": [run | {"final_loss": run["final_mse"]} for run in old["runs"]],
        "summary": old["summary"] | {"mean_final_loss": 3.0},
    }
    assert json.dumps(old) == before
    assert store.lift(old | {"schema_version": 3}) == old | {"schema_version": 3}


@pytest.mark.parametrize(("threads", "number"), [("8", 8), (None, None), ("", "")])
def test_earlier_names_are_lifted(threads, number):
    versions = {"numpy": "2"}
    old = {
        "cell": {"protocol": {"runs": 3, "precision": 0.1}, "network": 1},
        "stopped": "precision",
        "provenance": {"versions": versions | {"blas_threads": threads}, "device": "x"},
    }
    before = json.dumps(old)
    today = {
        "cell": {"protocol": {"runs": 3, "relative_error": 0.1}, "network": 1},
        "stopped": "relative_error",
        "provenance": {"versions": versions, "device": "x", "blas_threads": number},
    }
    assert store.lift(old) == today
    assert store.lift(today) == today
    assert json.dumps(old) == before


def test_a_cell_from_before_there_was_a_choice_trained_by_the_mean_exactly_on_all_rows():
    chosen = {"reduction": "mean", "gradient": "exact", "drop_last": False, "accumulate": 1}
    old = {"cell": {"training": {"epochs": 3}}}
    assert store.lift(old) == {"cell": {"training": {"epochs": 3} | chosen}}
    for key, other in (("reduction", "sum"), ("gradient", "published_naive"), ("drop_last", True)):
        found = store.lift({"cell": {"training": {key: other}}})
        assert found == {"cell": {"training": chosen | {key: other}}}
    assert old == {"cell": {"training": {"epochs": 3}}}
    assert store.lift({"cell": {"network": {"seed": 1}}})["cell"]["network"] == {"seed": 1, "recompute": []}
    kept = {"cell": {"network": {"seed": 1, "recompute": [2]}}}
    assert store.lift(kept) == kept


@pytest.mark.parametrize("folder", ["results/cells", "results/limits"])
def test_a_file_of_the_workflow_can_be_made_again(folder):
    path = f"/somewhere/{folder}/x.json"
    assert store.again(path) == f": measure it again: snakemake --cores 1 --force {path}"
    assert store.again("results/published/x.json") == ""


def test_a_record_of_limits_is_refused_by_its_version(tmp_path):
    path = tmp_path / "results/limits/x.json"
    path.parent.mkdir(parents=True)
    for record in ({"limits_version": VERSION + 1}, {"limits_version": 0}, {}, []):
        path.write_text(json.dumps(record))
        version = record.get("limits_version") if record else None
        assert refusal(limits.read, path) == (
            f"{path}: limits version {version}, this program reads 1 to {VERSION}{store.again(path)}"
        )
    for record, said in (
        (limits_of() | {"digest": "0" * 64}, "it was changed after it was written"),
        (digest.sealed(limits_of() | {"limits": 3}), "limits is 3: it must be a list"),
    ):
        path.write_text(json.dumps(record))
        assert said in refusal(limits.read, path)
    path.write_text(json.dumps(limits_of() | {"limits_version": 1, "digest": "0" * 64}))
    assert limits.read(path)["limits_version"] == 1


# ---- archives


def test_an_archives_bytes_are_of_compact_sorted_json(tmp_path):
    archive.write([{"b": 1, "a": "é"}, {}], tmp_path)
    content = (tmp_path / archive.RECORDS).read_bytes()
    assert gzip.decompress(content) == b'{"a":"\\u00e9","b":1}\n{}\n'
    assert content[4:8] == bytes(4)  # no timestamp


def test_sweeps_are_none_or_checked(tmp_path):
    assert archive.read_sweeps(tmp_path) is None
    good = {"mine": {"axes": ["strategy"], "cells": ["x/y-00000000"]}}
    (tmp_path / archive.SWEEPS).write_text(json.dumps(good))
    assert archive.read_sweeps(tmp_path) == good
    (tmp_path / archive.SWEEPS).write_text("[]")
    assert refusal(archive.read_sweeps, tmp_path).startswith(f"{tmp_path / archive.SWEEPS}: it is []")


def test_an_empty_folder_is_said(tmp_path):
    (tmp_path / "cells").mkdir()
    assert refusal(archive.entries, tmp_path) == f"{tmp_path}: there are no records in it"
    (tmp_path / "file").write_text("x")
    assert "file: it is neither a folder of results nor" in refusal(archive.entries, tmp_path / "file")
    (tmp_path / "file.gz").write_text("x")
    assert "file.gz: cannot be read: " in refusal(archive.entries, tmp_path / "file.gz")
