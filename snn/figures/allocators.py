"""How allocators look in figures: their names, and the colours of the strategies that use them."""

from snn.figures.style import GREEN, GREY, ORANGE, SKY, Look
from snn.microbenchmarks.allocators import CUPY_POOL, FIRST_FIT, MALLOC, MALLOC_ASYNC

LOOKS = {
    MALLOC: Look(GREY, "o"),
    MALLOC_ASYNC: Look(ORANGE, "^"),
    CUPY_POOL: Look(GREEN, "D"),
    FIRST_FIT: Look(SKY, "s"),
}


def label(allocator: str, backend: str) -> str:
    """The name of an allocator for a reader."""
    names = {
        MALLOC: "cudaMalloc" if backend == "cuda" else "malloc",
        MALLOC_ASYNC: "cudaMallocAsync",
        CUPY_POOL: "CuPy's pool",
        FIRST_FIT: "first-fit pool",
    }
    return names[allocator]
