"""What cells train, in words."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from snn.models.network import network_label

_MOST = 6  # values that are named


def trained(cells: Iterable[Mapping[str, Any]]) -> str:
    """Data sets, networks, and the batch size and epochs: one sentence each; nothing of no cells.

    The precision is named where it is the same of all and not fp32.
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
        said.append(f"{name}: {_listed(map(str, sorted({cell['training'][key] for cell in found})))}.")
    precisions = {cell.get("precision", {}).get("name", "fp32") for cell in found}
    said += [f"Precision: {one}." for one in precisions - {"fp32"} if len(precisions) == 1]
    return " ".join(said)


def of_records(records: Iterable[Mapping[str, Any]]) -> str:
    """The same of the cells of records, with what these say of the data."""
    return trained(
        one["cell"] | {"dataset": {**one["cell"]["dataset"], **one.get("data", {})}} for one in records
    )


def data(dataset: Mapping[str, Any]) -> str:
    """``large (25,600 rows)``; of images their number, and of a user's table its file and target.

    Of what a record says of the data, the features and the test rows are named as well.
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
    """Whether a network is named by the widths of its hidden layers, as ``256-256``."""
    return network.replace("-", "").isdigit()
