"""A cell has one name, however its numbers are written."""

import pytest
import yaml

from snn.grid import sweeps
from snn.hardware.devices import Device

REAL = {
    "network.clip_norm": 5,
    "training.learning_rate": 1,
    "protocol.max_seconds": 60,
    "protocol.relative_error": 1,
    "protocol.warmup_seconds": 1,
    "protocol.max_warmup_seconds": 4,
}


@pytest.mark.parametrize("key", REAL)
def test_a_real_number_may_be_written_whole(tmp_path, key):
    path, whole = tmp_path / "grid.yaml", REAL[key]
    path.write_text(yaml.safe_dump({"sweeps": {"x": {key: [whole]}, "y": {key: [float(whole)]}}}))
    found = sweeps.read(path, Device("cpu", "AMD EPYC"))
    assert found["x"].named.keys() == found["y"].named.keys()
    section, _, leaf = key.partition(".")
    assert [type(one.cells[0][section][leaf]) for one in found.values()] == [float, float]
