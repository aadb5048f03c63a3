"""Allocators of device memory, and traces of allocations and frees that are replayed through them.

Traces are of strategies that train, or made by a rule.
"""

import ctypes
import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any, NamedTuple

import numpy as np

from snn.backends.base import Backend
from snn.backends.cpu.backend import CpuBackend
from snn.errors import OutOfMemory, Unsupported
from snn.models.layers import parse
from snn.models.losses import CROSS_ENTROPY
from snn.models.network import Network, mlp
from snn.profiling.calls import DEVICE_MEMORY, NullBackend
from snn.profiling.observed import Call, Live, ObservedBackend, Observer
from snn.strategies.base import Strategy
from snn.strategies.device_driven import Resident
from snn.strategies.host_driven import Reference, Streams, Workspace

_SMALLEST = 512
_KIB, _MIB = 1 << 10, 1 << 20


class Event(NamedTuple):
    """A block is allocated, or, with no bytes, freed."""

    block: int
    nbytes: int


@dataclass(frozen=True)
class Trace:
    """Allocations and frees in their order; at its end all blocks are free."""

    name: str
    events: tuple[Event, ...]

    @property
    def peak_bytes(self) -> int:
        """The most bytes that are in use at once, as they are asked for."""
        return max(self.in_use())

    def in_use(self) -> Iterator[int]:
        """The bytes in use after each event."""
        held: dict[int, int] = {}
        total = 0
        for block, nbytes in self.events:
            if nbytes:
                held[block] = nbytes
                total += nbytes
            else:
                total -= held.pop(block)
            yield total


# ---- made by a rule


