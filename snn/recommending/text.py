"""Text of ``snn recommend``: the training job, the answer, and the ranked table."""

import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from snn.analysis.frame import ENERGY
from snn.analysis.grouping import is_empty
from snn.analysis.verdicts import DIVERGED, NOT_COMPARABLE, OK, REFERENCE
from snn.config import groups
from snn.config.cell import Cell
from snn.config.groups import CONFIG, read_yaml
from snn.config.overrides import written
from snn.datasets import counts
from snn.errors import one_line
from snn.figures.trained import data
from snn.hardware.devices import Device
from snn.models.network import MLP_DEFAULTS, network_label
from snn.recommending.budget import Length
from snn.recommending.counterparts import counterpart
from snn.recommending.question import USUAL, Question
from snn.report.opening import duration
from snn.strategies.base import PEERS
from snn.strategies.factory import own_runtime
from snn.tables.recommend import preliminary, scores_in_words
from snn.tables.recommendation import Ratio

_ENERGIES = (("kJ", 1e-3), ("J", 1.0), ("mJ", 1e3))
_MOST_REASONS = 3
_NOTHING = "-"
_OWN_KERNEL = "its own"


def announcement(asked: Question, device: Device, candidates: int) -> str:
    """One line: what is trained, with a user's table its target and sizes, where, and the candidates."""
    training, dataset, table = asked.cell["training"], asked.cell["dataset"], asked.table
    of = dataset.get("path") or dataset["name"]
    if table is not None:
        rows, tested = counts(len(table.values), dataset)
        sizes = {"rows": rows, "test_rows": tested, "features": table.values.shape[1] - 1}
        of = data({**dataset, **table.facts, **sizes})
    where = "the CPU, " if device.backend == "cpu" else "the GPU, "
    return (
        f"{of}, network {network_label(asked.cell['network'])}, batch size {training['batch_size']}, "
        f"{training['epochs']} epochs, learning rate {training['learning_rate']:g}: {candidates} candidates "
        f"on {where}{device.name}."
    )


def answer(
    ranking: pd.DataFrame,
    recommended: pd.DataFrame,
    trained: Length,
    cell: Cell,
    missing: Sequence[str] = (),
) -> str:
    """The answer with its reason, then a line per candidate; times are of what was ``trained``.

    ``missing`` are the packages of frameworks that cannot be imported.
    """
    thresholds = read_yaml(CONFIG / "verdicts.yaml")
    if not ranking["rank"].notna().any():
        is_ok = (ranking["status"] == OK).any()
        compared = f"can be compared with the {_baseline(ranking)}" if is_ok else "ended well"
        lines = [f"No recommendation: no training run {compared}. {_failures(ranking, cell)}".rstrip()]
    else:
        lines = [text for text in recommended.iloc[0][["answer", "reason"]] if isinstance(text, str)]
    part = trained.part_of(cell)
    times = f"{part}: one-off work weighs more than in full training runs" if part else trained.words()
    lines += filter(None, [preliminary(ranking, thresholds)])
    notes = [f"Times are for training runs of {times}.", *_notes(ranking, thresholds)]
    notes += filter(None, map(counterpart, ranking.loc[ranking["rank"] == 1, "strategy"]))
    if missing:
        notes.append(
            f"Not measured, as Python cannot import {' and '.join(missing)}: `{PEERS}` installs them."
        )
    return "\n".join(["", *lines, "", table(ranking), *notes])


