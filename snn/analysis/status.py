"""How a measurement ended, with which launch plan, and why a row has no time."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

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


def outcome(frame: pd.DataFrame) -> pd.DataFrame:
    """``status`` of each row of ``snn.analysis.frame``; ``plan`` of strategies that choose one, where any row
    has one; and ``reason`` of rows without a time, where there are any."""
    columns = frame[["status"]]
    if (frame["plan"] != "").any():
        columns = columns.join(frame["plan"])
    untimed = frame["mean_s"].isna()
    return columns.assign(reason=frame["reason"].where(untimed, "")) if untimed.any() else columns
