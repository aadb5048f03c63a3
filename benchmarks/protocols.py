#!/usr/bin/env python3
"""What the protocols tell apart, simulated: how often intervals are right and differences found.

    benchmarks/protocols.py [--between 0.05] [--within 0.02] [--drift 0.1] [--repetitions 4000]

Simulates pairs of cells whose rounds differ by `between` on each side, the runs of a round by `within`, and
passes of the workflow, which both sides share, by `drift` (relative standard deviations). Analyses them as
the tables do (snn.analysis.intervals) and prints, for each protocol of config/protocol/ and shape of noise:

    coverage  how often the 95% interval contains the true ratio
    10%, ...  how often a difference of so much is found (power)
    width     the median of the interval's upper end over its lower one

A round that meets its time limit has one run; such rounds have lines of their own. Then: the coverage where
the sides are unlike, because only one is noisy or only one is cut short by its time limit; the rounds that
find 10% with a power of 90%; and how far rare slow runs bias rounds that stop early.
benchmarks/verdicts.py simulates verdicts on several candidates.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from snn.analysis.intervals import Ratio, ratio  # noqa: E402
from snn.analysis.speedups import POWER  # noqa: E402
from snn.config.groups import load, names  # noqa: E402
from snn.measurement.protocol import of_round  # noqa: E402

DIFFERENCES = (0.10, 0.15, 0.20, 0.30)
MOST_ROUNDS = 30

Draw = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]


def lognormal(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Skewed: seldom much slower, never much faster."""
    variance = 0.75**2
    drawn = np.exp(0.75 * random.standard_normal(shape)) - np.exp(variance / 2)
    return np.asarray(drawn / np.sqrt(np.exp(variance) * (np.exp(variance) - 1)))