def next_command(asked: Question, ranking: pd.DataFrame, cells: Collection[Cell]) -> str:
    """The command that trains by the fastest strategy of this project; empty if none is ranked."""
    is_ours = ranking["rank"].notna() & ranking["strategy"].map(
        lambda name: not own_runtime(groups.load("strategy", name))
    )
    for row in ranking[is_ours].head(1).to_dict("records"):
        alike = [cell for cell in cells if cell.strategy == row["strategy"]]
        cell = next((cell for cell in alike if cell["kernel"]["name"] == row["kernel"]), alike[0])
        chosen = [f"strategy={cell.strategy}"]
        if cell["kernel"]["name"] != "naive":
            chosen.append(f"kernel={cell['kernel']['name']}")
        if cell.device.backend == "cpu":
            chosen.append("device=cpu")
        if asked.table is not None:
            return shlex.join(
                ["snn", "train", *asked.words, *_as_measured(asked), *chosen, "--save", "model.npz"]
            )
        values = {key: value[0] if isinstance(value, list) else value for key, value in asked.sweep.items()}
        settings = [f"{key}={value if _is_word(value) else written(value)}" for key, value in values.items()]
        return shlex.join(["snn", "run", *settings, *chosen, "weights=weights.npz", "output=run.json"])
    return ""


def _as_measured(asked: Question) -> list[str]:
    """The settings that were measured and not given, if snn train has other defaults."""
    given = {word.partition("=")[0] for word in asked.words}
    is_of_layers, found = "--model" in asked.words or "hidden" not in asked.cell["network"], []
    for key, (_, default) in USUAL.items():
        section, _, name = key.partition(".")
        if key not in given and not (name in MLP_DEFAULTS and is_of_layers):
            found.append(f"{key}={str(asked.cell[section].get(name, default)).lower()}")
    return found


def _is_word(value: object) -> bool:
    return isinstance(value, str) and value.isidentifier()


def _notes(ranking: pd.DataFrame, thresholds: Mapping[str, Any]) -> Iterator[str]:
    """Notes that readers need to understand the table's rows."""
    strategies = _with_options(ranking)
    with_kernel = strategies + (" (" + ranking["kernel"] + ")").fillna("")
    names = strategies.where(~strategies.duplicated(keep=False), with_kernel)
    is_ranked, ended_well = ranking["rank"].notna(), ranking["status"] == OK
    if scores := scores_in_words(ranking):
        yield scores
    for i, plan in ranking.loc[ended_well, "plan"].dropna().items() if "plan" in ranking else ():
        yield f"{names[i]} ran as {plan}."
    if "reason" in ranking:
        yield from _reasons(ranking[~ended_well], names)
    is_apart = ranking["verdict"] == NOT_COMPARABLE
    others = ranking[(ranking["against_fastest"] == NOT_COMPARABLE) & ~is_apart]
    for word, rows in (("Not comparable: ", ranking[is_apart & ranking["mean_s"].notna()]), ("", others)):
        for note, of_note in rows.groupby("note"):
            yield f"{word}{', '.join(names[of_note.index])}: {note}."
    if ranking.loc[is_ranked, "rounds"].nunique() > 1:
        yield "Rows differ in rounds: a ratio uses the rounds that both have, not the two times shown."
    once = names[(ranking["rounds"] == 1) & is_ranked]
    if 0 < len(once) < is_ranked.sum():  # if all, the answer says so
        yield (
            "Measured in one round only, because they are clearly slower or the time ran out: "
            f"{', '.join(once)}. Their intervals leave out the variation between rounds, so a ratio is only "
            f"significant beyond a factor of {thresholds['one_round']:g}."
        )
    states = ranking["machine"].fillna("").str.split(", ").explode()
    states = states[~states.isin(["", "quiet"])].value_counts()
    if len(states):
        counts = ", ".join(f"{state} in {count} row{'s' * (count != 1)}" for state, count in states.items())
        yield f"The machine was not always quiet: {counts} (column machine_note of ranking.csv)."


