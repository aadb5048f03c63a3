"""Malformed files that a workflow prepared: data sets, and plans of further rounds."""

import hashlib
import io
import json
import pickle
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
from attempt import HERE, KINDS, LIKE_NONE, Input
from garbage import VALUES, cut, damaged, flipped, given, no_json, values
from hypothesis import strategies as st
from records import as_json

from snn.config import groups
from snn.config.settings import MOST_ROUNDS
from snn.datasets import quadratic

_CHOICE = groups.load("dataset", "small") | {"rows": 8, "features": 2}
_OF_CHOICE = ("device=cpu", "dataset=small", "dataset.rows=8", "dataset.features=2", "training.batch_size=2")
_THERE = [kind for kind in KINDS if kind not in LIKE_NONE]
"""A data set that is not there is made, and without a plan none is followed."""


@cache
def _prepared(seed: int = 42) -> bytes:
    """What stands in a prepared file, of another choice if its seed is another one."""
    saved = io.BytesIO()
    np.save(saved, quadratic.make(8, 2))
    content = saved.getvalue() + json.dumps(_CHOICE | {"seed": seed}, sort_keys=True).encode()
    return content + hashlib.sha256(content).digest()


def data_sets() -> st.SearchStrategy[Input]:
    """Prepared data sets that are damaged, of something else, or none."""
    spoilt = (cut(_prepared()) | flipped(_prepared())).map(lambda content: _data("spoilt", content))
    return spoilt | st.sampled_from(list(known_data_sets()))


def damaged_data_sets() -> st.SearchStrategy[Input]:
    """Prepared data sets with other bytes in them, or with the same once more."""
    whole = _prepared()
    return damaged(whole).map(lambda content: _data("garbage", content, is_wrong=content != whole))


def _data(what: str, content: bytes | str, *further: str, is_wrong: bool = True) -> Input:
    arguments = (*given(_OF_CHOICE, *further), "data=d.npy")
    return Input(what, "snn", arguments, {"d.npy": content}, "d.npy", is_wrong)


def known_data_sets() -> Iterator[Input]:
    """Files that are no prepared data set, or one of another choice."""
    yield from (_data(kind, kind) for kind in _THERE)
    whole = _prepared()
    contents = {
        "NumPy's own": whole[: 128 + 8 * 3 * 4],
        "a pickle": pickle.dumps(quadratic.make(8, 2)),
        "another choice": _prepared(43),
        "something behind": whole + b"x",
        "twice": whole + whole,
        "another digest": whole[:-32] + bytes(32),
        "no digest": whole[:-32],
    }
    yield from (_data(what, content) for what, content in contents.items())
    for other in ("=medium", ".seed=43", ".rows=9", ".features=3", ".noise=0.2"):
        yield _data(f"of another: {other}", whole, f"dataset{other}")


def plans() -> st.SearchStrategy[Input]:
    """Plans of further rounds with a wrong number, and files that are none."""
    wrong = [value for value in VALUES if type(value) is not int or value < 1]
    wrong += [MOST_ROUNDS + 1, 10**30, 2.0]
    any_ = values(("3",), ("x",)).filter(lambda one: type(one) is not int or not 1 <= one <= MOST_ROUNDS)
    numbers = st.sampled_from(wrong) | any_
    return st.sampled_from(list(known_plans())) | numbers.map(
        lambda count: _plan(f"{str(count)[:40]} rounds", as_json({"x/y": 3, "x/z": count}))
    )


def known_plans() -> Iterator[Input]:
    """Files that are no plan."""
    texts = dict(no_json(b'{"x/y": 3}', "x/y")) | {kind: kind for kind in _THERE}
    texts |= {"a key that is no text": b"{3: 3}", "half a character": b'{"\\ud800": 3}'}
    for what, content in texts.items():
        yield _plan(what, content)


def any_plans() -> st.SearchStrategy[Input]:
    """Damaged plans, and any value."""
    any_ = damaged(as_json({"x/y": 3, "x/z": 1000})) | values(("x",), ("x/y",)).map(as_json)
    return any_.map(lambda content: _plan("garbage", content, False))


def _plan(what: str, content: bytes | str, is_wrong: bool = True) -> Input:
    return Input(what, "plan", (f"{HERE}/p.json",), {"p.json": content}, "p.json", is_wrong, _is_plan)


def _is_plan(here: Path) -> bool:
    planned = json.loads((here / "p.json").read_bytes())
    numbers = planned.values() if isinstance(planned, dict) else [None]
    return all(type(number) is int and 1 <= number <= MOST_ROUNDS for number in numbers)
