"""The order in which a pass of the workflow, one round of every cell, measures the cells."""

import hashlib
import os
from collections.abc import Iterable
from typing import Any
from uuid import uuid4

from snn.hardware import host

RUN, SEED, POSITION = "SNN_RUN", "SNN_ORDER_SEED", "SNN_POSITION"
"""Variables of a job's environment: its run of the workflow, the seed of the passes, its place in one."""


def begin_run() -> None:
    """Name the run of the workflow that this process begins, for its jobs, and the seed of its passes.

    The seed is the host's: hosts have different orders, and a run that continues a killed one has the same.
    """
    known = host.identity()
    os.environ |= {RUN: uuid4().hex[:16], SEED: known["id"] or known["boot"] or "unknown"}


def positions(names: Iterable[str], number: int) -> dict[str, int]:
    """The position, from 1, of each cell in the pass of a round's number, by name.

    Rounds 1 and 2 share a random order, which round 2 reverses, and so on: over both, each cell comes as
    early as any other, and of two cells each comes first once. Two cells keep their order in other grids.
    """
    seed = f"{os.environ.get(SEED, '')} {(number + 1) // 2} "
    drawn = sorted(names, key=lambda name: hashlib.sha256(f"{seed}{name}".encode()).digest())
    return {name: i for i, name in enumerate(drawn if number % 2 else reversed(drawn), 1)}


def describe_job() -> dict[str, Any] | None:
    """The run of the workflow that this process is a job of, as JSON values; None if it is not a job."""
    if not (run := os.environ.get(RUN)):
        return None
    position = os.environ.get(POSITION)
    return {"run": run, "seed": os.environ.get(SEED), "position": int(position) if position else None}
