"""What a grid, a data set or a cell refuses, in the words of the command line that asked for it."""

import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from snn.errors import SnnError
from snn.recommending import SWEEP

OPTION_OF = {
    "dataset.path": "--csv",
    "dataset.target": "--target",
    "dataset": "--dataset",
    "network": "--network",
    "network.hidden": "--hidden",
    "training.batch_size": "--batch-size",
    "training.epochs": "--epochs",
    "training.learning_rate": "--learning-rate",
}
"""The option that sets a key."""

_CLASSIFY = {
    r"say network=layers network\.loss=cross_entropy, and end network\.layers in as many outputs": (
        "say --classify"
    ),
    r"since the loss is cross_entropy; a number is predicted with mean_squared_error": (
        "as --classify has classes; without --classify a number is predicted"
    ),
}
_OTHERS = {
    rf"^{SWEEP}: ": "",
    rf"^sweeps\.{SWEEP}(: |\.)": "",
    r"\bdevice=(auto|cuda|cpu)\b": r"--device \1",
    r" \(write 1\.0e-3, not 1e-3: YAML reads that as text\)": "",
    r"; set it with dataset\.path=\.\.\.": ": add dataset.path=... (of a table: --csv FILE --target COLUMN)",
    r"^(conv2d needs images, .*)": (
        r"--network has convolutions: \1; choose --dataset patterns, mnist or fashion"
    ),
}


@contextmanager
def in_options(keys: Collection[str] = ()) -> Iterator[None]:
    """A context whose errors name options in place of a grid's keys, but for ``keys`` given as KEY=VALUE."""
    try:
        yield
    except SnnError as error:
        raise type(error)(translated(str(error), keys)) from error


def translated(message: str, keys: Collection[str] = ()) -> str:
    """A message with options in place of keys of a grid, unless it lists the keys that there are."""
    said = message
    keys = frozenset(keys) | {"dataset.path"} | (OPTION_OF.keys() if "is not a key here" in said else set())
    for pattern, words in (_CLASSIFY | _OTHERS).items():
        said = re.sub(pattern, words, said)
    for key, option in OPTION_OF.items():
        if "." in key and key not in keys:
            said = re.sub(rf"(?<![\w.]){re.escape(key)}(?![\w=])", option, said)
    return said
