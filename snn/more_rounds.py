"""Plan more rounds for the rows of a table that are not settled."""

import re
import shlex
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from math import inf
from pathlib import Path
from typing import Any

import pandas as pd

from snn.analysis import frame
from snn.analysis.grouping import baselines
from snn.analysis.intervals import LEVEL, Ratio, adjust, holm, pool, ratio_verdict, with_best
from snn.analysis.machine_state import Thresholds
from snn.analysis.speedups import (
    FAMILY,
    LEAST,
    MOST,
    Pair,
    compare,
    first_look,
    look,
    look_share,
    next_look,
    reason,
    rounds_needed,
    share_of_look,
)
from snn.analysis.verdicts import NOT_COMPARABLE, NOT_SIGNIFICANT
from snn.config.groups import CONFIG, default_grid, read_yaml
from snn.config.settings import MOST_ROUNDS
from snn.config.suggestions import meant
from snn.errors import ConfigError, RecordError, shown
from snn.grid import catalogue, fingerprint, more_rounds, naming, plans
from snn.grid import sweeps as grid
from snn.tables import overview
from snn.tables.table import find_table, mark_families

_OF_ALL = ("recommendation", "overview")
_KEYS = ("rounds", *grid.ASKED)


def plan(table: str, arguments: Sequence[str]) -> str:
    """Plan more rounds for the rows of a table that are not settled; returns what was planned, in lines.

    ``table`` is its file or name, ``arguments`` are settings as KEY=VALUE. Raises ConfigError for a table or
    setting that cannot be, RecordError if a record is missing.
    """
    table, settings = _parse(table, arguments)
    count = settings.pop("rounds", None)
    if count is not None and not (
        re.fullmatch("[0-9]{1,4}", count, re.ASCII) and 1 <= int(count) <= MOST_ROUNDS
    ):
        raise ConfigError(f"rounds is {shown(count)}: it must be a number from 1 to {MOST_ROUNDS}")
    where = {key: settings[key] for key in grid.ASKED if key in settings}
    thresholds = read_yaml(CONFIG / "verdicts.yaml")
    lines: list[str] = []
    apart: list[str] = []
    planned: dict[str, int] = {}
    for pairs, factors in _families(table, where, thresholds):
        compared: list[tuple[Pair, Ratio]] = []
        for base, other in pairs:
            # A GPU and its host are divided; of a missing time there is nothing to say.
            is_timed = base["runs"] and other["runs"] and base["on_host"] == other["on_host"]
            if is_timed and (why := reason(base, other, thresholds)):
                apart.append(f"{_name(base, other)}: {NOT_COMPARABLE}, so it gets no rounds: {why}")
            else:
                compared.append(((base, other), compare(base, other, thresholds)))
        ratios = pool([found for _, found in compared])
        shares = [look_share(found, *pair, thresholds) for pair, found in compared]
        ps = adjust([found.p / share for found, share in zip(ratios, shares, strict=True)], factors)
        is_open = [
            ratio_verdict(found, p, thresholds["same"], thresholds["one_round"]) == NOT_SIGNIFICANT
            for found, p in zip(ratios, ps, strict=True)
        ]
        level = LEVEL / max(factors(sum(is_open)), default=1)
        for (pair, _), found, open_ in zip(compared, ratios, is_open, strict=True):
            first = first_look(*pair)
            further = next_look(found.rounds, first) if found.rounds > 1 else LEAST
            share = share_of_look(look(further, first), thresholds)
            needed = rounds_needed(found, thresholds, level * share if open_ else inf)
            if not all(row["runs"] for row in pair) or needed <= found.rounds:
                continue
            unpaired = max(len(row["rounds"]) for row in pair) - found.rounds  # of several hosts or passes
            wanted = int(count) if count else unpaired + min(needed, max(2 * found.rounds, LEAST))
            given = min(max(wanted, unpaired + further), MOST_ROUNDS)
            for row in pair:
                planned[row["cell"]] = max(given, planned.get(row["cell"], 0))
            likely = f"more than {needed}" if needed >= MOST else f"about {needed}"
            known = f"{found.value:.3g} ({found.low:.3g} to {found.high:.3g})" if found.rounds else "no ratio"
            lines.append(
                f"{_name(*pair)}: {known} after {found.rounds} rounds, likely settled after {likely}: "
                f"it gets {given}"
            )
    if not planned:
        what = "everything that is comparable" if apart else "everything"
        return "\n".join([*apart, f"In {table} {what} is settled: no rounds were added."])
    more_rounds.add(planned)
    lines += apart
    lines.append(f"{len(planned)} cells have more rounds in {more_rounds.FILE}. To measure them:")
    return "\n".join([*lines, f"    {_command(table, where)}"])


def _command(table: str, where: Mapping[str, str]) -> str:
    """What measures the rounds of a table, NAME or DEVICE/NAME, that are planned and missing."""
    config = [shlex.quote(f"{key}={value}") for key, value in where.items()]
    return " ".join(
        [f"snakemake --cores 1 results/tables/{table}.csv", *(["--config"] if config else []), *config]
    )


