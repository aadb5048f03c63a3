"""A GPU that need not be present: its memory and SMs, the CUDA runtime's memory, and a stand-in backend."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from snn.backends import kernel_source
from snn.backends.cpu.backend import CpuBackend
from snn.backends.launches import (
    DeviceCapability,
    LaunchConfiguration,
    TrainingLaunch,
    TrainingShape,
    check_precision,
)
from snn.config import groups
from snn.config.groups import MIB, ROOT
from snn.config.suggestions import parts_of
from snn.errors import ConfigError, Unsupported
from snn.profiling.rehearsal import Needs

_MEASURED = "NVIDIA H200"
"""The GPU whose runtime figures replace those that another GPU lacks."""


@dataclass(frozen=True)
class Gpu:
    """``nbytes`` of memory; ``runtime``: MiB by what takes it, measured on the GPU ``runtime_of``.

    ``capability`` is None if unknown.
    """

    name: str
    nbytes: int
    capability: DeviceCapability | None
    runtime: Mapping[str, int]
    runtime_of: str

    def runtime_bytes(self, kernel: str, needs: Needs) -> int:
        """Bytes that the CUDA runtime takes in addition to the strategy's allocations."""
        taken = ["context"]
        taken += ["cublas"] if kernel == "cublas" else []
        taken += ["managed"] if needs.has_managed else []
        return MIB * sum(self.runtime[name] for name in taken)

    @property
    def pool_step(self) -> int:
        """Bytes that the driver's pool takes from the system at a time."""
        return MIB * self.runtime["pool_step"]


def named(name: str) -> Gpu:
    """A GPU of config/gpus.yaml. Raises ConfigError for another name."""
    known = groups.known_gpus()
    if name not in known:
        raise ConfigError(
            f"--device is {name!r}, which config/gpus.yaml does not have{parts_of(known, name)}: "
            f"add it, give its memory alone with --free SIZE, or name {', '.join(known)}"
        )
    its = known[name]
    capability = DeviceCapability(its["multiprocessors"], its["shared_bytes"], tuple(its["capability"]))
    return _gpu(name, MIB * its["memory_mib"], capability)


def of_memory(name: str, nbytes: int) -> Gpu:
    """A GPU with ``nbytes`` of memory, otherwise as in config/gpus.yaml, or unknown if it is not there."""
    return replace(named(name), nbytes=nbytes) if name in groups.known_gpus() else _gpu(name, nbytes, None)


def _gpu(name: str, nbytes: int, capability: DeviceCapability | None) -> Gpu:
    known = groups.known_gpus()
    runtime_of = name if "runtime" in known.get(name, ()) else _MEASURED
    return Gpu(name, nbytes, capability, known[runtime_of]["runtime"], runtime_of)


class PlannedGpu(CpuBackend):
    """Decides as the CUDA backend does with a kernel of ``config/kernel``, but does nothing on a GPU.

    ``capability`` is the GPU's; if it is None (unknown), no one-launch training is planned.
    """

    is_processor = False

    def __init__(
        self, kernel: Mapping[str, Any], precision: str, capability: DeviceCapability | None
    ) -> None:
        convolves = kernel_source.convolution(kernel["source"], ROOT) is not None
        super().__init__(kernel["fused"], kernel["pretransposed"], convolves)
        self.precision, self._capability = precision, capability
        self.no_capture = kernel_source.no_capture(kernel["source"])
        self.no_storage = kernel_source.no_storage(kernel["source"], ROOT)

    def overlap_launches(self, on: bool) -> None:
        if on and self._capability and self._capability.capability < (9, 0):
            raise Unsupported("programmatic dependent launches need compute capability 9.0")

    def training_launch(self, shape: TrainingShape) -> TrainingLaunch:
        check_precision(self.precision)
        if self._capability is None:
            raise Unsupported(
                "the number of SMs and their shared memory are unknown for this GPU: name one with "
                "--device, or add it to config/gpus.yaml"
            )
        found = list(shape.configurations(self._capability))
        launches = [one for one in found if isinstance(one, LaunchConfiguration)]
        if not launches:
            raise Unsupported("; ".join(map(str, found)))
        best, some = launches[0], ""
        if shape.members > 1 and len(launches) > 1:
            # How many networks the device has at the same time is only known after compiling.
            best, some = (
                min(launches, key=lambda one: self._cost(one, shape.members)),
                ", or another if it is faster",
            )
        reasons = [one for one in found[: found.index(best)] if isinstance(one, str)]
        return TrainingLaunch("; ".join([f"{best.words}{some}", *reasons]), best)

    def _cost(self, launch: LaunchConfiguration, members: int) -> float:
        """The cost of a step of all members, if a device has as many blocks as the kernel is compiled for."""
        assert self._capability is not None
        blocks = self._capability.multiprocessors * launch.blocks_per_multiprocessor
        held = max(1, blocks // (max(1, launch.cluster) * launch.clusters))
        return launch.total_cost(members, held, launch.blocks_per_multiprocessor)
