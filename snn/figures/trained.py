"""What the cells of a figure train, in words."""

from collections.abc import Iterable, Mapping
from typing import Any

from snn.models.network import network_label

_MOST = 6  # values that are named


def trained(cells: Iterable[Mapping[str, Any]]) -> str:
    """Data sets, networks, and the batch size and epochs: one sentence each; nothing of no cells."""
    found = list(cells)
    if not found:
        return ""
    networks = [network_label(cell["network"]) for cell in found]
    said = [
        f"Data: {_listed(_data(cell['dataset']) for cell in found)}.",
        f"{'Hidden layers' if all(map(_is_widths, networks)) else 'Network'}: {_listed(networks)}.",
    ]
    for name, key in (("Batch", "batch_size"), ("Epochs", "epochs")):
        said.append(f"{name}: {_listed(map(str, sorted({cell['training'][key] for cell in found})))}.")
    return " ".join(said)


def _data(dataset: Mapping[str, Any]) -> str:
    """``large (25,600 rows)``; of images their number."""
    if not dataset.get("rows"):
        return str(dataset["name"])
    size = f"{dataset['rows']:,} images" if "shape" in dataset else f"{dataset['rows']:,} rows"
    return f"{dataset['name']} ({size})"


def _listed(values: Iterable[str]) -> str:
    known = list(dict.fromkeys(values))
    further = len(known) - _MOST
    return ", ".join(known[:_MOST]) + (f" and {further} more" if further > 0 else "")


def _is_widths(network: str) -> bool:
    return network.replace("-", "").isdigit()
