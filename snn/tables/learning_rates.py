"""Final loss by learning rate, of ensembles that train the rates side by side."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from snn.analysis.machine_state import Thresholds
from snn.analysis.status import outcome

TITLE = "Learning rates side by side"


def build(frame: pd.DataFrame, paper: Mapping[str, Any], verdicts: Thresholds) -> pd.DataFrame:
    """One row a learning rate and initialiser of each cell, in the order of its members.

    ``final_mse``, its standard deviation, ``lowest`` and ``highest`` are of those of its ``trainings`` that
    end ``finite``; where not all do, its ``status`` is diverged. ``launch_s`` is the time of all ``members``
    of the cell in one launch, ``mean_s`` one training's share of it. A cell of another strategy, of one
    training a run, has one row; one that did not train has no loss.
    """
    ended = outcome(frame)
    rows = [
        {
            **cell[["dataset", "network", "strategy"]],
            "initialiser": init,
            "learning_rate": rate,
            **found,
            **cell[["members", "launch_s", "mean_s"]],
            "status": _status(cell, found),
            **ended.drop(columns="status").loc[i],
            **cell[["machine", "device", "backend"]],
        }
        for i, cell in frame.iterrows()
        for (init, rate), found in _rates(cell).items()
    ]
    return pd.DataFrame(rows)


def _rates(cell: pd.Series) -> dict[tuple[str, float], dict[str, Any]]:
    """The losses of each initialiser and learning rate of a cell."""
    if not cell["member_mse"]:
        own = cell["network.init"], cell["training.learning_rate"]
        return {own: {"trainings": cell["runs"], "final_mse": cell["final_mse"]}}
    members = pd.DataFrame(cell["member_mse"]).astype({"final_mse": float})
    groups = members.groupby(["init", "learning_rate"], sort=False)["final_mse"]
    return {rate: _losses(losses) for rate, losses in groups}


def _losses(losses: pd.Series) -> dict[str, Any]:
    return {
        "trainings": len(losses),
        "finite": losses.count(),
        "final_mse": losses.mean(),
        "final_mse_std": losses.std(),
        "lowest": losses.min(),
        "highest": losses.max(),
    }


def _status(cell: pd.Series, found: Mapping[str, Any]) -> str:
    """The cell's word; a loss that is not finite is told of its own rate alone."""
    if "finite" not in found:
        return cell["status"]
    return "ok" if found["finite"] == found["trainings"] else "diverged"
