"""A wrong value for every key of every choice of ``config/``, of each wrong type and out of its range."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from snn.config import groups
from snn.config.settings import RANGES, Range, find_kind
from snn.models.network import INITIALISERS


class Wrong(NamedTuple):
    """A value that a key cannot have beside these choices."""

    beside: Mapping[str, Any]
    key: str
    value: Any


_HOME = "${oc.env:HOME}"
_NO_TEXT = (3, 1.5, None, True, {"a": 1}, [["x"]])
_NO_WORD = (*_NO_TEXT, "no such word", "")
_NO_LIST = ("a", 3, None, True, {"a": 1})
_NO_NUMBERS = ("text", "", "1;2", True, False, {"a": 1})
_NO_BOOL = (1, 0, 1.5, None, "yes", "true ", "", {"a": 1})
_NO_PAIR = (16, [16], [16, 16, 16], [0, 16], [-1, 1], [1025, 1], [1.5, 1], ["a", 1], [True, 1], "a")
_NO_LAYER = ("no such layer", "linear", "linear 0", "linear -1", "linear x", "linear 8 8 8", "linear 1.5")
_NO_SEEDS = (*_NO_LIST[:3], {"a": 1}, *([one] for one in (0, "a", True, None)))
_NO_SHAPES = ([], [28, 28], [1, 0, 3], [1, 2, 3, 1], [1, 2, 1.5], [1, 2, 5000], ["1", 2, 3])
_OF_KEY: Mapping[str, tuple[Any, ...]] = {
    "network.hidden": (*_NO_LIST, [], [0], [-1], [2**21], [1.5], [True], ["a"], [None]),
    "network.layers": (*_NO_LIST, [], *([one] for one in (*_NO_LAYER, "linear 9999999", "", 3, None, True))),
    "network.loss": _NO_WORD,
    "network.init": _NO_WORD,
    "network.update_order": _NO_WORD,
    "training.storage": _NO_WORD,
    "strategy.mode": (*_NO_WORD, "reduce-overhead"),
    "strategy.data": _NO_WORD,
    "strategy.hints": _NO_WORD,
    "strategy.host": _NO_WORD,
    "strategy.seeds": (*_NO_SEEDS, [2**31], [-1], [1.5], [1, 1]),
    "strategy.initialisers": (["x"], [1], [None], [*INITIALISERS[:1], *INITIALISERS[:1]], "x", 3, None),
    "strategy.learning_rates": (*_NO_SEEDS, [-0.1], [1e39], [1e-50], [0.1, 0.1]),
    "kernel.block": (*_NO_PAIR, None, [32, 64]),
    "kernel.work": (*_NO_PAIR, [65, 1]),
    "dataset.na_values": (*_NO_LIST, [True], [None], [{"a": 1}]),
    "dataset.drop": (*_NO_LIST, [True], [None], [""], [1.5], [{"a": 1}]),
    "dataset.path": (*_NO_TEXT[:5], "", "a\0b", "a\nb", "x" * 5000, _HOME),
    "dataset.shape": (*_NO_LIST[1:], "x", *_NO_SHAPES),
    "dataset.target": (*_NO_TEXT[1:5], "", "a\nb", _HOME),
    "dataset.header": (*_NO_BOOL[1:3], -1, *_NO_BOOL[4:]),
    "dataset.delimiter": (3, None, True, "", ",,", {"a": 1}, *"a1.-+\"'\n\0"),
    "dataset.sha256": (3, True, "", "12", "g" * 64, "A" * 64, "0" * 63, "0" * 65, {"a": 1}),
    "training.nesterov": (*_NO_BOOL[:3], *_NO_BOOL[4:]),
    "device.name": ({"a": 1}, "a\nb", "a\0b", _HOME),
}


def all_wrong() -> list[Wrong]:
    """One for each key of each choice and each way to be wrong."""
    return list(_all_wrong())


def _all_wrong() -> Iterator[Wrong]:
    for group, usual in groups.default_choices().items():
        no_choices = ("none such", f"{usual}.yaml", f"../{group}/{usual}", usual.upper(), f" {usual}")
        for value in (*no_choices, f"{usual}\n", "", "???", *_NO_TEXT, _HOME):
            yield Wrong({}, group, value)
        for name in groups.names(group):
            beside = {group: name, **_NEEDED.get(name, {})}
            settable = groups.options(group, name)
            for key, usual_value in groups.load(group, name).items():
                where = f"{group}.{key}"
                fixed = ("x", "snn.errors.shown", 3, {"a": 1})
                values = _wrong_for(where, usual_value) if key in settable else fixed
                rest = {key: value for key, value in beside.items() if key != where}
                for value in values:
                    if value is not None or usual_value is not None:
                        yield Wrong(rest, where, value)
    for key, usual_value in groups.default_training().items():
        yield from (
            Wrong({}, f"training.{key}", value) for value in _wrong_for(f"training.{key}", usual_value)
        )
    for key in ("colour", "training", "training.colour", "training.epochs.x", "hydra.verbose", "network._x"):
        yield from (Wrong({}, key, value) for value in (3, "x"))
    for section in groups.GROUPS:
        for key in ("colour", "_target_", "_partial_", "_args_", "__class__", "defaults"):
            yield Wrong({}, f"{section}.{key}", "x")


_NEEDED = {"csv": {"dataset.path": "t.csv", "dataset.target": 0}, "idx": {"dataset.path": "images"}}


def _wrong_for(where: str, usual: Any) -> tuple[Any, ...]:
    if where in _OF_KEY:
        return _OF_KEY[where]
    if isinstance(usual, bool):
        return _NO_BOOL
    if where in RANGES or isinstance(usual, int | float):
        return _outside(find_kind(where, usual).numbers)
    return _NO_TEXT


def _outside(allowed: Range) -> tuple[Any, ...]:
    values: list[Any] = [*_NO_NUMBERS, -1, allowed.most * 10, 10**40, float("inf"), float("nan"), -0.0]
    if not allowed.real:
        values += [allowed.least + 0.5, allowed.least - 1, allowed.most + 1, 2.0]
    elif allowed.least > 0:
        values += [0, allowed.least / 10]
    if allowed.or_null is None:
        values.append(None)
    return tuple(values)
