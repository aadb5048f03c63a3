"""`snn init` lays out a whole workflow, or nothing. tests/test_package.py plans it with snakemake."""

from pathlib import Path

import pytest
from conftest import ROOT

from snn import init
from snn.errors import ConfigError, OutputError


def test_the_new_folder_holds_a_workflow(tmp_path, capsys):
    folder = tmp_path / "a {b} ü"
    init.lay_out(str(folder))
    assert f"cd '{folder}' && snakemake" in capsys.readouterr().out
    assert {path.name for path in folder.iterdir()} == {
        *("Snakefile", "README.md", "config", "profiles", "wine.csv")
    }
    assert (folder / "wine.csv").read_bytes() == (ROOT / "examples/wine.csv").read_bytes()


def test_an_empty_folder_is_filled(tmp_path):
    init.lay_out(str(tmp_path / "new/inner"))
    (tmp_path / "empty").mkdir()
    init.lay_out(str(tmp_path / "empty"))
    assert (tmp_path / "new/inner/Snakefile").exists() and (tmp_path / "empty/Snakefile").exists()


def test_anything_else_is_left_alone(tmp_path, monkeypatch):
    (tmp_path / "full").mkdir()
    (tmp_path / "full/mine").touch()
    (tmp_path / "link").symlink_to("nowhere")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for name in ("", ".", "../full", "../full/mine", "../link", str(tmp_path / "here")):
        with pytest.raises(ConfigError, match="FOLDER is"):
            init.lay_out(name)
    assert not any((tmp_path / "here").iterdir())


def test_a_copy_that_fails_leaves_nothing(tmp_path, monkeypatch):
    copies = {ROOT / "LICENSE": Path("a"), ROOT / "no such file": Path("b")}
    monkeypatch.setattr(init, "_files", lambda: copies)
    with pytest.raises(OutputError):
        init.lay_out(str(tmp_path / "new"))
    assert not any(tmp_path.iterdir())
