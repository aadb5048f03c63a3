"""The words of verdicts, as tables, figures and sentences use them; snn/report/words.yaml explains each.

Without pandas, which a cell's process does not wait for.
"""

from collections.abc import Mapping
from typing import Any

OK, DIVERGED = "ok", "diverged"
"""How a round ended, besides what its record says otherwise."""

FASTER, SLOWER, SAME, NOT_SIGNIFICANT = "faster", "slower", "same", "not significant"
"""Of a speedup, by its 95% interval."""

FASTEST, SHORTEST, AS_FAST = "fastest", "shortest mean", "as fast"
"""Of a row against the one with the shortest mean time: its own two, and what is SAME; else as above."""

UNTOUCHED, TOUCHED = "untouched", "touched"
"""Of a strategy beside a busy neighbour, by the interval of its slow-down; else NOT_SIGNIFICANT."""

NOT_COMPARABLE = "not comparable"
"""Of two times that may not be divided by each other."""

REFERENCE, BASELINE, BEST_PEER = "reference", "baseline", "best peer"
"""Of a row that others are compared with, so that its own speedup is 1."""

SIGNIFICANT = "significant"
"""Of the lead of the fastest, where it is FASTER than every other; else SAME or NOT_SIGNIFICANT."""

AGREES, CONVERGES, DIFFERS, INCONCLUSIVE = "agrees", "converges", "differs", "inconclusive"
"""Of two values that should be equal: a published error, fp32's final loss, another machine's speedup."""

QUIET, NOISY, SHARED = "quiet", "noisy", "shared"
THROTTLED, DRIFTED, UNKNOWN = "throttled", "drifted", "unknown"
"""Of the machine while a cell was measured."""

MEMORY_FULL, HOT, IDLE_DROPS, IRREGULAR_POWER = "memory full", "hot", "idle drops", "irregular power"
"""Also of the machine, from samples that were taken meanwhile (``snn.analysis.machine_state``)."""


def ended(record: Mapping[str, Any], thresholds: Mapping[str, float]) -> tuple[str, str | None]:
    """The status of a round and its reason: as recorded, or ``diverged`` where a finite loss is that large.

    That is where a run ends above the threshold ``diverged`` times the loss of the untrained network, which
    records of earlier versions, and of launches that train several networks, do not have.
    """
    untrained = record.get("untrained_loss")
    if record["status"] != OK or untrained is None:
        return record["status"], record["reason"]
    losses, most = [run["final_loss"] for run in record["runs"]], thresholds["diverged"]
    lost = [loss for loss in losses if loss > most * untrained]
    if not lost:
        return OK, None
    return DIVERGED, (
        f"the loss is up to {max(lost):.3g} after the training, and {untrained:.3g} before it, "
        f"in {len(lost)} of {len(losses)} runs"
    )
