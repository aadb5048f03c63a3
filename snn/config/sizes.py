"""What a cell needs of the host's memory, before any work."""

from collections.abc import Mapping
from math import prod
from typing import Any

from snn.errors import ConfigError
from snn.hardware.memory import usable_bytes
from snn.models.network import build, network_label

_FLOAT = 4
_MOST_ELEMENTS = 2**31 - 1


def check_memory(cell: Mapping[str, Any], table: tuple[int, int] | None = None) -> None:
    """Raise ConfigError where a cell cannot fit into this machine's memory, or a matrix not into 32 bits.

    ``table`` is the shape (rows, features + 1) of its data set, once that is read. Counted is what every cell
    needs at the least, in float32: the table, X and Y; the parameters; a batch's activations. Whether a
    strategy needs more is found when it allocates, and recorded.
    """
    dataset, network = cell["dataset"], cell["network"]
    name = dataset["name"]
    if table is None:
        rows, shape = dataset.get("rows"), dataset.get("shape") or [dataset.get("features")]
        if rows is None or None in shape:
            return
        table = rows + dataset.get("test_rows", 0), prod(shape) + 1
    rows, columns = table
    built = build(network, tuple(dataset.get("shape") or (columns - 1,)))
    batch = cell["training"]["batch_size"]
    parameters = [prod(shape) for shape in built.shapes]
    activations = [batch * prod(shape) for shape in built.layer_shapes]
    if max(parameters + activations) > _MOST_ELEMENTS:
        raise ConfigError(
            f"network {network_label(network)}, training.batch_size={batch}, dataset={name}: a matrix has "
            f"{max(parameters + activations)} elements, but kernels count in 32 bits, to {_MOST_ELEMENTS}"
        )
    needs = {
        f"dataset={name} of {rows} rows and {columns} columns": 2 * rows * columns * _FLOAT,
        f"network {network_label(network)}": sum(parameters) * _FLOAT,
        f"the activations of a batch of {batch}": sum(activations) * _FLOAT,
    }
    if sum(needs.values()) > usable_bytes():
        listed = ", ".join(f"{size / 1e9:.3g} GB for {what}" for what, size in needs.items())
        raise ConfigError(
            f"this cell needs at least {sum(needs.values()) / 1e9:.3g} GB of memory ({listed}), "
            f"but this machine has {usable_bytes() / 1e9:.3g} GB: make the largest of them smaller"
        )
