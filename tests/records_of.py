"""Records as the engine writes them, with times of our choosing, for the tests of tables."""

import math
from functools import cache
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml

from snn.analysis import frame
from snn.config.cell import Cell
from snn.config.groups import CONFIG, read_yaml
from snn.grid import fingerprint, naming, sweeps
from snn.hardware.devices import Device
from snn.hardware.limits import BYTES, FLOPS, SECONDS, VERSION, Limit, Measured
from snn.measurement.cell import build_record
from snn.measurement.runs import Epoch, Measurement, Run, WarmUp
from snn.profiling.ledger import Space
from snn.profiling.observed import Call
from snn.profiling.profile import TimingBackend
from snn.profiling.tracer import Event, Signature, Trace
from snn.records import archive, store
from snn.records.store import sealed
from snn.strategies.factory import traits

THRESHOLDS = read_yaml(CONFIG / "verdicts.yaml")
GPU, HOST = Device("cuda", "NVIDIA H200"), Device("cpu", "AMD EPYC")
ONE_ROUND = {"protocol.rounds": 1}
PROVENANCE = {
    "device": "NVIDIA H200",
    "backend": "cuda",
    "device_uuid": "GPU-1",
    "driver": "580.1",
    "cuda_runtime": 13020,
    "versions": {"python": "3.12.3", "numpy": "2.5.2", "cupy": "14.2.0"},
    "host": {"system": "Linux x86_64", "cpu": "AMD EPYC", "cpus": 16},
    "git": {"commit": "c0ffee", "dirty": False},
    "started": "2026-02-11T10:00:00+00:00",
}
ON_ITS_HOST = {"device": "AMD EPYC", "backend": "cpu", "device_uuid": None, "driver": None}
COSTS = {"malloc_us": 50.0, "copy_us": 13.0}
QUIET = {
    "host": {"cpus": 16, "load_average": 0.1, "governor": None},
    "probe": {"before": COSTS, "after": COSTS},
    "readings": [
        {"seconds": 1.0, "other_cores": 0.01, "stolen_cores": 0.0, "other_processes": 0, "throttled": []}
    ],
}
DATA = {"sha256": "0" * 64, "rows": 256, "features": 32}
MEMBER = {"seed": 1, "init": "uniform01", "learning_rate": 0.002}
LEDGER = dict.fromkeys(("mallocs", "host_allocs", "h2d_copies", "h2d_bytes"), 1)
CALL = Call("copy_in", call_site="snn/strategies/some.py:1 in f")
EVENT = Event(Signature("copy_in", (4,)), 0.0, 2e-6, 0, 1e-6, 2e-6, 4, 0, CALL)
MEMORY = {
    "device": Space().describe(),
    "page_locked": Space().describe(),
    "least_free_bytes": 3,
    "total_bytes": 4,
    "warnings": [],
}


def record(
    cell,
    seconds,
    mse=41.0,
    machine=None,
    number=1,
    foretold=None,
    ended=None,
    accuracies=(),
    epoch_losses=None,
    untrained=None,
    **provenance,
):
    """A record of a round of a cell whose runs took these seconds, on the GPU or on its host.

    It diverged if the loss is not finite. ``ended``: another status and its reason, of a round without runs.
    ``untrained``: the loss before training. Of a classification the runs have these ``accuracies``, a half
    unless given, and each of them ``epoch_losses``.
    """
    where = ON_ITS_HOST if cell["device"]["backend"] == "cpu" else {}
    of_strategy = traits(cell["strategy"])
    lost = ("diverged", "the loss is not finite") if not math.isfinite(mse) else ("ok", None)
    status, reason = ended or lost
    measurement = Measurement(status, reason)
    if not ended:
        members = [MEMBER | {"start": start} for start in (1, 2)] if of_strategy["side_by_side"] else []
        measurement.members = members
        measurement.runs = [
            Run(s, mse, (mse,) * len(members), *classified(cell, s, accuracy, epoch_losses))
            for s, accuracy in zip_longest(seconds, accuracies[: len(seconds)], fillvalue=0.5)
        ]
        measurement.stopped = stopped(cell["protocol"], len(seconds))
        measurement.setup_seconds, measurement.warmup = 0.1, WarmUp(0.2, 10, True)
    seen = not ended and not of_strategy["own_runtime"]
    if seen:
        measurement.ledger, measurement.memory = LEDGER, MEMORY
    return build_record(
        cell,
        number,
        measurement,
        profile_of(foretold or seconds[0]) if seen else None,
        machine or QUIET | beside(cell),
        PROVENANCE
        | {"elapsed_seconds": sum(seconds) + 1, "source_hash": source_hash(cell)}
        | where
        | provenance,
        DATA,
        untrained,
    )


def sweep_of(settings, name="mine", device=GPU, defaults=ONE_ROUND):
    """The sweep of a grid that has no other; a list of settings is a union."""
    settings = {"union": settings} if isinstance(settings, list) else settings
    with TemporaryDirectory() as folder:
        path = Path(folder, "grid.yaml")
        path.write_text(yaml.safe_dump({"defaults": defaults, "sweeps": {name: settings}}))
        return sweeps.read(path, device, HOST)[name]


