"""Files: a regular one is read, a record names the version of the sources, and a page proves to be whole."""

import io
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snn.errors import RecordError
from snn.files import revision, sealed
from snn.files.outputs import say
from snn.files.regular import opened


def test_an_error_of_what_reads_a_file_is_not_said_to_be_of_the_file(tmp_path):
    (tmp_path / "file").write_text("1")
    with pytest.raises(ValueError, match="mine"), opened(tmp_path / "file", RecordError):
        raise ValueError("mine")
    with pytest.raises(RecordError, match="cannot be read: worn out"), opened(tmp_path / "file", RecordError):
        raise OSError(5, "worn out")
    for path in (tmp_path / "none", tmp_path, tmp_path / "\0"):
        with pytest.raises(RecordError, match="cannot be read"), opened(path, RecordError):
            pass


def test_nothing_is_said_where_a_file_is_closed():
    closed = io.StringIO()
    closed.close()
    say("x", closed)


@pytest.mark.parametrize("damaged", [False, True])
def test_that_a_tree_is_clean_is_said_only_where_git_says_so(damaged, tmp_path, monkeypatch):
    subprocess.run(["git", "-c", "init.defaultBranch=main", "init", "-q", tmp_path], check=True)
    (tmp_path / "file").write_text("1")
    author = ["-c", "user.name=A", "-c", "user.email=a@b"]
    for command in (["add", "file"], [*author, "commit", "-qm", "1"]):
        subprocess.run(["git", "-C", tmp_path, *command], check=True)
    if damaged:
        (tmp_path / ".git/index").write_bytes(b"damaged")
    monkeypatch.setattr(revision, "ROOT", tmp_path)
    found = revision.git()
    assert len(found["commit"]) == 40 and found["dirty"] is (None if damaged else False)
    (tmp_path / "within").mkdir()
    monkeypatch.setattr(revision, "ROOT", tmp_path / "within")
    monkeypatch.setenv("SNN_GIT_COMMIT", "told")
    assert revision.git() == {"commit": "told", "dirty": None}  # another project's repository


# ---- pages and figures that prove that they, and the files beside them, are whole


def written(folder, content=b"<p>page</p>"):
    path, table = folder / "page.html", folder / "table.csv"
    sealed.write(path, content, {table: b"a,b\n1,2\n"})
    return path, table


def test_what_was_written_is_whole(tmp_path):
    path, table = written(tmp_path)
    assert sealed.is_whole(path)
    assert path.read_bytes().startswith(b"<p>page</p>\n<!-- sha256 ")
    assert table.read_bytes() == b"a,b\n1,2\n"
    assert {each.name for each in tmp_path.iterdir()} == {"page.html", "table.csv"}


@settings(max_examples=40)
@given(content=st.binary(max_size=200), data=st.data())
def test_any_changed_byte_and_any_missing_end_are_noticed(content, data, tmp_path_factory):
    path, table = written(tmp_path_factory.mktemp("sealed"), content)
    assert sealed.is_whole(path)
    damaged = data.draw(st.sampled_from((path, table)))
    whole = damaged.read_bytes()
    at = data.draw(st.integers(0, len(whole) - 1))
    changed = bytes([whole[at] ^ data.draw(st.integers(1, 255))])
    damaged.write_bytes(whole[:at] + data.draw(st.sampled_from((b"", changed + whole[at + 1 :]))))
    assert not sealed.is_whole(path)


@pytest.mark.parametrize(
    "beside",
    [b" \xf4 %064d" % 0, b" a\0b %064d" % 0, b" none.csv %064d" % 0, b" table.csv", b" table.csv 00"],
)
def test_names_in_a_seal_that_no_file_can_have_are_noticed(tmp_path, beside):
    path, _ = written(tmp_path, b"<p>page</p>")
    start = path.read_bytes().rpartition(b" table.csv")[0]
    path.write_bytes(start + beside + b" -->\n")
    assert not sealed.is_whole(path)


@pytest.mark.parametrize("content", [b"", b"<html></html>\n", b"<!-- sha256 00 -->\n"])
def test_a_file_without_a_seal_is_not_whole(tmp_path, content):
    (tmp_path / "page.html").write_bytes(content)
    assert not sealed.is_whole(tmp_path / "page.html")


def test_a_missing_file_is_not_whole(tmp_path):
    path, table = written(tmp_path)
    table.unlink()
    assert not sealed.is_whole(path)
    assert not sealed.is_whole(tmp_path / "none.html")
