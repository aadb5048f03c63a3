"""The C library's ``rand()``, from which the paper's programs draw their initial weights."""

import numpy as np

RAND_MAX = 2147483647
_DEGREE = 31
_SEPARATION = 3
_DISCARDED = 310


class GlibcRandom:
    """glibc's additive feedback generator (TYPE_3), seeded as ``srand(seed)`` does it.

    r[i] = r[i-3] + r[i-31] mod 2^32; the output is r[i] >> 1. The first 31 words come from the Lehmer
    generator 16807 r mod 2147483647, and the 310 outputs after them are discarded. Raises ValueError if the
    seed is below 1.
    """

    def __init__(self, seed: int = 1) -> None:
        if seed < 1:
            raise ValueError(f"seed must be at least 1, not {seed}")
        words = [seed]
        for _ in range(_DEGREE - 1):
            words.append(16807 * words[-1] % RAND_MAX)
        # The recurrence continues after words 31 to 33, which repeat words 0 to 2.
        self._state = np.array(words[_SEPARATION:] + words[:_SEPARATION], dtype=np.uint32)
        self._spare = np.empty(0, dtype=np.uint32)
        self.integers(_DISCARDED)

    def integers(self, count: int) -> np.ndarray:
        """The next ``count`` values of ``rand()``, uint32 in [0, RAND_MAX]."""
        blocks = [self._spare]
        ready = len(self._spare)
        while ready < count:
            blocks.append(self._next_block())
            ready += len(blocks[-1])
        values = np.concatenate(blocks)
        self._spare = values[count:]
        return values[:count] >> np.uint32(1)

    def uniform(self, count: int) -> np.ndarray:
        """The next ``count`` values of ``float(rand()) / float(RAND_MAX)``, float32 in [0, 1]."""
        return self.integers(count).astype(np.float32) / np.float32(RAND_MAX)

    def _next_block(self) -> np.ndarray:
        """The next 30 words at once: for each i mod 3 the recurrence is a running sum of r[i-31]."""
        state = self._state
        rows = (_DEGREE - 1) // _SEPARATION
        block = state[: rows * _SEPARATION].reshape(rows, _SEPARATION).copy()
        block[0] += state[-_SEPARATION:]
        np.cumsum(block, axis=0, dtype=np.uint32, out=block)
        flat = block.ravel()
        self._state = np.concatenate([state[len(flat) :], flat])
        return flat
