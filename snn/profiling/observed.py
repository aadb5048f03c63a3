"""A backend that observes another: it checks every call and passes it to observers as a ``Call``.

From these calls, observers make a ledger, a memory map, a trace and NVTX ranges in separate instrumented
passes; a timed run talks to the backend itself.
"""

import itertools
import math
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import numpy as np

from snn import backends
from snn.backends.base import Backend
from snn.backends.ops import OPS, operand_bytes
from snn.errors import LeakError, OutOfMemory
from snn.files.project import PACKAGES, path_in_clone
from snn.profiling import calls
from snn.profiling.calls import HOST, MANAGED, EveryCall, Method
from snn.profiling.memory import count, size


class Ref(NamedTuple):
    """A resource among a call's arguments: its number and, for memory, which part of it, in bytes.

    ``shape`` is a host array's; device memory has none.
    """

    number: int
    offset: int = 0
    nbytes: int = 0
    shape: tuple[int, ...] = ()


class Call(NamedTuple):
    """One call of a backend method: all that is needed to count, draw or repeat it.

    ``arguments``: the method's arguments without the stream, with a ``Ref`` for every resource; for
    ``graph_end``, the ``captured`` calls, which were recorded into the graph but not executed. ``makes`` and
    ``ends`` are numbers of resources; ``nbytes`` and ``purpose`` describe the memory that the call uses,
    ``page_locked`` its host array.
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
        return calls.METHODS[self.name].is_work


@dataclass(eq=False, slots=True)
class Memory:
    """Device memory as ``ObservedBackend`` returns it: its place, and the inner backend's handle."""

    ref: Ref
    handle: Any


@dataclass(eq=False, slots=True)
class Resource(Memory):
    """A live resource that a call has made: memory, a pool, a stream, an event or a graph.

    A ``purpose`` that is not ``explicit_purpose`` is None until something is copied in or out.
    """

    made_by: Call
    address: int = 0
    purpose: str | None = None
    explicit_purpose: bool = True

    @property
    def nbytes(self) -> int:
        return self.ref.nbytes


