"""A page on what every strategy allocates and copies: from classes, YAML files and published ledgers."""

import csv
import inspect
import re
from collections.abc import Mapping
from pathlib import Path

from generators.links import ROOT
from generators.markdown import from_rst, paragraphs, table
from snn.config.groups import CONFIG, names, read_yaml
from snn.files.published_sets import PUBLISHED
from snn.strategies.factory import class_of, on_host, own_runtime

COUNTS = {
    "mallocs": "device allocations",
    "host_allocs": "pinned host allocations",
    "h2d_copies": "copies in",
    "h2d_bytes": "MB in",
    "d2h_copies": "copies out",
    "d2h_bytes": "MB out",
    "launches": "launches",
    "synchronizations": "waits",
}
SHOWN = ("strategy", "kernel")
Row = Mapping[str, str]


def pages() -> dict[str, str]:
    return {"strategies.md": page()}


def page() -> str:
    """The counts of all, then a section for each strategy."""
    return paragraphs(
        "# What a strategy allocates and copies",
        "Each section is the docstring of the strategy's class and its file in `config/strategy/`. "
        "[Strategies](../reference/strategies.md) puts them in order.",
        "## Counts of one run",
        "Blocks from pools and managed memory do not count as device allocations, nor do pages that move by "
        "themselves count as copies. A graph's launch starts all kernels of an epoch, and a launch of "
        "`persistent` a whole run. CPU baselines have no device: their counts are 0, and they are left out.",
        counts("strategies", "large"),
        "The network of the CNN report, also with strategies that the table above does not have:",
        counts("cnn_strategies", "fashion"),
        *(section(name) for name in names("strategy")),
    )


def counts(sweep: str, dataset: str) -> str:
    """The ledgers of a published sweep: a row per cell that has one, with the settings that differ."""
    path = source(sweep)
    rows = [row for row in _rows(path) if row["dataset"] == dataset and row["backend"] == "cuda"]
    rows = [row for row in rows if row["mallocs"]]
    first = rows[0]
    choices = list(first)[: list(first).index("mean_s")]
    told_apart = [key for key in choices if key in SHOWN or len({row[key] for row in rows}) > 1]
    lines = [
        [*(row[key] and f"`{row[key]}`" for key in told_apart), *(shown(key, row[key]) for key in COUNTS)]
        for row in rows
    ]
    where = path.relative_to(ROOT)
    return paragraphs(
        f"Exact counts of one run of the network {first['network']} on `{dataset}`, from "
        f"[{path.stem}](../../{where}), measured on {first['device']}:",
        table([*told_apart, *COUNTS.values()], lines),
    )


def source(sweep: str) -> Path:
    """The published table of a sweep with the most rows of a GPU. Raises LookupError if there is none."""
    rows = {path: _rows(path) for path in sorted(PUBLISHED.glob(f"*/*/tables/{sweep}.csv"))}
    found = {path: sum(row["backend"] == "cuda" for row in of_path) for path, of_path in rows.items()}
    if not any(found.values()):
        raise LookupError(f"no published folder of a GPU has the table {sweep}")
    return max(found, key=lambda path: found[path])


def section(name: str) -> str:
    """One strategy: the first line of its file, its class's docstring, and its options."""
    given = read_yaml(CONFIG / "strategy" / f"{name}.yaml")
    cls = class_of(given)
    lines = (CONFIG / "strategy" / f"{name}.yaml").read_text(encoding="utf-8")
    options = [
        (f"`strategy.{key}`", f"`{value}`", comment)
        for key, value, comment in re.findall(r"^(\w+): *(.*?) *(?:# (.*))?$", lines, re.MULTILINE)
        if key not in ("_target_", "name")
    ]
    return paragraphs(
        f"## {name}",
        lines.partition("\n")[0].removeprefix("# "),
        from_rst(inspect.getdoc(cls) or ""),
        table(["option", "default", "meaning"], options) if options else "",
        f"Runs on {_where(given)}: `{Path(inspect.getfile(cls)).relative_to(ROOT)}`.",
    )


def _where(given: Mapping[str, str]) -> str:
    package = own_runtime(given)
    if package:
        return f"the runtime of {package}, an optional package"
    return "the CPU" if on_host(given) else "the device"


def _rows(path: Path) -> list[Row]:
    with path.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def shown(key: str, text: str) -> str:
    """A count, or bytes as megabytes."""
    if not text:
        return ""
    return f"{float(text) / 1e6:,.1f}" if key.endswith("_bytes") else f"{float(text):,.0f}"
