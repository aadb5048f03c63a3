"""How the tests build each source in kernels/: in which launch shapes and with which further defines."""

from dataclasses import dataclass, field
from pathlib import Path

SOURCES = sorted((Path(__file__).resolve().parent.parent / "kernels").glob("*.cu"))

# (block, work) of a kernel that computes one element a thread, and of one that computes several.
ONE_EACH = [((16, 16), (1, 1)), ((32, 8), (1, 1)), ((1, 1), (1, 1)), ((7, 3), (1, 1))]
SEVERAL = [((16, 16), work) for work in [(4, 4), (2, 4), (2, 2), (1, 2), (1, 1)]]
SHAPES = {
    "elementwise": [((16, 16), (1, 1))],  # its blocks are its own
    "tiled_fused": [*SEVERAL, ((32, 8), (1, 1)), ((7, 3), (1, 1)), ((5, 4), (2, 3))],
    "tensor_core": SEVERAL,
}
PRECISIONS = {"tensor_core": ["TF32", "BF16"]}


@dataclass(frozen=True)
class Build:
    source: Path
    block: tuple[int, int]
    work: tuple[int, int]
    precision: str | None = None
    defines: dict = field(init=False, hash=False, compare=False)

    def __post_init__(self):
        sizes = dict(
            zip(("BLOCK_X", "BLOCK_Y", "WORK_ROWS", "WORK_COLS"), self.block + self.work, strict=True)
        )
        object.__setattr__(self, "defines", sizes | ({self.precision: 1} if self.precision else {}))

    def __str__(self) -> str:
        block, work = ("x".join(map(str, pair)) for pair in (self.block, self.work))
        return "-".join(filter(None, [self.source.stem, self.precision, block, work]))

    def grid(self, m: int, n: int) -> tuple[int, int]:
        """Blocks for a C of m x n."""
        return -(-n // (self.block[0] * self.work[1])), -(-m // (self.block[1] * self.work[0]))


def builds(source: Path) -> list[Build]:
    return [
        Build(source, block, work, precision)
        for precision in PRECISIONS.get(source.stem, [None])
        for block, work in SHAPES.get(source.stem, ONE_EACH)
    ]
