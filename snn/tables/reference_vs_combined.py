"""Reference and combined side by side for each network: the form of Tables VI and VII."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from snn.analysis.machine_state import Thresholds
from snn.analysis.outcome import outcome
from snn.analysis.speedups import joint, speedup


def build(frame: pd.DataFrame, paper: Mapping[str, Any], thresholds: Thresholds, key: str) -> pd.DataFrame:
    """One row per network, named in the column ``key``: both times with their spread, and their ratio."""
    reference, combined = (
        frame[frame["strategy"] == name].set_index("network") for name in ("reference", "combined")
    )
    combined = combined.loc[reference.index]
    published = [paper.get(network, {}) for network in reference.index]
    ratios = speedup(reference, combined, thresholds)
    table = pd.DataFrame(
        {
            "reference_s": reference["mean_s"],
            "reference_std_s": reference["std_s"],
            "combined_s": combined["mean_s"],
            "combined_std_s": combined["std_s"],
            **ratios.drop(columns="machine"),
            **{
                f"paper_{name}": [row.get(field) for row in published]
                for name, field in (
                    ("reference_s", "reference"),
                    ("combined_s", "combined"),
                    ("speedup", "speedup"),
                )
            },
            "reference_runs": reference["runs"],
            "combined_runs": combined["runs"],
            "status": joint("ok", reference["status"], combined["status"]),
            **_reasons(reference, combined),
            "machine": ratios["machine"],
            "device": reference["device"],
            "backend": reference["backend"],
        }
    )
    return table.rename_axis(key).reset_index()


def _reasons(reference: pd.DataFrame, combined: pd.DataFrame) -> dict[str, list[str]]:
    """The column ``reason``, why a row has no time, where any row lacks one."""
    outcomes = map(outcome, (reference, combined))
    reasons = [columns["reason"] for columns in outcomes if "reason" in columns]
    rows = zip(*reasons, strict=True)
    return {"reason": ["; ".join(dict.fromkeys(filter(None, row))) for row in rows]} if reasons else {}
