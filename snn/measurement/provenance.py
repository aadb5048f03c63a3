"""The provenance of a measurement: device, software versions, source revision and host."""

import platform
import resource
import sys
from importlib import metadata
from typing import Any

import numpy as np

from snn.files import revision
from snn.hardware import surroundings
from snn.hardware.devices import Device, find, usable_processors
from snn.hardware.threads import blas_threads


def describe(device: Device) -> dict[str, Any]:
    """Device, driver, library versions, source revision and host, as JSON values."""
    return {
        "device": device.name,
        "backend": device.backend,
        "device_uuid": device.uuid,
        "driver": device.driver,
        "cuda_runtime": _cuda_runtime() if device.backend == "cuda" else None,
        "versions": {
            "python": platform.python_version(),
            "numpy": np.__version__,
            "cupy": _cupy_version() if device.backend == "cuda" else None,
            "numba": _version("numba"),
            "torch": _version("torch"),
            "jax": _version("jax"),
        },
        "blas_threads": blas_threads(),
        "surroundings": surroundings.describe(device),
        "git": revision.git(),
        "host": {
            "system": f"{platform.system()} {platform.machine()}",
            "cpu": find("cpu").name,
            "cpus": usable_processors(),
            "peak_resident_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _RSS_UNIT,
        },
    }


_RSS_UNIT = 1 if sys.platform == "darwin" else 1024


def _cuda_runtime() -> int:
    from cupy.cuda import runtime

    return runtime.runtimeGetVersion()


def _cupy_version() -> str:
    import cupy

    return cupy.__version__


def _version(package: str) -> str | None:
    """The version of a package without importing it; None if it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
