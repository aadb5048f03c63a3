"""Text of ``snn plan``: whether a cell, or each cell of a sweep, fits into a GPU's memory."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from snn import datasets
from snn.config import compose
from snn.config.groups import CONFIG, default_grid
from snn.config.overrides import written
from snn.errors import ConfigError, DeviceError, Unsupported, shown
from snn.files import outputs
from snn.grid import grid_file, sweeps
from snn.hardware import devices
from snn.hardware.devices import Device
from snn.planning import gpus
from snn.planning.plan import plan, predicted
from snn.profiling.memory import size

_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}
_MOST_BYTES = 10**15
_SHOWN = 10  # remedies that are printed
_SWEEP, _GRID, _THIS = "sweep", "grid=", ""


def answer(
    settings: Sequence[str], device: str | None, free: str | None, fraction: str, file: str | None
) -> None:
    """Print the plan of a cell or a sweep with these settings, and write it to a file if one is given."""
    gpu = _gpu(device, free)
    share = float(fraction) if re.fullmatch(r"[0-9]*\.?[0-9]+(e-?[0-9]+)?", fraction, re.ASCII) else 0.0
    if not 0 < share <= 1:
        raise ConfigError(f"--fraction is {shown(fraction)}: it must be a number above 0, and at most 1")
    budget = int(share * gpu.nbytes)
    cells, axes = _cells(settings, gpu)
    target = None
    if file is not None:  # must not overwrite an input
        data = [path for cell in cells.values() for path in datasets.inputs(cell["dataset"])]
        inputs = [_grid(settings), *CONFIG.rglob("*.yaml"), *data]
        target = outputs.checked(file, inputs, "--json")
    if _THIS in cells:
        plans = {_THIS: plan(cells[_THIS], gpu, budget)}
    else:
        plans = {name: _whether(cell, axes, gpu, budget) for name, cell in cells.items()}
    runtime = f"; memory of the CUDA runtime as measured on an {gpu.runtime_of}"
    known = "" if gpu.runtime_of == gpu.name else runtime
    print(f"budget: {size(budget)} of {size(gpu.nbytes)} on {gpu.name}{known}")
    for name, found in plans.items():
        print(_said(found) if name == _THIS else _line(name, found))
    if target is not None:
        text = json.dumps(plans.get(_THIS, plans), indent=1)
        with outputs.replaced(target) as written_file:
            written_file.write(f"{text}\n".encode())


def _gpu(device: str | None, free: str | None) -> gpus.Gpu:
    """The GPU to plan for, with its available memory."""
    if device is not None:
        gpu = gpus.named(device)
        return gpu if free is None else gpus.of_memory(device, _size(free))
    try:
        found = devices.find("cuda")
    except DeviceError as error:
        if free is None:
            reason = devices.why_unused()
            raise ConfigError(
                f"{f'the GPU here is not used: {reason}' if reason else 'there is no GPU here to plan for'}; "
                "name one of config/gpus.yaml with --device, or give its memory with --free"
            ) from error
        return gpus.of_memory("an unnamed GPU", _size(free))
    return gpus.of_memory(found.name, devices.free_bytes(found) if free is None else _size(free))


def _size(text: str) -> int:
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([a-z]*)", text.strip().lower())
    nbytes = float(found[1]) * _UNITS.get(found[2], 0) if found else 0.0
    if not 1 <= nbytes <= _MOST_BYTES:
        raise ConfigError(
            f"--free is {shown(text)}: it must be a size up to 1 PB, such as 11GiB, 500MiB or 8000000000"
        )
    return int(nbytes)


def _cells(settings: Sequence[str], gpu: gpus.Gpu) -> tuple[dict[str, Mapping[str, Any]], Sequence[str]]:
    """The cell of these settings, or a sweep's cells by name, and the keys in which they differ."""
    chosen = dict(one.partition("=")[::2] for one in settings if one.startswith((f"{_SWEEP}=", _GRID)))
    if _SWEEP not in chosen:
        return {_THIS: compose.composed(settings, checks_memory=False)}, ()
    if len(chosen) < len(settings):
        raise ConfigError(
            f"{_SWEEP}=NAME can be combined with grid=FILE and options, but not with settings of a cell"
        )
    file = _grid(settings)
    found = sweeps.read(file, Device("cuda", gpu.name))
    if chosen[_SWEEP] not in found:
        raise ConfigError(f"{file} has no sweep {chosen[_SWEEP]!r}: it has {', '.join(found)}")
    grid_file.tell_notes(file)
    return dict(found[chosen[_SWEEP]].named), found[chosen[_SWEEP]].axes


