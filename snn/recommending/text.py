"""What ``snn recommend`` prints: the training, the answer, and the ranked table."""

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from snn.analysis.grouping import is_empty
from snn.analysis.verdicts import DIVERGED, FASTEST, NOT_COMPARABLE, OK, SHORTEST, SLOWER
from snn.config.groups import CONFIG, read_yaml
from snn.datasets import Table, counts
from snn.errors import one_line
from snn.figures.trained import data
from snn.hardware.devices import Device
from snn.models.network import network_label
from snn.recommending.length import Length
from snn.tables.ranking_text import on_held_out_rows, preliminary

_MOST_REASONS = 3
_NOTHING = "-"
_OWN_KERNEL = "its own"


def announced(cell: Mapping[str, Any], device: Device, candidates: int, table: Table | None) -> str:
    """One line: what is trained, of a user's ``table`` its target and sizes, where, and the candidates."""
    training, dataset = cell["training"], cell["dataset"]
    of = dataset.get("path") or dataset["name"]
    if table is not None and "target" in dataset:
        rows, tested = counts(len(table.values), dataset)
        sizes = {"rows": rows, "test_rows": tested, "features": table.values.shape[1] - 1}
        of = data({**dataset, **table.facts, **sizes})
    where = "the CPU, " if device.backend == "cpu" else "the GPU, "
    return (
        f"{of}, network {network_label(cell['network'])}, batch size {training['batch_size']}, "
        f"{training['epochs']} epochs, learning rate {training['learning_rate']:g}: {candidates} candidates "
        f"on {where}{device.name}."
    )


def answered(
    ranking: pd.DataFrame, answer: pd.DataFrame, trained: Length | None, cell: Mapping[str, Any]
) -> str:
    """The answer with its reason, then a line per candidate; times are of what was ``trained`` of the cell.

    ``answer`` has no row for trainings of which no recommendation is published, as in reduced precision: of
    these, the answer is that of the ranking.
    """
    lines = [""]
    if not ranking["rank"].notna().any():
        compared = "can be compared with the reference" if (ranking["status"] == "ok").any() else "ended well"
        lines.append(f"No recommendation: no training {compared}. {_failures(ranking, cell)}".rstrip())
    elif len(answer):
        row = answer.iloc[0]
        lines += [row["answer"], *([row["reason"]] if isinstance(row["reason"], str) else [])]
    else:
        lines.append(_headline(ranking))
    lines += filter(None, [preliminary(ranking, read_yaml(CONFIG / "verdicts.yaml"))])
    length = trained or Length(cell["training"]["epochs"])
    part = length.part_of(cell)
    what = (
        f"{part}: what is done once per training weighs more than in a whole one" if part else length.words()
    )
    notes = [f"Times are of trainings of {what}.", *_notes(ranking)]
    return "\n".join([*lines, "", _table(ranking), *notes])


def _headline(ranking: pd.DataFrame) -> str:
    """The first row of the ranking in words, with those that are not slower."""
    best = ranking[ranking["rank"] == 1].iloc[0]
    ties = ranking.loc[
        ~ranking["against_fastest"].isin([FASTEST, SHORTEST, SLOWER]) & ranking["rank"].notna()
    ]
    has = "is the fastest" if best["against_fastest"] == FASTEST else "has the shortest mean time"
    over = (
        ""
        if best["strategy"] == "reference"
        else f", {_ratio(best, 'speedup')} times as fast as the reference"
    )
    others = f"; not significantly slower: {', '.join(_names(ranking)[ties.index])}" if len(ties) else ""
    return f"{_names(ranking)[best.name]} {has}{over if pd.notna(best['speedup']) else ''}{others}."


def _notes(ranking: pd.DataFrame) -> list[str]:
    """What a reader of the table must know of its rows."""
    ended_well = ranking[ranking["status"] == "ok"]
    notes = [*filter(None, [on_held_out_rows(ranking)])]
    named = _names(ranking)
    notes += [f"{named[at]} ran as {plan}." for at, plan in _plans(ended_well).items()]
    if "reason" in ranking:
        notes += _reasons(ranking, named)
    apart = ranking[(ranking["verdict"] == NOT_COMPARABLE) & ranking["mean_s"].notna()]
    for note, rows in apart.groupby("note"):
        notes.append(f"{NOT_COMPARABLE.capitalize()}: {', '.join(named[rows.index])}: {note}.")
    others = (ranking["against_fastest"] == NOT_COMPARABLE) & (ranking["verdict"] != NOT_COMPARABLE)
    for note, rows in ranking[others].groupby("note"):
        notes.append(f"{', '.join(named[rows.index])}: {note}.")
    if ranking.loc[ranking["rank"].notna(), "rounds"].nunique() > 1:
        notes.append("Rounds are unequal: a ratio is of those that both have, not of the two times shown.")
    once = named[(ranking["rounds"] == 1) & ranking["rank"].notna()]
    if 0 < len(once) < ranking["rank"].notna().sum():  # of all, it is said above
        notes.append(
            "Measured in one round only, because they are clearly slower or the time ran out: "
            f"{', '.join(once)}. Their intervals leave out the variation between rounds, so a ratio is only "
            f"significant beyond a factor of {read_yaml(CONFIG / 'verdicts.yaml')['one_round']:g}."
        )
    states = ranking["machine"].fillna("").str.split(", ").explode()
    states = states[~states.isin(["", "quiet"])].value_counts()
    if len(states):
        counts = ", ".join(f"{state} in {count} row{'s' * (count != 1)}" for state, count in states.items())
        notes.append(f"The machine was not always quiet: {counts} (column machine_note of ranking.csv).")
    return notes


