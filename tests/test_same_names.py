"""Cells and their names: sixteen digits of a digest, and two cells with one name are never taken for one."""

import hashlib

import pytest
from test_grid import sweeps_of

from snn.config import cell as cells
from snn.errors import ConfigError
from snn.grid import naming
from snn.grid import sweeps as grid


@pytest.fixture
def short_digests(monkeypatch):
    """Digests of one digit, so that seventeen cells must share some."""
    for module in (cells, naming):
        monkeypatch.setattr(
            module, "digest", lambda values: hashlib.sha256(repr(values).encode()).hexdigest()[0]
        )


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
    monkeypatch.setattr(cells.Cell, "name", property(lambda cell: f"cell {next(named)}"))
    with pytest.raises(ConfigError, match=r"two different cells have the name results/datasets/small-"):
        sweeps_of(tmp_path, {"x": {"dataset.seed": list(range(1, 18))}})


def test_equal_cells_of_one_sweep_or_of_several_are_one(tmp_path):
    twice = {"union": [{"network.seed": [1, 2]}, {"network.seed": [2, 3]}]}
    sweeps = sweeps_of(tmp_path, {"x": twice, "y": {"network.seed": [3, 1]}})
    assert [len(sweep.cells) for sweep in sweeps.values()] == [3, 2]
    assert len(grid.all_cells(sweeps)) == 3


REAL = {
    "dataset.noise": 1,
    "network.clip_norm": 5,
    "training.learning_rate": 1,
    "protocol.max_seconds": 60,
    "protocol.relative_error": 1,
    "protocol.warmup_seconds": 1,
    "protocol.max_warmup_seconds": 4,
}


@pytest.mark.parametrize("key", REAL)
def test_a_real_number_may_be_written_whole(tmp_path, key):
    found = sweeps_of(tmp_path, {"x": {key: [REAL[key]]}, "y": {key: [float(REAL[key])]}})
    assert found["x"].named.keys() == found["y"].named.keys()
    section, _, leaf = key.partition(".")
    assert [type(one.cells[0][section][leaf]) for one in found.values()] == [float, float]
