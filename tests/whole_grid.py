"""The sweeps of config/grid.yaml, read once for all tests of a process: it has over a thousand cells."""

import functools

from conftest import ROOT

from snn.grid import sweeps
from snn.hardware.devices import Device

H200, HOST = Device("cuda", "NVIDIA H200"), Device("cpu", "AMD EPYC")


@functools.cache
def sweeps_of(device=H200, host=None):
    """All sweeps by name, on this device and, where one is given, with the baselines of its host."""
    return sweeps.read(ROOT / "config/grid.yaml", device, host)
