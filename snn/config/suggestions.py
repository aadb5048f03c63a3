"""What a word that is not known may have been meant to be, for the end of a message."""

import re
from collections.abc import Iterable, Sequence

_LONGEST = 100
"""Characters of a word that is compared with those that are known."""

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
"""Common names of what has another one here; empty where what is like it is something else."""


def meant(word: str, known: Iterable[str], form: str = "{}") -> str:
    """`` (did you mean combined?)`` for a word that is like one of those that are known; else empty.

    ``form`` is how the word that is meant is shown.
    """
    found = nearest(word, known)
    return any_of([found] if found else [], form)


def any_of(found: Sequence[str], form: str = "{}") -> str:
    """`` (did you mean A or B?)`` of words, each shown in a ``form``; empty where there is none."""
    return f" (did you mean {' or '.join(map(form.format, found))}?)" if found else ""


def parts_of(known: Iterable[str], word: str) -> str:
    """`` (did you mean 'NVIDIA H200'?)`` for parts, ``h200`` or ``nvidia-h200``: the first three names that
    have all of them."""
    parts = re.findall(r"\w+", _squeezed(word, " "))
    found = [one for one in known if parts and all(part in _squeezed(one) for part in parts)]
    return any_of(found[:3], "{!r}")


def _squeezed(name: str, between: str = "") -> str:
    """A name in small letters, its words joined."""
    return re.sub(r"[\W_]+", between, name.lower())


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The one of these words that is most like a word; None if none is. ``epochs`` is ``training.epochs``."""
    from difflib import get_close_matches  # only for a message

    word = _plain(word[:_LONGEST])
    choices = {_plain(choice): choice for choice in known}
    leaves = {choice.rpartition(".")[2]: choice for choice in choices}
    if _ALSO_CALLED.get(word) == "":
        return None
    for one in (word, _ALSO_CALLED.get(word, "")):
        if one in choices or one in leaves:
            return choices[one if one in choices else leaves[one]]
    found = get_close_matches(word, choices, 1, cutoff=0.7) or [one for one in choices if _swapped(word, one)]
    if found:
        return choices[found[0]]
    found = get_close_matches(word.rpartition(".")[2], leaves, 1, cutoff=0.75)
    return choices[leaves[found[0]]] if found else None


def _swapped(word: str, choice: str) -> bool:
    """Whether two neighbouring letters of a word are swapped, which is much of a short one: ``scv``."""
    different = [i for i, (one, other) in enumerate(zip(word, choice, strict=False)) if one != other]
    return sorted(word) == sorted(choice) and len(different) == 2 and different[1] - different[0] == 1


def _plain(word: str) -> str:
    return word.lower().replace("-", "_")


def one_of_several(key: str, value: str) -> str:
    """What to do in place of several values for one key of a cell."""
    inner = ", ".join(part.strip() for part in value.strip("[]()").split(","))
    return (
        f"a cell has one {key}; several are an axis of a sweep in a grid file, {key}: [{inner}], "
        "which snakemake runs"
    )
