"""Where each allocator puts the blocks of a trace, over time."""

from collections.abc import Iterator, Mapping
from typing import Any

from snn import backends
from snn.backends.base import Backend
from snn.config import groups
from snn.errors import OutOfMemory, Unsupported
from snn.microbenchmarks.allocators import ALLOCATORS, Trace, allocator, reserved_bytes, trace, watch
from snn.microbenchmarks.readings import Reading, refused
from snn.profiling.memory import CHUNK

MAP = "map"


def measure(backend: str, settings: Mapping[str, Any]) -> Iterator[Reading]:
    """A reading per allocator: its series have an entry per block, in the order of their allocation."""
    device = backends.make(backend, groups.load("kernel", "naive"))
    traced = trace(settings["trace"], settings["bytes"], settings["calls"], settings["seed"])
    for of in ALLOCATORS:
        point = {"kind": MAP, "trace": traced.name, "allocator": of, "peak_bytes": traced.peak_bytes}
        try:
            yield Reading(point, series=_mapped(device, traced, of))
        except (Unsupported, OutOfMemory) as error:
            yield refused(point, error)


def _mapped(device: Backend, traced: Trace, of: str) -> dict[str, list[int]]:
    """For each block: the calls that allocate and free it, its place and bytes, and all bytes held then."""
    reserved = reserved_bytes(device)
    with allocator(device, of) as made:
        after_each, addresses = watch(device, traced, made, reserved)
    in_use = list(traced.in_use())
    allocated = [at for at, event in enumerate(traced.events) if event.nbytes]
    freed = {event.block: at for at, event in enumerate(traced.events) if not event.nbytes}
    sizes = [traced.events[at].nbytes for at in allocated]
    return {
        "allocated": allocated,
        "freed": [freed[traced.events[at].block] for at in allocated],
        "place": places([addresses[at] for at in allocated], sizes),
        "bytes": sizes,
        "in_use_bytes": [in_use[at] for at in allocated],
        "reserved_bytes": [max(0, after_each[at]) for at in allocated],
    }


def places(addresses: list[int], sizes: list[int], chunk: int = CHUNK) -> list[int]:
    """Addresses, in bytes, without the chunks of the address space between them that no block touches."""
    touched: set[int] = set()
    for address, nbytes in zip(addresses, sizes, strict=True):
        touched.update(range(address // chunk, (address + nbytes - 1) // chunk + 1))
    order = {number: at for at, number in enumerate(sorted(touched))}
    return [order[address // chunk] * chunk + address % chunk for address in addresses]
