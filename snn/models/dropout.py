"""Which elements a dropout layer drops, from a seed, the number of the step and the element's place.

So the host, a kernel (``kernels/layers/dropout.cu``) and a peer's program drop the same elements without
storing them, and the backward pass finds them again. Element e of a batch's (rows, width) is dropped if word
e % 4 of Philox4x32-10 with the counter (e // 4, step, layer, 0) and the key (seed, 1) is less than 2^32 p;
layers and steps are counted from 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from snn.models.row_order import philox

if TYPE_CHECKING:
    from snn.models.step import Step

STEPS = "dropout steps"
"""The buffer with the number of the step, twice, as whole numbers, so that a graph can be replayed.

A launch reads the first one and copies it to the second. The last launch of a step reads the second one, and
writes the next number to the first.
"""

STATE = {STEPS: 2}

_TURN = 4
"""Place of ``turn`` among an operation's numbers: 1 for the last launch of a step, else 0."""


def dropped(first: int, n: int, layer: int, seed: int, step: Any, p: float, xp: Any = np) -> Any:
    """Whether each of n elements from the first on is dropped, by NumPy or ``jax.numpy``."""
    groups = xp.arange(first // 4, -(-(first + n) // 4), dtype=xp.uint32)
    counter = groups, xp.full_like(groups, step), xp.full_like(groups, layer), xp.zeros_like(groups)
    words = xp.stack(philox(counter, (seed, 1), xp), axis=1).reshape(-1)
    return words[first % 4 : first % 4 + n] < xp.uint32(float(np.float32(p)) * 2**32)


def count(step: Step) -> None:
    """Let the last launch that reads a step's number count on; if it is the only one, add one that does."""
    readers = [at for at, launch in enumerate(step.launches) if STEPS in launch.operands]
    if len(readers) == 1:
        step.label = "dropout"
        step.launch("count_dropout", (STEPS,), ())
    elif readers:
        last = step.launches[readers[-1]]
        numbers = (*last.numbers[:_TURN], 1, *last.numbers[_TURN + 1 :])
        step.launches[readers[-1]] = last._replace(numbers=numbers)
