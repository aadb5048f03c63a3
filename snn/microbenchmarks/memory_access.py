"""Bandwidth by pattern of memory access: strides, structures, offsets and vector loads."""

from collections.abc import Iterator, Mapping
from functools import partial
from importlib import import_module
from typing import Any

from snn.backends.access import Access, accesses, elements, moved_bytes
from snn.config.groups import ROOT
from snn.errors import OutOfMemory
from snn.microbenchmarks.readings import Point, Reading, reading, refused


def measure(backend: str, settings: Mapping[str, Any]) -> Iterator[Reading]:
    """A reading per pattern, value and direction, in seconds per pass over a buffer of ``bytes``.

    ``useful_bytes`` of a point are the requested bytes, ``moved_bytes`` all bytes of the sectors (on a CPU:
    cache lines) that contain them; both count reading and writing.
    """
    device = import_module(f"snn.backends.{backend}.access")
    n = settings["bytes"] // 4

    def point(access: Access) -> Point:
        directions = 2 if access.copies else 1
        return {
            "pattern": access.pattern,
            "value": access.value,
            "access": "copy" if access.copies else "read",
            "useful_bytes": directions * 4 * elements(access, n),
            "moved_bytes": directions * moved_bytes(access, n, device.SECTOR, device.TOGETHER),
        }

    try:
        with device.timed(settings["bytes"], ROOT) as seconds:
            for access in accesses(settings):
                yield reading(point(access), partial(seconds, access, settings["samples"]))
    except OutOfMemory as error:  # of the buffer; a reading reports its own
        yield from (refused(point(access), error) for access in accesses(settings))
