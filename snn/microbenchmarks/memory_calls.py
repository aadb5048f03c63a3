"""Time of the calls that allocate and move memory, by size."""

from collections.abc import Iterator, Mapping
from typing import Any

from snn import backends
from snn.config import groups
from snn.microbenchmarks import allocations, copies, overlap
from snn.microbenchmarks.readings import Effort, Reading


def measure(backend: str, settings: Mapping[str, Any]) -> Iterator[Reading]:
    """The readings of allocations, of copies, of first touches, and of overlap by the number of streams."""
    device = backends.make(backend, groups.load("kernel", "naive"))
    effort = Effort(settings["samples"], settings["seconds"])
    yield from allocations.measure(device, settings["sizes"], effort)
    yield from copies.measure(device, settings["sizes"], effort)
    yield from overlap.measure(device, settings["overlapped"], settings["streams"], effort)
