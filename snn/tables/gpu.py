"""Table I: properties of the device, beside those of the paper's."""

import os
from collections.abc import Mapping
from typing import Any

import pandas as pd
import pynvml

from snn.hardware.devices import Device

GIGA = 1e9


def build(device: Device, paper: Mapping[str, Any]) -> pd.DataFrame:
    """One row per property; on a CPU, those that do not apply are empty."""
    values = _cpu() if device.uuid is None else _gpu(device.uuid)
    names = dict.fromkeys([*paper["values"], *values])
    return pd.DataFrame(
        [
            {
                "parameter": name,
                "value": values.get(name, ""),
                "paper_value": paper["values"].get(name, ""),
                "device": device.name,
                "backend": device.backend,
                "paper_device": paper["device"],
            }
            for name in names
        ]
    )


def _gpu(uuid: str) -> dict[str, Any]:
    pynvml.nvmlInit()
    try:
        handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        width = pynvml.nvmlDeviceGetMemoryBusWidth(handle)
        clock = pynvml.nvmlDeviceGetMaxClockInfo(handle, pynvml.NVML_CLOCK_MEM)
        return {
            "CUDA cores": pynvml.nvmlDeviceGetNumGpuCores(handle),
            "Memory (GB)": round(pynvml.nvmlDeviceGetMemoryInfo(handle).total / GIGA),
            # Two transfers per clock: MHz x 2 x bits / 8 = MB/s.
            "Memory bandwidth (GB/s)": round(clock * 2 * width / 8 / 1000),
            "Compute capability": ".".join(map(str, pynvml.nvmlDeviceGetCudaComputeCapability(handle))),
            "Copy engines": _copy_engines(),
            "Driver": pynvml.nvmlSystemGetDriverVersion(),
        }
    finally:
        pynvml.nvmlShutdown()


def _copy_engines() -> int:
    from cupy.cuda import Device as CudaDevice

    return CudaDevice(0).attributes["AsyncEngineCount"]


def _cpu() -> dict[str, Any]:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {"CPU cores": os.cpu_count(), "Memory (GB)": round(memory / GIGA)}