class Live:
    """Every live resource by its number, and the totals of their bytes.

    Raises LeakError if a call uses or frees a dead resource, or frees one with the wrong function. Bounds are
    checked, too: a copy or a launch must fit the part of a block that it was given.
    """

    def __init__(self, backend: Backend) -> None:
        self.resources: dict[int, Resource] = {}
        self.capturing: dict[int, list[Call]] = {}
        self.device_bytes = self.page_locked_bytes = 0
        self.backend = backend
        self.numbers = itertools.count()
        self._arrays: dict[int, Resource] = {}

    def update(self, call: Call, result: Any) -> Any:
        """Record a finished call; return the resource if it made one, else its result."""
        if call.captured and call.stream is not None:
            self.capturing[call.stream.number].append(call)
        elif call.name == "graph_begin" and call.stream is not None:
            self.capturing[call.stream.number] = []
        if call.ends is not None:
            resource = self.resources.pop(call.ends)
            if resource.ref.shape:
                del self._arrays[resource.address]
            self._total(resource, -1)
        return result if call.makes is None else self._add(call, call.makes, result)

    def device_memory(self, buffer: Any, nbytes: int = 0, *user: object) -> Ref:
        """Where a device buffer is; it must have room for the bytes that its user, in words, needs."""
        block = self.resources.get(buffer.ref.number) if isinstance(buffer, Memory) else None
        if block is None or not (block.made_by.page_locked or block.made_by.name in calls.DEVICE_MEMORY):
            raise LeakError("a device buffer was used that is not allocated (or was freed before)")
        if nbytes > buffer.ref.nbytes:
            words = " ".join(map(str, user))
            raise LeakError(f"{words} needs {nbytes} bytes and does not fit a buffer of {buffer.ref.nbytes}")
        return buffer.ref

    def array(self, array: np.ndarray, *makers: str) -> Ref:
        """The allocated array, made by one of these calls, that this one is or is a part of."""
        if array.dtype != np.float32 or not array.flags.c_contiguous:
            raise LeakError(f"it needs a C-contiguous float32 array, not {array.dtype} {array.strides}")
        address = _address(array)
        exact = self._arrays.get(address)
        for block in self._arrays.values() if exact is None else (exact,):
            offset = address - block.address
            if offset >= 0 and offset + array.nbytes <= block.nbytes and block.made_by.name in makers:
                return Ref(block.ref.number, offset, array.nbytes, array.shape)
        kind = "managed" if makers == ("managed_alloc",) else "host"
        raise LeakError(f"a {kind} array was used that is not allocated (or was freed before)")

    def find(self, handle: Any, noun: str) -> Resource:
        if isinstance(handle, Resource) and self.resources.get(handle.ref.number) is handle:
            if handle.made_by.name == calls.MADE_BY[noun]:
                return handle
        article = "an" if noun == "event" else "a"
        raise LeakError(f"{article} {noun} was used that does not exist (or was destroyed before)")

    def freed(self, memory: Any, by: str, pool: Resource | None = None) -> Resource:
        """The memory that is about to be freed by a call, to the pool from which it came."""
        resource = self._arrays.get(_address(memory)) if isinstance(memory, np.ndarray) else memory
        if not isinstance(resource, Resource) or self.resources.get(resource.ref.number) is not resource:
            noun = "host array" if isinstance(memory, np.ndarray) else "device buffer"
            raise LeakError(f"a {noun} was freed that is not allocated (or was freed before)")
        made = resource.made_by
        if by != calls.ENDED_BY[made.name] or (pool is not None and made.arguments[0] != pool.ref):
            raise LeakError(
                f"memory of {made.name} is freed by {calls.ENDED_BY[made.name]}, where it came from"
            )
        return resource

    def of(self, *makers: str) -> list[Resource]:
        return [resource for resource in self.resources.values() if resource.made_by.name in makers]

    def pool_bytes(self, call: Call) -> int:
        """Bytes of device memory that the pool of a call has had from the system."""
        return self.backend.pool_bytes(self.resources[call.arguments[0].number].handle)

    def kernels(self, launch: Call) -> int:
        captured = self.resources[launch.arguments[0].number].made_by.arguments
        return sum(call.name == "launch" for call in captured)

    def check_nothing_held(self) -> None:
        """Raise LeakError, saying what, if anything that was allocated or created is still alive."""
        places: dict[str, list[Resource]] = {"on the device": self.of(*calls.DEVICE_MEMORY)}
        for array in self.of(*calls.HOST_ARRAYS):
            places.setdefault("page-locked" if array.made_by.page_locked else "pageable", []).append(array)
        text = [f"{where}: {held(blocks)}" for where, blocks in places.items() if blocks]
        for noun, maker in calls.MADE_BY.items():
            for site, number in Counter(resource.made_by.call_site for resource in self.of(maker)).items():
                text.append(f"{count(number, noun)} created at {site}")
        if text:
            raise LeakError("allocated and never freed: " + "; ".join(text))

    def _add(self, call: Call, number: int, handle: Any) -> Resource:
        is_array = isinstance(handle, np.ndarray)
        shape, address = (handle.shape, _address(handle)) if is_array else ((), 0)
        if call.name in calls.DEVICE_MEMORY and not is_array:
            address = self.backend.address(handle)
        ref = Ref(number, 0, call.nbytes or 0, shape)
        resource = Resource(ref, handle, call, address, call.purpose, call.purpose is not None)
        self.resources[number] = resource
        if shape:
            self._arrays[address] = resource
        self._total(resource, 1)
        return resource

    def _total(self, resource: Resource, sign: int) -> None:
        if resource.made_by.name in calls.DEVICE_MEMORY:
            self.device_bytes += sign * resource.nbytes
        elif resource.made_by.page_locked:
            self.page_locked_bytes += sign * resource.nbytes


