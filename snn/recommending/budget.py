"""What fits into the budget: a pilot that times an epoch, the length of the runs, and further rounds."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import ceil, floor, isnan
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from snn.analysis.intervals import LEVEL, Ratio, pool, ratio, ratio_verdict, with_best
from snn.analysis.machine_state import Thresholds
from snn.analysis.speedups import common_rounds, look, next_look, rounds_needed, share_of_look
from snn.analysis.verdicts import NOT_SIGNIFICANT
from snn.config.cell import Cell
from snn.config.overrides import written
from snn.errors import ConfigError, MeasurementError
from snn.files import outputs
from snn.files.outputs import NOTES
from snn.grid.sweeps import overrides
from snn.hardware import environment, locks
from snn.profiling.memory import count
from snn.recommending import FOLDER, PROJECT
from snn.tables import overview

FEWEST_BATCHES = 2
"""That an epoch has, if there are fewer rows than the settings say."""

LEAST, MOST = 3, 30
"""Rounds of a candidate. The interval of two is of no use: Student's factor is 12.7."""

_LONG, _LEAST_SECONDS = 0.1, 5.0
"""Of the budget, and seconds: an epoch that takes as long does not fit, for it has to suffice for all
candidates."""

_RECORD, _LOG, _WAITS = (FOLDER / f"pilot.{suffix}" for suffix in ("json", "log", "waits"))
"""What a pilot writes, in the folder of the grids, in which no other recommendation is at work."""

_MOMENT = 0.05
"""Seconds between two looks at whether a process waits."""

BESIDE_RUNS = 2.0
"""A job's untimed epochs, warm-up and passes, as a number of runs."""
_MARGIN = 1.2
"""How much longer the next pilot may take than this one."""

_SHORT = {
    "training.epochs": 1,
    "protocol.rounds": 1,
    "protocol.runs": 1,
    "protocol.min_runs": 1,
    "protocol.warmup_seconds": 0,
    "protocol.max_warmup_seconds": 0,
}


# ---- the pilot


@dataclass(frozen=True)
class Pilot:
    """Seconds: of one ``epoch`` of the reference, of the rest of its ``job``, and of what of that is
    ``outside`` the seconds that its record counts: the start and the end of the process. Those that it has
    ``waited`` for other measurements are in none of them."""

    epoch: float
    job: float
    outside: float
    waited: float = 0.0


def run_pilot(cell: Cell, budget: float) -> Pilot:
    """Train one epoch of the reference; if that takes long, a few batches, of whose time it is estimated.

    Only of a data set with a number of rows there can be fewer. Raises ConfigError if it takes more than
    half of the budget, and MeasurementError if the cell fails.
    """
    dataset, few = cell["dataset"], FEWEST_BATCHES * cell.batch_size
    rows = dataset.get("rows") or few
    attempts = [(cell, budget / 2)]
    if rows > few:
        long = max(budget * _LONG, _LEAST_SECONDS)
        fewer = {key: min(few, dataset[key]) for key in ("rows", "test_rows") if key in dataset}
        attempts = [(cell, long), (cell.replace(dataset=fewer), budget / 2 - long)]
    all_waited = 0.0
    for trained, most in attempts:
        status, seconds, waited = _train(trained, most)
        all_waited += waited
        if status is not None:
            break
    else:
        raise ConfigError(
            f"one epoch of the reference takes more than half of the budget of {budget:.0f} s: "
            "give a larger --budget, or train on fewer rows"
        )
    if status:
        raise MeasurementError(_why(status, (PROJECT / _LOG).read_text(encoding="utf-8", errors="replace")))
    record = json.loads((PROJECT / _RECORD).read_text(encoding="utf-8"))
    if not record["runs"]:
        raise MeasurementError(f"the reference: {record['status']}: {record['reason']}")
    run = record["runs"][0]
    epoch = run["seconds"] + run.get("validation_seconds", 0)
    whole = 1 if trained is cell else rows / few
    outside = seconds - record["provenance"]["elapsed_seconds"]
    return Pilot(epoch * whole, seconds - 2 * epoch, outside, all_waited)


def _train(cell: Cell, most: float) -> tuple[int | None, float, float]:
    """Train one epoch of a cell in at most so many seconds, as ``_run``."""
    given: dict[str, Any] = dict(one.partition("=")[::2] for one in overrides(cell))
    given |= {**_SHORT, "output": written(str(PROJECT / _RECORD))}
    for file in (_RECORD, _LOG, _WAITS):  # of an earlier one, which may have been killed
        with outputs.reported(PROJECT / file):
            (PROJECT / file).unlink(missing_ok=True)
    command = [sys.executable, "-m", "snn", *(f"{key}={value}" for key, value in given.items())]
    return _run(command, PROJECT / _LOG, PROJECT / _WAITS, most)


