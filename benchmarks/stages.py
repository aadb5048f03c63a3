"""Run one cell with its stages timed; benchmarks/start_up.py starts it.

    benchmarks/stages.py BEGAN FILE [KEY=VALUE ...]

BEGAN is the moment at which the process was started, by CLOCK_MONOTONIC, which all processes of a machine
share. The seconds of each stage are written to FILE, as JSON, without the seconds of the stages inside it.
Functions are replaced in the modules that call them; a missing name is an error.
"""

import builtins
import functools
import importlib
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

STAGES = {
    "snn.config.compose:composed": "configuration",
    "snn.measurement.cell:choices": "device found",
    "snn.grid.fingerprint:cell_sources": "source hash",
    "snn.grid.fingerprint:_digest": "source hash",
    "snn.datasets:make": "data",
    "snn.measurement.cell:job_of": "data",
    "snn.backends:make": "context",
    "snn.backends.cuda.modules:load": "kernels",
    "snn.backends.cuda.kernels:Cublas.__init__": "cuBLAS",
    "snn.measurement.passes:probe": "probe",
    "snn.measurement.runs:count": "instrumented pass",
    "snn.measurement.runs:start": "setup",
    "snn.measurement.runs:_warm_up": "warm-up",
    "snn.measurement.runs:_run": "timed runs",
    "snn.profiling.profile:trace": "trace",
    "snn.profiling.profile:call_costs": "call costs",
    "snn.profiling.profile:break_down": "time breakdown",
    "snn.hardware.sampling:Sampler.__exit__": "end of the samples",
    "snn.measurement.provenance:describe": "provenance",
    "snn.files.revision:git": "git",
    "snn.measurement.cell:build_record": "record",
    "snn.records.store:write": "record",
    "pynvml:nvmlInit": "NVML",
    "pynvml:nvmlShutdown": "NVML",
    "snn.hardware.sampling:gpu_state": "NVML",
    "gc:collect": "garbage collection",
    "time:sleep": "sleep",
}
"""The stage that a function begins, by the module that calls it and its name there."""

FIRST_EPOCH = "warm-up"
"""The stage that begins with the first epoch."""

_PACKAGES = {
    **dict.fromkeys(("hydra", "omegaconf", "antlr4", "yaml"), "Hydra"),
    **dict.fromkeys(("cupy", "cupy_backends", "cuda"), "CuPy"),
    **dict.fromkeys(("numpy",), "NumPy"),
    **dict.fromkeys(("torch", "jax", "jaxlib", "numba"), "of the strategy"),
    "snn": "snn",
}


class Clock:
    """Seconds by stage, of the main thread, since ``began``; ``until_first_epoch`` is None before it."""

    def __init__(self, began: float) -> None:
        self._began = self._last = began
        self._stages = ["other"]
        self.seconds: dict[str, float] = {}
        self.until_first_epoch: float | None = None

    def note(self, stage: str) -> None:
        """Count the time since the last moment for a stage."""
        now = time.monotonic()
        self.seconds[stage] = self.seconds.get(stage, 0.0) + now - self._last
        self._last = now

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """A context that is a stage; the stage around it continues after it."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        self.note(self._stages[-1])
        if name == FIRST_EPOCH and self.until_first_epoch is None:
            self.until_first_epoch = self._last - self._began
        self._stages.append(name)
        try:
            yield
        finally:
            self.note(self._stages.pop())

    def watched(self, function: Callable[..., Any], stage: str) -> Callable[..., Any]:
        """The function, as a stage."""

        @functools.wraps(function)
        def call(*arguments: Any, **options: Any) -> Any:
            with self.stage(stage):
                return function(*arguments, **options)

        return call


class Imports:
    """Times every import, and puts the clock on the functions of a module when it is imported."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting = dict(STAGES)
        self._depth = 0
        self._import, self._import_module = builtins.__import__, importlib.import_module
        builtins.__import__ = self._imported  # type: ignore[assignment]
        importlib.import_module = self._imported_by_name

    def _imported(self, name: str, *given: Any, **named: Any) -> Any:
        level = given[3] if len(given) > 3 else named.get("level", 0)
        importing = given[0] if given else named.get("globals")
        whole = str((importing or {}).get("__package__")) if level else name
        return self._timed(whole, lambda: self._import(name, *given, **named))

    def _imported_by_name(self, name: str, package: str | None = None) -> Any:
        return self._timed(name, lambda: self._import_module(name, package))

    def _timed(self, name: str, work: Callable[[], Any]) -> Any:
        package = _PACKAGES.get(name.partition(".")[0], "the rest")
        self._depth += 1
        try:
            with self._clock.stage(f"import {package}"):
                return work()
        finally:
            self._depth -= 1
            if not self._depth:
                self._watch()

    def _watch(self) -> None:
        for place, stage in list(self._waiting.items()):
            module, _, path = place.partition(":")
            if module in sys.modules:
                *owners, name = path.split(".")
                owner = functools.reduce(getattr, owners, sys.modules[module])
                setattr(owner, name, self._clock.watched(getattr(owner, name), stage))
                del self._waiting[place]


def main(began: float, file: str, settings: list[str]) -> int:
    """Run the cell; the status of its command."""
    clock = Clock(began)
    clock.note("interpreter")
    Imports(clock)
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    command, run = (importlib.import_module(f"snn.{name}") for name in ("command", "run"))
    status = int(command.answer(lambda: run.run_cell(settings)))
    clock.note("other")
    found = {"seconds": clock.seconds, "until_first_epoch": clock.until_first_epoch}
    Path(file).write_text(json.dumps(found), encoding="utf-8")
    return status


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), sys.argv[2], sys.argv[3:]))