def _name(base: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """``large 32-256-1: combined over reference``, with the kernels if they differ."""
    kernels = [
        f" with {row['kernel']}" if row["kernel"] and base["kernel"] != other["kernel"] else ""
        for row in (other, base)
    ]
    return (
        f"{other['dataset']} {other['network']}: {other['strategy']}{kernels[0]} over "
        f"{base['strategy']}{kernels[1]}"
    )


def _families(
    table: str, where: Mapping[str, str], thresholds: Thresholds
) -> list[tuple[list[Pair], Callable[[int], list[int]]]]:
    """The rows that a table compares, by families, each with the factors that adjust its p-values.

    ``where`` holds the grid and the device, if they are given.
    """
    file = Path(where.get("grid", default_grid()))
    asked: dict[str, Any] = dict(where)
    if where.get("devices", "").startswith("["):
        asked["devices"] = [name.strip() for name in where["devices"].strip("[]").split(",")]
    folder, _, table = table.rpartition("/")
    found = {plan.folder.rstrip("/"): plan for plan in plans.read(file, asked)}
    if folder not in found:
        places = ", ".join(f"results/tables/{plan.folder}" for plan in found.values())
        raise ConfigError(f"there are no tables in results/tables/{folder}: this grid has those in {places}")
    sweeps = found[folder].sweeps
    names = [*_OF_ALL, *grid.own_tables(sweeps), *catalogue.sweep_tables(sweeps)]
    if table not in names:
        raise ConfigError(
            f"{file} has no table {table!r} to plan rounds for{meant(table, names)}: "
            f"one of {', '.join(names)}; grid=FILE names another grid"
        )
    cells = grid.all_cells(sweeps) if table in _OF_ALL else grid.cells_of(table, sweeps)
    records = frame.checked(
        _expected(cells, _command(f"{folder}/{table}".lstrip("/"), where), "grid" in where)
    )
    if table in _OF_ALL:
        ranked = [overview.ranked(point, thresholds) for point in overview.points_of(records, thresholds)]
        return [([(other, best) for other in others], with_best) for best, *others in filter(None, ranked)]
    rows = mark_families(frame.tabulate(records, thresholds), catalogue.PRIMARY.get(table))
    listed, families = rows.to_dict("records"), defaultdict[Any, list[Pair]](list)
    for number, i in _numbers(table, rows, sweeps):
        if number != i:
            families[listed[i].get(FAMILY)].append((listed[number], listed[i]))
    return [(pairs, holm) for pairs in families.values()]


def _numbers(table: str, rows: pd.DataFrame, sweeps: Mapping[str, grid.Sweep]) -> list[tuple[int, int]]:
    """The numbers of baselines and of rows over them: by the table's own rule, or else that of sweeps."""
    entry = catalogue.TABLES.get(table)
    own = find_table(catalogue.table_form(table)).pairs if entry else None
    if own is not None:
        return list(own(rows))
    numbers, _ = baselines(rows, sweeps[entry.sweep if entry else table].axes)
    return [(number, i) for i, number in enumerate(numbers) if number >= 0]


def _expected(cells: Mapping[str, naming.Cell], command: str, gives_grid: bool) -> dict[str, str]:
    """The records of these cells, which ``command`` makes, with the hash of their sources.

    ``gives_grid``: the user has named a grid file.
    """
    planned = more_rounds.read()
    expected: dict[str, str] = {}
    for name, cell in cells.items():
        sources = fingerprint.cell_sources(cell).digest
        expected |= dict.fromkeys(naming.record_paths(cell, name, planned.get(name, 0)), sources)
    missing = [path for path in expected if not Path(path).exists()]
    if missing:
        raise RecordError(
            f"{missing[0]} is missing, and {len(missing) - 1} more: measure first what is planned: {command}"
            f"{'' if gives_grid else '; or name the grid that was measured, with grid=FILE'}"
        )
    return expected


def _parse(table: str, given: Sequence[str]) -> tuple[str, dict[str, str]]:
    """The table, as NAME or DEVICE/NAME, and the settings."""
    if others := [word for word in given if "=" not in word]:
        raise ConfigError(f"{shown(others[0])} is a second table: give one, and settings as KEY=VALUE")
    settings = dict(word.split("=", 1) for word in given)
    unknown = sorted(settings.keys() - set(_KEYS))
    if unknown:
        raise ConfigError(
            f"there is no key {shown(unknown[0])}{meant(unknown[0], _KEYS)}: {', '.join(_KEYS)}"
        )
    if not Path(table).name:
        raise ConfigError(f"{shown(table)} names no table: it must be one, as results/tables/speedup.csv")
    folder, name = Path("tables", table).with_suffix("").parts[-2:]
    return name if folder == "tables" else f"{folder}/{name}", settings
