"""CUDA source files and the local headers that they include."""

import re
from pathlib import Path

SPLIT_K = "kernels/split_k.cu"
"""Products of few elements and long sums, for the fused kernels."""

_ENTRY = re.compile(r'^(?:extern "C" __global__|KERNEL)[^;{]*\{', re.MULTILINE)
_OVERLAP = (
    ' asm volatile("griddepcontrol.wait;" ::: "memory"); asm volatile("griddepcontrol.launch_dependents;");'
)
_INCLUDE = re.compile(r'^#include "([^"]+)"\n', re.MULTILINE)


def convolution(kernel: str | None, root: Path) -> str | None:
    """The file of a kernel's direct convolutions, by its source; None if it does not exist."""
    source = f"kernels/convolution/{Path(kernel).name}" if kernel else ""
    return source if source and (root / source).is_file() else None


def no_capture(kernel: str | None) -> str:
    """The reason why a CUDA graph cannot capture a kernel, which is that it has no source; else empty."""
    return "" if kernel else "CuPy's cuBLAS does not run while a stream is being captured"


def no_storage(kernel: str | None, root: Path) -> str:
    """The reason why a kernel has no products of 16-bit operands; empty if its source can have them."""
    if kernel and "STORED_BF16" in text(root / kernel):
        return ""
    what = f"{kernel} does not include stored.cuh" if kernel else "cuBLAS multiplies operands of one type"
    return (
        f"training.storage: {what}, and weights are float32: choose training.storage=fp32 or another kernel"
    )


def knows_tall_grids(source: str) -> bool:
    """Whether an expanded source can count rows of blocks in x (kernels/tile_place.cuh)."""
    return "defined(TALL)\n" in source


def knows_training(source: str) -> bool:
    """Whether an expanded source has the products of biases, activation functions and Adam."""
    return "#ifndef TRAINING\n" in source


def overlapping(source: str) -> str:
    """An expanded source whose kernels may begin while the one before ends (programmatic dependent launch).

    Each waits for the end of the one before, whose results it reads, then lets the next one begin. Without
    ``__restrict__`` no read moves in front of the wait, or goes through a cache that is not coherent.
    """
    return "#define __restrict__\n" + _ENTRY.sub(lambda entry: entry[0] + _OVERLAP, source)


def text(path: Path) -> str:
    """The source with its local includes expanded, as the compiler sees it."""
    return _INCLUDE.sub(lambda include: text(path.parent / include[1]), path.read_text(encoding="utf-8"))


def files(path: Path) -> list[Path]:
    """The source and the headers that it includes, directly or indirectly."""
    included = _INCLUDE.findall(path.read_text(encoding="utf-8"))
    return [path, *(file for name in included for file in files((path.parent / name).resolve()))]
