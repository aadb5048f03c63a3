#!/usr/bin/env python3
"""How often verdicts on equal strategies are wrong, at the noise of published records, before and now.

    benchmarks/verdicts.py [results/published/nvidia-h200/strategies ...] [--repetitions 2000]

Reads from each folder of records how much rounds of a cell differ, once what all cells of a pass share is
removed. Simulates candidates of equal speed: each has the spread of one of those cells, drawn at random, and
residuals drawn from all of them. `looks` counts the verdicts: the first is after five rounds, and a candidate
whose comparison is open gets more, as `snn more-rounds` and `snn recommend` give them. For each number of
candidates and of looks, by the rule before (each comparison alone, a 95% interval at each look) and the rule
now (p-values adjusted for the comparisons of a family and for looks):

    coverage  how often the interval of two candidates, chosen beforehand, contains the true ratio
    any       how often any candidate differs from one chosen beforehand, such as the reference
    slower    how often any candidate is called slower than the one with the shortest mean
    fastest   how often the one with the shortest mean is called faster than all others
    rounds    the mean number of rounds

Then the power: how often a candidate that takes 20% or 50% longer than one of six equals is called slower.
Last, how much the speedup of the one with the shortest mean is too high, as measured and cross-validated.
"""

import argparse
import sys
from collections.abc import Sequence
from math import exp, log
from pathlib import Path
from statistics import fmean

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from snn.analysis import frame  # noqa: E402
from snn.analysis.grouping import settings, texts  # noqa: E402
from snn.analysis.intervals import LEVEL, adjust, holm, pool, ratio, speedup_verdict, with_best  # noqa: E402
from snn.analysis.speedups import LEAST, look, next_look, rounds_needed, share_of_look  # noqa: E402
from snn.analysis.verdicts import NOT_SIGNIFICANT  # noqa: E402
from snn.config.groups import CONFIG, read_yaml  # noqa: E402
from snn.records.archive import read_all  # noqa: E402
from snn.tables.overview import cross_validated  # noqa: E402

WORK = ("dataset", "network", "training", "precision", "protocol", "device")
FOLDERS = (
    "nvidia-h200/strategies",
    "nvidia-h100-80gb-hbm3/strategies",
    "cpu-intel-r-xeon-r-processor/2-cores",
)
MOST_ROUNDS = 40
FEWEST_ROUNDS = 4
"""Rounds of a cell, and cells of a pass, from which residuals are taken."""

CANDIDATES, LOOKS = (2, 6, 12, 24), (1, 2, 3, 4)

THRESHOLDS = read_yaml(CONFIG / "verdicts.yaml")


class Noise:
    """Draws the seconds of cells of equal speed, with the spreads and residuals of published records."""

    def __init__(self, folder: Path) -> None:
        self.spreads: list[float] = []
        shapes: list[float] = []
        rows = frame.tabulate(read_all(folder), THRESHOLDS)
        points = texts(rows, [*settings(rows, WORK), "on_host"])
        for point in dict.fromkeys(points):
            cells = [r for r in rows.loc[points == point, "rounds"] if len(r) >= FEWEST_ROUNDS and all(r)]
            count = min(map(len, cells), default=0)
            logs = np.array([[log(fmean(runs)) for runs in cell[:count]] for cell in cells])
            if len(logs) < FEWEST_ROUNDS:
                continue
            logs -= logs.mean(axis=1, keepdims=True)
            logs -= np.median(logs, axis=0)  # what all cells of a pass share
            logs -= logs.mean(axis=1, keepdims=True)
            spreads = logs.std(axis=1, ddof=1)
            self.spreads += list(spreads)
            shapes += list((logs / spreads[:, None]).ravel())
        self._shapes = np.array(shapes) / np.std(shapes)
        self._random = np.random.default_rng(20260211)

    def cells(self, count: int) -> list[list[list[float]]]:
        """Seconds by round, one run each, of so many cells."""
        spreads = self._random.choice(self.spreads, (count, 1))
        return np.exp(spreads * self._random.choice(self._shapes, (count, MOST_ROUNDS)))[..., None].tolist()


