"""Malformed inputs for every door, and how many of them were met with which fault."""

import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import command_lines
import csv_files
import grids
import saved
from attempt import Input, met
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

DOORS: Mapping[str, Callable[[], st.SearchStrategy[Input]]] = {
    "command line": command_lines.malformed,
    "grid": grids.malformed,
    "CSV": csv_files.malformed,
    "prepared data": saved.data_sets,
    "record": saved.records,
    "archive": saved.archives,
    "plan of rounds": saved.plans,
}
"""By the name of a door, what knocks at it."""


def knock(door: str, number: int, seed_: int, tell: Callable[[str], object]) -> Counter[str]:
    """Give a door so many inputs; how many were met how. Tells of each fault, with its input."""
    counts: Counter[str] = Counter()

    @seed(seed_)
    @settings(
        max_examples=number,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(DOORS[door]())
    def each(one: Input) -> None:
        with tempfile.TemporaryDirectory() as folder:
            how, seen = met(one, Path(folder))
        counts.update(["inputs", how, *(["known to be malformed"] if one.is_wrong else [])])
        if seen:
            tell(f"{how} ({door}): {one!r}\n    {seen[-3000:].strip()}")

    each()
    return counts