def _run(command: Sequence[str], log: Path, waits: Path, most: float) -> tuple[int | None, float, float]:
    """Run a command that prints into ``log``, for so many seconds ``most`` besides those that it waits for
    other measurements, which it writes into ``waits``.

    Its status, None if it took too long and was killed; its seconds without those that it waited; and these.
    """
    ours = {locks.END_WITH_PARENT: str(os.getpid()), locks.WAITS: str(waits), NOTES: "no"}
    with (
        log.open("wb") as file,
        subprocess.Popen(
            command,
            cwd=PROJECT,
            stdout=subprocess.DEVNULL,
            stderr=file,
            env=environment.of_workflow() | ours,
            start_new_session=True,  # Ctrl-C ends this process, which ends that one
        ) as run,
    ):
        spent = waited = 0.0
        last = time.perf_counter()
        try:
            while run.poll() is None and spent <= most:
                with suppress(subprocess.TimeoutExpired):
                    run.wait(_MOMENT)
                now = time.perf_counter()
                if locks.is_waiting(waits):
                    if not waited:
                        print(f"{locks.WAITING}; the budget does not count this", file=sys.stderr, flush=True)
                    waited += now - last
                else:
                    spent += now - last
                last = now
        finally:
            run.kill()  # if it has not ended
    return run.returncode if spent <= most else None, spent, waited


def _why(status: int, said: str) -> str:
    """One line: the error of a cell's process, or how it ended without one."""
    lines = said.strip().splitlines()
    errors = [one for one in lines if one.startswith("snn: ") and not one.startswith("snn: warning: ")]
    if errors:
        return errors[-1].removeprefix("snn: ")
    ended = f"signal {signal.Signals(-status).name}" if status < 0 else f"status {status}"
    last = f": {lines[-1]}" if lines else ""
    return f"the first training of the reference ended with {ended}, so that nothing was measured{last}"


# ---- how long the runs train


class Length(NamedTuple):
    """The epochs of a run, and its rows and test rows; None if they are all that the settings ask for."""

    epochs: int
    rows: int | None = None
    test_rows: int | None = None

    def settings(self) -> dict[str, int]:
        """What replaces the settings of the user."""
        keys = ("training.epochs", "dataset.rows", "dataset.test_rows")
        return {key: value for key, value in zip(keys, self, strict=True) if value is not None}

    def words(self) -> str:
        """``1 epoch on 2,560 rows``."""
        epochs = count(self.epochs, "epoch")
        return epochs if self.rows is None else f"{epochs} on {self.rows:,} rows"

    def part_of(self, cell: Cell) -> str:
        """``1 of the 100 epochs, on 2,560 of the 60,000 rows`` of a cell; empty if it is all of them."""
        rows = "" if self.rows is None else f", on {self.rows:,} of the {cell['dataset']['rows']:,} rows"
        epochs = cell.epochs
        return f"{self.epochs} of the {epochs} epochs{rows}" if rows or self.epochs < epochs else ""

    def work(self, cell: Cell) -> float:
        """How many of a cell's own epochs take as long."""
        return self.epochs if self.rows is None else self.epochs * self.rows / cell["dataset"]["rows"]