def _reasons(failed: pd.DataFrame, names: pd.Series) -> Iterator[str]:
    """Reasons for each status but ``ok``, one per line, and a few per status.

    Candidates that diverged all have different reasons, with their losses.
    """
    for status, of_status in failed.groupby("status", sort=False):
        word = str(status).replace("_", " ").capitalize()
        by_reason = list(of_status.groupby("reason", sort=False))
        for reason, rows in by_reason[:_MOST_REASONS]:
            yield f"{word}: {', '.join(names[rows.index])}: {one_line(reason)}."
        if rest := [names[i] for _, rows in by_reason[_MOST_REASONS:] for i in rows.index]:
            yield f"{word}: {', '.join(rest)}: see the column reason of ranking.csv."


def _failures(ranking: pd.DataFrame, cell: Cell) -> str:
    """Failed candidates by status and, if any diverged, advice: a smaller rate, or other weights."""
    failed = ranking[~ranking["status"].isin([OK, "unsupported"])]
    words = "; ".join(f"{status}: {', '.join(of['strategy'])}" for status, of in failed.groupby("status"))
    if not (failed["status"] == DIVERGED).any():
        return f"{words}." if words else ""
    network, rate = cell["network"], cell["training"]["learning_rate"]
    if network["init"] != "uniform01":
        return f"{words}. A training.learning_rate below {rate:g} may help."
    hidden = ",".join(map(str, network.get("hidden", ())))
    other = f"--network mlp --hidden {hidden}" if hidden else "network.init=he_uniform"
    return (
        f"{words}. Its initial weights are all positive (uniform01): others may help, {other}, or a "
        f"training.learning_rate below {rate:g}."
    )


def _baseline(ranking: pd.DataFrame) -> str:
    """The strategy that speedups are over."""
    given = ranking.get("baseline", pd.Series()).dropna()
    return given.iloc[0] if len(given) else REFERENCE


def _with_options(ranking: pd.DataFrame) -> pd.Series:
    """The strategies, each with its options if rows of one strategy and kernel differ in them."""
    if "options" not in ranking:
        return ranking["strategy"]
    return ranking["strategy"] + (" (" + ranking["options"] + ")").fillna("")


def _energy(ranking: pd.DataFrame, rows: Sequence[Mapping[Any, Any]]) -> dict[str, list[str]]:
    """The column of joules per run, if any row has them."""
    if "joules" not in ranking:
        return {}
    return {"energy": [_NOTHING if is_empty(row["joules"]) else _joules(row) for row in rows]}


def _joules(row: Mapping[Any, Any]) -> str:
    """``1.26 J (1.21 to 1.31)``."""
    unit, factor = next(one for one in _ENERGIES if row["joules"] * one[1] >= 1 or one is _ENERGIES[-1])
    mean, *ends = (f"{row[name] * factor:.3g}" for name in ENERGY)
    return f"{mean} {unit}" + ("" if is_empty(row["joules_ci_low"]) else f" ({' to '.join(ends)})")


def table(ranking: pd.DataFrame) -> str:
    """The ranking as lines of text; of a GPU and its host also which of them each row ran on."""
    rows, backends = ranking.to_dict("records"), ranking["backend"].str.upper().replace("CUDA", "GPU")
    shown = pd.DataFrame(
        {
            "rank": [_NOTHING if pd.isna(row["rank"]) else f"{row['rank']:.0f}" for row in rows],
            "strategy": _with_options(ranking),
            **({"on": backends} if backends.nunique() > 1 else {}),
            "kernel": ranking["kernel"].mask(ranking["kernel"].map(is_empty), _OWN_KERNEL),
            "time": [_NOTHING if is_empty(row["mean_s"]) else duration(row["mean_s"], 3) for row in rows],
            **_energy(ranking, rows),
            f"vs {_baseline(ranking)}": [str(Ratio.read(row, "speedup") or _NOTHING) for row in rows],
            "verdict": ranking["verdict"].astype(object).fillna(""),
            "behind": [str(Ratio.read(row, "behind") or _NOTHING) for row in rows],
            "against fastest": ranking["against_fastest"].fillna(""),
            **{key: ranking[key] for key in ("rounds", "status")},
        }
    )
    return shown.to_string(index=False)
