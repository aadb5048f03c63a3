"""The grid of a recommendation: one sweep of all candidates for one training."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from snn.config.groups import CONFIG, ROOT, read_yaml
from snn.errors import ConfigError
from snn.files import outputs
from snn.grid import plans, sweeps
from snn.grid.plans import Plan
from snn.recommending import SWEEP
from snn.recommending.settings import Settings

CHOICES = CONFIG / "recommend.yaml"
FOLDER = Path("results/recommend")

_PROTOCOL = {
    "protocol": "glance",
    "protocol.rounds": 1,
    "protocol.relative_error": None,
    "protocol.max_seconds": None,
}


@dataclass(frozen=True)
class GridFile:
    """A grid that is written; ``path`` is relative to the project's folder, where the workflow runs."""

    path: Path
    plan: Plan


def write(settings: Settings, backend: str, epochs: int | None = None) -> GridFile:
    """Write the grid of these settings, and read it as the workflow will.

    ``epochs`` replaces those of the settings. Raises ConfigError and DataError as ``snn.grid.plans.read``,
    without the name of the grid, which a user has not written.
    """
    choices = read_yaml(CHOICES)
    runs = choices["first_round"]["runs"]
    beside = {
        **_PROTOCOL,
        "protocol.runs": runs,
        "protocol.min_runs": runs,
        **settings.grid,
        **({} if epochs is None else {"training.epochs": epochs}),
    }
    grid = {"sweeps": {SWEEP: {**beside, "union": choices["candidates"][backend][settings.choice]}}}
    text = json.dumps([grid, backend], sort_keys=True)
    path = FOLDER / f"{hashlib.sha256(text.encode()).hexdigest()[:12]}.yaml"
    with outputs.replaced(ROOT / path) as file:
        file.write(("# Written by snn recommend.\n" + yaml.safe_dump(grid, sort_keys=False)).encode())
    try:
        (plan,) = plans.read(ROOT / path, {"device": backend})
        sweeps.check_sizes(ROOT / path, plan.sweeps)
    except ConfigError as error:
        said = str(error).removeprefix(f"{ROOT / path}: ")
        raise ConfigError(re.sub(rf"^sweeps\.{SWEEP}(: |\.)", "", said)) from error
    return GridFile(path, plan)


def training_of(plan: Plan) -> Mapping[str, Any]:
    """The cell of the reference: the same training as every candidate's."""
    return next(cell for cell in plan.cells.values() if cell["strategy"]["name"] == "reference")
