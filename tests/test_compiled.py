"""What the tests keep of compilers: made once for the same text, again for another, and never in part."""

import os
import time

import compiled
import pytest


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(compiled, "FOLDER", tmp_path / "kept")
    return tmp_path / "kept"


def test_the_same_is_made_once_and_another_by_itself():
    asked = []

    def make(path):
        asked.append(path)
        path.write_text(str(len(asked)))

    found = [compiled.kept("a.so", given, make).read_text() for given in (("x", 1), ("x", 1), ("x", 2))]
    assert found == ["1", "1", "2"] and len(asked) == 2


def test_what_fails_is_not_kept(folder):
    def fail(path):
        path.write_text("half")
        raise RuntimeError("no such register")

    for _ in range(2):
        with pytest.raises(RuntimeError, match="no such register"):
            compiled.kept("a.so", "x", fail)
    assert not list(folder.iterdir())


def test_what_nobody_used_for_long_is_removed(folder):
    def make(path):
        path.touch()

    old, used = (compiled.kept("a.so", given, make) for given in "xy")
    long_ago = time.time() - compiled.UNUSED_SECONDS - 60
    for path in (old, used):
        os.utime(path, (long_ago, long_ago))
    assert compiled.kept("a.so", "y", make) == used
    compiled.kept("a.so", "z", make)
    assert not old.exists() and used.exists()
