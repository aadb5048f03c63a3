"""The limits of a device: measured peak rates and latencies, and the properties that the system reports."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

import pynvml

from snn.hardware.devices import is_part, open_gpu

FLOPS, BYTES, SECONDS, CYCLES = "FLOP/s", "B/s", "s", "cycles"  # units of limits
_OF_WHOLE = ("cuda_cores", "memory_bus_bits", "copy_engines")  # shared by the parts of a GPU (MIG)

VERSION = 2  # the schema version of a record of limits


def too_old(has: tuple[int, int], needed: tuple[int, int], instruction: str) -> str:
    """The reason for a missing limit: the compute capability lacks the measured instruction. It may have
    others of the kind; a T4, for example, has tensor cores for FP16."""
    said = "compute capability {}.{}, but the instruction that is measured, {}, needs {}.{}"
    return said.format(*has, instruction, *needed)


@dataclass(frozen=True)
class Limit:
    """One measured limit, ``what``, with its samples in ``unit``, or the ``reason`` if it has none.

    ``blocks`` is the number of blocks of the measurement, None for the whole device or the host. ``how``
    describes what was timed.
    """

    what: str
    blocks: int | None
    unit: str
    how: str
    samples: tuple[float, ...] = ()
    reason: str = ""

    @property
    def value(self) -> float | None:
        return median(self.samples) if self.samples else None


@dataclass(frozen=True)
class Measured:
    """The limits of a device. ``multiprocessors`` (the number of SMs) and ``l2_bytes`` are None on a CPU.
    ``properties`` come from the system; old records have none."""

    limits: tuple[Limit, ...]
    multiprocessors: int | None = None
    l2_bytes: int | None = None
    properties: Mapping[str, Any] = field(default_factory=dict)

    def plain(self) -> dict[str, Any]:
        return {
            "multiprocessors": self.multiprocessors,
            "l2_bytes": self.l2_bytes,
            "properties": dict(self.properties),
            "limits": [asdict(limit) | {"samples": list(limit.samples)} for limit in self.limits],
        }

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> "Measured":
        limits: Sequence[Mapping[str, Any]] = plain["limits"]
        return cls(
            tuple(Limit(**{**limit, "samples": tuple(limit["samples"])}) for limit in limits),
            plain["multiprocessors"],
            plain["l2_bytes"],
            plain.get("properties", {}),
        )


def properties(uuid: str) -> dict[str, Any]:
    """The driver's properties of the GPU with this UUID; None for unknown ones. For a part of a GPU (MIG), no
    value of the whole GPU is reported."""
    with open_gpu(uuid) as gpu:
        asked: dict[str, Callable[[], Any]] = {
            "memory_bytes": lambda: pynvml.nvmlDeviceGetMemoryInfo(gpu).total,
            "cuda_cores": lambda: pynvml.nvmlDeviceGetNumGpuCores(gpu),
            "memory_clock_mhz": lambda: pynvml.nvmlDeviceGetMaxClockInfo(gpu, pynvml.NVML_CLOCK_MEM),
            "memory_bus_bits": lambda: pynvml.nvmlDeviceGetMemoryBusWidth(gpu),
            "compute_capability": lambda: "{}.{}".format(*pynvml.nvmlDeviceGetCudaComputeCapability(gpu)),
            "copy_engines": lambda: _copy_engines(pynvml.nvmlDeviceGetPciInfo(gpu).busId),
        }
        of_whole = set(_OF_WHOLE) if is_part(gpu) else set()
        found: dict[str, Any] = dict.fromkeys(asked)
        for name in asked.keys() - of_whole:
            with suppress(pynvml.NVMLError, RuntimeError):  # CuPy's errors are RuntimeErrors
                found[name] = asked[name]()
        return found


def _copy_engines(pci_bus_id: str) -> int:
    from cupy.cuda import Device

    engines: int = Device.from_pci_bus_id(pci_bus_id).attributes["AsyncEngineCount"]
    return engines
