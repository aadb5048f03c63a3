"""Backends: the only code that touches a device. CUDA is imported where it is used, and only there."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from snn.backends.base import Backend
from snn.config import groups
from snn.config.groups import ROOT
from snn.errors import Unsupported


def make(backend: str, kernel: Mapping[str, Any], root: Path = ROOT, precision: str = "fp32") -> Backend:
    """The backend ``cuda`` or ``cpu``. ``kernel``: a choice of ``config/kernel``, its source under ``root``.

    Raises Unsupported where the backend or the kernel does not have what the other two ask of it.
    """
    if precision not in kernel["precisions"]:
        known = ", ".join(kernel["precisions"])
        raise Unsupported(f"the kernel {kernel['name']} has no {precision}: it has {known}")
    if backend == "cpu":
        from snn.backends.cpu.backend import CpuBackend

        if kernel["name"] != "naive":
            raise Unsupported(f"{kernel['name']} is a CUDA kernel: a CPU multiplies by NumPy, called naive")
        if list(kernel["block"]) != groups.load("kernel", "naive")["block"]:
            raise Unsupported("a CPU has no blocks of threads: NumPy multiplies whole matrices")
        return CpuBackend()
    from snn.backends.cuda.backend import CudaBackend

    return CudaBackend(kernel, precision, root)
