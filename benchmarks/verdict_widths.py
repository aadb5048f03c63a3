#!/usr/bin/env python3
"""Verdicts by protocol on this machine: which pairs of strategies have one, and how wide intervals are.

    snakemake --cores 1 results/tables/by_glance.csv results/tables/by_brief.csv \\
        --config grid=benchmarks/verdict_widths.yaml
    benchmarks/verdict_widths.py results [--first 2] [--differ 0.30]

Compares, in a folder of results or of published records, every two strategies that did the same work by the
same protocol. Prints for each protocol and data set the number of pairs, how many have a verdict, how many
differ by 30% or more and how many of these have none, and the median and the largest width, an interval's
upper end over its lower one. `--first 2` takes the first two rounds alone, as many as `glance` once had, so
that one measurement shows both.
"""

import argparse
import itertools
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from snn.analysis import frame  # noqa: E402
from snn.analysis.grouping import settings, texts  # noqa: E402
from snn.analysis.intervals import Ratio, ratio, speedup_verdict  # noqa: E402
from snn.analysis.machine_state import Thresholds  # noqa: E402
from snn.analysis.speedups import common_rounds, reason  # noqa: E402
from snn.analysis.verdicts import NOT_SIGNIFICANT  # noqa: E402
from snn.config.groups import CONFIG, read_yaml  # noqa: E402
from snn.records.archive import read_all  # noqa: E402

WORK = ("dataset", "network", "training", "precision", "protocol", "device")


def compared(rows: Sequence[Mapping[str, Any]], first: int | None, thresholds: Thresholds) -> list[Ratio]:
    """The ratios of every two of these rows that may be compared, of their first rounds."""
    pairs = [pair for pair in itertools.combinations(rows, 2) if not reason(*pair, thresholds)]
    return [ratio(*(rounds[:first] for rounds in common_rounds(*pair))) for pair in pairs]


def line(name: str, found: Sequence[Ratio], differ: float, margin: float) -> str:
    decided = [speedup_verdict(one.low, one.high, margin) != NOT_SIGNIFICANT for one in found]
    apart = [max(one.value, 1 / one.value) >= 1 + differ for one in found]
    missed = sum(far and not has for far, has in zip(apart, decided, strict=True))
    widths = [one.high / one.low for one in found]
    return (
        f"{name:18s} {found[0].rounds:6d} {len(found):6d} {sum(decided):8d} {sum(apart):10d} {missed:10d} "
        f"{np.median(widths):12.2f} {max(widths):13.2f}"
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("folder", type=Path)
    options.add_argument("--first", type=int, help="use only this many first rounds")
    options.add_argument("--differ", type=float, default=0.30)
    given = options.parse_args()
    thresholds = read_yaml(CONFIG / "verdicts.yaml")
    rows = frame.tabulate(read_all(given.folder), thresholds)
    rows = rows[rows["mean_s"].notna()]
    points = texts(rows, settings(rows, WORK))
    print("dataset, protocol  rounds  pairs  decided  differ by  undecided  median width  largest width")
    for point in dict.fromkeys(points):
        at = rows[points == point]
        found = [one for one in compared(at.to_dict("records"), given.first, thresholds) if one.rounds]
        if found:
            of = at.iloc[0]
            limit = of["protocol.max_seconds"]
            name = f"{of['dataset']}, {limit:g} s" if limit else of["dataset"]
            print(line(name, found, given.differ, thresholds["same"]))


if __name__ == "__main__":
    main()