def compare(cells: Sequence[Sequence[Sequence[float]]], looks: int, now: bool) -> dict[str, float]:
    """Verdicts at the last look at equally fast cells: whether each kind is wrong, and the rounds."""
    rounds = first = LEAST
    for number in range(1, looks + 1):
        shown = [cell[:rounds] for cell in cells]
        best = min(range(len(shown)), key=lambda i: fmean(runs[0] for runs in shown[i]))
        of_best = [ratio(one, shown[best]) for i, one in enumerate(shown) if i != best]
        of_first = [ratio(shown[0], one) for one in shown[1:]]
        of_pair = of_first[0]
        share = share_of_look(look(rounds, first), THRESHOLDS)
        if now:
            of_best, of_first = pool(of_best), pool(of_first)
            ps = adjust([one.p / share for one in of_best], with_best)
            is_slower = [p < LEVEL and one.low > 1 for p, one in zip(ps, of_best, strict=True)]
            of_reference = zip(adjust([one.p / share for one in of_first], holm), of_first, strict=True)
            is_any = [p < LEVEL and not one.low <= 1 <= one.high for p, one in of_reference]
            level = LEVEL * share_of_look(look(next_look(rounds, first), first), THRESHOLDS)
            level /= with_best(len(ps) - sum(is_slower) or 1)[0]
            is_open = [
                not slower and rounds_needed(one, THRESHOLDS, level) > one.rounds
                for one, slower in zip(of_best, is_slower, strict=True)
            ]
        else:
            is_slower = [one.low > 1 for one in of_best]
            is_any = [one.low > 1 or one.high < 1 for one in of_first]
            is_open = [rounds_needed(one, THRESHOLDS) > one.rounds for one in of_best]
        if now and rounds > first:
            of_pair = ratio(shown[0], shown[1], LEVEL * share)
        if number == looks or not any(is_open) or rounds == MOST_ROUNDS:
            break
        rounds = min(2 * rounds, MOST_ROUNDS)
    covers = of_pair.low <= 1 <= of_pair.high
    wrong = {"any": any(is_any), "slower": any(is_slower), "fastest": all(is_slower)}
    return {"coverage": covers, **wrong, "rounds": rounds}


def simulate(noise: Noise, repetitions: int) -> None:
    print("candidates looks  rule    coverage    any  slower  fastest  rounds")
    for count in CANDIDATES:
        for looks in LOOKS:
            drawn = [noise.cells(count) for _ in range(repetitions)]
            for rule, now in (("before", False), ("now", True)):
                found = [compare(cells, looks, now) for cells in drawn]
                mean = {key: np.mean([one[key] for one in found]) for key in found[0]}
                print(
                    f"{count:10d} {looks:5d}  {rule:6s} {mean['coverage']:9.3f} {mean['any']:6.3f} "
                    f"{mean['slower']:7.3f} {mean['fastest']:8.3f} {mean['rounds']:7.1f}",
                    flush=True,
                )


def power(noise: Noise, repetitions: int) -> None:
    print("\nlonger by  rounds  called slower before    now")
    for longer in (1.2, 1.5):
        for rounds in (5, 10, 20):
            before, now = [], []
            for _ in range(repetitions):
                cells = [cell[:rounds] for cell in noise.cells(7)]
                cells[-1] = [[longer * runs[0]] for runs in cells[-1]]
                best = min(range(7), key=lambda i: fmean(runs[0] for runs in cells[i]))
                found = [ratio(one, cells[best]) for i, one in enumerate(cells) if i != best]
                share = share_of_look(look(rounds, rounds), THRESHOLDS)
                before.append(speedup_verdict(*found[-1][1:3], THRESHOLDS["same"]) != NOT_SIGNIFICANT)
                now.append(adjust([one.p / share for one in pool(found)], with_best)[-1] < LEVEL)
            print(f"{longer - 1:9.0%} {rounds:7d} {np.mean(before):21.2f} {np.mean(now):6.2f}", flush=True)


def winner(noise: Noise, repetitions: int) -> None:
    """By how much the speedup of the shortest mean over one more equal is above 1, of five rounds."""
    print("\ncandidates  speedup of the shortest mean  cross-validated")
    for count in CANDIDATES:
        raw, validated = [], []
        for _ in range(repetitions):
            cells = [[[runs[0]] for runs in cell[:LEAST]] for cell in noise.cells(count + 1)]
            raw.append(log(fmean(r[0] for r in cells[0]) / min(fmean(r[0] for r in c) for c in cells[1:])))
            validated.append(log(cross_validated(cells[0], cells[1:]) or 1.0))
        print(f"{count:10d} {exp(np.mean(raw)):29.3f} {exp(np.mean(validated)):16.3f}", flush=True)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("folders", type=Path, nargs="*")
    options.add_argument("--repetitions", type=int, default=2000)
    given = options.parse_args()
    for folder in given.folders or [ROOT / "results/published" / name for name in FOLDERS]:
        noise = Noise(folder)
        quartiles = ", ".join(f"{one:.1%}" for one in np.quantile(noise.spreads, (0.25, 0.5, 0.75)))
        print(f"\n{folder.name} of {folder.parent.name}: {len(noise.spreads)} cells, quartiles {quartiles}")
        simulate(noise, given.repetitions)
        power(noise, given.repetitions)
        winner(noise, given.repetitions)


if __name__ == "__main__":
    main()
