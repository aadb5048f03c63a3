"""Cells and their names: sixteen digits of a digest, and two cells with one name are never taken for one."""

import hashlib

import pytest
from test_grid import sweeps_of

from snn.errors import ConfigError
from snn.grid import naming
from snn.grid import sweeps as grid


@pytest.fixture
def short_digests(monkeypatch):
    """Digests of one digit, so that seventeen cells must share some."""
    monkeypatch.setattr(naming, "digest", lambda values: hashlib.sha256(repr(values).encode()).hexdigest()[0])


def test_a_digest_has_sixteen_digits(tmp_path):
    (cell,) = sweeps_of(tmp_path, {"x": {}})["x"].cells
    assert len(naming.name_of(cell).rpartition("-")[2]) == 16
    assert len(naming.digest(cell)) == 16


def test_two_cells_of_a_sweep_with_one_name_are_refused(tmp_path, short_digests):
    with pytest.raises(ConfigError, match=r"sweeps\.x: two different cells have the name"):
        sweeps_of(tmp_path, {"x": {"network.seed": list(range(1, 18))}})


def test_two_cells_of_two_sweeps_with_one_name_are_refused(tmp_path, short_digests):
    with pytest.raises(ConfigError, match=r"sweeps\.\w+: two different cells have the name"):
        sweeps_of(tmp_path, {f"x{seed}": {"network.seed": seed} for seed in range(1, 18)})


def test_two_data_sets_with_one_path_are_refused(tmp_path, short_digests, monkeypatch):
    named = iter(range(100))
    monkeypatch.setattr("snn.grid.sweeps.name_of", lambda cell: f"cell {next(named)}")
    with pytest.raises(ConfigError, match=r"two different cells have the name results/datasets/small-"):
        sweeps_of(tmp_path, {"x": {"dataset.seed": list(range(1, 18))}})


def test_equal_cells_of_one_sweep_or_of_several_are_one(tmp_path):
    twice = {"union": [{"network.seed": [1, 2]}, {"network.seed": [2, 3]}]}
    sweeps = sweeps_of(tmp_path, {"x": twice, "y": {"network.seed": [3, 1]}})
    assert [len(sweep.cells) for sweep in sweeps.values()] == [3, 2]
    assert len(grid.all_cells(sweeps)) == 3


@pytest.mark.parametrize(
    ("key", "whole", "real"),
    [("dataset.noise", 1, 1.0), ("training.learning_rate", 1, 1.0), ("protocol.max_seconds", 4, 4.0)],
)
def test_a_whole_and_a_real_number_are_one_value(tmp_path, key, whole, real):
    sweeps = sweeps_of(tmp_path, {"x": {key: whole}, "y": {key: real}})
    assert len(grid.all_cells(sweeps)) == 1
