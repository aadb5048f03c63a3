"""A busy neighbour: a process that trains on another GPU of the host all the time that a cell is measured."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import IO, Any

from snn.config import groups
from snn.config.neighbour import strategy_beside
from snn.errors import SnnError, Unsupported
from snn.hardware import environment
from snn.hardware.devices import Device
from snn.hardware.locks import END_WITH_PARENT
from snn.measurement import beats
from snn.measurement.neighbour_process import UNSUPPORTED

_MODULE = "snn.measurement.neighbour_process"
_MOMENT = 0.02
_MOST_WAIT = 120.0
"""Seconds in which the neighbour must be at work: another measurement may have the other GPU until then."""

_EPOCHS_BEFORE = 2
"""Epochs that it has finished by then."""

_PAUSE, _LONG = 1.0, 10.0
"""An epoch of more seconds, and longer than so many mean ones, is one in which it was not at work."""


class NeighbourError(SnnError):
    """The neighbour that a cell asks for was not at work all the time: the cell leaves no record."""


class Nobody:
    """What stands beside a cell that asks for no neighbour."""

    def await_work(self) -> None:
        """Nobody is waited for."""

    def account(self) -> dict[str, Any]:
        """Nothing is said of nobody."""
        return {}


class BusyNeighbour(Nobody):
    """The process beside a cell, from its start; ``output`` and ``errors`` are files that it writes."""

    def __init__(self, strategy: str, order: Mapping[str, Any], output: IO[bytes], errors: IO[bytes]) -> None:
        self._strategy, self._output, self._errors = strategy, output, errors
        self.process = subprocess.Popen(
            [sys.executable, "-m", _MODULE],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=errors,
            env=environment.of_jobs() | {END_WITH_PARENT: str(os.getpid())},
        )
        self._order = json.dumps(order).encode()
        self._since, self._epochs_before = 0.0, 0

    def give_order(self) -> None:
        """Tell the process what to train."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(self._order)
            self.process.stdin.close()
        except BrokenPipeError:
            pass  # it has ended, which ``await_work`` reports

    def await_work(self) -> None:
        """Wait until the neighbour trains.

        Raises Unsupported where its strategy cannot train this here, and NeighbourError where it ends, or
        is not at work in time.
        """
        limit = time.monotonic() + _MOST_WAIT
        while (found := self._read()) is None or found.epochs < _EPOCHS_BEFORE:
            if self.process.poll() == UNSUPPORTED:
                raise Unsupported(f"as a neighbour, {self._strategy} cannot train this: {self._said()}")
            self._check_alive()
            if time.monotonic() > limit:
                raise NeighbourError(
                    f"protocol.neighbour: {self._strategy} was not at work after {_MOST_WAIT:g} s: no other "
                    "GPU became free, or its epochs are too long for this; nothing was measured"
                )
            time.sleep(_MOMENT)
        self._since, self._epochs_before = time.monotonic(), found.epochs

    def account(self) -> dict[str, Any]:
        """What the neighbour did since ``await_work``: strategy, GPU, epochs, seconds.

        Raises NeighbourError unless it was at work all the time.
        """
        self._check_alive()
        now, found = time.monotonic(), self._read()
        assert found is not None  # it was at work
        mean = (found.last - found.first) / found.epochs
        pause, epochs = found.longest_since(self._since), found.epochs - self._epochs_before
        if pause > max(_PAUSE, _LONG * mean) or not epochs:
            raise NeighbourError(
                f"protocol.neighbour: {self._strategy} was not at work all the time: one of its epochs took "
                f"{pause:.2f} s, and {epochs} ended in {now - self._since:.2f} s, of {mean:.2g} s each "
                "before; nothing is recorded: measure the cell again"
            )
        return {
            "strategy": self._strategy,
            "device_uuid": found.uuid or None,
            "epochs": epochs,
            "seconds": now - self._since,
        }

    def _read(self) -> beats.Beats | None:
        return beats.read(self._output.fileno())

    def _check_alive(self) -> None:
        status = self.process.poll()
        if status is not None:
            raise NeighbourError(
                f"protocol.neighbour: {self._strategy} ended with status {status} ({self._said()}): nothing "
                "is recorded of a cell that it was to be busy beside"
            )

    def _said(self) -> str:
        """The last line that the process printed."""
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").split("\n")
        return next((line for line in reversed(lines) if line.strip()), "it said nothing")


@contextmanager
def beside(
    cell: Mapping[str, Any], device: Device, devices: Sequence[Device], data: str | None
) -> Iterator[Nobody]:
    """Start the neighbour that a cell asks for, on one of the other devices; it ends with this context.

    It trains what the cell trains, with the strategy ``protocol.neighbour``; on the CPU it shares the cell's.
    ``data`` is the prepared copy of the data set, if there is one. Raises Unsupported where there is no other
    GPU.
    """
    strategy = strategy_beside(cell)
    if strategy is None:
        yield Nobody()
        return
    others = [asdict(one) for one in devices if one.uuid != device.uuid]
    if device.uuid is not None and not others:
        raise Unsupported(
            f"protocol.neighbour={strategy} needs a second {device.name} beside the one that is measured, "
            "and this process sees one: take a machine with two, or let CUDA_VISIBLE_DEVICES show both"
        )
    its_cell = {**cell, "strategy": groups.load("strategy", strategy)}
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        neighbour = BusyNeighbour(strategy, {"cell": its_cell, "data": data, "gpus": others}, output, errors)
        try:
            neighbour.give_order()
            yield neighbour
        finally:
            neighbour.process.kill()
            neighbour.process.wait()
