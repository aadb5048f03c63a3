"""The calls that a strategy makes of its backend in a few steps: when, and how much memory was held."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from snn.profiling.calls import Call


class Signature(NamedTuple):
    """What a call's cost depends on.

    ``size``: bytes, or the numbers of what was launched, whose name ``call`` then is. ``page_locked``: of the
    host array. ``streamed``: whether a stream was given. ``context``: ``alone`` for an allocation while
    nothing else is held, and the free that leaves nothing; ``fresh`` for the first work on a new stream;
    ``driver`` for what the driver's pool gives, ``cupy`` for CuPy's.
    """

    call: str
    size: tuple[float, ...] = ()
    page_locked: bool | None = None
    streamed: bool = False
    context: str = ""


@dataclass(frozen=True)
class Event:
    """One call: seconds since the beginning on the host's clock, and on the device's if it worked.

    ``stream``: 0 for the default one, else the number of the stream among those alive. ``device_bytes`` and
    ``page_locked_bytes`` are held after the call.
    """

    signature: Signature
    start: float
    end: float
    stream: int | None
    device_start: float | None
    device_end: float | None
    device_bytes: int
    page_locked_bytes: int
    call: Call


@dataclass(frozen=True)
class Trace:
    """The events of ``steps`` steps of training in order, and the calls that made what was held before."""

    steps: int
    events: list[Event]
    held: Sequence[Call] = ()

    def plain(self) -> dict[str, Any]:
        """The trace as a record holds it: columns, microseconds, and each call site once."""
        sites = list(dict.fromkeys(event.call.call_site for event in self.events))
        rows = [
            [
                event.signature.call,
                list(event.signature.size),
                event.stream,
                *(None if t is None else round(1e6 * t, 2) for t in _times(event)),
                event.device_bytes,
                event.page_locked_bytes,
                sites.index(event.call.call_site),
            ]
            for event in self.events
        ]
        return {"steps": self.steps, "columns": list(COLUMNS), "events": rows, "sites": sites}


COLUMNS = (
    "call",
    "size",
    "stream",
    "start_us",
    "end_us",
    "device_start_us",
    "device_end_us",
    "device_bytes",
    "page_locked_bytes",
    "site",
)


def _times(event: Event) -> tuple[float | None, ...]:
    return event.start, event.end, event.device_start, event.device_end
