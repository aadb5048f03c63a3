"""How to train a stack of linear layers in one launch, with biases or several outputs, or of great width."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from snn.backends.launches import (
    HEAD,
    WARPS,
    DeviceCapability,
    LaunchConfiguration,
    Product,
    TrainingShape,
    fitting,
    partial_sums,
    products_of,
    round_up,
)

SOURCE = "kernels/persistent/layers.cu"
THREADS = 256

_ROWS, _COLS = (16, 32, 64), (8, 16, 32, 64)  # of a tile
_READING = 32  # cost of an operand's row or column, over that of an element of the tile: grid.cu's, roughly
_OUTPUT_ROWS = 16  # of a tile of the outputs, which has all columns
_MOST_LAYERS, _MOST_WIDTH, _MOST_OUTPUTS = 8, 2048, 256
_NARROW = 512  # neurons that the kernels of perceptrons take, if not too many rows or features forbid it


@dataclass(frozen=True)
class LinearLayer:
    """A linear layer of this width, whether it has biases, and whether ReLU follows."""

    width: int
    bias: bool
    relu: bool


@dataclass(frozen=True)
class LayeredShape(TrainingShape):
    """Linear layers, with the squared error or with softmax and cross-entropy; nothing is clipped.

    ``mean``: whether the gradient is of the mean of a batch's losses, or of their sum. ``cross_entropy``: the
    loss, or else the squared error. ``features`` and the layers' widths are not padded, batches on the device
    are, one by one. W is all parameters in turn, padded. E is the cross-entropy of each row, or its errors.
    """

    batch: int
    sequential: bool
    mean: bool
    cross_entropy: bool
    features: int
    layers: tuple[LinearLayer, ...]

    op = "train_layers"

    @property
    def outputs(self) -> int:
        return self.layers[-1].width

    @property
    def rows(self) -> int:
        """Rows of a batch, padded."""
        return _padded(self.batch)

    @property
    def padded_batch(self) -> tuple[int, int]:
        return self.rows, self.padded_widths[0]

    @property
    def padded_widths(self) -> tuple[int, ...]:
        """Padded: the outputs to a power of two, for one tile."""
        hidden = (_padded(layer.width) for layer in self.layers[:-1])
        return _padded(self.features), *hidden, max(16, 1 << (self.outputs - 1).bit_length())

    @property
    def errors(self) -> int:
        """Floats of E for each row."""
        return 1 if self.cross_entropy else self.outputs

    def elements(self, rows: int) -> tuple[int, ...]:
        lines, (features, *widths) = math.ceil(rows / self.batch) * self.rows, self.padded_widths
        pairs = zip(pairwise((features, *widths)), self.layers, strict=True)
        parameters = sum((k + layer.bias) * n for (k, n), layer in pairs)
        workspace = HEAD + self.rows * (
            sum(widths[:-1]) + sum(widths)
        )  # every H but the outputs, and every dZ
        return lines * features, lines * widths[-1], parameters, rows * self.errors, workspace

    def configurations(self, device: DeviceCapability) -> Iterator[LaunchConfiguration | str]:
        reason = self._why_not()
        if reason:
            yield f"no stack of layers in one launch: {reason}"
            return
        widths, blocks = self.padded_widths, device.multiprocessors
        products = products_of(widths, self.rows)
        tiles = {name: [_tile_of(one, blocks) for one in of_each] for name, of_each in products.items()}
        tiles["FORWARD"][-1] = _OUTPUT_ROWS, widths[-1]
        counts = [
            _count(product, tile)
            for name, of_each in products.items()
            for product, tile in list(zip(of_each, tiles[name], strict=True))[name == "DGRAD" :]
        ]
        grid, most = min(blocks, max(counts)), math.ceil(max(counts) / blocks)
        sums = partial_sums(pair for name in tiles for pair in zip(products[name], tiles[name], strict=True))
        defines = {
            "WIDTHS": _listed(widths),
            "BIASES": _listed(int(layer.bias) for layer in self.layers),
            "RECTIFIED": _listed(int(layer.relu) for layer in self.layers),
            "OUTPUTS": self.outputs,
            "BATCH": self.batch,
            "ROWS": self.rows,
            "CROSS_ENTROPY": int(self.cross_entropy),
            "MEAN": int(self.mean),
            "SEQUENTIAL": int(self.sequential),
            "GRID": grid,
        }
        defines |= {name: _listed(f"{{{m},{n}}}" for m, n in of_each) for name, of_each in tiles.items()}
        each = "a tile of every product in each" if most == 1 else f"up to {most} tiles of a product in each"
        launch = LaunchConfiguration(
            SOURCE,
            grid,
            THREADS,
            tuple((name, str(value)) for name, value in defines.items()),
            4 * (sums + 64 * WARPS + _OUTPUT_ROWS * (widths[-1] + 1)),
            f"{grid} blocks together, {each}",
        )
        yield fitting(launch, device)

    def _why_not(self) -> str:
        widest = max(self.padded_widths[:-1])
        if len(self.layers) > _MOST_LAYERS:
            return f"{len(self.layers)} linear layers, {_MOST_LAYERS} at most"
        if widest > _MOST_WIDTH or self.batch > _MOST_WIDTH:
            return (
                f"batches of {self.batch} rows, widths of up to {widest}: both may be at most {_MOST_WIDTH}"
            )
        if self.outputs > _MOST_OUTPUTS:
            return f"{self.outputs} outputs, {_MOST_OUTPUTS} at most: a block computes whole rows of them"
        if self._is_wide_and_shallow():
            return (
                f"one hidden layer of {self.layers[0].width} neurons on {self.features} features, which "
                "`graph` trains faster in most cases"
            )
        return ""

    def _is_wide_and_shallow(self) -> bool:
        """Whether it is a perceptron with one hidden layer and few features: H w has most of the work.

        This kernel has few blocks for that: of six such shapes that are too wide for the other kernels, an
        NVIDIA H200 trained five at 0.80 to 0.96 of the speed of ``graph``, and one at 1.13.
        """
        first, *others = self.layers
        is_perceptron = len(others) == 1 and not first.bias and self.outputs == 1 and not self.cross_entropy
        return is_perceptron and first.width > max(self.features, _NARROW)


def _padded(n: int) -> int:
    """A multiple of 16 with large tiles where n is large."""
    return round_up(n, 16 if n <= 64 else 32 if n <= 256 else 64)


def _tile_of(product: Product, blocks: int) -> tuple[int, int]:
    """Rows and columns of the tiles that give the busiest block the least to read and multiply."""
    dividing = [(rows, cols) for rows in _ROWS for cols in _COLS if product.m % rows == product.n % cols == 0]

    def cost(tile: tuple[int, int]) -> int:
        rows, cols = tile
        return math.ceil(_count(product, tile) / blocks) * (rows * cols + _READING * (rows + cols))

    return min(dividing, key=cost)


def _count(product: Product, tile: tuple[int, int]) -> int:
    return product.m // tile[0] * (product.n // tile[1])


def _listed(values: Iterable[object]) -> str:
    return ",".join(map(str, values))
