"""How the tests build each source in kernels/: in which launch shapes and with which further defines."""

from dataclasses import dataclass, field
from pathlib import Path

SOURCES = sorted((Path(__file__).resolve().parent.parent / "kernels").glob("*.cu"))

LIMITS = sorted((SOURCES[0].parent / "limits").glob("*.cu"))
"""What measures a device: compiled like the others, and no products to run on a CPU."""

# (block, work) of a kernel that computes one element a thread, and of one that computes several.
ONE_EACH = [((16, 16), (1, 1)), ((32, 8), (1, 1)), ((1, 1), (1, 1)), ((7, 3), (1, 1))]
SEVERAL = [((16, 16), work) for work in [(4, 4), (2, 4), (2, 2), (1, 2), (1, 1)]]
SHAPES = {
    "elementwise": {"fp32": [((16, 16), (1, 1))]},  # its blocks are its own
    "tiled_fused": {"fp32": [*SEVERAL, ((32, 8), (1, 1)), ((7, 3), (1, 1)), ((5, 4), (2, 3))]},
    "tensor_core": {"tf32": SEVERAL[0::2], "bf16": [*SEVERAL[1::2], ((5, 32), (1, 1))]},
}


@dataclass(frozen=True)
class Build:
    source: Path
    block: tuple[int, int]
    work: tuple[int, int]
    precision: str = "fp32"
    architecture: int | None = None  # that the emulator pretends to be, as 750
    defines: dict = field(init=False, hash=False, compare=False)

    def __post_init__(self):
        sizes = dict(
            zip(("BLOCK_X", "BLOCK_Y", "WORK_ROWS", "WORK_COLS"), self.block + self.work, strict=True)
        )
        rounding = {self.precision.upper(): 1} if self.precision != "fp32" else {}
        generation = {"__CUDA_ARCH__": self.architecture} if self.architecture else {}
        object.__setattr__(self, "defines", sizes | rounding | generation)

    def __str__(self) -> str:
        block, work = ("x".join(map(str, pair)) for pair in (self.block, self.work))
        generation = f"sm_{self.architecture // 10}" if self.architecture else None
        precision = self.precision if self.precision != "fp32" else None
        return "-".join(filter(None, [self.source.stem, precision, block, work, generation]))

    def grid(self, m: int, n: int) -> tuple[int, int]:
        """Blocks for a C of m x n."""
        return -(-n // (self.block[0] * self.work[1])), -(-m // (self.block[1] * self.work[0]))


def builds(source: Path) -> list[Build]:
    return [
        Build(source, block, work, precision)
        for precision, shapes in SHAPES.get(source.stem, {"fp32": ONE_EACH}).items()
        for block, work in shapes
    ]


def builds_of_old(source: Path) -> list[Build]:
    """For GPUs without what a source uses on newer ones: what it does there instead."""
    if source.stem != "tensor_core":
        return []
    return [Build(source, (16, 16), (1, 2), precision, 750) for precision in SHAPES[source.stem]]
