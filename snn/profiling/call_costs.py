"""What each call of a strategy costs by itself: its calls made again, one at a time, without training."""

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np

from snn.backends.base import Backend
from snn.profiling.events import Signature, Trace
from snn.profiling.replay import Replay

_WARM_UP_SECONDS = 0.05
LEAST_SECONDS = 0.25  # a processor has slow moments that last longer than a few steps


@dataclass(frozen=True)
class CallCost:
    """Microseconds: of the host for the call, of the device for the work, and of waiting until it begins.

    A call that returns when all is done has only the first.
    """

    host_us: float
    device_us: float = 0.0
    latency_us: float = 0.0


def call_costs(backend: Backend, traced: Trace, seconds: float = LEAST_SECONDS) -> dict[Signature, CallCost]:
    """The median cost of each call of a trace. Everything allocated for it is freed.

    The calls are made again in the trace's order, since a call costs more after others than after itself: on
    memory of the same sizes, without the training between them, each waited for before the next. Work
    that the host does not wait for is timed three times: the call, the call until it is done, and, with
    marks around it, the device's part; what the second has beyond the others is latency.
    Managed memory that training touches on the host is touched there before each call that moves it.
    """
    if not traced.events:
        return {}
    host, total, device = (defaultdict[Signature, list[float]](list) for _ in range(3))
    with ExitStack() as stack, np.errstate(all="ignore"):  # what is computed does not matter
        replay = Replay(backend, traced, stack)
        for _ in _for_seconds(min(_WARM_UP_SECONDS, seconds)):  # what is loaded or grown late is not timed
            replay.run()
        for _ in _for_seconds(seconds):
            replay.run(host, total)
        if backend.asynchronous:
            for _ in _for_seconds(seconds / 2):
                replay.run(device=device)
    idle = {
        call: _median(host[Signature(call)])
        for call in ("synchronize", "stream_synchronize")
        if Signature(call) in host
    }
    costs = {}
    for signature, times in host.items():
        if signature in device:
            wait = idle.get("stream_synchronize" if signature.streamed else "synchronize", 0.0)
            asked, worked = _median(times), _median(device[signature])
            costs[signature] = CallCost(
                asked, worked, max(_median(total[signature]) - asked - worked - wait, 0.0)
            )
        else:
            costs[signature] = CallCost(_median(times))
    return costs


def _for_seconds(seconds: float) -> Iterator[None]:
    """Once, and again until the seconds have passed."""
    until = time.perf_counter() + seconds
    yield
    while time.perf_counter() < until:
        yield


def _median(seconds: list[float]) -> float:
    return 1e6 * float(np.median(seconds))
