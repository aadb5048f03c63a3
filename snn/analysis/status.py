"""How a measurement ended, and why. Without pandas, which a cell's process does not wait for."""

from collections.abc import Mapping
from typing import Any

from snn.analysis.machine_state import Thresholds

OK, DIVERGED = "ok", "diverged"


def ended(record: Mapping[str, Any], thresholds: Thresholds) -> tuple[str, str | None]:
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
