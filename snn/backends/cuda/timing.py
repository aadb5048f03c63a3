"""Times kernels that repeat their work within a launch, for limits and access patterns."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import cupy
from cupy.cuda import runtime

from snn.backends import kernel_source
from snn.backends.cuda import modules

Launch = Callable[[int], None]
"""Runs a number of rounds in one launch on the default stream."""


def seconds_per_round(
    launch: Launch,
    least_seconds: float,
    repeats: int,
    stream: int = 0,
    before: Callable[[], None] = lambda: None,
) -> list[float]:
    """Seconds per round of several launches, each ``least_seconds`` or longer; ``before`` is not timed."""
    rounds = 16
    seconds = _seconds(launch, rounds, stream, before)  # drops the first launch, which may be slow
    while (seconds := _seconds(launch, rounds, stream, before)) < least_seconds:
        rounds *= min(16, max(2, round(least_seconds / max(seconds, 1e-6))))
    return [_seconds(launch, rounds, stream, before) / rounds for _ in range(repeats)]


def _seconds(launch: Launch, rounds: int, stream: int, before: Callable[[], None]) -> float:
    before()
    first, last = cupy.cuda.Event(), cupy.cuda.Event()
    runtime.eventRecord(first.ptr, stream)
    launch(rounds)
    runtime.eventRecord(last.ptr, stream)
    last.synchronize()
    return cupy.cuda.get_elapsed_time(first, last) / 1000


def warm_up(launch: Launch, seconds: float) -> None:
    """Launch for this many seconds, so that the clocks rise."""
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        launch(1000)
        runtime.deviceSynchronize()


def load(path: Path) -> cupy.RawModule:
    """The kernels of a source file."""
    return modules.load(kernel_source.text(path))


@contextmanager
def memory_of(nbytes: int) -> Iterator[int]:
    """Zeroed device memory during a ``with`` block."""
    memory = runtime.malloc(nbytes)
    try:
        runtime.memset(memory, 0, nbytes)
        yield memory
    finally:
        runtime.free(memory)
