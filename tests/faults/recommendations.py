"""Malformed options of a recommendation."""

from collections.abc import Iterator, Sequence
from typing import Any

from attempt import KINDS, LIKE_NONE, Input
from hypothesis import strategies as st

_TABLE = b"a,b\n1,2\n3,4\n"
_OPTIONS = ("--csv", "t.csv", "--target", "b", "--batch-size", "--epochs", "--budget", "--hidden")
_OPTIONS += ("--classify", "--dataset", "--network", "cnn", "patterns", "--device", "--output", "1", "64,")
TRAINED = ("--device=cpu", "--csv=t.csv", "--target=b", "--batch-size=1", "dataset.held_out=0")
"""Options of a recommendation that are right."""


def _any(further: Sequence[str]) -> Input:
    """Arguments that may or may not be valid: whether they are accepted is up to the options' own checks."""
    return _of("garbage", further, "", is_wrong=False, really_valid=lambda here: True)


def _of(what: str, further: Sequence[str], names: str, **others: Any) -> Input:
    files = {"t.csv": _TABLE, **others.pop("files", {})}
    return Input(what, "snn.recommend", (*TRAINED, *further), files, names, **others)


def _known() -> Iterator[Input]:
    """Options of a recommendation that are wrong, with what the message names."""
    numbers = ("", "0", "-1", "x", "nan", "inf", "1_0", "\u0663", "9" * 5000, "1e999", "1,", "\0", "\udcff")
    for key in ("--batch-size", "--epochs", "--learning-rate", "--budget", "--hidden"):
        for value in numbers:
            yield _of(f"{key} {value[:9]!r}", [f"{key}={value}"], key)
    for kind in KINDS:
        name = "--csv" if kind in LIKE_NONE else "t.csv"
        yield _of(f"the table is: {kind}", [], name, files={"t.csv": kind})
        if kind not in ("no file", "folder", "dangling link"):
            yield _of(f"the output is: {kind}", ["--output=o"], "--output", files={"o": kind})
    for setting in ("epochs=2020-01-01", "epochs=!!set {a}", "epochs=[1,2]", "epochs=" + "[" * 2000):
        yield _of(setting[:20], [f"training.{setting}"], "training.epochs")
    for option in ("--colour", "--csv", "--classify=1", "-x", "--target=c", "--device=gpu", "union=1", "a"):
        yield _of(option, [option], option.partition("=")[0])


def malformed() -> st.SearchStrategy[Input]:
    """Options with something wrong in them."""
    return st.sampled_from(list(_known()))


def garbage() -> st.SearchStrategy[Input]:
    """Any options with any values."""
    texts = st.text(max_size=5) | st.text("strategy.=+~@[]{}:,&*!1", max_size=12)
    return st.lists(st.sampled_from(_OPTIONS) | texts, max_size=4).map(_any)
