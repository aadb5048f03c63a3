"""The words that tables say of comparisons, machines and outcomes: the tone and the meaning of each."""

import html

WORDS = {
    "faster": ("good", "the whole 95% interval of the speedup lies above 1"),
    "slower": ("bad", "the whole 95% interval of the speedup lies below 1"),
    "same": ("plain", "the whole 95% interval lies within the margin of config/verdicts.yaml around 1"),
    "clear": ("good", "the fastest is faster than every other, each by its 95% interval"),
    "best peer": ("plain", "the fastest of the other systems, which all of its network is held against"),
    "unclear": ("warn", "the 95% interval holds 1, or there are too few runs for one: more runs would tell"),
    "agrees": ("good", "the error is the published one, within the tolerance of config/verdicts.yaml"),
    "converges": (
        "good",
        "over several seeds the loss ends within the margin of config/verdicts.yaml of fp32's",
    ),
    "differs": (
        "bad",
        "the error is another than what it is held against, by more than config/verdicts.yaml allows",
    ),
    "not comparable": (
        "plain",
        "other devices, or a machine that changed between the two: their times are not divided",
    ),
    "quiet": ("", "nothing else used the machine, and the runs agree"),
    "noisy": ("warn", "the runs of the cell spread widely"),
    "shared": ("warn", "other processes used the processors or the GPU meanwhile"),
    "throttled": ("bad", "the GPU ran below its clocks"),
    "drifted": (
        "warn",
        "what an allocation, copy, launch or product costs changed between beginning and end",
    ),
    "unknown": ("plain", "the record holds no readings of the machine"),
    "diverged": ("bad", "the loss became infinite or not a number; the time is that of the same work"),
    "unsupported": ("plain", "the device, the backend or the kernel has no such thing; the reason says what"),
    "out_of_memory": ("bad", "memory ran out before the end"),
}
"""Each word's tone (good, bad, warn, plain, or none where nothing is to be noticed) and what it means."""

WORD_COLUMNS = ("comparison", "lead_is", "agreement", "convergence", "machine", "status")
"""The columns whose cells are such words, separated by commas."""


def badge(word: str) -> str:
    """The word as HTML, in its tone; the text alone carries the meaning."""
    tone = WORDS.get(word, ("", ""))[0]
    text = html.escape(word)
    return f'<span class="word {tone}">{text}</span>' if tone else text
