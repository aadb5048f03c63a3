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
import os
import random
import sys
import tempfile
import time
from collections import Counter
from fnmatch import fnmatch
from pathlib import Path

import yaml
from covering import cover
from memory import Memory
from mutants import PACKAGES, Mutant, Site, files_of, sites_of
from trials import Trials, copied

ROOT = Path(__file__).resolve().parent.parent.parent
SURVIVORS = Path(__file__).with_name("survivors.yaml")
MEMORY = ROOT / ".mutation"
NEEDED = 0.9

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # as the tests have it

# Imported here, once: every trial is a fork of this process. Nothing of snn, which is mutated.
for package in (
    *("hydra", "jsonschema", "matplotlib.pyplot", "numba", "numpy", "omegaconf", "pandas", "psutil"),
    *("threadpoolctl", "yaml"),
):
    __import__(package)


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
    memory = Memory(MEMORY, ROOT, options.afresh)
    survivors: list[Mutant] = []
    tried: Counter[str] = Counter()
    missing: list[str] = []
    with tempfile.TemporaryDirectory() as folder, contextlib.suppress(KeyboardInterrupt):
        _try(chosen, Path(folder), options.jobs, memory, tried, survivors, missing)
    status = _report(sites, tried, survivors, accepted["survivors"])
    if missing:
        print(f"\nLeft out, since they fail without any mutant: {', '.join(missing)}")
    return 1 if missing else status


def _try(
    chosen: list[Site],
    folder: Path,
    jobs: int,
    memory: Memory,
    tried: Counter[str],
    survivors: list[Mutant],
    missing: list[str],
) -> None:
    """Try the mutants of these places; Ctrl-C ends it, and what was tried is reported.

    ``missing`` gets the files of tests that cannot be used.
    """
    copies = [copied(ROOT, folder / str(number)) for number in range(jobs)]
    covering = cover(copies, MEMORY, lambda line: print(f"  {line}", flush=True))
    missing += covering.failing
    trials = Trials(copies, covering)
    mutants = [mutant for site in chosen if (mutant := site.mutant(copies[0])) is not None]
    left = []
    for mutant in mutants:
        if memory.killed(mutant):
            tried[mutant.package] += 1
        else:
            left.append(mutant)
    if len(left) < len(mutants):
        print(f"{len(mutants) - len(left)} were killed before", flush=True)
    for mutant, tests, killed in trials.of(left):
        tried[mutant.package] += 1
        if killed:
            memory.keep(mutant)
        else:
            survivors.append(mutant)
            print(f"survived {tests} tests: {mutant}", flush=True)
        if sum(tried.values()) % 25 == 0:
            print(f"{sum(tried.values()) - len(survivors)} of {sum(tried.values())} killed", flush=True)


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