def slow_rounds(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """One in twenty is held up; three quarters of the variance are of these."""
    held_up = (random.random(shape) < 0.05) - 0.05
    return np.asarray(0.5 * random.standard_normal(shape) + held_up * np.sqrt(0.75 / (0.05 * 0.95)))


SHAPES: dict[str, Draw] = {
    "normal": lambda random, shape: random.standard_normal(shape),
    "lognormal": lognormal,
    "heavy tails": lambda random, shape: random.standard_t(3, shape) / np.sqrt(3),
    "slow rounds": slow_rounds,
}
"""Shapes of noise, of mean 0 and variance 1."""


class Noise:
    """Draws the seconds of cells of equal speed."""

    def __init__(self, between: float, within: float, drift: float, draw: Draw) -> None:
        self._sizes, self._draw = (between, within, drift), draw
        self._random = np.random.default_rng(20260211)

    def cells(self, count: int, rounds: int, runs: int) -> list[np.ndarray]:
        """Seconds by round and run, of each cell."""
        of_pass = np.exp(self._sizes[2] * self._random.standard_normal((rounds, 1)))
        return [of_pass * self.alone(rounds, runs) for _ in range(count)]

    def pair(self, rounds: int, runs: int) -> tuple[np.ndarray, np.ndarray]:
        """Those of two."""
        a, b = self.cells(2, rounds, runs)
        return a, b

    def alone(self, rounds: int, runs: int) -> np.ndarray:
        """Those of a cell whose passes do not differ."""
        between, within, _ = self._sizes
        of_rounds, of_runs = (self._draw(self._random, (rounds, count)) for count in (1, runs))
        return np.asarray(np.exp(between * of_rounds + within * of_runs))

    def ratios(self, rounds: int, runs: int, repetitions: int) -> list[Ratio]:
        """Ratios of pairs as a table has them."""
        pairs = (self.pair(rounds, runs) for _ in range(repetitions))
        return [ratio(a.tolist(), b.tolist()) for a, b in pairs]


def coverage(found: Sequence[Ratio]) -> float:
    return float(np.mean([one.low <= 1 <= one.high for one in found]))


def power(found: Sequence[Ratio], difference: float) -> float:
    """The share of intervals that would lie above 1 if one side were slower by the difference."""
    return float(np.mean([one.low * (1 + difference) > 1 for one in found]))


def line(name: str, shape: str, rounds: int, runs: int, found: Sequence[Ratio]) -> str:
    powers = " ".join(f"{power(found, difference):5.2f}" for difference in DIFFERENCES)
    width = np.median([one.high / one.low for one in found])
    return f"{name:8s} {rounds:6d} {runs:5d}  {shape:12s} {coverage(found):8.3f} {powers} {width:6.2f}"


def protocols(noises: dict[str, Noise], repetitions: int) -> None:
    heads = " ".join(f"{difference:5.0%}" for difference in DIFFERENCES)
    print(f"protocol rounds  runs  noise        coverage {heads}  width")
    for name in names("protocol"):
        protocol = load("protocol", name)
        rounds = protocol["rounds"]
        for runs in sorted({1, min(protocol["runs"] // rounds, 5)}):
            for shape, noise in noises.items():
                print(line(name, shape, rounds, runs, noise.ratios(rounds, runs, repetitions)), flush=True)


def unlike(noises: dict[str, Noise], repetitions: int) -> None:
    """How often intervals are right where the sides differ: to the mean of a noisy side belong its seldom,
    slow rounds, and a side that a limit cuts short has fewer runs in a slow round."""
    print("sides unlike           rounds  coverage")
    for shape, noise in noises.items():
        for rounds in (5, 10):
            true = float(np.mean(noise.alone(100_000, 1)))
            exact = [[true] * 5] * rounds
            found = [ratio(noise.alone(rounds, 5).tolist(), exact) for _ in range(repetitions)]
            print(f"one noisy: {shape:12s}{rounds:6d} {coverage(found):9.3f}", flush=True)
    for rounds in (5, 10):
        pairs = (noises["normal"].pair(rounds, 2) for _ in range(repetitions))
        found = [ratio([cut(runs, 1.0) for runs in a.tolist()], b.tolist()) for a, b in pairs]
        print(f"one cut short          {rounds:6d} {coverage(found):9.3f}", flush=True)


def cut(runs: Sequence[float], limit: float) -> list[float]:
    """The runs that begin within the limit, in seconds."""
    return [run for run, before in zip(runs, accumulate(runs, initial=0.0), strict=False) if before < limit]


def needed(noise: Noise, repetitions: int) -> None:
    for runs in (1, 2, 5):
        enough = (
            n for n in range(2, MOST_ROUNDS) if power(noise.ratios(n, runs, repetitions), 0.10) >= POWER
        )
        print(
            f"10% with a power of {POWER:.0%} and {runs} runs per round: {next(enough, MOST_ROUNDS)} rounds"
        )


SLOW_RUNS = ((0.05, 2.0), (0.02, 10.0))
"""Rare slow runs: the share of all runs, and how many times as long they take."""

LENGTHS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.45)
"""Seconds of a run as fractions of a round's time limit."""


def stopping(repetitions: int) -> None:
    """How far the mean of a round that may stop early is from that of all its runs, by its minimum of runs.

    A time limit stops early the rounds that begin with a slow run, a limit of the relative error those that
    have none.
    """
    random = np.random.default_rng(20261127)
    print("bias by the seconds of a run over a round's limit")
    print("protocol  least  slow runs " + " ".join(f"{length:6.0%}" for length in LENGTHS))
    for name in names("protocol"):
        rule = of_round(load("protocol", name), 1)
        for least in [n for n in (1, 2, 3, 5, 10, 15) if rule.min_runs <= n <= rule.runs]:
            one = replace(rule, min_runs=least)
            for share, factor in SLOW_RUNS:
                is_slow = random.random((repetitions, rule.runs)) < share
                times = np.exp(0.02 * random.standard_normal(is_slow.shape)) * np.where(is_slow, factor, 1)
                biases = []
                for seconds in [length * (rule.max_seconds or 1) for length in LENGTHS]:
                    drawn = (seconds * times).tolist()
                    made = [next(n for n in range(1, rule.runs + 1) if one.stop(runs[:n])) for runs in drawn]
                    means = [sum(runs[:n]) / n for runs, n in zip(drawn, made, strict=True)]
                    biases.append(np.mean(means) / np.mean(drawn) - 1)
                said = " ".join(f"{bias:+6.1%}" for bias in biases)
                print(f"{name:8s} {least:6d}  {share:3.0%} x {factor:<3g} {said}", flush=True)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--between", type=float, default=0.05)
    options.add_argument("--within", type=float, default=0.02)
    options.add_argument("--drift", type=float, default=0.10)
    options.add_argument("--repetitions", type=int, default=4000)
    given = options.parse_args()
    noises = {name: Noise(given.between, given.within, given.drift, draw) for name, draw in SHAPES.items()}
    protocols(noises, given.repetitions)
    print()
    unlike(noises, given.repetitions)
    print()
    needed(noises["normal"], given.repetitions)
    print()
    stopping(given.repetitions)


if __name__ == "__main__":
    main()
