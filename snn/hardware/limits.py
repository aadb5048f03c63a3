"""The measured limits of a device: peak rates of products and of memory, and latencies."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

FLOPS, BYTES, SECONDS, CYCLES = "FLOP/s", "B/s", "s", "cycles"
"""Units of limits."""

VERSION = 2
"""The schema version of a record of limits."""


def too_old(has: tuple[int, int], needed: tuple[int, int], instruction: str) -> str:
    """Why a device has no limit: its compute capability does not have the instruction that is measured.

    It may have others of the kind, as a T4 has tensor cores for FP16.
    """
    return "compute capability {}.{}, but the instruction that is measured, {}, needs {}.{}".format(
        *has, instruction, *needed
    )


@dataclass(frozen=True)
class Limit:
    """One measured limit, ``what``, with its samples in ``unit``.

    ``blocks`` is the number of blocks that it was measured with, None for the whole device or the host.
    ``how`` describes what was timed. Without ``samples`` there is a ``reason`` why the device has no such
    limit.
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
    """The limits of a device. ``multiprocessors`` (the number of SMs) and ``l2_bytes`` are None on a CPU."""

    limits: tuple[Limit, ...]
    multiprocessors: int | None = None
    l2_bytes: int | None = None

    def plain(self) -> dict[str, Any]:
        """The limits as JSON values."""
        return {
            "multiprocessors": self.multiprocessors,
            "l2_bytes": self.l2_bytes,
            "limits": [asdict(limit) | {"samples": list(limit.samples)} for limit in self.limits],
        }

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> "Measured":
        """The limits from the JSON values of ``plain``."""
        limits: Sequence[Mapping[str, Any]] = plain["limits"]
        return cls(
            tuple(Limit(**{**limit, "samples": tuple(limit["samples"])}) for limit in limits),
            plain["multiprocessors"],
            plain["l2_bytes"],
        )
