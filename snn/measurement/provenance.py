"""The provenance of a measurement: device, software versions, source revision and host."""

import os
import platform
import resource
import subprocess
import sys
from importlib import metadata
from typing import Any

import numpy as np

from snn.config.groups import ROOT
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
        "git": _git(),
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


def _git() -> dict[str, Any]:
    """The commit, and whether tracked files are modified; without a repository, SNN_GIT_COMMIT and None."""
    commit = _git_output("rev-parse", "HEAD")
    if commit is None:
        return {"commit": os.environ.get("SNN_GIT_COMMIT"), "dirty": None}
    return {"commit": commit, "dirty": bool(_git_output("status", "--porcelain", "--untracked-files=no"))}


def _git_output(*arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
