"""Describes the training of cells in words."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from snn.models.network import network_label

_MOST = 6  # values in a list


def trained(cells: Iterable[Mapping[str, Any]]) -> str:
    """Data sets, networks, batch size and epochs, one sentence each; empty without cells.

    A precision other than fp32 is added if all cells share it.
    """
    found = list(cells)
    if not found:
        return ""
    networks = [network_label(cell["network"]) for cell in found]
    said = [
        f"Data: {_listed(data(cell['dataset']) for cell in found)}.",
        f"{'Hidden layers' if all(map(is_widths, networks)) else 'Network'}: {_listed(networks)}.",
    ]
    for name, key in (("Batch", "batch_size"), ("Epochs", "epochs")):
        said.append(f"{name}: {_listed(_by_dataset(found, key))}.")
    precisions = {cell.get("precision", {}).get("name", "fp32") for cell in found}
    said += [f"Precision: {one}." for one in precisions - {"fp32"} if len(precisions) == 1]
    return " ".join(said)


def _by_dataset(cells: Sequence[Mapping[str, Any]], key: str) -> list[str]:
    """The values of a key of ``training``, each with its data sets, if it follows from these."""
    datasets: dict[Any, dict[str, None]] = {}
    for cell in cells:
        datasets.setdefault(cell["training"][key], {})[cell["dataset"]["name"]] = None
    follows = len(datasets) > 1 and sum(map(len, datasets.values())) == len({*chain(*datasets.values())})
    return [
        f"{value} ({', '.join(datasets[value])})" if follows else str(value) for value in sorted(datasets)
    ]


def of_records(records: Iterable[Mapping[str, Any]]) -> str:
    """``trained`` for the cells of records, with the records' facts about the data."""
    return trained(
        one["cell"] | {"dataset": {**one["cell"]["dataset"], **one.get("data", {})}} for one in records
    )


def data(dataset: Mapping[str, Any]) -> str:
    """A data set in words: ``large (25,600 rows)``, the number of images, or a user's file and target.

    With a record's facts about the data, it includes features and test rows.
    """
    of_user = "path" in dataset and "target" in dataset
    name = f"{Path(dataset['path']).name}, target {dataset['target']}" if of_user else dataset["name"]
    if not dataset.get("rows"):
        return str(name)
    sizes = [f"{dataset['rows']:,} {'images' if 'shape' in dataset else 'rows'}"]
    if "features" in dataset:
        sizes += [] if "shape" in dataset else [f"{dataset['features']:,} features"]
        sizes += [f"{dataset['test_rows']:,} rows held out"] if dataset.get("test_rows") else []
        sizes += [f"{dataset['left_out_rows']:,} rows left out"] if dataset.get("left_out_rows") else []
        sizes += (
            [f"left out: {_listed(dataset['left_out_columns'])}"] if dataset.get("left_out_columns") else []
        )
    return f"{name} ({', '.join(sizes)})"


def _listed(values: Iterable[str]) -> str:
    known = list(dict.fromkeys(values))
    further = len(known) - _MOST
    return ", ".join(known[:_MOST]) + (f" and {further} more" if further > 0 else "")


def is_widths(network: str) -> bool:
    """Whether a network's name consists of the widths of its hidden layers, such as ``256-256``."""
    return network.replace("-", "").isdigit()
