"""The calls of a backend, one line for each, and backends that pass them on or drop them.

A new backend call is a method of the backends and a line of ``EveryCall``, which determines how the
instrumented passes observe, count and time it.
"""

import inspect
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from snn.backends.base import Backend
from snn.backends.cpu.backend import CpuBackend, HostBuffer
from snn.backends.launches import MOST_STEPS, TrainingLaunch, TrainingShape
from snn.errors import Unsupported

DEVICE, MANAGED, HOST = "device", "managed", "host"
"""The memory that a call makes; managed memory is device memory, too."""


METHODS: dict[str, "Method"] = {}  # by name, in the order of ``EveryCall``


class Method:
    """A line of ``EveryCall``, which describes a method of ``Backend`` to the instrumented passes.

    It becomes a method that passes its arguments to ``do``. ``parameters``: default values by name.
    ``part``: the part of a run's time to which its seconds count. ``counts``: the fields of a ledger to which
    it adds 1 and, if there are two, its bytes. ``makes``: a kind of memory, or the noun of another resource,
    which the method ``ended_by`` ends. ``is_work``: whether it is work of the device in the order of a
    stream: a copy, a prefetch or a launch.
    """

    name: str
    parameters: dict[str, Any]

    def __init__(
        self, part: str, *counts: str, makes: str = "", ended_by: str = "", is_work: bool = False
    ) -> None:
        self.part, self.counts, self.makes = part, counts, makes
        self.ended_by, self.is_work = ended_by, is_work

    def __set_name__(self, owner: type, name: str) -> None:
        _, *parameters = inspect.signature(getattr(Backend, name)).parameters.values()
        self.name, self.parameters = name, {one.name: one.default for one in parameters}
        METHODS[name] = self
        setattr(owner, name, lambda backend, *arguments, **named: backend.do(self, arguments, named))

    @cached_property
    def nouns(self) -> tuple[str, ...]:
        """The parameters that are pools, streams, events or graphs."""
        return tuple(name for name in self.parameters if name in MADE_BY)

    def bind(self, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of a call by name, in their order, with those that were not given."""
        given = dict(zip(self.parameters, arguments, strict=False))
        return given if len(given) == len(self.parameters) else {**self.parameters, **given, **named}


class _Question:
    """A method that is passed to ``inner`` without being observed."""

    def __set_name__(self, owner: type, name: str) -> None:
        setattr(owner, name, lambda backend, *arguments: getattr(backend.inner, name)(*arguments))


_call: Any = Method
_question: Any = _Question


class EveryCall(Backend):
    """A backend whose calls all come to ``do``; it has the traits of ``inner``, which answers questions."""

    malloc = _call("allocation", "mallocs", "malloc_bytes", makes=DEVICE, ended_by="free")
    free = _call("allocation", "frees")
    host_alloc = _call("host_allocation", "host_allocs", "host_alloc_bytes", makes=HOST, ended_by="host_free")
    host_free = _call("host_allocation", "host_frees")
    pool_create = _call("allocation", makes="pool", ended_by="pool_destroy")
    pool_destroy = _call("allocation")
    pool_malloc = _call("allocation", "pool_allocs", "pool_alloc_bytes", makes=DEVICE, ended_by="pool_free")
    pool_free = _call("allocation", "pool_frees")
    pool_host_alloc = _call(
        "host_allocation", "pool_host_allocs", "pool_host_alloc_bytes", makes=HOST, ended_by="pool_host_free"
    )
    pool_host_free = _call("host_allocation", "pool_host_frees")
    managed_alloc = _call(
        "allocation", "managed_allocs", "managed_alloc_bytes", makes=MANAGED, ended_by="managed_free"
    )
    managed_free = _call("allocation", "managed_frees")
    advise = _call("allocation", "advices")
    prefetch_in = _call("copy_in", "prefetches", "prefetch_bytes", is_work=True)
    prefetch_out = _call("copy_out", "prefetches", "prefetch_bytes", is_work=True)
    copy_in = _call("copy_in", "h2d_copies", "h2d_bytes", is_work=True)
    copy_out = _call("copy_out", "d2h_copies", "d2h_bytes", is_work=True)
    launch = _call("launch", "launches", is_work=True)
    train = _call("launch", "launches", is_work=True)
    graph_launch = _call("launch", "graph_launches", is_work=True)
    all_reduce = _call("launch", "all_reduces", "all_reduce_bytes", is_work=True)
    synchronize = _call("waiting", "synchronizations")
    stream_synchronize = _call("waiting", "synchronizations")
    event_synchronize = _call("waiting", "synchronizations")
    stream_create = _call("streams", "streams_created", makes="stream", ended_by="stream_destroy")
    stream_destroy = _call("streams", "streams_destroyed")
    event_create = _call("streams", makes="event", ended_by="event_destroy")
    event_destroy = _call("streams")
    event_record = _call("streams")
    event_wait = _call("streams")
    graph_begin = _call("streams")
    graph_end = _call("streams", makes="graph", ended_by="graph_destroy")
    graph_destroy = _call("streams")

    part = shared_buffer = pool_bytes = memory = address = mark = seconds_between = _question()
    training_launch = steps_per_launch = overlap_launches = store = others = use = _question()

    def __init__(self, inner: Backend) -> None:
        self.inner = inner
        self.fused, self.pretransposed, self.precision = inner.fused, inner.pretransposed, inner.precision
        self.convolves, self.computes, self.no_capture = inner.convolves, inner.computes, inner.no_capture
        self.asynchronous, self.is_processor = inner.asynchronous, inner.is_processor
        self.prefetches_out, self.no_storage = inner.prefetches_out, inner.no_storage

    @property
    def storage(self) -> str:  # type: ignore[override]
        return self.inner.storage

    def do(self, method: Method, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
        return getattr(self.inner, method.name)(*arguments, **named)


ENDED_BY = {name: method.ended_by for name, method in METHODS.items() if method.ended_by}
"""The calls that make a resource, and the call that ends what each has made."""

DEVICE_MEMORY = tuple(name for name, method in METHODS.items() if method.makes in (DEVICE, MANAGED))
"""The calls that allocate device memory."""

HOST_ARRAYS = tuple(name for name, method in METHODS.items() if method.makes == HOST)

MADE_BY = {noun: name for name in ENDED_BY if (noun := METHODS[name].makes) not in (DEVICE, MANAGED, HOST)}
"""The nouns of pools, streams, events and graphs, and the call that makes each."""


class NullBackend(EveryCall):
    """A backend whose device memory is empty: copies and launches do nothing, host matrices are zero.

    Strategies decide as they do on the ``real`` backend.
    """

    def __init__(self, real: Backend) -> None:
        super().__init__(CpuBackend(real.fused, real.pretransposed, real.convolves))
        self.computes, self.precision, self.no_capture = False, real.precision, real.no_capture
        self.inner.no_storage = real.no_storage
        self.is_processor, self._real = real.is_processor, real

    def do(self, method: Method, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
        """Return what the call makes. Raises Unsupported as the real backend does."""
        if method.name == "graph_begin" and self.no_capture:
            raise Unsupported(self.no_capture)
        if method.makes in (HOST, MANAGED):
            return np.zeros(method.bind(arguments, named)["shape"], dtype=np.float32)
        if method.makes == DEVICE:
            return HostBuffer(np.empty(0, dtype=np.float32))
        return object() if method.makes else None

    def part(self, buffer: HostBuffer, offset: int, nbytes: int) -> HostBuffer:
        return HostBuffer(buffer.words)

    def others(self, devices: int | None) -> list[Backend]:
        return [NullBackend(one) for one in self._real.others(devices)]

    def overlap_launches(self, on: bool) -> None:
        self._real.overlap_launches(on)

    def shared_buffer(self, array: np.ndarray) -> HostBuffer:
        return HostBuffer(array)

    def pool_bytes(self, pool: object) -> int:
        return 0

    def training_launch(self, shape: TrainingShape) -> TrainingLaunch:
        return self._real.training_launch(shape)

    def steps_per_launch(self, shape: TrainingShape) -> int:
        return self._real.steps_per_launch(shape)


class Unlaunched(EveryCall):
    """A backend that runs each operation once for the same numbers, and each graph once.

    For passes that only count: what a strategy asks for does not depend on what was computed. Graphs are
    captured in full. One-launch training runs one step, and counts as one launch.
    """

    def __init__(self, inner: Backend) -> None:
        super().__init__(inner)
        self._ran: set[Any] = set()
        self._captures = False

    def do(self, method: Method, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
        """Make a call, unless it is a launch that has run."""
        launched: Any = None
        if method.name == "launch":
            op, _, numbers, *_ = arguments
            launched = None if self._captures else (op, numbers)
        elif method.name == "train":
            shape, buffers, steps, *stream = arguments
            one = steps._replace(number=1)  # all of them may take minutes
            arguments, launched = (shape, buffers, one, *stream), (shape, one)
        elif method.name == "graph_launch":
            launched = id(arguments[0])
        if launched in self._ran:
            return None
        if launched is not None:
            self._ran.add(launched)
        self._captures = self._captures and method.name != "graph_end"
        made = super().do(method, arguments, named)
        self._captures = self._captures or method.name == "graph_begin"
        return made

    def steps_per_launch(self, shape: TrainingShape) -> int:
        """One launch for all steps: the counts must not depend on a measured time."""
        self.inner.steps_per_launch(shape)  # may raise Unsupported
        return MOST_STEPS
