"""One call of a backend, and what it made: what every instrumented pass observes.

``ObservedBackend`` turns each call into a ``Call`` and keeps what is alive in ``Live``; a ledger, a memory
map, a trace and NVTX ranges are made from the same calls by observers.
"""

import os
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple

from snn import backends
from snn.config.groups import ROOT

if TYPE_CHECKING:
    from snn.profiling.live import Live

ENDED_BY = {
    "malloc": "free",
    "host_alloc": "host_free",
    "pool_create": "pool_destroy",
    "pool_malloc": "pool_free",
    "pool_host_alloc": "pool_host_free",
    "managed_alloc": "managed_free",
    "stream_create": "stream_destroy",
    "event_create": "event_destroy",
    "graph_end": "graph_destroy",
}
"""The calls that make a resource, and the call that ends what each has made."""

DEVICE_MEMORY = ("malloc", "pool_malloc", "managed_alloc")
"""The calls that allocate device memory."""


class Ref(NamedTuple):
    """A resource among a call's arguments: its number and, of memory, which part of it, in bytes.

    ``shape``: of a host array; device memory has none.
    """

    number: int
    offset: int = 0
    nbytes: int = 0
    shape: tuple[int, ...] = ()


class Call(NamedTuple):
    """One call of a backend method: all that is needed to count it, to draw it or to make it again.

    ``arguments`` are those of the method without the stream, with a ``Ref`` in place of every resource. A
    ``captured`` call is recorded into a graph, not done. ``makes`` and ``ends`` are the numbers of the
    resource that the call makes or ends; ``nbytes`` and ``purpose`` are of the memory that it is about,
    ``page_locked`` of its host array. ``call_site``: the line of the strategy that makes it.
    """

    name: str
    arguments: tuple[Any, ...] = ()
    stream: Ref | None = None
    nbytes: int | None = None
    purpose: str | None = None
    page_locked: bool | None = None
    captured: bool = False
    makes: int | None = None
    ends: int | None = None
    call_site: str = ""

    @property
    def is_work(self) -> bool:
        """Whether the device does something in the order of a stream: a copy, a prefetch or a launch."""
        return self.name in ("copy_in", "copy_out", "prefetch_in", "prefetch_out", "launch", "graph_launch")


@dataclass(eq=False, slots=True)
class Memory:
    """Device memory as an ``ObservedBackend`` hands it out: where it is, and the inner backend's handle."""

    ref: Ref
    handle: Any


@dataclass(eq=False, slots=True)
class Resource(Memory):
    """What a call has made and none has ended: memory, a pool, a stream, an event or a graph.

    A ``purpose`` that is not ``explicit_purpose`` is None until something is copied in or out.
    """

    made_by: Call
    address: int = 0
    purpose: str | None = None
    explicit_purpose: bool = True

    @property
    def nbytes(self) -> int:
        return self.ref.nbytes

    @property
    def call_site(self) -> str:
        return self.made_by.call_site


class Observer:
    """Is told of every call before it is made, and after it was made or has raised.

    ``live`` holds what is alive: before a call what it ends, after it what it makes. ``started`` and
    ``ended`` are seconds of ``time.perf_counter`` right around the call.
    """

    def before(self, call: Call, live: "Live") -> None:
        """A call is about to be made."""

    def after(self, call: Call, live: "Live", started: float, ended: float) -> None:
        """A call was made."""

    def failed(self, call: Call) -> None:
        """A call has raised."""


# What passes a call on: these two packages, and by their names the functions by which a strategy allocates.
_PACKAGES = tuple(f"{Path(file).parent}{os.sep}" for file in (__file__, backends.__file__))
_HELPERS = ("allocate", "result", "scratch", "discard", "_hold", "_copy_of")


def call_site() -> str:
    """The line of the strategy that makes the current call: ``snn/strategies/x.py:12 in f``."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        file = _file(code.co_filename)
        if file is not None and code.co_name not in _HELPERS:
            return f"{file}:{frame.f_lineno} in {code.co_name}"
        frame = frame.f_back
    return "unknown"


@cache
def _file(name: str) -> str | None:
    """A file's path in the checkout, else its name; None of a file whose functions pass a call on."""
    if name.startswith(_PACKAGES):
        return None
    path = Path(name)
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.name