def _grid(settings: Sequence[str]) -> Path:
    named = [one.removeprefix(_GRID) for one in settings if one.startswith(_GRID)]
    return Path([str(default_grid()), *named][-1])


def _whether(cell: Mapping[str, Any], axes: Sequence[str], gpu: gpus.Gpu, budget: int) -> dict[str, Any]:
    """Whether a sweep's cell fits; if its memory cannot be predicted, the reason.

    ``settings``: the cell's values on the axes that its name leaves out.
    """
    found: dict[str, Any] = {"settings": {}}
    for axis in axes:
        section, _, key = axis.partition(".")
        if axis == "precision":
            found["settings"][axis] = cell[section]["name"]
        elif key in cell.get(section, {}) and axis not in ("network.hidden", "network.layers"):
            found["settings"][axis] = cell[section][key]
    try:
        needed = predicted(cell, gpu)
    except (ConfigError, Unsupported) as error:
        return found | {"reason": str(error)}
    peak = sum(needed.values())
    return found | {"bytes": needed, "peak_bytes": peak, "budget_bytes": budget, "fits": peak <= budget}


def _said(found: Mapping[str, Any]) -> str:
    lines = [f"{size(nbytes):>12}  {kind}" for kind, nbytes in found["bytes"].items() if nbytes]
    lines.append(f"{size(found['peak_bytes']):>12}  total: {'fits' if found['fits'] else 'does not fit'}")
    if found["plan"]:
        lines.append(f"plan: {found['plan']}")
    batch, limit = found["largest_batch"], found["limit"]
    largest = f"all {batch} rows" if limit == "rows" else f"{batch}"
    more = f"; no larger one is planned: {limit}" if limit not in ("", "rows") else ""
    lines.append(
        "no batch fits, not even of one row"
        if batch is None
        else f"largest training.batch_size that fits: {largest}{more}"
    )
    remedies = [remedy for remedy in found["remedies"] if remedy["saves_bytes"] > 0]
    others = found["remedies"][len(remedies) :]
    lines += ["what would reduce it:"] * bool(remedies)
    for remedy in remedies[:_SHOWN]:
        fits = ", which fits" if remedy["fits"] and not found["fits"] else ""
        lines.append(f"{size(remedy['saves_bytes']):>12}  {_less(remedy)}{fits}: {remedy['cost']}")
    if len(remedies) > _SHOWN:
        lines.append(f"              and {len(remedies) - _SHOWN} more, in --json")
    lines += ["what would not reduce it:"] * bool(others)
    lines += [f"{'nothing':>12}  {_less(remedy)}: {remedy['cost']}" for remedy in others]
    return "\n".join(lines)


def _less(remedy: Mapping[str, Any]) -> str:
    than = f" than with {remedy['than']}" if remedy["than"] else ""
    return f"less with {remedy['setting']}{than}"


def _line(name: str, found: Mapping[str, Any]) -> str:
    """Whether a cell of a sweep fits, in a line."""
    settings = found["settings"].items()
    name = " ".join(
        [name, *(f"{key}={one if isinstance(one, str) else written(one)}" for key, one in settings)]
    )
    if "reason" in found:
        return f"{'unknown':>12}                {name}: {found['reason']}"
    return f"{size(found['peak_bytes']):>12}  {'fits' if found['fits'] else 'does not fit':<12}  {name}"
