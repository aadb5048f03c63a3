"""How allocators look in figures: their names, and the colours of the strategies that use them."""

from snn.microbenchmarks.allocators import CUPY_POOL, FIRST_FIT, MALLOC, MALLOC_ASYNC

COLOURS = {MALLOC: "#6b7280", MALLOC_ASYNC: "#84cc16", CUPY_POOL: "#059669", FIRST_FIT: "#d97706"}


def label(allocator: str, backend: str) -> str:
    """The name of an allocator for a reader."""
    names = {
        MALLOC: "cudaMalloc" if backend == "cuda" else "malloc",
        MALLOC_ASYNC: "cudaMallocAsync",
        CUPY_POOL: "CuPy's pool",
        FIRST_FIT: "first-fit pool",
    }
    return names[allocator]