def random_lifetimes(nbytes: int, calls: int, chance: random.Random) -> Iterator[Event]:
    """Sizes from 512 B to 1/16 of all, as likely small as large on a log scale, freed in random order."""
    held: dict[int, int] = {}
    total = 0
    for block in range(calls // 2):
        size = _between(chance, _SMALLEST, nbytes // 16)
        while held and total + size > nbytes:
            gone = chance.choice(list(held))
            total -= held.pop(gone)
            yield Event(gone, 0)
        yield Event(block, size)
        held[block] = size
        total += size
    for block in held:
        yield Event(block, 0)


def growing(nbytes: int, calls: int, chance: random.Random) -> Iterator[Event]:
    """Eight buffers that grow by turns: each is freed as soon as the larger one in its place is there."""
    buffers = 8
    last = nbytes // (buffers + 1)
    steps = max(1, calls // 2 // buffers)
    sizes = [round(_SMALLEST * (last / _SMALLEST) ** ((step + 1) / steps)) for step in range(steps)]
    held: dict[int, int] = {}
    block = 0
    for size in sizes:
        for buffer in chance.sample(range(buffers), buffers):
            yield Event(block, size)
            if buffer in held:
                yield Event(held[buffer], 0)
            held[buffer] = block
            block += 1
    for block in held.values():
        yield Event(block, 0)


def alternating(nbytes: int, calls: int, chance: random.Random) -> Iterator[Event]:
    """Large blocks with small ones between them that stay; then all large ones go, and larger ones come.

    Seven rounds of it, each with the small blocks of the round before.
    """
    rounds, block = 7, 0
    small: list[int] = []
    for number in range(rounds):
        large: list[int] = []
        count = max(2, calls // (4 * rounds))
        size = round(nbytes * 0.9 / count * (0.7 + 0.3 * number / (rounds - 1)))
        kept: list[int] = []
        for _ in range(count):
            for list_, each in ((large, size), (kept, _between(chance, _SMALLEST, max(1024, size // 16)))):
                yield Event(block, each)
                list_.append(block)
                block += 1
        for gone in (*small, *large):
            yield Event(gone, 0)
        small = kept
    for gone in small:
        yield Event(gone, 0)


def batches(nbytes: int, calls: int, chance: random.Random) -> Iterator[Event]:
    """A workspace for every batch, whose rows vary, and four activations in it that live for a step."""
    for step in range(calls // 10):
        rows = chance.uniform(0.1, 1)
        blocks = [5 * step + i for i in range(5)]
        for block, share in zip(blocks, (0.4, 0.25, 0.2, 0.1, 0.05), strict=True):
            yield Event(block, max(_SMALLEST, round(rows * share * nbytes)))
        for block in reversed(blocks):
            yield Event(block, 0)


# ---- of strategies that train


class Allocations(Observer):
    """An observer that keeps the allocations and frees of device memory, in their order."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._alive: set[int] = set()

    def after(self, call: Call, live: Live, started: float, ended: float) -> None:
        if call.makes is not None and call.name in DEVICE_MEMORY:
            self.events.append(Event(call.makes, live.resources[call.makes].nbytes))
            self._alive.add(call.makes)
        elif call.ends in self._alive:
            self._alive.discard(call.ends)
            self.events.append(Event(call.ends, 0))


def recorded(
    make: Callable[[Backend], Strategy], network: Network, batch: int, epochs: int = 2
) -> Iterator[Event]:
    """A strategy's allocations while it trains 2.5 batches per epoch; nothing is computed."""
    allocations = Allocations()
    rows = 2 * batch + batch // 2
    X, Y = (np.zeros((rows, width), np.float32) for width in (prod(network.inputs), network.outputs))
    strategy = make(ObservedBackend(NullBackend(CpuBackend()), allocations))
    try:
        strategy.setup(network, X, Y, batch, 0.01)
        strategy.load([np.zeros(shape, np.float32) for shape in network.shapes])
        with np.errstate(all="ignore"):  # what is computed does not matter
            strategy.train(epochs)
    finally:
        strategy.close()
    return iter(allocations.events)


def _perceptron() -> Network:
    return mlp((64, 1024, 256, 1))


def _convolutions() -> Network:
    layers = "conv2d 8 3, relu, maxpool2d 2, conv2d 16 3, relu, maxpool2d 2, linear 64, relu, linear 10"
    return Network((1, 28, 28), tuple(map(parse, layers.split(", "))), CROSS_ENTROPY)


_RULES = {rule.__name__: rule for rule in (random_lifetimes, growing, alternating, batches)}
_RECORDED: dict[str, Callable[[], Iterator[Event]]] = {
    "reference_mlp": lambda: recorded(Reference, _perceptron(), 8192, epochs=4),
    "streams_mlp": lambda: recorded(Streams, _perceptron(), 8192, epochs=4),
    "workspace_mlp": lambda: recorded(Workspace, _perceptron(), 8192, epochs=4),
    "resident_mlp": lambda: recorded(Resident, _perceptron(), 8192),
    "reference_cnn": lambda: recorded(Reference, _convolutions(), 512, epochs=4),
    "resident_cnn": lambda: recorded(Resident, _convolutions(), 512),
}

TRACES = (*_RULES, *_RECORDED)
"""The names of all traces: those made by a rule, and those of strategies."""


def trace(name: str, nbytes: int, calls: int, seed: int) -> Trace:
    """A trace by its name; one made by a rule has ``nbytes`` in use at most, and about ``calls`` calls."""
    if name in _RECORDED:
        return Trace(name, tuple(_RECORDED[name]()))
    return Trace(name, tuple(_RULES[name](nbytes, calls, random.Random(f"{name} {seed}"))))


def _between(chance: random.Random, least: int, most: int) -> int:
    """A whole number, as likely small as large on a log scale."""
    return round(least * (most / least) ** chance.random())


# ---- allocators

MALLOC, MALLOC_ASYNC, CUPY_POOL, FIRST_FIT = "malloc", "malloc_async", "cupy_pool", "first_fit"
ALLOCATORS = (MALLOC, MALLOC_ASYNC, CUPY_POOL, FIRST_FIT)


@dataclass(frozen=True)
class Allocator:
    """Allocates and frees blocks of device memory; whatever it keeps is freed with its context."""

    malloc: Callable[[int], Any]
    free: Callable[[Any], None]


class FirstFit:
    """A pool that hands out the first free block that is large enough, whole, and keeps every block.

    It is the memory pool of many guides: blocks are neither split nor merged.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._blocks: list[list[Any]] = []  # the block, its bytes, and whether it is in use

    def malloc(self, nbytes: int) -> list[Any]:
        for block in self._blocks:
            if not block[2] and block[1] >= nbytes:
                block[2] = True
                return block
        block = [self._backend.malloc(nbytes), nbytes, True]
        self._blocks.append(block)
        return block

    def free(self, block: list[Any]) -> None:
        block[2] = False

    def close(self) -> None:
        while self._blocks:
            self._backend.free(self._blocks.pop()[0])


@contextmanager
def allocator(backend: Backend, name: str) -> Iterator[Allocator]:
    """An allocator by its name, new. Raises Unsupported if the device has none of that name."""
    with ExitStack() as stack:
        if name == MALLOC:
            yield Allocator(backend.malloc, backend.free)
        elif name == FIRST_FIT:
            fitting = FirstFit(backend)
            stack.callback(fitting.close)
            yield Allocator(fitting.malloc, fitting.free)
        else:
            stream = None
            if name == MALLOC_ASYNC:
                stream = backend.stream_create()
                stack.callback(backend.stream_destroy, stream)
            pool = backend.pool_create(stream)
            stack.callback(backend.pool_destroy, pool)
            yield Allocator(partial(backend.pool_malloc, pool), partial(backend.pool_free, pool))


def replay(trace: Trace, of: Allocator, after: Callable[[int, Any], None] | None = None) -> None:
    """Make all allocations and frees of a trace in their order.

    ``after`` is called with the number of each event and the block that it has allocated, None for a free. If
    an allocation fails, all blocks are freed, and OutOfMemory is raised, with the number of the event in
    ``Served``.
    """
    held: dict[int, Any] = {}
    try:
        for at, (block, nbytes) in enumerate(trace.events):
            if nbytes:
                made = held[block] = of.malloc(nbytes)
            else:
                made = None
                of.free(held.pop(block))
            if after is not None:
                after(at, made)
    finally:
        for made in held.values():
            of.free(made)


def watch(
    backend: Backend, trace: Trace, of: Allocator, reserved: Callable[[], int]
) -> tuple[list[int], dict[int, int]]:
    """A replay: the bytes reserved from the system after each event, and by the number of an event that
    allocates a block its address."""
    after_each: list[int] = []
    addresses: dict[int, int] = {}

    def after(at: int, block: Any) -> None:
        if block is not None:
            addresses[at] = backend.address(block[0] if isinstance(block, list) else block)
        after_each.append(after_each[-1] if block is None else reserved())

    replay(trace, of, after)
    return after_each, addresses


def reserved_bytes(backend: Backend) -> Callable[[], int]:
    """Return a function for the bytes that the system hands out from now on: of the device, or to malloc.

    On a CPU free parts of the process's heap count, too, since malloc keeps them. Raises Unsupported if
    malloc does not report its memory.
    """
    if not backend.is_processor:
        free = backend.memory()[0]
        return lambda: free - backend.memory()[0]
    try:
        library = ctypes.CDLL(None)
        mallinfo2, trim = library.mallinfo2, library.malloc_trim
    except (AttributeError, OSError) as error:
        raise Unsupported("only glibc 2.33 or later reports the memory that malloc has reserved") from error
    mallinfo2.restype = _Mallinfo2
    trim(0)
    before = mallinfo2()
    in_use = before.uordblks + before.hblkhd

    def reserved() -> int:
        said = mallinfo2()
        return int(said.arena + said.hblkhd - in_use)

    return reserved


class _Mallinfo2(ctypes.Structure):
    """glibc's bytes from the system: ``arena`` by sbrk, ``uordblks`` of them in use; ``hblkhd`` by mmap."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    ]


@contextmanager
def ballast(backend: Backend, leave: int) -> Iterator[None]:
    """Hold all of the device's memory but ``leave`` bytes. Raises OutOfMemory if fewer are free."""
    free = backend.memory()[0]
    if free <= leave:
        raise OutOfMemory(f"{free} bytes are free, and {leave} must stay free")
    block = backend.malloc(free - leave)
    try:
        yield
    finally:
        backend.free(block)
