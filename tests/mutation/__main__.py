"""Mutation testing: faults are planted one at a time, and quick tests must notice each.

Usage: python tests/mutation [--sample N] [--seed S] [--only PATH] [--jobs N] [--afresh]

Without ``--sample`` every mutant of the packages is tried, which takes hours; with it, N of them, spread
evenly over the packages. What was killed is remembered in .mutation/ until its file changes, so that a run
goes on where another was stopped, and after new tests only survivors are tried; ``--afresh`` forgets it.
Prints killed over total by package, and the survivors: those that tests/mutation/survivors.yaml lists with
a reason, and new ones. The exit code is 1 where a package is below 90%, those with a reason aside, and where
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
from mutants import PACKAGES, Mutant, Site, files_of, sites_of
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
    sites = _sites(options.only, accepted["left_out"])
    total = sum(map(len, sites.values()))
    chosen = _sample(sites, options.sample or total, random.Random(options.seed))
    print(f"{len(chosen)} of {total} places, seed {options.seed}", flush=True)
    memory = Memory(options.afresh)
    survivors: list[Mutant] = []
    tried: Counter[str] = Counter()
    missing: list[str] = []
    with tempfile.TemporaryDirectory() as folder, contextlib.suppress(KeyboardInterrupt):
        copies = Copies(ROOT, Path(folder), options.jobs)
        covering = copies.cover(MEMORY, lambda line: print(f"  {line}", flush=True))
        missing += covering.failing
        mutants = [mutant for site in chosen if (mutant := site.mutant(copies.first)) is not None]
        known = {mutant for mutant in mutants if memory.killed(mutant)}
        tried.update(mutant.package for mutant in known)
        print(f"{len(known)} were killed before", flush=True)
        for mutant, killed in copies.killed([one for one in mutants if one not in known], covering):
            tried[mutant.package] += 1
            if killed:
                memory.keep(mutant)
            else:
                survivors.append(mutant)
                print(f"survived {len(covering.tests(mutant))} tests: {mutant}", flush=True)
            if tried.total() % 25 == 0:
                print(f"{tried.total() - len(survivors)} of {tried.total()} killed", flush=True)
    status = _report(sites, tried, survivors, accepted["survivors"])
    if missing:
        print(f"\nLeft out, since they fail without any mutant: {', '.join(missing)}")
    return 1 if missing else status


class Memory:
    """Which mutants a test killed, until their file changes: Ctrl-C ends a run, and another goes on."""

    def __init__(self, afresh: bool) -> None:
        self._path = MEMORY / "killed.json"
        known = self._path.exists() and not afresh
        self._killed: dict[str, list[str]] = json.loads(self._path.read_text("utf-8")) if known else {}

    def killed(self, mutant: Mutant) -> bool:
        """Whether it was killed before."""
        digest, *known = self._killed.get(mutant.file, [""])
        return digest == _digest((ROOT / mutant.file).read_bytes()) and _digest(mutant.code.encode()) in known

    def keep(self, mutant: Mutant) -> None:
        """Remember that it was killed."""
        digest = _digest((ROOT / mutant.file).read_bytes())
        if self._killed.get(mutant.file, [""])[0] != digest:
            self._killed[mutant.file] = [digest]
        self._killed[mutant.file].append(_digest(mutant.code.encode()))
        self._path.write_text(json.dumps(self._killed, indent=0), "utf-8")


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def _sites(pattern: str, left_out: list[dict[str, str]]) -> dict[str, list[Site]]:
    """Where something can be mutated, by package; whole files may be left out for a reason."""
    return {
        package: [
            site
            for file in files_of(ROOT, package)
            if fnmatch(file, pattern) and not any(fnmatch(file, one["files"]) for one in left_out)
            for site in sites_of(ROOT, file)
        ]
        for package in PACKAGES
    }


def _sample(sites: dict[str, list[Site]], size: int, random_: random.Random) -> list[Site]:
    """As many of each package as of any other, as far as it has them."""
    shuffled = [random_.sample(some, len(some)) for some in sites.values()]
    ranked = sorted((rank, i, site) for i, some in enumerate(shuffled) for rank, site in enumerate(some))
    return [site for _, _, site in ranked[:size]]


def _report(
    sites: dict[str, list[Site]], tried: Counter[str], survivors: list[Mutant], accepted: list[dict[str, str]]
) -> int:
    known = {(one["file"], one["before"], one["after"]): one["reason"] for one in accepted}
    new = [mutant for mutant in survivors if mutant.key not in known]
    print("\npackage      killed / tried   share  with a reason  new survivors  places")
    enough = True
    for package in PACKAGES:
        lost, unknown = (Counter(one.package for one in some)[package] for some in (survivors, new))
        killed, judged = tried[package] - lost, tried[package] - (lost - unknown)
        if judged:
            share = killed / judged
            enough &= share >= NEEDED
            print(
                f"{package:12} {killed:6} / {tried[package]:5} {share:7.1%} {lost - unknown:14} {unknown:14} "
                f"{len(sites[package]):7}"
            )
    print("The share is of those without a reason to survive.")
    for title, some in (
        ("With a reason", [mutant for mutant in survivors if mutant.key in known]),
        ("New", new),
    ):
        print(f"\n{title}:")
        for mutant in some:
            reason = known.get(mutant.key)
            print(mutant, *([f"\n    because {reason}"] if reason else []))
    for one in accepted:
        if one["before"] not in _joined(ROOT / one["file"]):
            print(f"\nNo longer there, so not to be listed: {one['file']}: {one['before']}")
    return 0 if enough else 1


def _joined(path: Path) -> str:
    """A file's lines without indentation, as a mutant has them."""
    return " ".join(line.strip() for line in path.read_text("utf-8").splitlines()) if path.exists() else ""


if __name__ == "__main__":
    sys.exit(main())
