"""The settings of each microbenchmark, as a grid file writes them, checked and with sizes in bytes."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from snn.backends.access import FIELDS
from snn.config import groups
from snn.errors import ConfigError, shown
from snn.microbenchmarks.allocators import TRACES
from snn.microbenchmarks.readings import LEAST_SAMPLES

_UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_MOST_BYTES = 4 << 30

Check = Callable[[Any], Any]
"""Returns what a setting means; raises ValueError, with what would be right, where it means nothing."""


def describe(check: Check) -> str:
    """What a setting must be, in words."""
    try:
        check(None)  # which no setting may be
    except ValueError as error:
        return str(error)
    return ""


def _check(right: str, is_right: Check, meaning: Check = lambda value: value) -> Check:
    def check(value: Any) -> Any:
        if not is_right(value):
            raise ValueError(right)
        return meaning(value)

    return check


def size(least: int) -> Check:
    """A size: a whole number of B, KiB, MiB or GiB."""

    def nbytes(value: Any) -> int:
        found = re.fullmatch(r"([1-9][0-9]{0,11})(B|KiB|MiB|GiB)", value) if isinstance(value, str) else None
        return int(found[1]) * _UNITS[found[2]] if found else 0

    right = f"a size from {least}B to {_MOST_BYTES >> 30}GiB, as 256B, 64KiB or 1GiB"
    return _check(right, lambda value: least <= nbytes(value) <= _MOST_BYTES, nbytes)


def whole(least: int, most: int) -> Check:
    right = f"a whole number from {least} to {most}"
    return _check(right, lambda value: type(value) is int and least <= value <= most)


def one_of(*choices: int | str) -> Check:
    """One of these whole numbers or words."""
    right = f"one of {', '.join(map(str, choices))}"
    return _check(right, lambda value: type(value) in (int, str) and value in choices)


seconds = _check(
    "a number of seconds from 0 to 60", lambda value: type(value) in (int, float) and 0 <= value <= 60, float
)


def several(check_one: Check) -> Check:
    """A list of one or more of these, none of them twice."""

    def check(value: Any) -> list[Any]:
        if not isinstance(value, list) or not value:
            raise ValueError(f"a list of one or more, each {describe(check_one)}")
        found = []
        for one in value:
            try:
                found.append(check_one(one))
            except ValueError as error:
                raise ValueError(f"a list, each of its values {error}, and {shown(one)} is not") from error
            if found[-1] in found[:-1]:
                raise ValueError(f"a list of different values, and {shown(one)} is there twice")
        return found

    return check


_SAMPLES = whole(LEAST_SAMPLES, 1000)
_OF_TRACES = {"bytes": size(1 << 20), "calls": whole(100, 100_000), "seed": whole(0, 2**31 - 1)}

SETTINGS: Mapping[str, Mapping[str, Check]] = {
    "memory_access": {
        "bytes": size(1 << 16),
        "strides": several(whole(1, 4096)),
        "fields": several(one_of(*(2**i for i in range(FIELDS.bit_length())))),
        "offsets": several(whole(0, 31)),
        "vectors": several(one_of(1, 2, 4)),
        "samples": _SAMPLES,
    },
    "memory_calls": {
        "sizes": several(size(4)),
        "overlapped": size(1 << 16),
        "streams": several(whole(1, 32)),
        "samples": _SAMPLES,
        "seconds": seconds,
    },
    "fragmentation": {
        "traces": several(one_of(*TRACES)),
        **_OF_TRACES,
        "caps": several(whole(100, 1000)),
        "samples": _SAMPLES,
        "seconds": seconds,
    },
    "memory_map": {"trace": one_of(*TRACES), **_OF_TRACES},
    "shapes": {
        "shapes": whole(1, 2000),
        "seed": whole(0, 2**31 - 1),
        "peers": several(one_of(*groups.names("strategy"))),
        "peered": whole(0, 2000),
        "samples": _SAMPLES,
        "seconds": seconds,
    },
}
"""By microbenchmark and setting: its check. All settings are required."""


def resolved(name: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a microbenchmark, sizes in bytes, sorted by key.

    Raises ConfigError, naming key and value, for what is missing, unknown or not right.
    """
    checks = SETTINGS[name]
    for key in settings:
        if key not in checks:
            raise ConfigError(f"{shown(key)} is not a key here: one of {', '.join(checks)}")
    missing = [key for key in checks if key not in settings]
    if missing:
        raise ConfigError(f"{missing[0]} is missing: the keys are {', '.join(checks)}")
    found = {}
    for key, check in sorted(checks.items()):
        try:
            found[key] = check(settings[key])
        except ValueError as error:
            raise ConfigError(f"{key} is {shown(settings[key])}: it must be {error}") from error
    return found
