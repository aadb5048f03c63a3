"""How to train a stack of linear layers in one launch, with biases or several outputs, or of great width."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from snn.backends.persistent_plans import HEAD, DeviceCapability, LaunchPlan, if_it_fits

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
class LayeredShape:
    """Linear layers, as a kernel is compiled for them.

    ``mean``: whether the gradient is of the mean of a batch's losses, or of their sum. ``cross_entropy``: the
    loss, or else the squared error. ``features`` and the layers' widths are not padded.
    """

    batch: int
    sequential: bool
    mean: bool
    cross_entropy: bool
    features: int
    layers: tuple[LinearLayer, ...]

    members, clipped = 1, False
    op = "train_layers"

    @classmethod
    def of(cls, numbers: Sequence[float]) -> "LayeredShape":
        """The shape in the numbers of the op ``train_layers``."""
        _, batch, _, _, _, sequential, mean, cross_entropy, features, *rest = map(int, numbers)
        layers = zip(rest[::3], map(bool, rest[1::3]), map(bool, rest[2::3]), strict=True)
        return cls(
            *(batch, bool(sequential), bool(mean), bool(cross_entropy), features),
            tuple(LinearLayer(*layer) for layer in layers),
        )

    def numbers(
        self, rows: int, first: int, steps: int, rate: float, max_norm: float = 0.0
    ) -> tuple[float, ...]:
        """The numbers of the op, for so many rows of data."""
        return rows, self.batch, first, steps, rate, *self.sizes

    @property
    def sizes(self) -> tuple[int, ...]:
        """The numbers of the op behind the rate."""
        layers = (n for one in self.layers for n in (one.width, int(one.bias), int(one.relu)))
        return int(self.sequential), int(self.mean), int(self.cross_entropy), self.features, *layers

    @property
    def outputs(self) -> int:
        return self.layers[-1].width

    @property
    def rows(self) -> int:
        """Rows of a batch, padded."""
        return _padded(self.batch)

    @property
    def widths(self) -> tuple[int, ...]:
        """Features and the layers' widths, padded: the outputs to a power of two, for one tile."""
        hidden = (_padded(layer.width) for layer in self.layers[:-1])
        return _padded(self.features), *hidden, max(16, 1 << (self.outputs - 1).bit_length())

    @property
    def errors(self) -> int:
        """Floats of E for each row."""
        return 1 if self.cross_entropy else self.outputs

    @property
    def parameters(self) -> int:
        """Floats of all parameters, padded."""
        pairs = zip(pairwise(self.widths), self.layers, strict=True)
        return sum((k + layer.bias) * n for (k, n), layer in pairs)

    @property
    def workspace(self) -> int:
        """Floats of the workspace: its head, every H but the outputs, and every dZ."""
        _, *widths = self.widths
        return HEAD + self.rows * (sum(widths[:-1]) + sum(widths))

    def plans(self, limits: DeviceCapability) -> Iterator[LaunchPlan | str]:
        """The plan, or the reason why there is none."""
        reason = self._why_not()
        if reason:
            yield f"no stack of layers in one launch: {reason}"
            return
        pairs, rows, blocks = list(pairwise(self.widths)), self.rows, limits.multiprocessors
        products = {
            "FORWARD": [(rows, n) for _, n in pairs[:-1]],
            "DESCEND": pairs,
            "PROPAGATE": [(rows, k) for k, _ in pairs],
        }
        tiles = {name: [_tile_of(m, n, blocks) for m, n in sizes] for name, sizes in products.items()}
        tiles["FORWARD"].append((_OUTPUT_ROWS, self.widths[-1]))
        products["FORWARD"].append((rows, self.widths[-1]))
        counts = [
            _count(size, tile)
            for name, sizes in products.items()
            for size, tile in list(zip(sizes, tiles[name], strict=True))[name == "PROPAGATE" :]
        ]
        grid, most = min(blocks, max(counts)), math.ceil(max(counts) / blocks)
        defines = {
            "WIDTHS": _listed(self.widths),
            "BIASES": _listed(int(layer.bias) for layer in self.layers),
            "RECTIFIED": _listed(int(layer.relu) for layer in self.layers),
            "OUTPUTS": self.outputs,
            "BATCH": self.batch,
            "ROWS": rows,
            "CROSS_ENTROPY": int(self.cross_entropy),
            "MEAN": int(self.mean),
            "SEQUENTIAL": int(self.sequential),
            "GRID": grid,
        }
        defines |= {name: _listed(f"{{{m},{n}}}" for m, n in of_each) for name, of_each in tiles.items()}
        each = "a tile of every product in each" if most == 1 else f"up to {most} tiles of a product in each"
        plan = LaunchPlan(
            SOURCE,
            grid,
            THREADS,
            0,
            1,
            tuple((name, str(value)) for name, value in defines.items()),
            f"{grid} blocks together, {each}",
        )
        yield if_it_fits(plan, limits)

    def _why_not(self) -> str:
        if len(self.layers) > _MOST_LAYERS:
            return f"{len(self.layers)} linear layers, {_MOST_LAYERS} at most"
        if max(self.widths[:-1]) > _MOST_WIDTH or self.batch > _MOST_WIDTH:
            return (
                f"batches of {self.batch} rows, widths of up to {max(self.widths[:-1])}: both may be at most "
                f"{_MOST_WIDTH}"
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
    unit = 16 if n <= 64 else 32 if n <= 256 else 64
    return -(-n // unit) * unit


def _tile_of(m: int, n: int, blocks: int) -> tuple[int, int]:
    """Rows and columns of the tiles of m x n that give the busiest block the least to read and multiply."""
    fitting = [(rows, cols) for rows in _ROWS for cols in _COLS if m % rows == n % cols == 0]

    def cost(tile: tuple[int, int]) -> int:
        rows, cols = tile
        return math.ceil(_count((m, n), tile) / blocks) * (rows * cols + _READING * (rows + cols))

    return min(fitting, key=cost)


def _count(size: tuple[int, int], tile: tuple[int, int]) -> int:
    return size[0] // tile[0] * (size[1] // tile[1])


def _listed(values: Iterable[object]) -> str:
    return ",".join(map(str, values))
