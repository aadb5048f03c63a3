"""Errors that a user can cause or meet. Each message names the mistake and the fix."""


class SnnError(Exception):
    """Base class of all errors that are shown to the user without a traceback."""


class ConfigError(SnnError):
    """A configuration, grid or override has an unknown key or a value that is not allowed."""


class DataError(SnnError):
    """A data set cannot be used; the message names the file and, if known, line and column."""


class DeviceError(SnnError):
    """The requested device cannot be used; the message says why and what to do."""


class OutOfMemory(SnnError):
    """An allocation failed: an outcome that is recorded, not a failure of the program."""


def out_of_memory(call: str, asked: int, free: int, total: int) -> OutOfMemory:
    """The error for a failed allocation, with the bytes that were requested and that were free."""
    return OutOfMemory(f"{call} of {asked} bytes failed: {free} of {total} bytes are free")


class LaunchError(SnnError):
    """A kernel was ended on the device; the process has lost its context and cannot go on."""


class Unsupported(SnnError):
    """This device or library does not support the request: an outcome that is recorded, not a failure."""


class LeakError(SnnError):
    """A strategy freed a resource that it did not hold, or did not free one that it held."""


class MeasurementError(SnnError):
    """A measurement failed: the device did not train what it was asked for."""


class OutputError(SnnError):
    """A file that the user asked for cannot be written; the message names it and says why."""


class RecordError(SnnError):
    """A record is missing, malformed, or not that of the requested cell."""


def shown(value: object) -> str:
    """A value as a message shows it: a long one is cut."""
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:100]}... ({len(text)} characters)"


def one_line(text: object) -> str:
    """A message as one printable line; unprintable characters of paths and values are escaped."""
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in str(text)
    )
