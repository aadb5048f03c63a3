"""Queries the CUDA driver through its library, without any package, as ``scripts/make_env`` needs.

``python driver.py`` prints why the driver does not work, or nothing. It runs as a separate process, because a
process that has started the driver can no longer choose its GPUs.
"""

import ctypes
from typing import Any, NamedTuple
from uuid import UUID

LEAST, LEAST_OF_CUDA_13 = (7, 0), (7, 5)
"""Least compute capability of the kernels (waits with ``.acq_rel``), and of CUDA 13."""

NO_DEVICE = 100  # result of ``cuInit`` if this process may not use any GPU
_SCHEDULES = {0: "auto", 1: "spin", 2: "yield", 4: "blocking"}  # CU_CTX_SCHED_ and so on
_CAPABILITY = (75, 76)  # CUdevice_attribute: the major and the minor number of a compute capability

_ERRORS = {
    34: ("STUB_LIBRARY", "the library is a stub to link with: take its folder out of LD_LIBRARY_PATH"),
    46: ("DEVICE_UNAVAILABLE", "another process has the GPU to itself, or its compute mode forbids CUDA"),
    NO_DEVICE: ("NO_DEVICE", "this process may use no GPU: check CUDA_VISIBLE_DEVICES and /dev/nvidia*"),
    304: ("OPERATING_SYSTEM", "a call of the system failed: check the permissions of /dev/nvidia*"),
    802: ("SYSTEM_NOT_READY", "a service of the driver is not running, often nvidia-fabricmanager"),
    803: (
        "SYSTEM_DRIVER_MISMATCH",
        "the CUDA library and the kernel module are of different versions: restart the machine, or reinstall "
        "the driver",
    ),
    804: (
        "COMPAT_NOT_SUPPORTED_ON_DEVICE",
        "the CUDA library is a compatibility package that this GPU does not support: take its folder out of "
        "LD_LIBRARY_PATH, or update the driver",
    ),
    999: ("UNKNOWN", "often after standby: reload the module nvidia_uvm, or restart the machine"),
}
"""Errors of ``cuInit`` by number: CUDA's name without CUDA_ERROR_, and its meaning."""


class DriverError(Exception):
    """The driver is installed but does not work. ``number`` is CUDA's error number, or None."""

    def __init__(self, message: str, number: int | None = None) -> None:
        super().__init__(message)
        self.number = number


class Driver(NamedTuple):
    """A working driver: the CUDA version that it supports, and each GPU's compute capability."""

    cuda: int
    capabilities: list[tuple[int, int]]


def read() -> Driver | None:
    """Start and query the driver; None if it is not installed. Raises DriverError."""
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    version, count = ctypes.c_int(0), ctypes.c_int(0)
    _check(library, "cuInit", 0)
    _check(library, "cuDriverGetVersion", ctypes.byref(version))
    _check(library, "cuDeviceGetCount", ctypes.byref(count))
    return Driver(version.value // 1000, [_capability(library, number) for number in range(count.value)])


class Seen(NamedTuple):
    """CUDA's first device in this process: its UUID without a prefix, and the bytes of its memory."""

    uuid: str
    memory_bytes: int


def first_device() -> Seen:
    """The device that CUDA uses in this process. Raises DriverError, or OSError without a driver."""
    library, device = _started()
    uuid, nbytes = (ctypes.c_ubyte * 16)(), ctypes.c_size_t(0)
    # Only the second version of the call returns the UUID of a part of a GPU (MIG).
    call = "cuDeviceGetUuid_v2" if hasattr(library, "cuDeviceGetUuid_v2") else "cuDeviceGetUuid"
    _check(library, call, uuid, device)
    _check(library, "cuDeviceTotalMem_v2", ctypes.byref(nbytes), device)
    return Seen(str(UUID(bytes=bytes(uuid))), nbytes.value)


def schedule() -> str | None:
    """The way a thread of this process waits for CUDA's first device; None if the driver gives none."""
    flags, active = ctypes.c_uint(0), ctypes.c_int(0)
    try:
        library, device = _started()
        _check(library, "cuDevicePrimaryCtxGetState", device, ctypes.byref(flags), ctypes.byref(active))
    except (DriverError, OSError):
        return None
    return _SCHEDULES.get(flags.value & 7)


def _started() -> tuple[Any, ctypes.c_int]:
    library, device = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(0)
    _check(library, "cuInit", 0)
    _check(library, "cuDeviceGet", ctypes.byref(device), 0)
    return library, device


def _check(library: Any, call: str, *arguments: Any) -> None:
    """Raise DriverError, with the name and meaning of the error, if a call fails."""
    number = getattr(library, call)(*arguments)
    if not number:
        return
    if number in _ERRORS:
        said = "(CUDA_ERROR_{}): {}".format(*_ERRORS[number])
    else:
        found = ctypes.c_char_p()
        library.cuGetErrorName(number, ctypes.byref(found))
        said = f"({found.value.decode() if found.value else 'CUDA has no name for it'})"
    raise DriverError(f"the driver answers {call} with error {number} {said}", number)


def _capability(library: Any, number: int) -> tuple[int, int]:
    """The compute capability of a GPU, (0, 0) if the driver does not give it."""
    device, major, minor = ctypes.c_int(0), ctypes.c_int(0), ctypes.c_int(0)
    library.cuDeviceGet(ctypes.byref(device), number)
    for part, attribute in zip((major, minor), _CAPABILITY, strict=True):
        library.cuDeviceGetAttribute(ctypes.byref(part), attribute, device)
    return major.value, minor.value


def main() -> None:
    """Print why the driver does not work; nothing if it does."""
    try:
        if read() is None:
            print("the driver's library libcuda.so.1 cannot be loaded: reinstall the driver")
    except DriverError as error:
        print(error)


if __name__ == "__main__":
    main()
