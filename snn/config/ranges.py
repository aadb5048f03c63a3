"""The range of every number of a cell, with its reason: a value outside would fail late, or never end."""

import math
from dataclasses import dataclass

from snn.errors import ConfigError, shown

_FLOAT32 = 1.1754944e-38, 3.4028234e38
_IN_FLOAT32 = "training computes in float32, where others are 0, infinite or imprecise"
_IN_32_BITS = "kernels count in 32 bits"
_SEEDS = "a seed of NumPy's random numbers has 32 bits"
_DAY = "a limit of more than a day is none"


@dataclass(frozen=True)
class Range:
    """The numbers from ``least`` to ``most``, whole ones unless they are ``real``, and the words ``or_``.

    ``or_`` maps a value that is none of these numbers, but allowed, to what it means.
    """

    least: float
    most: float
    reason: str
    real: bool = False
    or_word: str | None = None
    or_null: str | None = None

    def holds(self, value: object) -> bool:
        """Whether the value is in the range, and of the right type."""
        return self._is_number(value) and self.least <= value <= self.most  # type: ignore[operator]

    def check(self, key: str, value: object) -> None:
        """Raise ConfigError, with what would be right, unless a key may have this value."""
        if (value is None and self.or_null) or (self.or_word is not None and value == self.or_word):
            return
        if not self.holds(value):
            raise error(key, value, self._right(value))

    def _right(self, value: object) -> str:
        whole = "a number" if self.real else "a whole number"
        is_above = self.real and self.least > 0
        if self._is_number(value) and value > (0 if is_above else self.least - 1):  # type: ignore[operator]
            return f"{whole} from {self.least:.12g} to {self.most:.12g}: {self.reason}"
        right = f"{whole} above 0" if is_above else f"{whole}, at least {self.least:.12g}"
        if self.or_null:
            return f"{right} or null for {self.or_null}"
        return f"{right}, or {self.or_word}" if self.or_word else right

    def _is_number(self, value: object) -> bool:
        if isinstance(value, bool) or not isinstance(value, (int, float) if self.real else int):
            return False
        is_negative_zero = isinstance(value, float) and value == 0 and math.copysign(1, value) < 0
        return not is_negative_zero and (isinstance(value, int) or math.isfinite(value))


RANGES = {
    "dataset.rows": Range(1, 10**9, "more rows than this fit into no machine that this is for"),
    "dataset.test_rows": Range(1, 10**9, "more rows than this fit into no machine that this is for"),
    "dataset.shape": Range(1, 4096, "larger images are not for networks of this kind"),
    "dataset.features": Range(1, 10**6, "a sample of more is not for networks of this kind"),
    "dataset.noise": Range(0, 1e18, "the squares of errors must be float32 numbers", real=True),
    "dataset.seed": Range(0, 2**32 - 1, _SEEDS),
    "dataset.held_out": Range(0, 0.9, "some rows must be left to train on", real=True),
    "dataset.shuffle_seed": Range(0, 2**32 - 1, _SEEDS, or_null="the rows in the order of the file"),
    "network.hidden": Range(1, 2**20, _IN_32_BITS),
    "network.clip_norm": Range(*_FLOAT32, _IN_FLOAT32, real=True, or_null="no clipping"),
    "network.seed": Range(1, 2**31 - 1, "the C library's rand() has no others"),
    "training.epochs": Range(1, 10**6, "a run of more would take days"),
    "training.batch_size": Range(1, 2**24, _IN_32_BITS),
    "training.accumulate": Range(1, 2**24, _IN_32_BITS),
    "training.learning_rate": Range(*_FLOAT32, _IN_FLOAT32, real=True),
    "protocol.runs": Range(1, 10**5, "more runs would make a record too large to read"),
    "protocol.min_runs": Range(1, 10**5, "more runs would make a record too large to read"),
    "protocol.rounds": Range(1, 1000, "each round is a job of the workflow"),
    "protocol.relative_error": Range(
        1e-6, 1, "no clock tells smaller differences", real=True, or_null="no such rule"
    ),
    "protocol.max_seconds": Range(1e-3, 86400, _DAY, real=True, or_null="no limit"),
    "protocol.warmup_seconds": Range(0, 86400, _DAY, real=True),
    "protocol.max_warmup_seconds": Range(0, 86400, _DAY, real=True),
    "kernel.block": Range(1, 1024, "a block has at most 1024 threads"),
    "kernel.work": Range(1, 64, "a thread has registers for no more elements"),
    "strategy.streams": Range(1, 1024, "a device works on fewer streams at a time"),
    "strategy.tile_rows": Range(1, 2**24, _IN_32_BITS, or_word="auto"),
    "strategy.buffers": Range(1, 4096, "more batches than this never wait for each other"),
    "strategy.threads": Range(1, 65536, "no host has more CPUs"),
    "strategy.workers": Range(0, 1024, "each is a process of its own"),
    "strategy.unroll": Range(1, 10**4, "a compiler would take hours for a longer loop body"),
    "strategy.starts": Range(1, 10**5, "a launch trains at most 100000 networks"),
    "strategy.seeds": Range(1, 2**31 - 1, "the C library's rand() has no others"),
    "strategy.learning_rates": Range(*_FLOAT32, _IN_FLOAT32, real=True),
}
"""Of a list, the range is that of each element."""

MOST_MEMBERS = 10**5
"""Networks that one launch trains: starts times the lengths of a strategy's lists."""

_WHOLE = Range(1, 2**31 - 1, _IN_32_BITS)
_REAL = Range(0, 1e30, _IN_FLOAT32, real=True)


def of(key: str, usual: object) -> Range:
    """The range of a key that is this number in its choice's file: a general one, if it has none."""
    return RANGES.get(key) or (_REAL if isinstance(usual, float) else _WHOLE)


def error(key: str, value: object, right: str) -> ConfigError:
    """A wrong value of a key, and what would be right."""
    return ConfigError(f"{key} is {shown(value)}: it must be {right}")
