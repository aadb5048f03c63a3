"""Information on a GPU that this machine lacks: archived results, and predicted memory."""

import re
from collections.abc import Sequence
from contextlib import suppress
from math import inf, log
from typing import Any

import pandas as pd

from snn.analysis import published
from snn.config import groups
from snn.config.cell import Cell
from snn.config.groups import CONFIG, read_yaml
from snn.config.suggestions import parts_of
from snn.errors import ConfigError, Unsupported, shown
from snn.files import published_sets
from snn.files.project import shown_path
from snn.models import optimizers
from snn.models.network import MLP_DEFAULTS, network_label
from snn.models.row_order import IN_FILE
from snn.planning import gpus
from snn.planning.plan import predicted
from snn.profiling.memory import size
from snn.recommending.question import Question
from snn.report.write import read
from snn.strategies.factory import own_runtime

DEFAULT = "NVIDIA H200"
_SHOWN = 3
_OTHER_LAYER = 10.0
"""The distance for an extra layer or another kind; for two widths it is the logarithm of their ratio."""
_SIMILAR = 4.0
"""Largest factor by which the widths of two similar networks may differ."""
_UNLIKE = "No network like this one is published"
_PAIR = "but of one strategy and the reference alone: others may be faster"
_NOT_KNOWN = (
    "  Not known: the times of your training job there. Rows, columns, batch size and layers change\n"
    "  the order of strategies. Run the same command on that GPU."
)
_TYPES: dict[Any, type] = dict.fromkeys(("strategies", "mean_s", "speedup"), float)
_TYPES |= dict.fromkeys(
    ("case", "answer", "dataset", "network", "fastest", "fastest_status", "device", "backend"), str
)
"""The columns that are read from an overview."""
_ALIKE = 1.05
"""Ratio of training times on two cards up to which they count as equal: the one with a speedup is shown."""


def describe(asked: Question) -> str:
    """Everything known about a training job on an absent device. Raises ConfigError for an unknown device."""
    rows, device = _rows(), asked.device
    known = sorted({*rows.loc[rows["backend"] == "cuda", "device"], *groups.known_gpus()})
    if device not in known:
        raise ConfigError(
            f"--device is {shown(device)}, which is neither in this machine nor known"
            f"{parts_of(known, device)}: it must be auto, cuda, cpu or one of {', '.join(known)}"
        )
    return f"{device} is not here, so nothing was measured.\n{on_a_gpu(asked.cell, device)}"


def on_a_gpu(cell: Cell, name: str = DEFAULT) -> str:
    """The archived answers for the nearest networks on a GPU, the memory needed there, and open questions.

    Networks that differ in their layers, or in a width by more than ``_SIMILAR``, are shown only if none is
    nearer, with a note. A strategy compared with the reference alone, as in the paper's sweeps of networks,
    is not an answer: others may be faster. If this very network has no answer, such a pair is shown with a
    note, and networks unlike it are not shown.
    """
    answers, unlike = _answers(cell), _unlike_the_paper(cell)
    if unlike:
        answers = answers[:0]
    is_pair = (answers["strategies"] <= 2) & answers["speedup"].notna()
    is_here, is_same = answers["device"] == name, answers["distance"] == 0
    near, pairs = answers[~is_pair & is_here], answers[is_pair & is_here & is_same]
    others = sorted(set(answers.loc[~is_pair & ~is_here & is_same, "device"]))
    if is_answered := bool((near["distance"] == 0).any()):
        pairs = pairs[:0]
    shortest = near.groupby(["network", "dataset"])["mean_s"].transform("min")
    near = near.assign(is_longer=near["mean_s"] > _ALIKE * shortest)
    is_nearest = near["distance"] < near["distance"].min() + 1
    near = near[near["is_like"] if near["is_like"].any() or len(pairs) else is_nearest]
    near = near.sort_values(["distance", "is_other", "is_longer", "lacks_speedup", "mean_s"])
    near = near.drop_duplicates(["network", "dataset"]).head(_SHOWN)
    same, like = near["distance"] == 0, near["is_like"]
    lines = _of_paper(cell, name)
    if not (lines or len(near) or len(pairs)):
        by = f" with {', '.join(unlike)}" if unlike else ""
        lines.append(f"Nothing is published for {name}{by}.")
    for title, rows in (
        (f"Published for an {name}, of this network on these data sets:", near[same]),
        (f"Published for an {name}, of this network, {_PAIR}:", pairs),
        (f"Published for an {name}, of similar networks on these data sets:", near[like & ~same]),
        (f"{_UNLIKE} for an {name}; of the nearest, whose strategies may be ordered otherwise:", near[~like]),
    ):
        said = [
            f"  {row['case']}: {row['answer']} [{row['folder']}, of {row['strategies']:.0f} candidates]"
            for row in rows.to_dict("records")
        ]
        lines += [title, *said] if said else []
    if others and not is_answered:
        results = "results of more strategies" if len(pairs) else "results"
        lines.append(f"  Of this network there are {results} for {', '.join(others)} (--device).")
    memory = _memory(cell, name, [*near["fastest"][:1]])
    return "\n".join(
        [*lines, f"  Device memory that your training job would take there: {memory}.", _NOT_KNOWN]
    )


