"""What changes a process's times from outside: its environment, how it waits for CUDA, its NUMA nodes."""

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import pynvml

from snn.hardware import driver
from snn.hardware.devices import Device, is_part

VARIABLES = ("CUDA_LAUNCH_BLOCKING", "NVIDIA_TF32_OVERRIDE", "XLA_FLAGS")
"""Of the environment: launches that wait, the precision of NVIDIA's libraries, the compiler of JAX."""

_NODES, _PCI = Path("/sys/devices/system/node"), Path("/sys/bus/pci/devices")
_MOST_LETTERS = 1000  # of a variable that a record keeps


def describe(device: Device) -> dict[str, Any]:
    """The surroundings of this process as JSON values; None for what the system does not say.

    ``schedule``: how a thread waits for the GPU (cudaGetDeviceFlags): auto, spin, yield or blocking.
    ``numa_nodes`` are those of the CPUs that the process may use.
    """
    return {
        "environment": {name: _value(name) for name in VARIABLES},
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
            if usable & _cpus(path.read_text(encoding="ascii")):
                nodes.append(int(path.parent.name.removeprefix("node")))
    return sorted(nodes) or None


def gpu_numa_node(uuid: str) -> int | None:
    """The NUMA node that a GPU is connected to; None if the system does not say it."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    try:
        handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        if is_part(handle):
            handle = pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle)
        domain, _, place = pynvml.nvmlDeviceGetPciInfo(handle).busId.lower().partition(":")
        node = int((_PCI / f"{domain[-4:]}:{place}" / "numa_node").read_text(encoding="ascii"))
        return node if node >= 0 else None
    except (pynvml.NVMLError, OSError, ValueError):
        return None
    finally:
        pynvml.nvmlShutdown()


def _value(name: str) -> str | None:
    value = os.environ.get(name, "").strip()[:_MOST_LETTERS]
    return value.encode(errors="backslashreplace").decode() or None


def _cpus(text: str) -> set[int]:
    """The CPUs of a list such as ``0-3,8``."""
    ranges = re.findall(r"(\d+)(?:-(\d+))?", text)
    return {cpu for first, last in ranges for cpu in range(int(first), int(last or first) + 1)}
