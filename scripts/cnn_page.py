"""Write the tables of docs/explanation/cnn_report.md.

Those of published values are made from config/cnn_report/, and those of measured ones from the tables in each
FOLDER, results/published/nvidia-h200/cnn unless given: each from the first that has it.
"""

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import click
import pandas as pd

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import markdown_cells as cells  # noqa: E402

from snn import command  # noqa: E402
from snn.arguments import Command, main_of  # noqa: E402
from snn.config.groups import read_yaml  # noqa: E402
from snn.errors import ConfigError, RecordError  # noqa: E402
from snn.files import outputs  # noqa: E402
from snn.models.gradients import PublishedNaive  # noqa: E402
from snn.report.write import read  # noqa: E402

PAGE = ROOT / "docs/explanation/cnn_report.md"
FOLDERS = (ROOT / "results/published/nvidia-h200/cnn",)
BLOCK = re.compile(r"(<!-- made: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)

DATA = {"mnist": "MNIST", "fashion": "Fashion-MNIST"}
GPUS = {"a40": "A40", "rtx6000": "RTX 6000", "v100": "V100"}
BATCH, CLASSES = 64, 10


def fill(text: str, *folders: Path) -> str:
    """The page with its generated parts rewritten.

    Raises ConfigError for a part without a maker, RecordError if a table is missing or another one.
    """

    def made(found: re.Match[str]) -> str:
        name = found[2]
        if name not in MAKERS:
            raise ConfigError(f"{PAGE}: unknown part {name!r}: it must be one of {', '.join(MAKERS)}")
        return f"{found[1]}\n{_made(name, folders)}\n\n{found[3]}"

    return BLOCK.sub(made, text)


def _made(name: str, folders: Iterable[Path]) -> str:
    maker, table = MAKERS[name]
    if table is None:
        return maker(None)
    paths = [folder / f"tables/{table}.csv" for folder in folders]
    path = next(filter(Path.exists, paths), paths[0])
    rows = read(path, table)
    try:
        return f"{maker(rows)}\n\nFrom `{table}.csv`, {_where(rows)}."
    except (KeyError, TypeError, ValueError) as error:
        raise RecordError(f"{path}: not a {table}.csv of this version: {error!r}") from error


# ---- published values


def published_programs(_: None) -> str:
    """Tables 3 to 6, each time also per step, and the ratio of the two programs."""
    values = _published("cnn_programs")
    steps, rows = values["training"]["steps"], []
    for data, name in DATA.items():
        for program, own in values[data].items():
            times = [f"{s:.2f} s ({1e6 * s / steps:,.0f} µs)" for s in own["seconds"].values()]
            ratios = [values[data]["naive"]["seconds"][gpu] / s for gpu, s in own["seconds"].items()]
            ratio = f"{min(ratios):.1f} to {max(ratios):.1f}" if program != "naive" else ""
            rows.append([name, program, *times, ratio, f"{100 * own['accuracy']:.2f}%"])
    return cells.table(["data", "program", *GPUS.values(), "naive / optimised", "accuracy"], rows)


def published_loader(_: None) -> str:
    """Tables 1 and 2: a row per number of workers."""
    values = _published("cnn_loader")
    steps, rows = values["training"]["steps"], []
    for data, name in DATA.items():
        for workers in (2, 4, 8):
            of_workers = [row for row in values[data]["rows"] if row["workers"] == workers]
            times = {(row["backend"], row["pin_memory"]): row["seconds"] for row in of_workers}
            cpu, pinned, other = (times[key] for key in (("cpu", None), ("cuda", True), ("cuda", False)))
            gpu = [f"{seconds:.2f} s ({1e6 * seconds / steps:,.0f} µs)" for seconds in (pinned, other)]
            rows.append([name, str(workers), f"{cpu:.2f} s", *gpu, f"{cpu / pinned:.1f}"])
    return cells.table(
        ["data", "workers", "CPU", "GPU, `--pin True`", "GPU, `--pin False`", "CPU / GPU"], rows
    )


def logit_gradients(_: None) -> str:
    """The part of a batch's gradient that the naive program computes, by block size."""
    rows = []
    for threads, curve in _published("cnn_block_size")["curves"].items():
        written = PublishedNaive(int(threads)).written(BATCH, CLASSES)
        whole, more = divmod(written, CLASSES)
        samples = f"{whole}" + (f", and {more} classes of the next" if more else "")
        seconds, loss = curve["cumulative_s"][-1], curve["mean_loss"][-1]
        rows.append(
            [
                threads,
                str(written),
                samples,
                f"{0.01 * written / CLASSES:.3f}",
                f"{seconds:.1f} s",
                f"{loss:g}",
            ]
        )
    head = ["threads", "logit gradients of 640", "samples used of 64", "step on a mean loss"]
    return cells.table([*head, "published time", "published loss, epoch 5"], rows)


# ---- measured values


def programs(rows: pd.DataFrame) -> str:
    """The two programs and the fastest strategy, as published and with the exact gradient."""
    lines = []
    for row in rows.to_dict("records"):
        published = ""
        if cells.known(row["published_accuracy"]):
            published = f"{100 * row['published_accuracy']:.2f}%: {row['agreement']}, {_apart(row)}"
        speedup = "" if row["verdict"] == "baseline" else cells.ratio(row, "speedup")
        lines.append(
            [
                DATA.get(row["dataset"], row["dataset"]),
                row["program"],
                _trained(row),
                cells.or_status(row, "step_us", f"{row['step_us']:,.0f}"),
                speedup,
                cells.number(row["loss"], "{:.4f}"),
                cells.percent(row["accuracy"]),
                cells.percent(row["mean_accuracy"], row["accuracy_std"]),
                published,
                cells.number(row["test_s"], "{:.3f} s"),
            ]
        )
    head = ["data", "program", "gradient", "µs per step", "speedup over naive (95% CI)"]
    return cells.table(
        [*head, "loss, epoch 5", "accuracy", "mean accuracy", "published accuracy", "test"], lines
    )


def speedups(rows: pd.DataFrame) -> str:
    """Speedup of the optimised program over the naive one, trained in each way."""
    said = []
    for row in rows[rows["program"] == "optimised"].to_dict("records"):
        if not cells.known(row["speedup"]):
            continue
        text = (
            f"- {DATA.get(row['dataset'], row['dataset'])}, {_trained(row)}: the optimised program is "
            f"{cells.ratio(row, 'speedup')} times as fast as the naive one"
        )
        if cells.known(row["published_speedup_min"]):
            text += f" (published: {row['published_speedup_min']:.1f} to {row['published_speedup_max']:.1f})"
        said.append(f"{text}.")
    return "\n".join(said)


def block_size(rows: pd.DataFrame) -> str:
    """The naive program by block size, as published and with the exact gradient."""
    lines = [
        [
            f"{row['threads']:.0f}",
            _trained(row),
            cells.or_status(row, "mean_s", cells.seconds(row)),
            cells.number(row["step_us"], "{:,.0f}"),
            "" if row["verdict"] == "baseline" else cells.ratio(row, "speedup"),
            cells.number(row["loss"], "{:.4f}"),
            cells.number(row["published_loss"], "{:g}"),
            cells.percent(row["accuracy"]),
            cells.percent(row["mean_accuracy"]),
        ]
        for row in rows.to_dict("records")
    ]
    head = ["threads", "gradient", "time", "µs per step", "speedup over 256 threads (95% CI)"]
    return cells.table([*head, "loss, epoch 5", "published", "accuracy", "mean accuracy of all runs"], lines)


def loader(rows: pd.DataFrame) -> str:
    """The PyTorch program on the planned device; rows of the report alone are left out."""
    lines = [
        [
            DATA.get(row["dataset"], row["dataset"]),
            row["ran_on"],
            f"{row['workers']:.0f}",
            "yes" if str(row["pin_memory"]) == "True" else "no",
            cells.or_status(row, "mean_s", cells.seconds(row)),
            cells.number(row["step_us"], "{:,.0f}"),
            "" if row["verdict"] == "baseline" else cells.ratio(row, "speedup"),
            cells.percent(row["accuracy"]),
        ]
        for row in rows[rows["device"].notna()].to_dict("records")
    ]
    head = ["data", "on the", "workers", "pinned", "time", "µs per step"]
    return cells.table([*head, "speedup over 2 workers, not pinned (95% CI)", "accuracy"], lines)


def cpu(rows: pd.DataFrame) -> str:
    """Speedups of the GPU over its host's fastest CPU baseline, the fastest first."""
    timed = rows[rows["mean_s"].notna()].sort_values("mean_s", kind="stable")
    lines = [
        [
            f"{row['strategy']}{cells.in_brackets(row.get('options'))}",
            *(row[key] if cells.known(row[key]) else "" for key in ("kernel", "precision") if key in timed),
            {"host": "CPU", "device": "GPU"}[row["ran_on"]],
            f"{row['step_us']:,.0f}",
            cells.ratio(row, "speedup_over_sequential"),
            cells.ratio(row, "speedup_over_fastest_cpu"),
        ]
        for row in timed.to_dict("records")
    ]
    chosen = [key for key in ("kernel", "precision") if key in timed]
    head = ["strategy", *chosen, "ran on", "µs per step", "speedup over one core (95% CI)"]
    return cells.table([*head, "speedup over the fastest CPU baseline (95% CI)"], lines)


def peers(rows: pd.DataFrame) -> str:
    """Beside PyTorch and JAX, in each precision the fastest first."""
    by = [name for name in ("precision", "step_us") if name in rows]
    lines = [
        [
            f"{row['strategy']}{cells.in_brackets(row.get('options'))}",
            row["kernel"] if cells.known(row["kernel"]) else "",
            row.get("precision", "fp32"),
            cells.interval(row, "step_us", "step_ci_low_us", "step_ci_high_us", "{:,.0f}"),
            cells.ratio(row, "speedup_over_best_peer"),
        ]
        for row in rows[rows["step_us"].notna()].sort_values(by, kind="stable").to_dict("records")
    ]
    return cells.table(
        ["strategy", "kernel", "precision", "µs per step (95% CI)", "speedup over the best peer (95% CI)"],
        lines,
    )


MAKERS: dict[str, tuple[Callable[[Any], str], str | None]] = {
    "published_programs": (published_programs, None),
    "published_loader": (published_loader, None),
    "logit_gradients": (logit_gradients, None),
    "programs": (programs, "cnn_programs"),
    "speedups": (speedups, "cnn_programs"),
    "block_size": (block_size, "cnn_block_size"),
    "loader": (loader, "cnn_loader"),
    "cpu": (cpu, "cnn_cpu"),
    "peers": (peers, "cnn_peers"),
}
"""The function that writes each part of the page, and the measured table that it uses."""


def _published(name: str) -> Mapping[str, Any]:
    return read_yaml(ROOT / f"config/cnn_report/{name}.yaml")


def _where(rows: pd.DataFrame) -> str:
    """The devices of the rows, and how many runs they are the mean of."""
    runs = rows["runs"].dropna()
    runs = runs[runs > 0]
    if runs.empty:
        raise ValueError("no row has a run")
    several = f"{runs.min():.0f}" + (f" to {runs.max():.0f}" if runs.min() < runs.max() else "")
    return f"{' and '.join(dict.fromkeys(rows['device'].dropna()))}, {several} runs per row"


def _trained(row: Mapping[str, Any]) -> str:
    if row["gradient"] == "as published":
        return str(row["gradient"])
    return f"exact, {row['reduction']}, rate {row['learning_rate']:g}"


def _apart(row: Mapping[str, Any]) -> str:
    return f"{row['images_apart']:+.0f} images" if row["images_apart"] else "no image apart"


@click.command("cnn_page", cls=Command, help=__doc__)
@click.argument("folders", nargs=-1, type=Path, metavar="[FOLDER]...")
def write_page(folders: tuple[Path, ...]) -> None:
    folders = folders or FOLDERS
    for folder in folders:
        if not folder.is_dir():
            raise ConfigError(f"{folder} is not a folder: give one such as results/published/nvidia-h200/cnn")
    text = fill(PAGE.read_text(encoding="utf-8"), *folders)
    with outputs.replaced(PAGE) as file:
        file.write(text.encode())


main = main_of(write_page)


if __name__ == "__main__":
    sys.exit(command.run(main))
