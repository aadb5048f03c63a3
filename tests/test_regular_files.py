"""Reading a regular file, saying what nobody may read, and which version of the sources a record names."""

import io
import subprocess

import pytest

from snn.errors import RecordError
from snn.files import revision
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
