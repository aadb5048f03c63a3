"""The energy of a training run, by the GPU's own counter."""

import time
from collections.abc import Callable

_WINDOWS = 3
_LEAST_SECONDS = 0.2  # of a window
_PRECISION = 0.05  # largest share of a window by which its end may be off
_MOST_SECONDS = 3.0  # after which no further window begins
_LOOK_SECONDS = 0.5  # longest look for two updates of the counter


def joules_per_run(train: Callable[[], None], joules: Callable[[], float], run_seconds: float) -> list[float]:
    """The joules of a run, one value for each of a few windows of runs one after the other.

    ``train`` makes one run and waits for its end; ``joules`` reads a counter that only grows. Such a counter
    is updated a few times per second, so a window of short runs begins and ends with a run that saw an
    update, and is too long or too short by one run at most; one of long runs by one update at most. Empty if
    the counter is not updated, or too seldom for ``_PRECISION``.
    """
    period = _period(joules)
    if period is None:
        return []
    least = max(_LEAST_SECONDS, min(period, run_seconds) / _PRECISION)
    found: list[float] = []
    begun, last, runs = time.perf_counter(), joules(), 0
    start = (begun, last) if run_seconds > period else None
    while len(found) < _WINDOWS:
        train()
        runs += 1
        now, total = time.perf_counter(), joules()
        is_updated, last = total > last, total
        if is_updated and start is None:
            start, runs = (now, total), 0
        elif is_updated and start is not None and now - start[0] >= least:
            found.append((total - start[1]) / runs)
            start, runs = (now, total), 0
        if now - begun > _MOST_SECONDS and (found or not is_updated):
            break
    return found


def _period(joules: Callable[[], float]) -> float | None:
    """The seconds between two updates of a counter; None if there are not two while it is watched."""
    begun, last = time.perf_counter(), joules()
    updates: list[float] = []
    while len(updates) < 2:
        now, total = time.perf_counter(), joules()
        if total > last:
            updates.append(now)
            last = total
        if now - begun > _LOOK_SECONDS:
            return None
    return updates[1] - updates[0]