class Observer:
    """Receives every call ``before`` it is made, and ``after`` it or when it has ``failed``.

    ``live`` holds the live resources: before a call the one it ends, after it the one it makes. ``started``
    and ``ended`` are seconds of ``time.perf_counter`` right around the call.
    """

    def before(self, call: Call, live: Live) -> None: ...

    def after(self, call: Call, live: Live, started: float, ended: float) -> None: ...

    def failed(self, call: Call) -> None: ...


_ENDINGS = {ended_by: calls.METHODS[name].makes for name, ended_by in calls.ENDED_BY.items()}
"""The calls that end a resource, and what kind of one."""


class ObservedBackend(EveryCall):
    """Passes every call on to ``inner``; raises LeakError as ``Live`` does, before the call is made.

    It returns its own handles for device memory, pools, streams, events and graphs. An OutOfMemory also says
    what held how much device memory, and who asked for more.
    """

    def __init__(self, inner: Backend, *observers: Observer) -> None:
        super().__init__(inner)
        self.live, self._observers = Live(inner), observers
        self._looking_ahead = [one for one in observers if type(one).before is not Observer.before]

    def do(self, method: Method, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
        """Check a call, pass it to the observers and make it; return the handle of its resource."""
        if method.name in _ENDINGS:
            call, handles = self._ending_call(method.name, *arguments)
        else:
            call, handles = self._call(method, method.bind(arguments, named))
        for observer in self._looking_ahead:
            observer.before(call, self.live)
        do = getattr(self.inner, method.name)
        started = time.perf_counter()
        try:
            result = do(*handles)
        except BaseException as error:
            for observer in self._observers:
                observer.failed(call)
            if isinstance(error, OutOfMemory) and method.name in calls.DEVICE_MEMORY:
                holders = held(self.live.of(*calls.DEVICE_MEMORY)) or "nothing"
                raise OutOfMemory(f"{error}; held: {holders}; asked by {call.call_site}") from error
            raise
        ended = time.perf_counter()
        result = self.live.update(call, result)
        for observer in self._observers:
            observer.after(call, self.live, started, ended)
        return result.handle if method.makes in (HOST, MANAGED) else result

    def part(self, buffer: Any, offset: int, nbytes: int) -> Memory:
        ref = self.live.device_memory(buffer)
        if offset < 0 or offset + nbytes > ref.nbytes:
            raise LeakError(f"a part of {nbytes} bytes at {offset} is not within {ref.nbytes} bytes")
        part = Ref(ref.number, ref.offset + offset, nbytes)
        return Memory(part, self.inner.part(buffer.handle, offset, nbytes))

    def shared_buffer(self, array: np.ndarray) -> Memory:
        ref = self.live.array(array, "managed_alloc", *calls.HOST_ARRAYS)
        if self.live.resources[ref.number].made_by.page_locked is False:
            raise LeakError("pageable memory was used on the device")
        return Memory(ref._replace(shape=()), self.inner.shared_buffer(array))

    def pool_bytes(self, pool: Any) -> int:
        return self.inner.pool_bytes(self.live.find(pool, "pool").handle)

    def address(self, buffer: Any) -> int:
        return self.inner.address(buffer.handle)

    def mark(self, stream: Any = None) -> Any:
        return self.inner.mark(None if stream is None else stream.handle)

    def _call(self, method: Method, given: dict[str, Any]) -> tuple[Call, list[Any]]:
        """A call that ends nothing, and the inner handles: each argument is read by its parameter's name."""
        handles = given.copy()
        nbytes, array = given.get("nbytes"), None
        page_locked = bool(given.get("page_locked", True)) if method.makes == HOST else None
        if method.makes in (HOST, MANAGED):
            nbytes = 4 * math.prod(given["shape"])
        if "array" in given:
            makers = calls.HOST_ARRAYS if "buffer" in given else ("managed_alloc",)
            given["array"] = array = self.live.array(given["array"], *makers)
            nbytes, page_locked = array.nbytes, self.live.resources[array.number].made_by.page_locked
        if given.get("buffer") is not None:
            user = "a copy" if array else f"a call of {method.name}"
            given["buffer"] = self.live.device_memory(given["buffer"], nbytes or 0, user)
            handles["buffer"] = handles["buffer"].handle
            block = self.live.resources[given["buffer"].number]
            if array and not block.explicit_purpose:  # the copied memory's; workspace if there are several
                purpose = self.live.resources[array.number].purpose
                block.purpose = purpose if block.purpose in (None, purpose) else "workspace"
        if "buffers" in given:
            if "op" in given:
                op, numbers = given["op"], given["numbers"]
                names, sizes = OPS[op].operands, operand_bytes(op, numbers, self.storage)
            else:
                shape, numbers = given["shape"], given["steps"]
                op, names = shape.op, shape.operands
                sizes = tuple(4 * elements for elements in shape.elements(numbers.rows))
            given["buffers"] = tuple(
                self.live.device_memory(buffer, size, name, "of", op, numbers)
                for name, buffer, size in zip(names, given["buffers"], sizes, strict=True)
            )
            handles["buffers"] = tuple(buffer.handle for buffer in handles["buffers"])
        for noun in method.nouns:
            if given[noun] is not None:
                found = self.live.find(given[noun], noun)
                given[noun], handles[noun] = found.ref, found.handle
        stream = given.pop("stream", None)
        captured = self.live.capturing.pop(stream.number) if method.name == "graph_end" else given.values()
        return Call(
            method.name,
            tuple(captured),
            stream,
            nbytes,
            given.get("purpose"),
            page_locked,
            captured=stream is not None and stream.number in self.live.capturing,
            makes=next(self.live.numbers) if method.makes else None,
            call_site=call_site(),
        ), list(handles.values())

    def _ending_call(self, name: str, *arguments: Any) -> tuple[Call, list[Any]]:
        """A call that ends its last argument, perhaps memory of the pool before it; and the inner handles."""
        *pools, ended = arguments
        resources = [self.live.find(pool, "pool") for pool in pools]
        noun = _ENDINGS[name]
        if noun in calls.MADE_BY:
            resource = self.live.find(ended, noun)
        else:
            resource = self.live.freed(ended, name, *resources)
        blocks = self.live.of("pool_malloc", "pool_host_alloc") if noun == "pool" else ()
        if any(block.made_by.arguments[0] == resource.ref for block in blocks):
            raise LeakError("a pool was destroyed while memory of it is in use")
        resources.append(resource)
        return Call(
            name,
            tuple(each.ref for each in resources),
            nbytes=resource.made_by.nbytes,
            page_locked=resource.made_by.page_locked,
            ends=resource.ref.number,
            call_site=call_site(),
        ), [each.handle for each in resources]


def held(blocks: Iterable[Resource]) -> str:
    """Text of the blocks that hold memory, largest first, each with its call site: for messages."""
    sites: dict[tuple[str, str], list[int]] = {}
    for block in blocks:
        noun = f"{block.purpose} block" if block.purpose else "block"
        sites.setdefault((noun, block.made_by.call_site), []).append(block.nbytes)
    lines = sorted(sites.items(), key=lambda item: -sum(item[1]))
    return ", ".join(f"{count(len(n), noun)} with {size(sum(n))} from {site}" for (noun, site), n in lines)


# Frames that a call site skips: these two packages, and a strategy's allocating functions by name.
_PACKAGES = tuple(f"{Path(file).parent}{os.sep}" for file in (__file__, backends.__file__))
_HELPERS = ("allocate", "result", "scratch", "discard", "_hold", "_copy_of", "_new", "_scratch")


def call_site() -> str:
    """The line of the strategy that makes the current call: ``snn/strategies/x.py:12 in f``."""
    frame: FrameType | None = sys._getframe(4)  # in front of it: _call, do, and the method itself
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
    return path_in_clone(path) if path.is_relative_to(PACKAGES) else path.name


def _address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]
