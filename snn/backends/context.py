"""The context of a CUDA device, which the driver makes while CuPy is imported."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread


@contextmanager
def context_meanwhile() -> Iterator[None]:
    """A block during which another thread makes the primary context of the first visible device.

    The runtime finds it there at its first call. Both take some tenths of a second: the driver without
    Python's lock, and Python the imports. Without a driver or a device nothing happens, which the first call
    of the runtime reports.
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
