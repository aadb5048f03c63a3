"""``python tests/faults/torture.py [--kills 200] [--inputs 2000] [--seed N]``: what ``make torture`` runs.

Kills a small workflow at random moments and starts it again, then gives every door malformed inputs. Prints
counts; the exit code is 1 if there was a fault. The seed is printed and repeats a run, except for the moments
of the kills.
"""

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS.parent), str(TESTS), str(TESTS / "faults")]

import attempt  # noqa: E402
import command_lines  # noqa: E402
import data_files  # noqa: E402
import grids  # noqa: E402
import kills  # noqa: E402
import records  # noqa: E402
from hypothesis import HealthCheck, Phase, given, seed, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from project import IGNORED, copied  # noqa: E402

Inputs = Callable[[], st.SearchStrategy[attempt.Input]]

DOORS: dict[str, tuple[Inputs, Inputs]] = {
    "command line": (command_lines.malformed, command_lines.garbage),
    "commands": (command_lines.malformed_commands, command_lines.any_commands),
    "recommendation": (
        lambda: st.sampled_from(list(command_lines.wrong_options())),
        command_lines.any_recommendations,
    ),
    "grid": (grids.malformed, grids.garbage),
    "CSV": (data_files.csv, data_files.damaged_csv),
    "images": (data_files.images, data_files.damaged_images),
    "prepared data": (data_files.data_sets, data_files.damaged_data_sets),
    "record": (records.malformed, records.garbage),
    "archive": (records.archives, records.damaged_archives),
    "plan of rounds": (data_files.plans, data_files.any_plans),
}
"""By the name of a door, the inputs that are malformed, and garbage, which may be valid."""


def knock(door: str, number: int, seed_: int, tell: Callable[[str], object]) -> Counter[str]:
    """Give a door so many inputs, a quarter of them garbage; counts the responses. Tells of each fault."""
    counts: Counter[str] = Counter()
    malformed, garbage = DOORS[door]

    def each(one: attempt.Input) -> None:
        with tempfile.TemporaryDirectory() as folder:
            how, seen = attempt.met(one, Path(folder))
        counts.update(["inputs", how, *(["known to be malformed"] if one.is_wrong else [])])
        if seen:
            tell(f"{how} ({door}): {one!r}\n    {seen[-3000:].strip()}")

    usual: dict[str, object] = {"database": None, "deadline": None, "phases": [Phase.generate]}
    for inputs, count in ((malformed, number - number // 4), (garbage, number // 4)):
        if count:
            options = settings(max_examples=count, suppress_health_check=list(HealthCheck), **usual)
            seed(seed_)(options(given(inputs())(each)))()
    return counts


def main() -> int:
    """Run both parts, and print the counts of each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--inputs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    return _kill(options.kills, options.seed) | _give_inputs(options.inputs, options.seed)


def _tell(fault: str) -> None:
    print(f"  {fault}", flush=True)


def _kill(wanted: int, seed: int) -> int:
    started = time.monotonic()
    if not wanted:
        return 0
    with tempfile.TemporaryDirectory() as folder:
        torture = kills.Torture(copied(TESTS.parent, Path(folder) / "project", IGNORED), seed, _tell)
        while torture.counts["kills"] < wanted:
            torture.kill()
            if torture.counts["kills"] % 20 == 0:
                print(f"{torture.counts['kills']} kills, {dict(torture.counts)}", flush=True)
        torture.finish()
    counts = torture.counts
    others = [what for what in counts if what not in ("kills", *kills.FAULTS)]
    return _report("kills", counts, others, kills.FAULTS, started)


def _give_inputs(wanted: int, seed: int) -> int:
    """As many for each door."""
    started, counts = time.monotonic(), Counter[str]()
    for i, door in enumerate(DOORS):
        share = wanted * (i + 1) // len(DOORS) - wanted * i // len(DOORS)
        of_door = knock(door, share, seed, _tell)
        print(f"{door}: {', '.join(f'{count} {what}' for what, count in of_door.items())}", flush=True)
        counts.update(of_door)
    return _report("inputs", counts, ["known to be malformed", "refused", "valid"], attempt.FAULTS, started)


def _report(
    what: str, counts: Counter[str], others: list[str], faults: tuple[str, ...], started: float
) -> int:
    """Print the counts; 1 if there was a fault."""
    of_others, of_faults = (", ".join(f"{counts[one]} {one}" for one in some) for some in (others, faults))
    print(f"{counts[what]} {what} in {time.monotonic() - started:.0f} s ({of_others}):\n  {of_faults}")
    return int(any(counts[one] for one in faults))


if __name__ == "__main__":
    sys.exit(main())
