"""Final loss by learning rate, of ensembles that train all rates in one launch."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from snn.analysis.machine_state import Thresholds
from snn.analysis.outcome import outcome

TITLE = "Final loss by learning rate"


def build(frame: pd.DataFrame, paper: Mapping[str, Any], thresholds: Thresholds) -> pd.DataFrame:
    """One row per learning rate and initialiser of each cell, in the order of its members.

    ``final_mse``, its standard deviation, minimum and maximum are of those of its ``trainings`` whose loss is
    ``finite``; where not all are, ``status`` is diverged. ``launch_s`` is the time of all ``members`` of the
    cell in one launch, ``mean_s`` one training's share of it. A cell whose strategy trains one network per
    run has one row; one that did not train has no loss.
    """
    ended = outcome(frame)
    rows = [
        {
            **cell[["dataset", "network", "strategy"]],
            "initialiser": init,
            "learning_rate": rate,
            **losses,
            **cell[["members", "launch_s", "mean_s"]],
            "status": _status(cell, losses),
            **ended.drop(columns="status").loc[i],
            **cell[["machine", "device", "backend"]],
        }
        for i, cell in frame.iterrows()
        for (init, rate), losses in _rates(cell).items()
    ]
    return pd.DataFrame(rows)


def _rates(cell: pd.Series) -> dict[tuple[str, float], dict[str, Any]]:
    """The losses of each initialiser and learning rate of a cell."""
    if not cell["member_losses"]:
        own = cell["network.init"], cell["training.learning_rate"]
        return {own: {"trainings": cell["runs"], "final_mse": cell["final_loss"]}}
    members = pd.DataFrame(cell["member_losses"]).astype({"final_loss": float})
    groups = members.groupby(["init", "learning_rate"], sort=False)["final_loss"]
    return {rate: _statistics(losses) for rate, losses in groups}


def _statistics(losses: pd.Series) -> dict[str, Any]:
    return {
        "trainings": len(losses),
        "finite": losses.count(),
        "final_mse": losses.mean(),
        "final_mse_std": losses.std(),
        "final_mse_min": losses.min(),
        "final_mse_max": losses.max(),
    }


def _status(cell: pd.Series, losses: Mapping[str, Any]) -> str:
    """The cell's status; where there are members, whether those of this rate diverged."""
    if "finite" not in losses:
        return cell["status"]
    return "ok" if losses["finite"] == losses["trainings"] else "diverged"
