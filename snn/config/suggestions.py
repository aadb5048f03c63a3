"""Suggestions for unknown words, for the end of a message."""

import re
from collections.abc import Iterable, Sequence

_LONGEST = 100
"""Characters of a word that are compared with the known ones."""

_ALSO_CALLED = {
    "gpu": "cuda",
    "float32": "fp32",
    "bfloat16": "bf16",
    "fp16": "",
    "float16": "",
    "lr": "learning_rate",
    "batch": "batch_size",
    "widths": "hidden",
    "hidden_layers": "hidden",
    "model": "network",
    "data_set": "dataset",
}
"""Common names of things that have another name here; empty if a similar name means something else."""


def meant(word: str, known: Iterable[str], form: str = "{}") -> str:
    """`` (did you mean combined?)`` if a known word is similar, formatted with ``form``; else empty."""
    found = nearest(word, known)
    return any_of([found] if found else [], form)


def any_of(found: Sequence[str], form: str = "{}") -> str:
    """`` (did you mean A or B?)``, each word formatted with ``form``; empty without words."""
    return f" (did you mean {' or '.join(map(form.format, found))}?)" if found else ""


def parts_of(known: Iterable[str], word: str) -> str:
    """`` (did you mean 'NVIDIA H200'?)`` for parts, such as ``h200`` or ``nvidia-h200``: the first three
    names that contain all of them."""
    parts = re.findall(r"[^\W_]+", word.lower())
    squeezed = {one: re.sub(r"[\W_]+", "", one.lower()) for one in known}
    found = [one for one, name in squeezed.items() if parts and all(part in name for part in parts)]
    return any_of(found[:3], "{!r}")


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word most similar to this one, or None. ``epochs`` also finds ``training.epochs``."""
    from difflib import get_close_matches  # only for a message

    word = word[:_LONGEST].lower().replace("-", "_")
    also = _ALSO_CALLED.get(word, word)
    choices = {choice.lower().replace("-", "_"): choice for choice in known}
    leaves = {name.rpartition(".")[2]: choice for name, choice in choices.items()}
    for names in (choices, leaves) if also else ():
        if found := names.get(word) or names.get(also):
            return found
    swapped = (  # two swapped letters, which difflib counts as much of a short word
        one
        for one in choices
        for i in range(len(one))
        if word == one[:i] + one[i + 1 : i + 2] + one[i] + one[i + 2 :]
    )
    for names, part, cutoff in (
        ((choices, word, 0.7), (leaves, word.rpartition(".")[2], 0.75)) if also else ()
    ):
        if close := get_close_matches(part, names, 1, cutoff) or [*swapped]:
            return names[close[0]]
    return None


def one_of_several(key: str, value: str) -> str:
    """Error text for several values of one key of a cell, with what to do instead."""
    inner = ", ".join(part.strip() for part in value.strip("[]()").split(","))
    return (
        f"a cell has one {key}; several are an axis of a sweep in a grid file, {key}: [{inner}], "
        "which snakemake runs"
    )
