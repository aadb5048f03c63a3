"""What can be said of a GPU that is not here: published results, and the planner's bytes."""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from math import log
from typing import Any

import pandas as pd

from snn.config import groups
from snn.config.suggestions import parts_of
from snn.errors import ConfigError, Unsupported, shown
from snn.files import published_sets
from snn.models.network import network_label
from snn.planning import gpus
from snn.planning.plan import predicted
from snn.profiling.memory import size
from snn.recommending import grid_file, of_paper
from snn.recommending.settings import Settings
from snn.report.write import read
from snn.strategies.common.traits import own_runtime

DEFAULT = "NVIDIA H200"
_SHOWN = 3
_SIMILAR = 4.0
"""By which factor the widths of two similar networks may differ at most."""
_UNLIKE = "No network like this one is published"
_PAIR = "but of one strategy and the reference alone: others may be faster"
_COLUMNS = (
    *("case", "answer", "dataset", "network", "fastest", "fastest_status", "strategies", "mean_s", "speedup"),
    *("device", "backend"),
)
_TYPES = {name: float if name in ("strategies", "mean_s", "speedup") else str for name in _COLUMNS}
_ALIKE = 1.05
"""Times of one training on two cards that differ by no more are alike: that with a speedup is shown."""


def described(settings: Settings) -> str:
    """All that is known without the device that the settings name. Raises ConfigError for one not known."""
    rows = _rows()
    known = sorted({*rows.loc[rows["backend"] == "cuda", "device"], *groups.known_gpus()})
    if settings.device not in known:
        raise ConfigError(
            f"--device is {shown(settings.device)}, which is neither here nor known"
            f"{parts_of(known, settings.device)}: it must be auto, cuda, cpu or one of {', '.join(known)}"
        )
    cell = grid_file.training_of(grid_file.write(settings, "cpu").plan)
    return "\n".join(
        [f"{settings.device} is not here, so nothing was measured.", on_a_gpu(cell, settings.device)]
    )


def on_a_gpu(cell: Mapping[str, Any], name: str = DEFAULT) -> str:
    """The published answers for the nearest networks on a GPU, the memory needed there, and what is open.

    Of networks unlike this one, in their layers or by more than ``_SIMILAR`` in a width, there are some only
    where none is nearer, and they are said to be that. A winner that diverged is no answer, nor is a peer or
    the reference: they win only where a sweep, as that of the tile sizes, compared few others with them. Nor
    is one that was compared with the reference alone, as in the paper's sweeps of networks: others may be
    faster. Of this very network it is shown, with these words, where there is no answer; then networks unlike
    it are not.
    """
    label = network_label(cell["network"])
    published = _rows()
    published = published[(published["backend"] == "cuda") & (published["fastest_status"] == "ok")]
    winners = published["fastest"].str.split(" ").str[0]
    published = published[~winners.isin(["reference", *_peers()])]
    of_two = (published["strategies"] <= 2) & published["speedup"].notna()
    published, pairs = published[~of_two], published[of_two & (published["device"] == name)]
    rows = published[published["device"] == name]
    near = rows.assign(
        distance=[_distance(label, other) for other in rows["network"]],
        is_like=[_is_like(label, other) for other in rows["network"]],
        is_other=rows["dataset"] != cell["dataset"]["name"],
    ).astype({"is_like": bool})  # also of no row
    answered = (near["distance"] == 0).any()
    pairs = pairs[[not answered and _distance(label, other) == 0 for other in pairs["network"]]]
    shortest = near.groupby(["network", "dataset"])["mean_s"].transform("min")
    near = near.assign(is_longer=near["mean_s"] > _ALIKE * shortest, lacks_speedup=near["speedup"].isna())
    order = ["distance", "is_other", "is_longer", "lacks_speedup", "mean_s"]
    chosen = (
        near["is_like"]
        if near["is_like"].any() or len(pairs)
        else near["distance"] < near["distance"].min() + 1
    )
    near = near[chosen].sort_values(order).drop_duplicates(["network", "dataset"]).head(_SHOWN)
    same, like = near["distance"] == 0, near["is_like"]
    lines = of_paper.lines(cell, name)
    lines += [] if lines or len(near) or len(pairs) else [f"Nothing is published for {name}."]
    for said, answers in (
        (f"Published for an {name}, of this network on these data sets:", near[same]),
        (f"Published for an {name}, of this network, {_PAIR}:", pairs),
        (f"Published for an {name}, of similar networks on these data sets:", near[like & ~same]),
        (f"{_UNLIKE} for an {name}; of the nearest, whose strategies may be ordered otherwise:", near[~like]),
    ):
        lines += [said] if len(answers) else []
        lines += [f"  {row['case']}: {row['answer']} [{_source(row)}]" for _, row in answers.iterrows()]
    if not answered:
        alike = zip(published["device"], published["network"], strict=True)
        has = ", ".join(sorted({device for device, other in alike if _distance(label, other) == 0} - {name}))
        results = "results of more strategies" if len(pairs) else "results"
        lines += [f"  Of this network there are {results} for {has} (--device)."] if has else []
    needed = _memory(cell, name, [*near["fastest"][:1]])
    lines += [
        f"  Device memory that your training would take there: {needed}.",
        "  Not known: the times of your own training there. Rows, columns, batch size and layers change the",
        "  order of strategies. Run the same command on that GPU.",
    ]
    return "\n".join(lines)


