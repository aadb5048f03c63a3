"""Backends: the only code that uses a device. CUDA is imported only when needed."""

import ctypes
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

from snn.backends.base import Backend
from snn.config import groups
from snn.config.groups import ROOT
from snn.errors import Unsupported


def make(
    backend: str,
    kernel: Mapping[str, Any],
    root: Path = ROOT,
    precision: str = "fp32",
    block_is_published: bool = False,
) -> Backend:
    """Create the backend ``cuda`` or ``cpu`` with a kernel of ``config/kernel``, whose source is in ``root``.

    ``block_is_published``: the block size changes the training results, so it has a meaning on the CPU, too.
    Raises Unsupported if backend, kernel, block size and precision do not match.
    """
    if precision not in kernel["precisions"]:
        known = ", ".join(kernel["precisions"])
        raise Unsupported(
            f"kernel={kernel['name']} does not support precision={precision}: it supports {known}"
        )
    if backend == "cpu":
        from snn.backends.cpu.backend import CpuBackend

        if kernel["name"] != "naive":
            raise Unsupported(
                f"kernel={kernel['name']} needs CUDA: on the CPU NumPy multiplies, under the name naive"
            )
        if not block_is_published and list(kernel["block"]) != groups.load("kernel", "naive")["block"]:
            raise Unsupported(
                "kernel.block has no meaning on the CPU, where NumPy multiplies whole matrices: leave it out"
            )
        return CpuBackend()
    with context_meanwhile():
        from snn.backends.cuda.backend import CudaBackend

    return CudaBackend(kernel, precision, root)


@contextmanager
def context_meanwhile() -> Iterator[None]:
    """Create the primary context of the first visible device in another thread during a ``with`` block.

    The runtime finds the context at its first call. The driver, which does not hold Python's lock, and
    Python's imports each take some tenths of a second. Does nothing without a driver or a device, which the
    first call of the runtime reports.
    """
    thread = Thread(target=_make, name="context")
    thread.start()
    try:
        yield
    finally:
        thread.join()


def _make() -> None:
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return
    device, context = ctypes.c_int(), ctypes.c_void_p()
    if driver.cuInit(0) == 0 and driver.cuDeviceGet(ctypes.byref(device), 0) == 0:
        driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
