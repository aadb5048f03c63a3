"""The words of verdicts, as tables, figures and sentences use them; ``snn.report.glossary`` explains each."""

FASTER, SLOWER, SAME, NOT_SIGNIFICANT = "faster", "slower", "same", "not significant"
"""Of a speedup, by its 95% interval."""

FASTEST, SHORTEST, AS_FAST = "fastest", "shortest mean", "as fast"
"""Of a row against the one with the shortest mean time: its own two, and what is SAME; else as above."""

UNTOUCHED, TOUCHED = "untouched", "touched"
"""Of a strategy beside a busy neighbour, by the interval of its slow-down; else NOT_SIGNIFICANT."""

NOT_COMPARABLE = "not comparable"
"""Of two times that may not be divided by each other."""

REFERENCE, BASELINE, BEST_PEER = "reference", "baseline", "best peer"
"""Of a row that others are compared with, so that its own speedup is 1."""

SIGNIFICANT = "significant"
"""Of the lead of the fastest, where it is FASTER than every other; else SAME or NOT_SIGNIFICANT."""

AGREES, CONVERGES, DIFFERS, INCONCLUSIVE = "agrees", "converges", "differs", "inconclusive"
"""Of two values that should be equal: a published error, fp32's final loss, another machine's speedup."""

QUIET, NOISY, SHARED = "quiet", "noisy", "shared"
THROTTLED, DRIFTED, UNKNOWN = "throttled", "drifted", "unknown"
"""Of the machine while a cell was measured."""

MEMORY_FULL, HOT, IDLE_DROPS, IRREGULAR_POWER = "memory full", "hot", "idle drops", "irregular power"
"""Also of the machine, from samples that were taken meanwhile (``snn.analysis.watching``)."""
