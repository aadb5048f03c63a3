"""Records as the engine writes them, with times of our choosing, for the tests of tables."""

from snn import grid, records, sources
from snn.attribution import Attribution, TimingBackend
from snn.measure import Measurement, Run

PROVENANCE = {"device": "NVIDIA H200", "backend": "cuda", "device_uuid": "GPU-1", "driver": "580.1"}
COSTS = {"malloc_us": 50.0, "copy_us": 13.0}
QUIET = {
    "host": {"cpus": 16, "load_average": 0.1, "governor": None},
    "probe": {"before": COSTS, "after": COSTS},
    "readings": [
        {"seconds": 1.0, "other_cores": 0.01, "stolen_cores": 0.0, "other_processes": 0, "throttled": []}
    ],
}
LEDGER = dict.fromkeys(("mallocs", "host_allocs", "h2d_copies", "h2d_bytes"), 1)


def record(cell, seconds, mse=41.0, machine=None, **provenance):
    """A record of a cell whose runs took these seconds."""
    measurement = Measurement(
        runs=[Run(s, mse) for s in seconds], ledger=LEDGER, stopped="runs", setup_seconds=0.1
    )
    return records.build(
        cell, measurement, parts_of(seconds), machine or QUIET, PROVENANCE | provenance, source_hash(cell)
    )


def parts_of(seconds):
    """A run of which half is allocation and half host arithmetic."""
    half = seconds[0] / 2
    nothing = dict.fromkeys(TimingBackend.PARTS, 0.0)
    return Attribution(1, nothing | {"allocation": half, "host_arithmetic": half})


def source_hash(cell):
    return sources.digest(tuple(sources.of_cell(cell)))


def write_all(folder, cells, seconds, **provenance):
    """Write a record a cell under the folder; returns what ``frame.load`` expects of them."""
    expected = {}
    for cell, times in zip(cells, seconds, strict=True):
        path = folder / grid.record_path(cell)
        records.write(path, record(cell, times, **provenance))
        expected[str(path)] = {"cell": cell, "source_hash": source_hash(cell)}
    return expected
