"""A busy neighbour: a process that trains on another GPU of the host all the time that a cell is measured.

The measuring process calls ``beside``, which starts the neighbour; the neighbour runs ``main``. It reads what
to train from standard input. Its standard output is a file: the UUID of its GPU, then lines with a moment and
the number of epochs finished by then. Moments are readings of ``time.monotonic``, which all processes of a
machine share.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from itertools import pairwise
from typing import IO, Any

from snn.config import groups
from snn.config.cell import Cell
from snn.errors import SnnError, Unsupported
from snn.hardware import environment, threads
from snn.hardware.devices import Device
from snn.hardware.locks import END_WITH_PARENT, end_with_parent, gpu_lock

UNSUPPORTED = 3  # the status of a process whose strategy cannot train this here
_MOMENT = 0.02
_NOTED = 0.01  # seconds between two moments that it notes, at least
_MOST_WAIT = 120.0
"""Seconds in which the neighbour must be at work: another measurement may have the other GPU until then."""

_EPOCHS_BEFORE = 2  # epochs that it has finished by then

_PAUSE, _LONG = 1.0, 10.0
"""The neighbour paused if an epoch took more than ``_PAUSE`` s and more than ``_LONG`` mean epochs."""


class NeighbourError(SnnError):
    """The neighbour that a cell asks for was not at work all the time: the cell leaves no record."""


class BusyNeighbour:
    """The process that trains while a cell is measured; it writes to the files ``output`` and ``errors``."""

    def __init__(self, strategy: str, order: IO[bytes], output: IO[bytes], errors: IO[bytes]) -> None:
        self._strategy, self._output, self._errors = strategy, output, errors
        self.process = subprocess.Popen(
            [sys.executable, "-m", "snn.measurement.busy_neighbour"],
            stdin=order,
            stdout=output,
            stderr=errors,
            env=environment.of_jobs() | {END_WITH_PARENT: str(os.getpid())},
        )
        self._since, self._epochs_before = 0.0, 0

    def await_work(self) -> None:
        """Wait until the neighbour trains. Raises Unsupported if its strategy cannot train this here, and
        NeighbourError if it ends, or is not at work in time."""
        limit = time.monotonic() + _MOST_WAIT
        while (epochs := self._noted()[1][-1][0]) < _EPOCHS_BEFORE:
            if self.process.poll() == UNSUPPORTED:
                raise Unsupported(f"as a neighbour, {self._strategy} cannot train this: {self._said()}")
            self._check_alive()
            if time.monotonic() > limit:
                raise NeighbourError(
                    f"protocol.neighbour: {self._strategy} was not at work after {_MOST_WAIT:g} s: no other "
                    "GPU became free, or its epochs are too long for this; nothing was measured"
                )
            time.sleep(_MOMENT)
        self._since, self._epochs_before = time.monotonic(), epochs

    def account(self) -> dict[str, Any]:
        """The neighbour's work since ``await_work``: strategy, GPU, epochs, seconds.

        Raises NeighbourError unless it worked all the time.
        """
        self._check_alive()
        now, (uuid, noted) = time.monotonic(), self._noted()
        mean = (noted[-1][1] - noted[0][1]) / noted[-1][0]
        epochs = noted[-1][0] - self._epochs_before
        moments = [self._since, *(moment for _, moment in noted if moment > self._since), now]
        pause = max(end - begin for begin, end in pairwise(moments))
        if pause > max(_PAUSE, _LONG * mean) or not epochs:
            raise NeighbourError(
                f"protocol.neighbour: {self._strategy} was not at work all the time: one of its epochs took "
                f"{pause:.2f} s, and {epochs} ended in {now - self._since:.2f} s, of {mean:.2g} s each "
                "before; nothing is recorded: measure the cell again"
            )
        seconds = now - self._since
        found = {"strategy": self._strategy, "device_uuid": uuid or None}
        return found | {"epochs": epochs, "seconds": seconds}

    def _noted(self) -> tuple[str, list[tuple[int, float]]]:
        """The UUID of its GPU, and pairs of epochs finished and moment: (0, 0.0) at first."""
        file = self._output.fileno()  # the process writes at its position: it stays
        text = os.pread(file, os.fstat(file).st_size, 0).decode()
        uuid, *lines = text[: text.rfind("\n") + 1].splitlines() or [""]
        pairs = map(str.split, lines)
        return uuid, [(int(epochs), float(moment)) for epochs, moment in pairs] or [(0, 0.0)]

    def _check_alive(self) -> None:
        status = self.process.poll()
        if status is not None:
            raise NeighbourError(
                f"protocol.neighbour: {self._strategy} ended with status {status} ({self._said()}): its "
                "cell is not recorded"
            )

    def _said(self) -> str:
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").split("\n")
        return next((line for line in reversed(lines) if line.strip()), "it said nothing")


@contextmanager
def beside(
    cell: Cell, device: Device, devices: Sequence[Device], data: str | None
) -> Iterator[BusyNeighbour | None]:
    """Start the neighbour that a cell asks for, if any, on another device; it ends with this context.

    It trains the cell's network with the strategy ``protocol.neighbour``; on the CPU it shares the cell's.
    ``data`` is the prepared copy of the data set, if any. Raises Unsupported without another GPU.
    """
    strategy = cell.strategy_beside
    if strategy is None:
        yield None
        return
    others = [asdict(one) for one in devices if one.uuid != device.uuid]
    if device.uuid is not None and not others:
        raise Unsupported(
            f"protocol.neighbour={strategy} needs a second {device.name} next to the measured one, and this "
            "process sees only one: take a machine with two, or let CUDA_VISIBLE_DEVICES show both"
        )
    its_cell = {**cell, "strategy": groups.load("strategy", strategy)}
    with ExitStack() as files:
        order, output, errors = (files.enter_context(tempfile.TemporaryFile()) for _ in range(3))
        order.write(json.dumps({"cell": its_cell, "data": data, "gpus": others}).encode())
        order.seek(0)
        neighbour = BusyNeighbour(strategy, order, output, errors)
        try:
            yield neighbour
        finally:
            neighbour.process.kill()
            neighbour.process.wait()


def main() -> int:
    """Train until the process that started this one ends; a status and a message if that cannot be."""
    parent = os.getppid()
    end_with_parent()
    order = json.load(sys.stdin)
    try:
        _train(Cell(order["cell"]), order["data"], [Device(**one) for one in order["gpus"]], parent)
    except SnnError as error:
        print(error, file=sys.stderr)
        return UNSUPPORTED if isinstance(error, Unsupported) else 2
    return 0


def _train(cell: Cell, data: str | None, gpus: list[Device], parent: int) -> None:
    notes = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # output of libraries is not a note
    threads.assign()  # before NumPy is imported

    import numpy as np

    from snn.measurement.cell import load_table, make_backend
    from snn.measurement.passes import job_of
    from snn.strategies.factory import start

    job = job_of(cell, load_table(cell, data))
    with ExitStack() as held:
        uuid = held.enter_context(gpu_lock(*gpus)).uuid if gpus else None
        backend = make_backend(cell)
        strategy = start(job, backend)
        held.callback(strategy.close)
        strategy.prepare(job.epochs)
        with np.errstate(all="ignore"):  # its losses do not matter
            strategy.load(next(strategy.starts(job.network, job.seed)))
            strategy.epoch()  # the first one takes longer
            backend.synchronize()
            epochs, last = 0, time.monotonic()
            print(f"{uuid or ''}\n{epochs} {last}", file=notes)
            while os.getppid() == parent:  # in case the kernel does not end this process with its parent
                strategy.load(next(strategy.starts(job.network, job.seed)))
                for _ in range(job.epochs):
                    strategy.epoch()
                    backend.synchronize()
                    epochs += 1
                    if (now := time.monotonic()) - last >= _NOTED:
                        print(epochs, now, file=notes)
                        last = now


if __name__ == "__main__":
    sys.exit(main())
