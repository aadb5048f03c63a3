"""What is known of a GPU that need not be here: its memory, its SMs, and what the CUDA runtime takes."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from snn.backends.launches import DeviceCapability
from snn.config import known_gpus
from snn.config.known_gpus import MIB
from snn.config.suggestions import parts_of
from snn.errors import ConfigError
from snn.profiling.rehearsal import Needs

_MEASURED = "NVIDIA H200"
"""The GPU whose runtime figures stand in where a GPU has none of its own."""


@dataclass(frozen=True)
class Gpu:
    """``nbytes`` of memory; ``runtime`` in MiB by what takes it, measured on the GPU ``runtime_of``.

    ``capability`` is None where it is not known.
    """

    name: str
    nbytes: int
    capability: DeviceCapability | None
    runtime: Mapping[str, int]
    runtime_of: str

    def runtime_bytes(self, kernel: str, needs: Needs) -> int:
        """What the CUDA runtime takes beyond what a strategy asks for."""
        taken = ["context"]
        taken += ["cublas"] if kernel == "cublas" else []
        taken += ["managed"] if needs.has_managed else []
        return MIB * sum(self.runtime[name] for name in taken)

    @property
    def pool_step(self) -> int:
        """How many bytes the driver's pool takes from the system at a time."""
        return MIB * self.runtime["pool_step"]


def named(name: str) -> Gpu:
    """A GPU of config/gpus.yaml. Raises ConfigError for another name."""
    known = known_gpus.read()
    if name not in known:
        raise ConfigError(
            f"--device is {name!r}, which config/gpus.yaml does not have{parts_of(known, name)}: "
            f"add it, give its memory alone with --free SIZE, or name {', '.join(known)}"
        )
    its = known[name]
    capability = DeviceCapability(its["multiprocessors"], its["shared_bytes"], tuple(its["capability"]))
    return _gpu(name, MIB * its["memory_mib"], capability)


def of_memory(name: str, nbytes: int) -> Gpu:
    """A GPU with so many bytes of memory: that of config/gpus.yaml if it is there, else one not known."""
    return replace(named(name), nbytes=nbytes) if name in known_gpus.read() else _gpu(name, nbytes, None)


def _gpu(name: str, nbytes: int, capability: DeviceCapability | None) -> Gpu:
    known = known_gpus.read()
    runtime_of = name if "runtime" in known.get(name, ()) else _MEASURED
    return Gpu(name, nbytes, capability, known[runtime_of]["runtime"], runtime_of)
