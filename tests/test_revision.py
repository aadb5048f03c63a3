"""Which version of the sources a record names."""

import subprocess

import pytest

from snn.files import revision


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
