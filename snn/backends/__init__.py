"""Backends: the only code that touches a device. CUDA is imported where it is used, and only there."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from snn.backends.base import Backend


def make(backend: str, kernel: Mapping[str, Any], root: Path) -> Backend:
    """The backend ``cuda`` or ``cpu``; ``kernel`` is a choice of ``config/kernel``, source under ``root``."""
    if backend == "cpu":
        from snn.backends.cpu import CpuBackend

        return CpuBackend()
    from snn.backends.cuda import CudaBackend

    return CudaBackend(root / kernel["source"], kernel["function"], kernel["block"])