def _unlike_the_paper(cell: Cell) -> list[str]:
    """Settings of a cell that no archived training run has.

    Those are of plain gradient descent in file order, and their perceptrons have ReLU and no biases.
    """
    training, network = cell["training"], cell["network"]
    optimizer = optimizers.of(training)
    found = [] if optimizer == optimizers.PLAIN else [optimizer.setting]
    given = {
        **{f"network.{key}": (network.get(key, usual), usual) for key, usual in MLP_DEFAULTS.items()},
        "training.shuffle": (training.get("shuffle", IN_FILE), IN_FILE),
        "training.validation": (training.get("validation", 0.0), 0.0),
    }
    return [*found, *(f"{key}={str(one).lower()}" for key, (one, usual) in given.items() if one != usual)]


def _answers(cell: Cell) -> pd.DataFrame:
    """The archived winners on GPUs, each with the ``distance`` of its network from the cell's.

    Winners that diverged are left out, and so are peers and the reference: they win only if a sweep, such as
    the tile sizes, compared few others with them.
    """
    peers = [name for name in groups.names("strategy") if own_runtime(groups.load("strategy", name))]
    found = _rows().query("backend == 'cuda' and fastest_status == 'ok'")
    found = found[~found["fastest"].str.split(" ").str[0].isin(["reference", *peers])]
    label = network_label(cell["network"])
    factors = [_factors(label, other) for other in found["network"]]
    return found.assign(
        distance=[sum(_OTHER_LAYER if one == inf else log(one) for one in each) for each in factors],
        is_like=[max(each) <= _SIMILAR for each in factors],
        is_other=found["dataset"] != cell.dataset,
        lacks_speedup=found["speedup"].isna(),
    ).astype({"is_like": bool, "distance": float})  # also of no row


def _rows() -> pd.DataFrame:
    """The archived overviews, each with the name of its set. Raises RecordError for any other table."""
    tables = [
        read(path, "overview", _TYPES, dtype=_TYPES).assign(folder=published_sets.name_of(folder))
        for folder in published_sets.sets()
        if (path := folder / "tables/overview.csv").exists()
    ]
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=[*_TYPES, "folder"])


def _factors(one: str, other: str) -> list[float]:
    """Ratio of the wider to the narrower of two networks, layer by layer.

    Infinite for layers of different kinds, and for each layer that one of them lacks.
    """
    a, b = _layers(one), _layers(other)
    if len(a) != len(b):
        return [inf] * abs(len(a) - len(b))
    return [
        max(int(x), int(y)) / min(int(x), int(y)) if x.isdigit() and y.isdigit() else 1.0 if x == y else inf
        for x, y in zip(a, b, strict=True)
    ]


def _layers(label: str) -> list[str]:
    """The layers of a label; for linear layers with ReLU only the hidden widths, as in an MLP's label."""
    if re.fullmatch(r"(linear\d+-relu-)+linear\d+", label):
        return re.findall(r"linear(\d+)-relu", label)
    return label.split("-")


def _memory(cell: Cell, name: str, fastest: Sequence[str]) -> str:
    """Text of the cell's memory on a GPU, as it is and with these strategies, named as in an overview."""
    try:
        gpu = gpus.named(name)
        needed = [f"{size(sum(predicted(cell, gpu).values()))} with {cell['strategy']['name']}"]
        for found in filter(None, map(_CHOICE.fullmatch, fastest)):
            chosen = {group: groups.load(group, of) for group, of in found.groupdict().items() if of}
            with suppress(Unsupported):  # graph, for example, with the kernel of the cell
                needed.append(f"{size(sum(predicted({**cell, **chosen}, gpu).values()))} with {found[0]}")
    except (ConfigError, Unsupported) as error:
        return f"not known ({error})"
    return f"{', '.join(needed)}, of {size(gpu.nbytes)}"


_CHOICE = re.compile(r"(?P<strategy>\w+)(?: \(kernel (?P<kernel>\w+)\))?")
"""An overview's strategy, with its kernel if given: ``graph (kernel tiled_fused)``."""


# ---- the paper, whose GPU has no records

_STRATEGIES = ("combined", "pinned", "streams")
_NETWORKS = {1: "one_hidden", 2: "two_hidden", 3: "three_hidden"}
"""The paper's networks, by their number of hidden layers."""


def _of_paper(cell: Cell, name: str) -> list[str]:
    """Lines with the paper's speedups for a cell's network and data on a GPU; empty if it has none.

    The cell's number of epochs, initial weights, strategy and kernel do not matter.
    """
    network = _NETWORKS.get(len(cell["network"].get("hidden") or ()))
    if network is None or name != read_yaml(CONFIG / "paper/gpu.yaml")["device"]:
        return []
    paper = {table: read_yaml(CONFIG / f"paper/{table}.yaml") for table in published.TABLES}
    weights = {key: groups.load("network", network)[key] for key in ("init", "seed")}
    epochs = groups.default_training()["epochs"]
    as_there = cell.replace(
        network=weights, training={"epochs": epochs}, kernel=groups.load("kernel", "naive")
    )
    speedups = {
        strategy: published.speedups(as_there | {"strategy": groups.load("strategy", strategy)}, paper)
        for strategy in _STRATEGIES
    }
    said = [f"{one} {' or '.join(f'{value:g}' for value in of)}" for one, of in speedups.items() if of]
    if not said:
        return []
    return [
        f"The paper has speedups over reference on a {name}, without intervals "
        f"({shown_path('docs/results.md')}):",
        f"  {cell['dataset']['name']}, {network_label(cell['network'])}: {', '.join(said)}",
    ]
