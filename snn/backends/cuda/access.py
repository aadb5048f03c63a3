"""Patterns of memory access on a CUDA device, each timed by its kernel of ``kernels/access``."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import cupy
import numpy as np
from cupy.cuda import runtime

from snn.backends.access import Access
from snn.backends.cuda.cooperative import CooperativeLaunch
from snn.backends.cuda.timing import load, memory_of, seconds_per_round, warm_up
from snn.errors import out_of_memory

KERNELS = (
    "kernels/access/strided.cu",
    "kernels/access/structures.cu",
    "kernels/access/offset.cu",
    "kernels/access/vectors.cu",
)
"""The launched kernels, on which the times depend."""

SECTOR = 32
"""Bytes that move at a time."""

TOGETHER = 32
"""Threads of a warp."""

_THREADS = 256
_MOST_THREADS = 2048  # threads that an SM of any device holds


@contextmanager
def timed(
    nbytes: int, root: Path, least_seconds: float = 3e-3, warm_up_seconds: float = 0.1
) -> Iterator[Callable[[Access, int], list[float]]]:
    """A function that returns ``samples`` times, in seconds per pass, of an access over ``nbytes``.

    Takes twice the bytes of device memory during the ``with`` block, and launches as many blocks as the
    device holds at once. A launch lasts ``least_seconds`` or longer, so that its fixed cost does not
    matter. Raises OutOfMemory.
    """
    runtime.free(0)  # creates the context
    free, total = runtime.memGetInfo()
    if 2 * nbytes > free:
        raise out_of_memory("cudaMalloc", 2 * nbytes, free, total)
    multiprocessors = cupy.cuda.Device().attributes["MultiProcessorCount"]
    sums = 4 * multiprocessors * _MOST_THREADS
    modules = {source: load(root / source) for source in KERNELS}
    with memory_of(nbytes) as source, memory_of(max(nbytes, sums)) as target:

        def seconds(access: Access, samples: int) -> list[float]:
            function = modules[access.source].get_function(access.kernel)
            blocks = multiprocessors * CooperativeLaunch(function, 1, _THREADS).held_blocks()
            count, value = np.uint32(access.count(nbytes // 4)), np.uint32(access.value)

            def launch(rounds: int) -> None:
                arguments = (np.uint64(source), np.uint64(target), count, value, np.int32(rounds))
                function((blocks,), (_THREADS,), arguments)

            return seconds_per_round(launch, least_seconds, samples)

        copy = modules[KERNELS[0]].get_function("copy_strided")
        all_of_it = (np.uint64(source), np.uint64(target), np.uint32(nbytes // 4), np.uint32(1), np.int32(1))
        warm_up(lambda rounds: copy((multiprocessors,), (_THREADS,), all_of_it), warm_up_seconds)
        yield seconds
