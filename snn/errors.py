"""The errors that a user can cause or meet; each message says what was wrong and what would be right."""


class SnnError(Exception):
    """Base of every error that is shown to the user without a traceback."""


class ConfigError(SnnError):
    """A key or value in a configuration, a grid or an override is not one that the project accepts."""


class DataError(SnnError):
    """A data set cannot be used; the message names the file and, where there is one, line and column."""


class DeviceError(SnnError):
    """The device that was asked for cannot be used; the message says why and what to do."""


class OutOfMemory(SnnError):
    """An allocation on the device failed: an outcome that is recorded, not a fault."""


def out_of_memory(call: str, asked: int, free: int, total: int) -> OutOfMemory:
    """The error of an allocation that failed: what was asked, and what was free, in bytes."""
    return OutOfMemory(f"{call} of {asked} bytes failed: {free} of {total} bytes are free")


class Unsupported(SnnError):
    """What was asked for has no meaning here, or cannot be had: an outcome that is recorded, not a fault."""


class LeakError(SnnError):
    """A strategy freed what it does not hold, or kept what it should have freed."""


class MeasurementError(SnnError):
    """A time that cannot be: it is below what the device can do at best."""


class RecordError(SnnError):
    """A record is missing, malformed, or not the record of the cell that was asked for."""
