"""Where, with what and when something was measured: device, software, source revision, host, surroundings."""

import os
import platform
import re
import resource
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

import numpy as np
import pynvml

from snn.files import outputs, revision
from snn.grid import order
from snn.hardware import driver, host
from snn.hardware.devices import Device, check_cuda, find, is_part, open_gpu, usable_processors
from snn.hardware.locks import device_lock
from snn.hardware.sampling import gpu_state
from snn.hardware.threads import blas_threads
from snn.records import store

VARIABLES = ("CUDA_LAUNCH_BLOCKING", "NVIDIA_TF32_OVERRIDE", "XLA_FLAGS")
"""Environment variables: launches that wait, the precision of NVIDIA's libraries, JAX's compiler."""

_NODES, _PCI = Path("/sys/devices/system/node"), Path("/sys/bus/pci/devices")
_MOST_LETTERS = 1000  # of a variable that a record keeps
_RSS_UNIT = 1 if sys.platform == "darwin" else 1024


def describe(device: Device) -> dict[str, Any]:
    """Device, driver, library versions, source revision, workflow and host, as JSON values."""
    cupy = import_module("cupy") if device.backend == "cuda" else None
    return {
        "device": device.name,
        "backend": device.backend,
        "device_uuid": device.uuid,
        "driver": device.driver,
        "cuda_runtime": cupy and cupy.cuda.runtime.runtimeGetVersion(),
        "versions": {
            "python": platform.python_version(),
            "numpy": np.__version__,
            "cupy": cupy and cupy.__version__,
            "numba": _version("numba"),
            "torch": _version("torch"),
            "jax": _version("jax"),
        },
        "blas_threads": blas_threads(),
        "surroundings": describe_surroundings(device),
        "git": revision.git(),
        "workflow": order.describe_job(),
        "host": {
            "system": f"{platform.system()} {platform.machine()}",
            "cpu": find("cpu").name,
            "cpus": usable_processors(),
            **host.identity(),
            "peak_resident_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _RSS_UNIT,
        },
    }


def _version(package: str) -> str | None:
    """The version of a package without importing it; None if it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def describe_surroundings(device: Device) -> dict[str, Any]:
    """Outside influences on this process's times, as JSON values; None if the system does not report one.

    ``schedule``: how a thread waits for the GPU (cudaGetDeviceFlags): auto, spin, yield or blocking.
    ``numa_nodes``: the nodes whose CPUs the process may use.
    """
    given = {name: os.environ.get(name, "").strip()[:_MOST_LETTERS] for name in VARIABLES}
    encoded = {name: value.encode(errors="backslashreplace") for name, value in given.items()}
    return {
        "environment": {name: value.decode() or None for name, value in encoded.items()},
        "schedule": None if device.uuid is None else driver.schedule(),
        "numa_nodes": numa_nodes(),
        "gpu_numa_node": None if device.uuid is None else gpu_numa_node(device.uuid),
    }


def numa_nodes() -> list[int] | None:
    """The NUMA nodes whose CPUs this process may use; None if the system does not say it."""
    if not hasattr(os, "sched_getaffinity"):
        return None
    usable, nodes = os.sched_getaffinity(0), []
    for path in _NODES.glob("node[0-9]*/cpulist"):
        with suppress(OSError, ValueError):
            ranges = re.findall(r"(\d+)(?:-(\d+))?", path.read_text(encoding="ascii"))  # of 0-3,8
            if any(usable & {*range(int(first), int(last or first) + 1)} for first, last in ranges):
                nodes.append(int(path.parent.name.removeprefix("node")))
    return sorted(nodes) or None


def gpu_numa_node(uuid: str) -> int | None:
    """The NUMA node that a GPU is connected to; None if the system does not say it."""
    with suppress(pynvml.NVMLError, OSError, ValueError), open_gpu(uuid) as handle:
        if is_part(handle):
            handle = pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle)
        domain, _, place = pynvml.nvmlDeviceGetPciInfo(handle).busId.lower().partition(":")
        node = int((_PCI / f"{domain[-4:]}:{place}" / "numa_node").read_text(encoding="ascii"))
        return node if node >= 0 else None
    return None


def measure_device(
    device: Device, measure: Callable[[], Mapping[str, Any]], source_hash: Callable[[], str]
) -> dict[str, Any]:
    """A sealed record of a device itself: the result of ``measure`` while nothing else uses the device.

    It includes the device's state before and after, and where and when it was measured.
    """
    with device_lock(device):
        started, clock = datetime.now(UTC).isoformat(timespec="seconds"), time.perf_counter()
        before, found, after = gpu_state(device), measure(), gpu_state(device)
        check_cuda(device)
        elapsed = time.perf_counter() - clock
    where = describe(device) | {"started": started, "elapsed_seconds": elapsed, "source_hash": source_hash()}
    return store.sealed({**found, "machine": {"before": before, "after": after}, "provenance": where})


def write_record(output: str, make: Callable[[], dict[str, Any]]) -> None:
    """Write what ``make`` returns, into a file that is checked before. Raises OutputError."""
    path = outputs.checked(output)
    record = make()
    with outputs.reported(path):
        store.write(path, record)
