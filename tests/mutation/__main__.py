"""Mutation testing: faults are planted one at a time, and quick tests must notice each.

Usage: python tests/mutation [--sample N] [--seed S] [--only PATH] [--jobs N] [--afresh]

Without ``--sample`` every mutant of the packages is tried, which takes hours; with it, N of them, spread
evenly over the packages. What was killed is remembered in .mutation/ until its file changes, so that a run
continues where another was stopped, and after new tests only survivors are tried; ``--afresh`` forgets it.
Prints killed over total by package, and the survivors: those that tests/mutation/survivors.yaml lists with
a reason, and new ones. The exit code is 1 if a package is below 90%, not counting those with a reason, or if
a file of tests fails without any mutant.
"""

import argparse
import contextlib
import hashlib
import json
import os
import random
import sys
import tempfile
import time
from collections import Counter
from fnmatch import fnmatch
from pathlib import Path

import yaml
from mutants import PACKAGES, Mutant, mutants_in
from trials import Copies

ROOT = Path(__file__).resolve().parent.parent.parent
SURVIVORS = Path(__file__).with_name("survivors.yaml")
MEMORY = ROOT / ".mutation"
NEEDED = 0.9


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--sample", type=int, help="how many mutants; all if it is not given")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the sample")
    parser.add_argument("--only", default="snn/*", help="files, as snn/analysis/roofline.py or snn/grid/*")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many at a time")
    parser.add_argument("--afresh", action="store_true", help="forget what was killed before")
    options = parser.parse_args()
    accepted = yaml.safe_load(SURVIVORS.read_text("utf-8"))
    places = _places(options.only, accepted["left_out"])
    total = sum(map(len, places.values()))
    chosen = _sample(places, options.sample or total, random.Random(options.seed))
    print(f"{len(chosen)} of {total} places, seed {options.seed}", flush=True)
    MEMORY.mkdir(exist_ok=True)
    memory = MEMORY / "killed.json"
    killed_before = json.loads(memory.read_text("utf-8")) if memory.exists() and not options.afresh else []
    survivors: list[Mutant] = []
    tried: Counter[str] = Counter()
    failing: list[str] = []
    with tempfile.TemporaryDirectory() as folder, contextlib.suppress(KeyboardInterrupt):
        copies = Copies(ROOT, Path(folder), options.jobs)
        covering, failing = copies.cover(MEMORY)
        valid = [one for one in chosen if one.edit(ROOT) is not None]
        known = [one for one in valid if _key(one) in killed_before]
        tried.update(one.package for one in known)
        print(f"{len(known)} were killed before", flush=True)
        tests = {one: covering.tests(one, one.at_import(ROOT)) for one in valid if one not in known}
        trials = [(one, some, sum(covering.seconds[test] for test in some)) for one, some in tests.items()]
        for mutant, killed in copies.killed(trials):
            tried[mutant.package] += 1
            if killed:
                killed_before.append(_key(mutant))
                memory.write_text(json.dumps(killed_before, indent=0), "utf-8")
            else:
                survivors.append(mutant)
                print(f"survived {len(tests[mutant])} tests: {_shown(mutant)}", flush=True)
            if tried.total() % 25 == 0:
                print(f"{tried.total() - len(survivors)} of {tried.total()} killed", flush=True)
    status = _report(places, tried, survivors, accepted["survivors"])
    if failing:
        print(f"\nLeft out, since they fail without any mutant: {', '.join(failing)}")
    return 1 if failing else status


def _key(mutant: Mutant) -> str:
    """What a killed mutant is remembered by until its file changes."""
    content = (ROOT / mutant.file).read_bytes()
    return hashlib.sha256(content + f"{mutant}".encode()).hexdigest()[:16]


def _shown(mutant: Mutant) -> str:
    before, after = mutant.edit(ROOT) or ("", "")
    return f"{mutant.file}:{mutant.line}\n    - {before}\n    + {after}"


def _places(pattern: str, left_out: list[dict[str, str]]) -> dict[str, list[Mutant]]:
    """Where something can be mutated, by package; whole files may be left out for a reason."""
    found: dict[str, list[Mutant]] = {package: [] for package in PACKAGES}
    for package in PACKAGES:
        for path in sorted((ROOT / "snn" / package).rglob("*.py")):
            file = path.relative_to(ROOT).as_posix()
            if fnmatch(file, pattern) and not any(fnmatch(file, one["files"]) for one in left_out):
                found[package] += mutants_in(ROOT, file)
    return found


def _sample(places: dict[str, list[Mutant]], size: int, random_: random.Random) -> list[Mutant]:
    """As many of each package as of any other, as far as it has them."""
    shuffled = [random_.sample(some, len(some)) for some in places.values()]
    ranked = sorted((rank, i, one) for i, some in enumerate(shuffled) for rank, one in enumerate(some))
    return [one for _, _, one in ranked[:size]]


def _report(
    places: dict[str, list[Mutant]],
    tried: Counter[str],
    survivors: list[Mutant],
    accepted: list[dict[str, str]],
) -> int:
    known = {(one["file"], one["before"], one["after"]): one["reason"] for one in accepted}
    reasons = {one: known.get((one.file, *(one.edit(ROOT) or ()))) for one in survivors}
    print("\npackage      killed / tried   share  with a reason  new survivors  places")
    enough = True
    for package in PACKAGES:
        lost = [reason for one, reason in reasons.items() if one.package == package]
        killed, accounted = tried[package] - len(lost), len([reason for reason in lost if reason])
        if judged := tried[package] - accounted:
            share = killed / judged
            enough &= share >= NEEDED
            print(
                f"{package:12} {killed:6} / {tried[package]:5} {share:7.1%} {accounted:14} "
                f"{len(lost) - accounted:14} {len(places[package]):7}"
            )
    print("The share is of those without a reason to survive.")
    for title, with_reason in (("With a reason", True), ("New", False)):
        print(f"\n{title}:")
        for mutant, reason in reasons.items():
            if bool(reason) == with_reason:
                print(_shown(mutant), *([f"\n    because {reason}"] if reason else []))
    for one in accepted:
        path = ROOT / one["file"]
        lines = path.read_text("utf-8").splitlines() if path.exists() else []
        if one["before"] not in " ".join(map(str.strip, lines)):
            print(f"\nNo longer there, so not to be listed: {one['file']}: {one['before']}")
    return 0 if enough else 1


if __name__ == "__main__":
    sys.exit(main())
