"""What a strategy asks of its backend in a few steps: every call, when, with what, and what is held."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple


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
    """One call: seconds since the beginning on the host's clock, and on the device's where it worked.

    ``stream``: 0 for the default one, else the number of the stream among those alive. ``device_bytes`` and
    ``page_locked_bytes`` are held after the call. ``site``: the line that asked for it. ``operands``: numbers
    of the buffers, host arrays (with the offset in bytes) and stream that it is about, never given twice.
    """

    signature: Signature
    start: float
    end: float
    stream: int | None
    device_start: float | None
    device_end: float | None
    device_bytes: int
    page_locked_bytes: int
    site: str
    operands: tuple[int, ...] = ()


class Launch(NamedTuple):
    """Work that a graph holds: its name and numbers, and the numbers of its buffers."""

    op: str
    numbers: tuple[float, ...]
    buffers: tuple[int, ...]


@dataclass
class Standing:
    """What is held when a trace begins, by number: device blocks, host arrays (if page-locked), managed ones,
    pools (on which stream), streams and events; which pool a device block or a host array is of; and every
    graph and part of a block (which block, offset, bytes) that there ever was.
    """

    device: dict[int, int] = field(default_factory=dict)
    managed: dict[int, int] = field(default_factory=dict)
    pools: dict[int, int | None] = field(default_factory=dict)
    pool_of: dict[int, int] = field(default_factory=dict)
    host: dict[int, tuple[int, bool]] = field(default_factory=dict)
    streams: list[int] = field(default_factory=list)
    events: list[int] = field(default_factory=list)
    graphs: dict[int, list[Launch]] = field(default_factory=dict)
    parts: dict[int, tuple[int, int, int]] = field(default_factory=dict)


@dataclass(frozen=True)
class Trace:
    """The events of ``steps`` steps of training, in the order in which they were asked for."""

    steps: int
    events: list[Event]
    standing: Standing = field(default_factory=Standing)

    def plain(self) -> dict[str, Any]:
        """The trace as a record holds it: columns, microseconds, and each line that allocated once."""
        sites = list(dict.fromkeys(event.site for event in self.events))
        rows = [
            [
                event.signature.call,
                list(event.signature.size),
                event.stream,
                *(None if t is None else round(1e6 * t, 2) for t in _times(event)),
                event.device_bytes,
                event.page_locked_bytes,
                sites.index(event.site),
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
