"""Patterns of memory access: the elements that each uses, and the bytes that move for them."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

STRIDE, AOS, SOA, OFFSET, VECTOR = (
    "stride",
    "array of structures",
    "structure of arrays",
    "offset",
    "vector",
)

FIELDS = 8
"""Floats of a structure, as in kernels/access/structures.cu."""

LINE = 32
"""Floats from one sweep of a strided walk to the next, as in kernels/access/strided.cu."""

_KERNELS = {
    STRIDE: ("strided", "strided"),
    AOS: ("structures", "aos"),
    SOA: ("structures", "soa"),
    OFFSET: ("offset", "offset"),
    VECTOR: ("vectors", "float"),
}
_WARP = 32
_WARPS = 64  # floats to average the moved bytes over: any pattern repeats within them


@dataclass(frozen=True)
class Access:
    """One way to read float32 elements, or, if ``copies``, to read and write them.

    ``value`` is the distance of neighbouring threads' elements (stride), the used fields of a structure
    (array of structures, structure of arrays), the first element (offset) or the elements per load (vector).
    """

    pattern: str
    value: int
    copies: bool

    @property
    def source(self) -> str:
        """The kernel's file."""
        return f"kernels/access/{_KERNELS[self.pattern][0]}.cu"

    @property
    def kernel(self) -> str:
        """The kernel's name."""
        width = self.value if self.pattern == VECTOR and self.value > 1 else ""
        return f"{'copy' if self.copies else 'read'}_{_KERNELS[self.pattern][1]}{width}"

    def count(self, n: int) -> int:
        """The kernel's argument n for a buffer of ``n`` floats."""
        return n // FIELDS if self.pattern in (AOS, SOA) else n


def accesses(settings: Mapping[str, Sequence[int]]) -> Iterator[Access]:
    """The accesses of these ``strides``, ``fields``, ``offsets`` and ``vectors``, reading and copying."""
    chosen = {STRIDE: "strides", AOS: "fields", SOA: "fields", OFFSET: "offsets", VECTOR: "vectors"}
    for pattern, key in chosen.items():
        for value in settings[key]:
            yield from (Access(pattern, value, copies) for copies in (False, True))


def elements(access: Access, n: int) -> int:
    """The number of floats among ``n`` that a pass visits, each once."""
    if access.pattern == STRIDE:
        return sum(math.ceil((n - start) / access.value) for start in range(0, min(access.value, n), LINE))
    if access.pattern == OFFSET:
        return n - access.value
    if access.pattern == VECTOR:
        return n // access.value * access.value
    return n // FIELDS * access.value


def moved_bytes(access: Access, n: int, sector: int, together: int = _WARP) -> int:
    """The bytes of the sectors that a pass over ``n`` floats touches, in one direction.

    Each group of ``together`` threads (a warp) counts a sector once, whichever of its loads touch it. So
    sectors that two groups share count twice, although a cache may hold them the second time.
    """
    i = np.arange(_WARPS * together, dtype=np.int64).reshape(_WARPS, together)
    first_floats = _FIRST[access.pattern](i, access.value, n)
    sectors = np.sort(first_floats.reshape(_WARPS, -1) * 4 // sector, axis=1)
    touched = 1 + np.count_nonzero(np.diff(sectors, axis=1), axis=1).mean()
    useful = first_floats[0].size * (access.value if access.pattern == VECTOR else 1)
    return round(elements(access, n) * touched * sector / useful)


_FIRST: dict[str, Callable[[Any, int, int], Any]] = {
    STRIDE: lambda i, value, n: value * i,
    AOS: lambda i, value, n: FIELDS * i[..., None] + np.arange(value),
    SOA: lambda i, value, n: i[..., None] + np.arange(value) * (n // FIELDS),
    OFFSET: lambda i, value, n: value + i,
    VECTOR: lambda i, value, n: value * i,
}
"""The first float of each load of a thread, by pattern; a thread loads a structure in several parts."""
