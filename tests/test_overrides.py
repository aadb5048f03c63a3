"""What a grid file says of itself, and what of a cell the command line must."""

import yaml

from snn.config import groups
from snn.grid import sweeps
from snn.grid.catalogue import TABLES
from snn.hardware.devices import Device


def test_overrides_are_the_choices_and_what_differs_from_their_files(tmp_path):
    path, name = tmp_path / "grid.yaml", "AMD EPYC"
    path.write_text(yaml.safe_dump({"sweeps": {"x": {"training.epochs": 7}}}))
    (cell,) = sweeps.read(path, Device("cpu", name))["x"].cells
    given = [one for one in sweeps.overrides(cell) if not one.startswith(("kernel", "precision"))]
    expected = {"dataset", "strategy", "device", "device.name", "training.epochs"}
    assert {one.partition("=")[0] for one in given} == expected


def test_a_table_is_given_published_values_where_there_are_some():
    folders = ("paper", "cnn_report")
    there = {
        path.relative_to(groups.ROOT).as_posix()
        for name in folders
        for path in (groups.CONFIG / name).glob("*.yaml")
    }
    given = {table.published for table in TABLES.values() if table.published}
    of_tables = {path for path in there if path.rpartition("/")[2].removesuffix(".yaml") in TABLES}
    assert of_tables <= given <= there
