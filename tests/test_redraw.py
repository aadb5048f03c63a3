"""``scripts/redraw``: figures and tables of published sets are made anew, and none is lost."""

import runpy
import shutil

from conftest import ROOT


def test_what_is_no_set_is_not_drawn(tmp_path, capsys):
    main = runpy.run_path(str(ROOT / "scripts/redraw"))["main"]
    for path in (ROOT / "pyproject.toml", tmp_path, tmp_path / "none"):
        assert main([str(path)]) == 2
        assert f"{path} is no published set: it must be a folder" in capsys.readouterr().err


def test_tables_are_replaced_only_if_that_is_said(tmp_path, capsys, monkeypatch):
    """And none is lost: a set has at least what its records give."""
    ends = ("svg", "png")
    monkeypatch.setattr(
        "snn.retabulate._save",
        lambda drawn, to, name: [(to / f"figures/{name}.{end}").write_text("drawn") for end in ends],
    )
    main = runpy.run_path(str(ROOT / "scripts/redraw"))["main"]
    copy = shutil.copytree(ROOT / "results/published/nvidia-h200/networks", tmp_path / "networks")
    table, whole = copy / "tables/networks.csv", (copy / "tables/networks.csv").read_bytes()
    table.write_bytes(whole[:-1])
    assert main([str(copy)]) == 2 and table.read_bytes() == whole[:-1]
    assert "is not what the records give now: say --tables" in capsys.readouterr().err
    assert main([str(copy), "--tables"]) == 0 and table.read_bytes() == whole
    assert (copy / "figures/networks.svg").read_text() == "drawn"
    (copy / "tables/further.csv").write_text("a")
    assert main([str(copy), "--tables"]) == 2
    assert "no longer give tables/further.csv" in capsys.readouterr().err
