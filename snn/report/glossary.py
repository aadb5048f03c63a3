"""The words of verdicts, machine states and statuses in tables: the tone and the meaning of each."""

from markupsafe import Markup

from snn.analysis import verdicts

_MARGIN = "the margin in config/verdicts.yaml"

WORDS = {
    verdicts.FASTER: ("good", "the whole 95% confidence interval of the speedup lies above 1"),
    verdicts.SLOWER: ("bad", "the whole 95% confidence interval of the speedup lies below 1"),
    verdicts.SAME: ("plain", f"the whole 95% confidence interval lies within {_MARGIN} around 1"),
    verdicts.SIGNIFICANT: ("good", "the fastest is faster than every other, each by its 95% interval"),
    verdicts.FASTEST: ("good", "all others are slower, each by its 95% interval"),
    verdicts.SHORTEST: ("plain", "the shortest mean time, but not every other is slower by its 95% interval"),
    verdicts.AS_FAST: ("plain", f"the whole 95% confidence interval lies within {_MARGIN} around 1"),
    verdicts.BEST_PEER: ("plain", "the fastest peer; every row of its network is compared with it"),
    verdicts.NOT_SIGNIFICANT: (
        "warn",
        "the 95% confidence interval contains 1, there are too few runs for an interval, or a single round, "
        "which does not tell times apart that are near to each other",
    ),
    verdicts.UNTOUCHED: (
        "good",
        f"the whole 95% confidence interval of the slow-down lies within {_MARGIN} around 1",
    ),
    verdicts.TOUCHED: (
        "bad",
        f"the 95% confidence interval of the slow-down neither contains 1 nor lies within {_MARGIN} around 1",
    ),
    verdicts.AGREES: ("good", f"the two values are equal within {_MARGIN}"),
    verdicts.CONVERGES: ("good", f"over several seeds the final loss is within {_MARGIN} of fp32's"),
    verdicts.DIFFERS: (
        "bad",
        f"two values differ by more than {_MARGIN}, or the verdicts of two devices exclude each other",
    ),
    verdicts.INCONCLUSIVE: ("warn", "the 95% confidence interval allows both: more runs or seeds would tell"),
    verdicts.NOT_COMPARABLE: (
        "plain",
        "the devices or drivers differ, or the machine drifted between the two: times are not divided",
    ),
    verdicts.QUIET: ("", "nothing else used the machine, and the runs vary little"),
    verdicts.NOISY: ("warn", "the run times of the cell vary widely"),
    verdicts.SHARED: ("warn", "other processes used the CPUs or the GPU during the measurement"),
    verdicts.THROTTLED: ("bad", "the GPU ran below its normal clocks"),
    verdicts.DRIFTED: (
        "warn",
        "the cost of an allocation, copy, launch or product changed between start and end",
    ),
    verdicts.MEMORY_FULL: ("warn", "more of the device's memory was in use than the threshold allows"),
    verdicts.HOT: ("warn", "the device came near the temperature at which it slows down"),
    verdicts.IDLE_DROPS: (
        "warn",
        "during timed runs the device was for some seconds much less busy than usual",
    ),
    verdicts.IRREGULAR_POWER: ("warn", "during timed runs its power was for some seconds far from the usual"),
    verdicts.UNKNOWN: ("plain", "the record holds no readings of the machine"),
    "diverged": (
        "bad",
        "the loss is not finite, or far above that before training; the time is that of the same work",
    ),
    "unsupported": ("plain", "not available with this device, backend or kernel; the reason says why"),
    "out_of_memory": ("bad", "memory ran out before the end"),
}
"""Each word's tone (good, bad, warn, plain, or none where there is nothing to notice) and its meaning."""

WORD_COLUMNS = (
    *("verdict", "lead_verdict", "against_fastest", "on_all", "agreement", "convergence"),
    *("verdict_over_sequential", "verdict_over_fastest_cpu"),
    *("machine", "status"),
)
"""The columns that hold such words, separated by commas."""


def badges(words: str) -> Markup:
    """Words separated by commas, each coloured by its tone; the text alone carries the meaning."""
    badge = Markup('<span class="word {}">{}</span>')
    tones = {word: WORDS.get(word, ("", ""))[0] for word in words.split(", ")}
    return Markup(", ").join(badge.format(tone, word) if tone else word for word, tone in tones.items())