def frame_of(*records):
    return frame.tabulate({str(i): one for i, one in enumerate(records)}, THRESHOLDS)


def frame_of_cells(cells, seconds, **changed):
    """The rows of these cells; ``changed`` are arguments of ``record``, one value for each cell."""
    pairs = enumerate(zip(cells, seconds, strict=True))
    return frame_of(
        *(record(cell, times, **{k: of[i] for k, of in changed.items()}) for i, (cell, times) in pairs)
    )


def beside(cell):
    """The account of the neighbour that a cell asks for, on the next GPU; nothing of another cell."""
    name = cell["protocol"].get("neighbour", "none")
    work = {"strategy": name, "device_uuid": "GPU-beside", "epochs": 9, "seconds": 9.0}
    return {"neighbour": work} if name != "none" else {}


def classified(cell, seconds, accuracy, epoch_losses):
    """The epochs of a run of a classification, all as long, and its accuracy; nothing of another."""
    if cell["network"].get("loss") != "cross_entropy":
        return ()
    epochs = cell["training"]["epochs"]
    losses = epoch_losses or [1.0] * epochs
    timed = tuple(Epoch(seconds / epochs, loss) for loss in losses)
    return (timed, accuracy, 0.01) if "test_rows" in cell["dataset"] else (timed,)


def limits_of(seconds=1e-6, device="NVIDIA H200", **provenance):
    """A record of limits of a GPU with one product unit, whose blocks wait for each other so many seconds."""
    limits = [
        *(Limit("fp32", blocks, FLOPS, "", (blocks * 1e12,)) for blocks in (1, 100)),
        Limit("l2_read", None, BYTES, "", (1e13,)),
        Limit("grid_barrier", 100, SECONDS, "", (seconds,)),
    ]
    where = PROVENANCE | {"device": device, "source_hash": "0123456789abcdef"} | provenance
    measured = Measured(tuple(limits), 100, 1 << 25).plain()
    return sealed({"limits_version": VERSION, **measured, "machine": {}, "provenance": where})


def profile_of(seconds):
    """A run of which half is allocation and half host arithmetic, foretold exactly."""
    half = seconds / 2
    parts = dict.fromkeys((*TimingBackend.PARTS, "kernels"), 0.0)
    parts |= {"allocation": half, "host_arithmetic": half}
    explained = {"attribution": {"epochs": 1, "seconds": parts}, "trace": Trace(1, [EVENT]).plain()}
    return explained | {"calls": [], "predicted_calls_seconds": half}


def stopped(protocol, runs):
    """What may have ended a round of so many runs: all of them were made, or another rule ended it early."""
    if runs >= protocol["runs"] // protocol["rounds"]:
        return "runs"
    return "max_seconds" if protocol["max_seconds"] else "relative_error"


def source_hash(cell):
    return fingerprint.cell_sources(Cell(cell)).digest


def halves(times):
    """A cell's times as its two rounds have them; of one, the second round repeats it."""
    middle = (len(times) + 1) // 2
    return times[:middle], times[middle:] or times[:middle]


def write_all(folder, cells, seconds, **provenance):
    """Write two rounds of each cell under the folder; returns what ``frame.checked`` expects of them."""
    expected = {}
    for cell, times in zip(cells, seconds, strict=True):
        for number, some in enumerate(halves(times), 1):
            path = folder / naming.record_path(Cell(cell).name, number)
            store.write(path, record(cell, some, number=number, foretold=times[0], **provenance))
            expected[str(path)] = source_hash(cell)
    return expected


# ---- records of several machines, in a folder each

H200, T4 = "NVIDIA H200", "NVIDIA T4"
CPU = "CPU AMD EPYC"
TIMES = {"reference": 4.0, "streams": 4.0, "pinned": 3.0, "combined": 2.0, "preallocated": 1.0}


@cache
def _grid(device):
    return sweeps.read(CONFIG / "grid.yaml", device)


LATER = [f"2026-02-12T{hour}:00:00+00:00" for hour in (10, 11, 12)]
"""When other machines began."""


def cells_on(backend, name, dataset="large"):
    found = _grid(Device(backend, name))["dataset_size"].cells
    return [
        cell | {"protocol": cell["protocol"] | {"runs": 8, "rounds": 2}}
        for cell in found
        if cell["dataset"]["name"] == dataset
    ]


def records_of(cells, factor=None, spread=0.0001, **where):
    """Two rounds of each cell, each strategy's times multiplied by its factor."""
    made = []
    for cell in cells:
        mean = TIMES[cell["strategy"]["name"]] * (factor or {}).get(cell["strategy"]["name"], 1.0)
        way = -1 if cell["strategy"]["name"] == "combined" else 1  # slow where the others are fast
        seconds = [mean * (1 + way * spread * step) for step in (1, 0.9, 1.1, 1, -1, -0.9, -1.1, -1)]
        made += [record(cell, some, number=i, **where) for i, some in enumerate(halves(seconds), 1)]
    return made


def folder(path, *records):
    path.mkdir(parents=True)
    archive.write([one for some in records for one in some], path)
    return path
