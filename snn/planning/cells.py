"""What a cell trains, without its data and without its device: enough to rehearse it."""

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from math import prod
from typing import Any, NamedTuple

import numpy as np

from snn import datasets
from snn.backends import kernel_source
from snn.backends.cpu.backend import CpuBackend
from snn.backends.launches import (
    DeviceCapability,
    LaunchConfiguration,
    TrainingLaunch,
    TrainingShape,
    check_precision,
)
from snn.config.groups import ROOT
from snn.errors import ConfigError, Unsupported
from snn.hardware.devices import usable_bytes
from snn.measurement.passes import job_of
from snn.strategies.common.job import Job

_OF_ROWS = ("rows", "test_rows", "held_out")
_FLOAT = 4  # bytes
_COPIES = 3
"""Of the rows that a rehearsal fills, at most: X and Y, and those that a strategy keeps on the host."""


class TooLargeHere(ConfigError):
    """This machine has too little memory to plan a cell."""


class PlannedGpu(CpuBackend):
    """Takes the decisions of the CUDA backend with a kernel of ``config/kernel``, and does nothing on a GPU.

    ``capability`` is the GPU's, None where it is not known: no training in one launch is planned then.
    """

    def __init__(
        self, kernel: Mapping[str, Any], precision: str, capability: DeviceCapability | None
    ) -> None:
        convolves = kernel_source.convolution(kernel["source"], ROOT) is not None
        super().__init__(kernel["fused"], kernel["pretransposed"], convolves)
        self.precision, self._capability = precision, capability
        self.no_capture = kernel_source.no_capture(kernel["source"])

    def training_launch(self, shape: TrainingShape) -> TrainingLaunch:
        check_precision(self.precision)
        if self._capability is None:
            raise Unsupported(
                "of this GPU the number of SMs and their shared memory are not known: name one with "
                "--device, or add it to config/gpus.yaml"
            )
        reasons: list[str] = []
        for launch in shape.configurations(self._capability):
            if isinstance(launch, LaunchConfiguration):
                # Which of several is the best for many networks is known when they are compiled.
                some = ", or fewer blocks with more if that is faster" if shape.members > 1 else ""
                return TrainingLaunch("; ".join([f"{launch.words}{some}", *reasons]), launch)
            reasons.append(launch)
        raise Unsupported("; ".join(reasons))


class Planned(NamedTuple):
    """A job of few rows whose values do not matter, and how many rows the cell has."""

    job: Job
    rows: int

    @property
    def steps(self) -> int:
        """The steps of an epoch on these rows."""
        return -(-self.rows // self.job.batch_size)


def planned(cell: Mapping[str, Any], batches: int = 4) -> Planned:
    """What a cell trains, with the rows of a few batches in place of its own. ``batches``: at most so many.

    Raises DataError where its data set's size cannot be found, ConfigError where it does not fit the network
    or, as TooLargeHere, this machine.
    """
    (table_rows, columns), facts = _table_shape(cell["dataset"])
    rows, _ = datasets.counts(table_rows, cell["dataset"])
    batch = cell["training"]["batch_size"]
    if cell["training"]["drop_last"]:
        rows = rows // batch * batch
    few = min(rows, batches * batch + rows % batch)
    needed = _COPIES * _FLOAT * few * columns
    if needed > usable_bytes():
        raise TooLargeHere(
            f"a plan of {few} rows of dataset={cell['dataset']['name']} takes {needed / 1e9:.3g} GB of "
            f"memory here, but this machine has {usable_bytes() / 1e9:.3g} GB: plan a smaller batch"
        )
    dataset = {key: value for key, value in cell["dataset"].items() if key not in _OF_ROWS}
    zeros = datasets.Table(np.zeros((few, columns), dtype=np.float32), facts)
    job = job_of({**cell, "dataset": dataset}, zeros)
    return Planned(replace(job, test=None), rows)


def _table_shape(choice: Mapping[str, Any]) -> tuple[tuple[int, int], Mapping[str, Any]]:
    """Rows and columns of a data set's table, without making it where its choice says them; and the facts of
    one that is made."""
    known = datasets.completed(choice)
    shape = known.get("shape") or ([known["features"]] if known.get("features") else None)
    if known.get("rows") is None or shape is None:
        read = _read if choice.get("sha256") else _read.__wrapped__
        return read(json.dumps(choice))
    return (known["rows"] + (known.get("test_rows") or 0), prod(shape) + 1), {}


@cache
def _read(choice: str) -> tuple[tuple[int, int], Mapping[str, Any]]:
    """Shape and facts of a table that has to be read, once for each content: the choice has its digest."""
    table = datasets.make(json.loads(choice))
    rows, columns = table.values.shape
    return (rows, columns), table.facts