def _source(answer: pd.Series) -> str:
    """``nvidia-h200/cnn, of 3 candidates``: the set of a published answer, and among how many it is."""
    return f"{answer['folder']}, of {answer['strategies']:.0f} candidates"


def _rows() -> pd.DataFrame:
    """The published overviews, each with the name of its set. Raises RecordError for what is none."""
    tables = [
        read(path, "overview", _COLUMNS, dtype=_TYPES).assign(folder=published_sets.name_of(folder))
        for folder in published_sets.sets()
        if (path := folder / "tables/overview.csv").exists()
    ]
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=[*_COLUMNS, "folder"])


def _peers() -> list[str]:
    """The strategies that another package trains."""
    return [name for name in groups.names("strategy") if own_runtime(groups.load("strategy", name))]


def _distance(one: str, other: str) -> float:
    """How different two networks are: 10 for a layer more or of another kind, the log ratio of two widths."""
    a, b = _layers(one), _layers(other)
    if len(a) != len(b):
        return 10.0 * abs(len(a) - len(b))
    return sum(
        abs(log(int(x) / int(y))) if x.isdigit() and y.isdigit() else 10.0 * (x != y)
        for x, y in zip(a, b, strict=True)
    )


def _layers(label: str) -> list[str]:
    """The layers of a label; of linear ones with ReLU the hidden widths alone, as the label of an MLP has."""
    if re.fullmatch(r"(linear\d+-relu-)+linear\d+", label):
        return re.findall(r"linear(\d+)-relu", label)
    return label.split("-")


def _is_like(one: str, other: str) -> bool:
    """Whether two networks have the same kinds of layers, and widths within ``_SIMILAR`` of each other's."""
    a, b = _layers(one), _layers(other)
    return len(a) == len(b) and all(
        max(int(x), int(y)) <= _SIMILAR * min(int(x), int(y)) if x.isdigit() and y.isdigit() else x == y
        for x, y in zip(a, b, strict=True)
    )


def _memory(cell: Mapping[str, Any], name: str, fastest: Sequence[str]) -> str:
    """What the cell would take on a GPU, and with these strategies, named as in an overview."""
    try:
        gpu = gpus.named(name)
        needed = [f"{size(sum(predicted(cell, gpu).values()))} with {cell['strategy']['name']}"]
        for text in filter(_CHOICE.fullmatch, fastest):
            with suppress(Unsupported):  # as a graph is with the kernel of the cell
                with_it = {**cell, **_choice(text)}
                needed.append(f"{size(sum(predicted(with_it, gpu).values()))} with {text}")
    except (ConfigError, Unsupported) as error:
        return f"not known ({error})"
    return f"{', '.join(needed)}, of {size(gpu.nbytes)}"


_CHOICE = re.compile(r"(\w+)(?: \(kernel (\w+)\))?")


def _choice(text: str) -> dict[str, Any]:
    """The strategy of ``graph (kernel tiled_fused)``, and its kernel where that is named."""
    found = _CHOICE.fullmatch(text)
    assert found
    named = {group: name for group, name in zip(("strategy", "kernel"), found.groups(), strict=True) if name}
    return {group: groups.load(group, name) for group, name in named.items()}