def length_that_fits(
    pilot: Pilot, cell: Cell, candidates: int, first: Mapping[str, Any], budget: float
) -> Length:
    """The length of a run with which a first round of all candidates takes its share of the budget, if they
    are as fast as the reference: the cell's own epochs, or fewer, or one on fewer rows, if the data set
    has a number of rows. Fewer epochs, or batches of rows, are a number of one digit and zeros.

    ``first`` is the first round of ``config/recommend.yaml``. Raises ConfigError, naming a budget that
    just suffices, if even the shortest runs take more than ``most`` of this one.
    """
    training, dataset = cell["training"], cell["dataset"]
    runs = first["runs"] + BESIDE_RUNS
    fitting = (first["share"] * budget / candidates - pilot.job) / runs / pilot.epoch
    if fitting >= 1:
        return Length(training["epochs"] if fitting >= training["epochs"] else _rounded(fitting))
    batch, rows, shortest = training["batch_size"], dataset.get("rows") or 0, Length(1)
    if rows > FEWEST_BATCHES * batch:
        fewer = batch * _rounded(max(fitting * rows / batch, FEWEST_BATCHES))
        test_rows = dataset.get("test_rows")
        shortest = Length(1, fewer, test_rows and max(test_rows * fewer // rows, 1))
    seconds = pilot.epoch * shortest.work(cell)
    needed, most = candidates * (pilot.job + runs * seconds), first["most"]
    if needed <= most * budget:
        return shortest
    raise ConfigError(
        f"a round of {candidates} candidates takes about {ceil(needed)} s, and of the budget "
        f"{floor(most * budget)} s are for it: {pilot.job:.2g} s for each process beside its training, and "
        f"{seconds:.2g} s per {shortest.words()} of the reference: give --budget "
        f"{ceil(_MARGIN * needed / most)}s, enough on a machine as busy as now"
    )


def _rounded(number: float) -> int:
    """Down to one digit and zeros."""
    digits = 10 ** (len(str(floor(number))) - 1)
    return floor(number) // digits * digits


# ---- more rounds


def wanted_rounds(
    cells: pd.DataFrame, contender: float, first: int, thresholds: Thresholds
) -> dict[str, int]:
    """Number of rounds that each cell should have in all, by its name. Only cells that lack some are in it.

    ``cells`` is a frame of ``snn.analysis.frame``. A candidate is out if its mean time is more than
    ``contender`` times the shortest and the interval of their ratio agrees, and after one round only if that
    round can tell them apart. All others have the same number of rounds, so that their means are of the same
    passes of the workflow: ``first``, and from then on those that the least clear of their comparisons with
    the fastest asks for, at most doubled at once. So have candidates that may not be compared yet, because
    the machine changed, unless their mean time is as far behind. The baseline has ``first`` rounds even if
    it is out. A candidate without an interval gets a second round.
    """

    def is_out(found: Ratio) -> bool:  # for want of runs it may have no interval
        word = ratio_verdict(found, found.p, thresholds["same"], thresholds["one_round"])
        return found.value > contender and (isnan(found.low) or word != NOT_SIGNIFICANT)

    def rounds(found: Ratio) -> int:
        if found.rounds < 2:
            return first
        further = next_look(found.rounds, first)
        share = share_of_look(look(further, first), thresholds)
        needed = rounds_needed(found, thresholds, LEVEL * share / with_best(len(field))[0])
        if needed <= found.rounds:
            return 0  # it is settled
        return max(min(needed, 2 * found.rounds), further, first)

    competing = overview.ranked(cells, thresholds)
    if len(competing) < 2 or competing[0]["status"] != "ok":
        return {}
    best, *others = competing
    found = pool([ratio(*common_rounds(other, best)) for other in others])
    ratios = dict(zip((other["cell"] for other in others), found, strict=True))
    field = [name for name, found in ratios.items() if not is_out(found)]
    wants = {name: 2 for name, found in ratios.items() if isnan(found.low)}
    if (baseline := overview.reference(cells)) is not None:
        wants |= {other["cell"]: first for other in others if other["cell"] == baseline["cell"]}
    is_compared = cells["cell"].isin([row["cell"] for row in competing])
    is_near = (cells["mean_s"] <= contender * best["mean_s"]) & (cells["status"] == "ok")
    apart = cells[~is_compared & is_near].to_dict("records")
    asked = 0
    for row in others:
        of_both = ratios[row["cell"]]
        if row["cell"] in field and (more := rounds(of_both)):
            unpaired = min(len(row["rounds"]), len(best["rounds"])) - of_both.rounds  # of two hosts or passes
            asked = max(asked, more + unpaired)
    if any(len(row["rounds"]) < first for row in apart):
        asked = max(asked, first)
    if asked:
        wants |= dict.fromkeys((best["cell"], *field, *(row["cell"] for row in apart)), asked)
    wants[best["cell"]] = max(wants.values(), default=0)
    return {
        row["cell"]: min(wants[row["cell"]], MOST)
        for row in (*competing, *apart)
        if len(row["rounds"]) < min(wants.get(row["cell"], 0), MOST)
    }


def rounds_that_fit(
    wants: Mapping[str, int], has: Mapping[str, int], seconds: Mapping[str, float], left: float, first: int
) -> dict[str, int]:
    """As many of the rounds that cells want as fit into the seconds left; empty if too few do.

    ``has`` are the rounds that there are, ``seconds`` what one takes. All cells are cut at the same number of
    rounds, since only common rounds are compared; not below ``LEAST``, nor below the rounds of a further look
    at those that have been compared. ``first`` is as for ``wanted_rounds``.
    """
    wanted_most = max(wants.values(), default=0)
    fewest = max((next_look(has[name], first) if has[name] > 1 else LEAST for name in wants), default=0)
    for most in range(wanted_most, min(fewest, wanted_most) - 1, -1):
        given = {name: min(want, most) for name, want in wants.items() if min(want, most) > has[name]}
        cost = sum((rounds - has[name]) * seconds[name] for name, rounds in given.items())
        if given and cost <= left:
            return given
    return {}
