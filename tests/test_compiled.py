"""What the tests keep of compilers: made once for the same text, again for another, and never in part."""

import compiled
import pytest

from snn.files import cache


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "kept"))
    return tmp_path / "kept"


def made_of(*texts):
    """What is found of each of these texts, and how often something was made."""
    asked = []

    def make(path):
        asked.append(path)
        path.write_text(str(len(asked)))

    return [compiled.kept("a.so", text, make).read_text() for text in texts], len(asked)


def test_the_same_is_made_once_and_another_by_itself():
    assert made_of(("x", 1), ("x", 1), ("x", 2)) == (["1", "1", "2"], 2)


def test_where_nothing_can_be_kept_everything_is_made(folder):
    folder.write_text("a file in the place of the folder")
    assert made_of("x", "x") == (["1", "2"], 2)


def test_what_fails_is_not_kept(folder):
    def fail(path):
        path.write_text("half")
        raise RuntimeError("no such register")

    for _ in range(2):
        with pytest.raises(RuntimeError, match="no such register"):
            compiled.kept("a.so", "x", fail)
    assert not list(folder.glob("*/*"))
