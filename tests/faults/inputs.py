"""Malformed inputs for every door, and how they were met."""

import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import command_lines
import csv_files
import grids
import image_sets
import prepared_files
import records
from attempt import Input, met
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

Inputs = Callable[[], st.SearchStrategy[Input]]

DOORS: dict[str, tuple[Inputs, Inputs]] = {
    "command line": (command_lines.malformed, command_lines.garbage),
    "commands": (command_lines.malformed_commands, command_lines.any_commands),
    "recommendation": (command_lines.malformed_recommendations, command_lines.any_recommendations),
    "grid": (grids.malformed, grids.garbage),
    "CSV": (csv_files.malformed, csv_files.garbage),
    "images": (image_sets.malformed, image_sets.garbage),
    "prepared data": (prepared_files.data_sets, prepared_files.damaged_data_sets),
    "record": (records.malformed, records.garbage),
    "archive": (records.archives, records.damaged_archives),
    "plan of rounds": (prepared_files.plans, prepared_files.any_plans),
}
"""By the name of a door, the inputs that are malformed, and garbage, which may be valid."""


def knock(door: str, number: int, seed_: int, tell: Callable[[str], object]) -> Counter[str]:
    """Give a door so many inputs, a quarter of them garbage; how many were met how. Tells of each fault."""
    counts: Counter[str] = Counter()
    malformed, garbage = DOORS[door]

    def each(one: Input) -> None:
        with tempfile.TemporaryDirectory() as folder:
            how, seen = met(one, Path(folder))
        counts.update(["inputs", how, *(["known to be malformed"] if one.is_wrong else [])])
        if seen:
            tell(f"{how} ({door}): {one!r}\n    {seen[-3000:].strip()}")

    for inputs, count in ((malformed, number - number // 4), (garbage, number // 4)):
        if count:
            seed(seed_)(_run(count)(given(inputs())(each)))()
    return counts


def _run(count: int) -> settings:
    """So many examples, whatever becomes of them."""
    return settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
