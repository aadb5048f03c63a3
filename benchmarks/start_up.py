#!/usr/bin/env python3
"""Time of a cell's process without its timed runs: by stage, and until its first epoch.

    benchmarks/start_up.py [--strategies graph,persistent] [--repeats 3] [--empty-cache] [KEY=VALUE ...]

Each cell is a separate process, started as the workflow does: its first round, with the given settings. A
number is the median of the repeats. --empty-cache adds a first run, with nothing compiled yet.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from arguments import whole

STAGES = Path(__file__).resolve().parent / "stages.py"
UNTIL, TIMED, ALL = "until the first epoch", "timed runs", "the process in all"

Seconds = dict[str, float]


def measured(settings: Sequence[str], environment: Mapping[str, str], folder: Path) -> Seconds:
    """The seconds of a cell's process by stage. Raises SystemExit if the cell fails."""
    found, output = folder / "stages.json", f"output={folder / 'record.json'}"
    began = time.monotonic()
    command = [sys.executable, str(STAGES), str(began), str(found), "round=1", output, *settings]
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True)
    ended = time.monotonic() - began
    if done.returncode:
        raise SystemExit(f"start_up: {' '.join(settings)}: {done.stderr.strip()}")
    stages = json.loads(found.read_text(encoding="utf-8"))
    seconds: Seconds = stages["seconds"]
    seconds["exit"] = ended - sum(seconds.values())
    if stages["until_first_epoch"] is not None:
        seconds[UNTIL] = stages["until_first_epoch"]
    return seconds | {ALL: ended}


def columns(strategy: str, settings: Sequence[str], repeats: int, empty_cache: bool) -> dict[str, Seconds]:
    """The median seconds of a strategy's cells by stage, under the heads of their columns."""
    given = [f"strategy={strategy}", *settings]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        caches = {"SNN_CACHE": f"{name}/snn", "CUPY_CACHE_DIR": f"{name}/cupy"} if empty_cache else {}
        found = {f"{strategy}, nothing compiled": measured(given, caches, folder)} if empty_cache else {}
        again = [measured(given, caches, folder) for _ in range(repeats)]
    stages = dict.fromkeys(stage for one in again for stage in one)
    found[strategy] = {stage: statistics.median(one.get(stage, 0.0) for one in again) for stage in stages}
    return found


def table(found: Mapping[str, Seconds]) -> str:
    """A row per stage, in the order in which they begin, and then their sum."""
    stages = dict.fromkeys(stage for seconds in found.values() for stage in seconds)
    order = [stage for stage in stages if stage not in (UNTIL, TIMED, ALL)]
    rows = [["seconds", *found]]
    for stage in (*order, TIMED, UNTIL, ALL):
        rows.append([stage, *(f"{seconds.get(stage, 0.0):.3f}" for seconds in found.values())])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--strategies", default="reference,graph,persistent")
    options.add_argument("--repeats", type=whole(1), default=3)
    options.add_argument("--empty-cache", action="store_true")
    given, settings = options.parse_known_args()
    found: dict[str, Seconds] = {}
    for strategy in given.strategies.split(","):
        found |= columns(strategy, settings, given.repeats, given.empty_cache)
    print(table(found))


if __name__ == "__main__":
    main()