def _reasons(ranking: pd.DataFrame, named: pd.Series) -> Iterator[str]:
    """Why candidates have another status than ``ok``, in a line for each reason, and in a few per status:
    each that diverged has its own loss."""
    for status, failed in ranking[ranking["status"] != OK].groupby("status", sort=False):
        word = str(status).replace("_", " ").capitalize()
        by_reason = list(failed.groupby("reason", sort=False))
        for reason, rows in by_reason[:_MOST_REASONS]:
            yield f"{word}: {', '.join(named[rows.index])}: {one_line(reason)}."
        if rest := [named[i] for _, rows in by_reason[_MOST_REASONS:] for i in rows.index]:
            yield f"{word}: {', '.join(rest)}: see the column reason of ranking.csv."


def _failures(ranking: pd.DataFrame, cell: Mapping[str, Any]) -> str:
    failed = ranking[~ranking["status"].isin(["ok", "unsupported"])]
    words = "; ".join(f"{status}: {', '.join(of['strategy'])}" for status, of in failed.groupby("status"))
    hint = f" {_help(cell)}" if (failed["status"] == DIVERGED).any() else ""
    return f"{words}.{hint}" if words else ""


def _help(cell: Mapping[str, Any]) -> str:
    """What may help a training that diverged: a smaller rate, or other initial weights than the paper's."""
    network, rate = cell["network"], cell["training"]["learning_rate"]
    if network["init"] != "uniform01":
        return f"A --learning-rate below {rate:g} may help."
    hidden = ",".join(map(str, network.get("hidden", ())))
    other = f"--network mlp --hidden {hidden}" if hidden else "network.init=he_uniform"
    return (
        f"Its initial weights are all positive (uniform01): others may help, {other}, or a --learning-rate "
        f"below {rate:g}."
    )


def _names(ranking: pd.DataFrame) -> pd.Series:
    """The strategies, with the kernel where there are several of a name: ``graph (tiled_fused)``."""
    with_kernel = ranking["strategy"] + (" (" + ranking["kernel"] + ")").fillna("")
    return ranking["strategy"].where(~ranking["strategy"].duplicated(keep=False), with_kernel)


def _plans(ranking: pd.DataFrame) -> pd.Series:
    """How strategies trained that choose it by the network, such as with kernels of their own."""
    return ranking["plan"].dropna() if "plan" in ranking else pd.Series(dtype=str)


def _table(ranking: pd.DataFrame) -> str:
    rows = pd.DataFrame(
        {
            "rank": [_NOTHING if pd.isna(rank) else f"{rank:.0f}" for rank in ranking["rank"]],
            "strategy": ranking["strategy"],
            "kernel": ranking["kernel"].mask(ranking["kernel"].map(is_empty), _OWN_KERNEL),
            "time": [_seconds(value) for value in ranking["mean_s"]],
            "vs reference": [_ratio(row, "speedup") for _, row in ranking.iterrows()],
            "verdict": ranking["verdict"].astype(object).fillna(""),
            "behind": [_ratio(row, "behind") for _, row in ranking.iterrows()],
            "against fastest": ranking["against_fastest"].fillna(""),
            "rounds": ranking["rounds"],
            "status": ranking["status"],
        }
    )
    return rows.to_string(index=False)


def _ratio(row: pd.Series, name: str) -> str:
    """``2.31 (2.11 to 2.53)``."""
    if pd.isna(row[name]):
        return _NOTHING
    low, high = row[f"{name}_ci_low"], row[f"{name}_ci_high"]
    interval = "" if pd.isna(low) or low == high else f" ({low:.3g} to {high:.3g})"
    return f"{row[name]:.3g}{interval}"


def _seconds(value: float) -> str:
    if pd.isna(value):
        return _NOTHING
    for factor, unit in ((1, "s"), (1e3, "ms")):
        if value * factor >= 1:
            return f"{value * factor:.3g} {unit}"
    return f"{value * 1e6:.3g} µs"
