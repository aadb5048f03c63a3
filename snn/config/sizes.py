"""Bounds on a cell's memory, before any work: the least on the host, and the most on a device."""

from collections.abc import Mapping
from math import inf, prod
from typing import Any

from snn.config.cell import Cell
from snn.errors import ConfigError
from snn.hardware.devices import usable_bytes
from snn.models.layers import Conv2d
from snn.models.network import build, network_label

_FLOAT = 4
_TIMES = 16
_MOST_ELEMENTS = 2**31 - 1


def check_memory(cell: Cell, table: tuple[int, int] | None = None) -> None:
    """Raise ConfigError if a cell cannot fit into this machine's memory, or a matrix exceeds 32-bit indices.

    ``table`` is the shape (rows, features + 1) of the data set, once it has been read. Every cell needs the
    table, X and Y, the parameters, and a batch's activations, in float32.
    """
    table = table or _table(cell["dataset"])
    if table is None:
        return
    parameters, activations = _elements(cell, table)
    check_fits(
        "this cell",
        {
            _named(cell["dataset"], table): 2 * prod(table) * _FLOAT,
            f"network {cell.network}": sum(parameters) * _FLOAT,
            f"the activations of a batch of {cell.batch_size}": sum(activations) * _FLOAT,
        },
    )


def check_dataset(dataset: Mapping[str, Any]) -> None:
    """Raise ConfigError if a data set, of known size, cannot fit into this machine's memory twice."""
    if table := _table(dataset):
        check_fits("this data set", {_named(dataset, table): 2 * prod(table) * _FLOAT})


def _named(dataset: Mapping[str, Any], table: tuple[int, int]) -> str:
    return f"dataset={dataset['name']} of {table[0]} rows and {table[1]} columns"


def check_fits(what: str, needs: Mapping[str, int]) -> None:
    """Raise ConfigError if the bytes in ``needs``, by name, exceed this machine's memory."""
    if sum(needs.values()) > usable_bytes():
        listed = ", ".join(f"{size / 1e9:.3g} GB for {name}" for name, size in needs.items())
        raise ConfigError(
            f"{what} needs at least {sum(needs.values()) / 1e9:.3g} GB of memory ({listed}), "
            f"but this machine has {usable_bytes() / 1e9:.3g} GB: make the largest of them smaller"
        )


def check_matrices(cell: Cell) -> None:
    """Raise ConfigError if a matrix has more elements than kernels can count."""
    if table := _table(cell["dataset"]):
        _elements(cell, table)


def _elements(cell: Cell, table: tuple[int, int]) -> tuple[list[int], list[int]]:
    """The elements of each parameter and of each layer's activations; ConfigError if one has too many."""
    dataset, network, batch = cell["dataset"], cell["network"], cell.batch_size
    built = build(network, tuple(dataset.get("shape") or (table[1] - 1,)))
    parameters = [prod(shape) for shape in built.shapes]
    stored = (
        shape for layer, shape in zip(built.layers, built.layer_shapes[1:], strict=True) if not layer.in_place
    )
    activations = [batch * prod(shape) for shape in (built.inputs, *stored)]
    most = max(parameters + activations)
    if most > _MOST_ELEMENTS:
        raise ConfigError(
            f"network {network_label(network)}, training.batch_size={batch}, dataset={dataset['name']}: a "
            f"matrix has {most} elements, but kernels count in 32 bits, to {_MOST_ELEMENTS}"
        )
    return parameters, activations


def at_most(cell: Cell, table: tuple[int, int] | None = None) -> float:
    """A cheap upper bound on the bytes that a cell holds on a device.

    It is infinite if neither the choice nor ``table`` says rows and columns. Else it is sixteen times the
    table, all networks' parameters, a batch's activations and patches, and tiles, since strategies keep some
    of each a few times over, and training in one launch pads rows and columns.
    """
    table = table or _table(cell["dataset"])
    if table is None:
        return inf
    built = build(cell["network"], tuple(cell["dataset"].get("shape") or (table[1] - 1,)))
    strategy, shapes = cell["strategy"], built.layer_shapes
    tile_rows = strategy.get("tile_rows")
    tiles = strategy["streams"] * tile_rows if isinstance(tile_rows, int) else 0  # rows of all tiles
    of_row = sum(map(prod, shapes)) + tiles
    for layer, inputs, outputs in zip(built.layers, shapes, shapes[1:], strict=False):
        if isinstance(layer, Conv2d):
            of_row += (inputs[0] * layer.kernel**2 + tiles) * prod(outputs[1:])
    listed = [len(value) or 1 for value in strategy.values() if isinstance(value, list)]
    networks = prod(listed) * strategy.get("starts", 1)
    parameters = networks * sum(prod(shape) for shape in built.shapes)
    elements = prod(table) + parameters + cell.batch_size * of_row
    elements += tiles * max(map(prod, shapes))
    return _TIMES * _FLOAT * elements


def _table(dataset: Mapping[str, Any]) -> tuple[int, int] | None:
    """The rows and columns of a data set, target included; None if only its file has them."""
    rows, shape = dataset.get("rows"), dataset.get("shape") or [dataset.get("features")]
    if rows is None or None in shape:
        return None
    return rows + dataset.get("test_rows", 0), prod(shape) + 1
