"""What a device can do at best, measured: its rates of products and of memory, and what it waits for."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

FLOPS, BYTES, SECONDS = "FLOP/s", "B/s", "s"
"""Units of limits."""

VERSION = 1
"""Of the form of a record of limits."""


@dataclass(frozen=True)
class Limit:
    """One thing measured, several times: ``what``, by or between how many ``blocks``, in which ``unit``.

    ``blocks`` is None where it is of the device as a whole or of the host. Without ``samples`` there is a
    ``reason`` why the device has no such thing. ``how`` says in words what was timed.
    """

    what: str
    blocks: int | None
    unit: str
    how: str
    samples: tuple[float, ...] = ()
    reason: str = ""

    @property
    def value(self) -> float | None:
        """The median of the samples."""
        return median(self.samples) if self.samples else None


@dataclass(frozen=True)
class Measured:
    """The limits of a device. ``multiprocessors`` and ``l2_bytes`` are None where it has none."""

    limits: tuple[Limit, ...]
    multiprocessors: int | None = None
    l2_bytes: int | None = None

    def plain(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "multiprocessors": self.multiprocessors,
            "l2_bytes": self.l2_bytes,
            "limits": [asdict(one) | {"samples": list(one.samples)} for one in self.limits],
        }

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> "Measured":
        """What ``plain`` has written."""
        limits: Sequence[Mapping[str, Any]] = plain["limits"]
        return cls(
            tuple(Limit(**{**one, "samples": tuple(one["samples"])}) for one in limits),
            plain["multiprocessors"],
            plain["l2_bytes"],
        )
