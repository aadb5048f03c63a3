"""A training without end on a GPU that is free, or on the CPU: ``snn.measurement.busy_neighbour`` starts it.

What to train is on the standard input, and every epoch is noted in the standard output, which is a file.
"""

import json
import os
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from snn.hardware import threads

threads.assign()

import numpy as np  # noqa: E402

from snn import backends, datasets  # noqa: E402
from snn.config.groups import ROOT  # noqa: E402
from snn.errors import SnnError, Unsupported  # noqa: E402
from snn.hardware.devices import Device  # noqa: E402
from snn.hardware.locks import end_with_parent, gpu_lock  # noqa: E402
from snn.measurement.beats import Writer  # noqa: E402
from snn.measurement.passes import job_of  # noqa: E402
from snn.models.gradients import PublishedNaive  # noqa: E402
from snn.strategies.common.job import start  # noqa: E402

UNSUPPORTED = 3
"""The status of a process whose strategy cannot train this here."""


def main() -> int:
    """Train until the process that started this one ends; a status and a message if that cannot be."""
    parent = os.getppid()
    end_with_parent()
    order = json.load(sys.stdin)
    try:
        _train(order["cell"], order["data"], [Device(**one) for one in order["gpus"]], parent)
    except SnnError as error:
        print(error, file=sys.stderr)
        return UNSUPPORTED if isinstance(error, Unsupported) else 2
    return 0


def _train(cell: Mapping[str, Any], data: str | None, gpus: list[Device], parent: int) -> None:
    table = datasets.make(cell["dataset"]) if data is None else datasets.kept(Path(data), cell["dataset"])
    job = job_of(cell, table)
    with ExitStack() as held:
        uuid = held.enter_context(gpu_lock(*gpus)).uuid if gpus else None
        published = cell["training"]["gradient"] == PublishedNaive.name
        backend = backends.make(
            cell["device"]["backend"], cell["kernel"], ROOT, cell["precision"]["name"], published
        )
        strategy = start(job, backend)
        held.callback(strategy.close)
        strategy.prepare(job.epochs)
        with np.errstate(all="ignore"):  # its losses are of no interest
            strategy.load(next(strategy.starts(job.network, job.seed)))
            strategy.epoch()  # the first one takes longer
            backend.synchronize()
            beats = Writer(sys.stdout.fileno(), uuid or "")
            while os.getppid() == parent:  # where the kernel does not end this process with that one
                strategy.load(next(strategy.starts(job.network, job.seed)))
                for _ in range(job.epochs):
                    strategy.epoch()
                    backend.synchronize()
                    beats.beat()


if __name__ == "__main__":
    sys.exit(main())
