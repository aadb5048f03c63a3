"""Reads and writes the file of rounds that cells get beyond their protocol's, which a workflow reads."""

from collections.abc import Mapping
from pathlib import Path

from snn.config.settings import MOST_ROUNDS
from snn.errors import ConfigError, RecordError
from snn.hardware.locks import file_lock
from snn.records.store import write
from snn.records.untrusted import read_json

FILE = Path("results/more_rounds.json")


def read(file: Path = FILE) -> dict[str, int]:
    """The number of rounds by the name of a cell; empty if the file does not exist. Raises ConfigError."""
    if not file.exists():
        return {}
    try:
        planned = read_json(file)
    except RecordError as error:
        raise ConfigError(f"{error}; remove it, or plan again with snn more-rounds") from error
    if not isinstance(planned, dict):
        raise ConfigError(f"{file}: it must hold the number of rounds by the name of a cell; remove it")
    for name, rounds in planned.items():
        if type(rounds) is not int or not 1 <= rounds <= MOST_ROUNDS:
            raise ConfigError(
                f"{file}: {name} has {rounds!r} rounds: it must be from 1 to {MOST_ROUNDS}; remove it"
            )
    return planned


def limit(rounds: Mapping[str, int], file: Path = FILE) -> None:
    """Plan at most this many rounds for the cells of these names."""
    if not file.exists():
        return
    with file_lock(file):
        planned = read(file)
        fewer = {name: min(count, planned[name]) for name, count in rounds.items() if name in planned}
        if any(planned[name] != count for name, count in fewer.items()):
            write(file, planned | fewer)


def add(rounds: Mapping[str, int], file: Path = FILE) -> None:
    """Plan this many rounds for the cells of these names; no cell loses rounds that it already has."""
    with file_lock(file):
        planned = read(file)
        write(file, planned | {name: max(count, planned.get(name, 0)) for name, count in rounds.items()})
