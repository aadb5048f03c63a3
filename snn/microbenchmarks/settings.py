"""Every setting of each microbenchmark, one line a key in ``SETTINGS``: its type and range."""

import re
from collections.abc import Mapping
from typing import Any

from snn.backends.access import FIELDS
from snn.config import groups
from snn.config.settings import Form, Kind, error
from snn.errors import ConfigError, shown
from snn.microbenchmarks.allocators import TRACES
from snn.microbenchmarks.readings import LEAST_SAMPLES

_UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_MOST_BYTES = 4 << 30


def _meaning(value: Any) -> Any:
    """A size in bytes, also in a list; anything else as it is."""
    if isinstance(value, list):
        return list(map(_meaning, value))
    found = re.fullmatch(r"([1-9][0-9]{0,11})(B|KiB|MiB|GiB)", value) if isinstance(value, str) else None
    return int(found[1]) * _UNITS[found[2]] if found else value


def _size(least: int) -> Kind:
    def holds(value: Any) -> bool:
        nbytes = _meaning(value) if isinstance(value, str) else None
        return isinstance(nbytes, int) and least <= nbytes <= _MOST_BYTES

    return Form(f"a size from {least}B to {_MOST_BYTES >> 30}GiB, such as 256B, 64KiB or 1GiB", holds)


def _whole(least: int, most: int) -> Kind:
    right = f"a whole number from {least} to {most}"
    return Form(right, lambda value: type(value) is int and least <= value <= most)


def _one_of(*choices: int | str) -> Kind:
    right = f"one of {', '.join(map(str, choices))}"
    return Form(right, lambda value: type(value) in (int, str) and value in choices)


def _several(each: Kind) -> Kind:
    def holds(values: Any) -> bool:
        if not isinstance(values, list) or not values or any(map(each.wrong, values)):
            return False
        meanings = _meaning(values)
        return all(one not in meanings[:i] for i, one in enumerate(meanings))

    return Form(f"a list of one or more, none of them twice, each {each.right}", holds)


_SAMPLES, _SEED = _whole(LEAST_SAMPLES, 1000), _whole(0, 2**31 - 1)
_SECONDS = Form(
    "a number of seconds from 0 to 60", lambda value: type(value) in (int, float) and 0 <= value <= 60
)
_OF_TRACES = {"bytes": _size(1 << 20), "calls": _whole(100, 100_000), "seed": _SEED}

SETTINGS: Mapping[str, Mapping[str, Kind]] = {
    "memory_access": {
        "bytes": _size(1 << 16),
        "strides": _several(_whole(1, 4096)),
        "fields": _several(_one_of(*(2**i for i in range(FIELDS.bit_length())))),
        "offsets": _several(_whole(0, 31)),
        "vectors": _several(_one_of(1, 2, 4)),
        "samples": _SAMPLES,
    },
    "memory_calls": {
        "sizes": _several(_size(4)),
        "overlapped": _size(1 << 16),
        "streams": _several(_whole(1, 32)),
        "samples": _SAMPLES,
        "seconds": _SECONDS,
    },
    "allocation_size": {
        "sizes": _several(_size(4)),
        "live": _several(_one_of(0, 1)),
        "samples": _SAMPLES,
        "seconds": _SECONDS,
    },
    "fragmentation": {
        "traces": _several(_one_of(*TRACES)),
        **_OF_TRACES,
        "caps": _several(_whole(100, 1000)),
        "samples": _SAMPLES,
        "seconds": _SECONDS,
    },
    "memory_map": {"trace": _one_of(*TRACES), **_OF_TRACES},
    "shapes": {
        "shapes": _whole(1, 2000),
        "seed": _SEED,
        "peers": _several(_one_of(*groups.names("strategy"))),
        "peered": _whole(0, 2000),
        "samples": _SAMPLES,
        "seconds": _SECONDS,
    },
}
"""Allowed values by microbenchmark and setting. All settings are required."""


def resolved(name: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a microbenchmark, sizes in bytes, sorted by key.

    Raises ConfigError, naming key and value, for missing, unknown or invalid settings.
    """
    kinds = SETTINGS[name]
    for key in settings:
        if key not in kinds:
            raise ConfigError(f"{shown(key)} is not a key here: one of {', '.join(kinds)}")
    for key, kind in kinds.items():
        if key not in settings:
            raise ConfigError(f"{key} is missing: the keys are {', '.join(kinds)}")
        if right := kind.wrong(settings[key]):
            raise error(key, settings[key], right)
    return {key: _meaning(value) for key, value in sorted(settings.items())}
