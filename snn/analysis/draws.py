"""Which draws of initial weights a cell was trained from: its final loss is the mean over them.

A seed's stream gives a draw to each run of a cell, the first to the first. Two cells agree in their mean loss
only if it is over the same draws, and a round that was stopped early leaves the rest of its draws out.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from snn.measurement.protocol import first_run

Losses = Mapping[int, float | None]
"""By the number of the draw, from 1: the final loss; None where it is not finite."""


def of_runs(records: Iterable[Mapping[str, Any]]) -> Losses:
    """The final loss of every run of a cell by its draw, from the records of its rounds."""
    losses: dict[int, float | None] = {}
    for record in records:
        first = first_run(record["cell"]["protocol"], record["round"])
        losses |= {first + i: run["final_loss"] for i, run in enumerate(record["runs"], 1)}
    return losses


def of_members(members: Sequence[Mapping[str, Any]]) -> Losses:
    """The same of the networks of a launch, if they differ in nothing but the draw; else empty."""
    losses = {member["start"]: member["final_loss"] for member in members}
    return losses if len(losses) == len(members) else {}


def mean(losses: Losses, draws: Collection[int]) -> float | None:
    """The mean loss over some draws; None where there are none, or where one is missing or not finite."""
    chosen = [losses.get(draw) for draw in draws]
    known = [loss for loss in chosen if loss is not None]
    return fmean(known) if known and len(known) == len(chosen) else None


def means_over_common(a: Losses, b: Losses) -> tuple[float | None, float | None]:
    """The mean losses of two cells over the draws that both have."""
    common = a.keys() & b.keys()
    return mean(a, common), mean(b, common)


def named(draws: Iterable[int]) -> str:
    """``1 to 6``, or ``1 to 3, 7``; empty where there is none."""
    spans: list[list[int]] = []
    for draw in sorted(draws):
        if spans and draw == spans[-1][-1] + 1:
            spans[-1][1:] = [draw]
        else:
            spans.append([draw])
    return ", ".join(" to ".join(map(str, span)) for span in spans)
