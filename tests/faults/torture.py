"""``python tests/faults/torture.py [--kills 200] [--inputs 2000] [--seed N]``: what ``make torture`` runs.

Kills a small workflow at random moments and starts it again, then gives every door malformed inputs. Prints
what was counted; the exit code is 1 if there was a fault. The seed is printed and shows the same again, as
far as moments can.
"""

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS.parent), str(TESTS), str(TESTS / "faults")]

import attempt  # noqa: E402
import inputs  # noqa: E402
from kills import FAULTS, Torture  # noqa: E402
from project import IGNORED, copied  # noqa: E402


def main() -> int:
    """Run both parts, and print the counts of each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--inputs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    return _kills(options.kills, options.seed) | _inputs(options.inputs, options.seed)


def _kills(wanted: int, seed: int) -> int:
    started = time.monotonic()
    if not wanted:
        return 0
    with tempfile.TemporaryDirectory() as folder:
        torture = Torture(copied(TESTS.parent, Path(folder) / "project", IGNORED), seed)
        seen = 0
        while torture.counts["kills"] < wanted:
            torture.kill()
            for fault in torture.faults[seen:]:
                print(f"  {fault}", flush=True)
            seen = len(torture.faults)
            if torture.counts["kills"] % 20 == 0:
                print(f"{torture.counts['kills']} kills, {dict(torture.counts)}", flush=True)
        torture.finish()
    counts = torture.counts
    others = ", ".join(f"{count} {what}" for what, count in counts.items() if what not in ("kills", *FAULTS))
    print(f"{counts['kills']} kills in {time.monotonic() - started:.0f} s ({others}):")
    print("  " + ", ".join(f"{counts[kind]} {kind}" for kind in FAULTS))
    return int(bool(torture.faults))


def _inputs(wanted: int, seed: int) -> int:
    """As many for each door."""
    started, counts = time.monotonic(), Counter[str]()
    for i, door in enumerate(inputs.DOORS):
        share = wanted * (i + 1) // len(inputs.DOORS) - wanted * i // len(inputs.DOORS)
        of_door = (
            inputs.knock(door, share, seed, lambda fault: print(f"  {fault}", flush=True)) if share else {}
        )
        print(f"{door}: {', '.join(f'{count} {what}' for what, count in of_door.items())}", flush=True)
        counts.update(of_door)
    others = ("known to be malformed", "refused", "valid")
    print(
        f"{counts['inputs']} inputs in {time.monotonic() - started:.0f} s "
        f"({', '.join(f'{counts[what]} {what}' for what in others)}):"
    )
    print("  " + ", ".join(f"{counts[kind]} {kind}" for kind in attempt.FAULTS))
    return int(any(counts[kind] for kind in attempt.FAULTS))


if __name__ == "__main__":
    sys.exit(main())
