"""Malformed files that a workflow prepared: data sets, and plans of further rounds."""

import hashlib
import io
import json
import pickle
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from attempt import HERE, KINDS, LIKE_NONE, Input
from garbage import damaged, values
from hypothesis import strategies as st
from stored_records import as_json

from snn.config import groups
from snn.config.validation import MOST_ROUNDS
from snn.datasets import quadratic

_CHOICE = groups.load("dataset", "small") | {"rows": 8, "features": 2}
_OF_CHOICE = ("device=cpu", "dataset=small", "dataset.rows=8", "dataset.features=2", "training.batch_size=2")


@cache
def _prepared() -> bytes:
    return _sealed_table(quadratic.make(8, 2))


def _sealed_table(
    table: Any, choice: Any = None, header: bytes | None = None, values: bytes | None = None
) -> bytes:
    """What stands in a prepared file of this table, or of what is said to be one, with a digest that fits."""
    saved = io.BytesIO()
    np.save(saved, table, allow_pickle=True)
    own, rest = saved.getvalue()[:128], saved.getvalue()[128:]
    content = (header or own) + (rest if values is None else values)
    content += json.dumps(choice or _CHOICE, sort_keys=True).encode()
    return content + hashlib.sha256(content).digest()


def data_sets() -> st.SearchStrategy[Input]:
    """Prepared data sets that are damaged, of something else, or none."""
    whole = _prepared()
    cut = st.integers(0, len(whole) - 1).map(lambda size: _data(f"the first {size} bytes", whole[:size]))
    flipped = st.builds(_flipped_data, st.integers(0, len(whole) - 1), st.integers(1, 255))
    kinds = [kind for kind in KINDS if kind not in LIKE_NONE]  # it is made
    known = [*_no_tables(), *(_data(kind, kind) for kind in kinds)]
    return st.one_of(cut, flipped, st.sampled_from(known))


def damaged_data_sets() -> st.SearchStrategy[Input]:
    """Prepared data sets with other bytes in them, or with the same once more."""
    whole = _prepared()
    return damaged(whole).map(lambda content: _data("garbage", content, is_wrong=content != whole))


def _data(what: str, content: bytes | str, *given: str, is_wrong: bool = True) -> Input:
    keys = {each.partition("=")[0] for each in given}
    arguments = (*(each for each in _OF_CHOICE if each.partition("=")[0] not in keys), *given, "data=d.npy")
    return Input(what, "snn", arguments, {"d.npy": content}, "d.npy", is_wrong)


def _flipped_data(place: int, change: int) -> Input:
    content = bytearray(_prepared())
    content[place] ^= change
    return _data(f"byte {place} is another", bytes(content))


def _no_tables() -> Iterator[Input]:
    whole, table = _prepared(), quadratic.make(8, 2)
    header = whole[:128]
    not_finite = table.copy()
    not_finite[3, 1] = np.nan
    own = io.BytesIO()
    np.save(own, table)
    contents = {
        "NumPy's own": own.getvalue(),
        "a pickle": pickle.dumps(table),
        "objects": _sealed_table(np.array([[1, None, "x"]], dtype=object)),
        "float64": _sealed_table(table.astype(float)),
        "whole numbers": _sealed_table(table.astype(np.int32)),
        "big-endian": _sealed_table(table.astype(">f4")),
        "Fortran's order": _sealed_table(np.asfortranarray(table)),
        "one dimension": _sealed_table(table[0]),
        "three dimensions": _sealed_table(table[None]),
        "no rows": _sealed_table(table[:0]),
        "one column": _sealed_table(table[:, :1]),
        "NaN": _sealed_table(not_finite),
        "infinity": _sealed_table(table + np.float32(np.inf)),
        "fewer rows": _sealed_table(table[:7]),
        "more rows": _sealed_table(np.concatenate([table, table])),
        "fewer features": _sealed_table(table[:, 1:]),
        "more features": _sealed_table(np.concatenate([table, table], axis=1)),
        "a header of more": _sealed_table(table, header=header.replace(b"(8, 3)", b"(9, 3)")),
        "a header of very many": _sealed_table(
            table, header=header.replace(b"(8, 3)", b"(999999999999999, 3)")
        ),
        "a header of none": _sealed_table(table, header=header.replace(b"(8, 3)", b"(0, 3)")),
        "a header of code": _sealed_table(table, header=header.replace(b"(8, 3)", b"exit()")),
        "no values": _sealed_table(table, values=b""),
        "another choice": _sealed_table(table, choice={**_CHOICE, "seed": 43}),
        "no choice": _sealed_table(table, choice={"x": 1}),
        "something behind": whole + b"x",
        "twice": whole + whole,
        "another digest": whole[:-32] + bytes(32),
        "no digest": whole[:-32],
    }
    yield from (_data(what, content) for what, content in contents.items())
    for given in ("dataset.seed=43", "dataset.rows=9", "dataset.features=3", "dataset.noise=0.2"):
        yield _data(f"of another: {given}", whole, given)
    yield _data("of another: medium", whole, "dataset=medium")


def plans() -> st.SearchStrategy[Input]:
    """Plans of further rounds with a wrong number, and files that are none."""
    wrong = (0, -1, MOST_ROUNDS + 1, 10**30, 1.5, 2.0, True, None, "3", [3], {"a": 3}, 1e300)
    numbers = st.sampled_from(wrong).map(
        lambda count: _plan(f"{count!r} rounds", as_json({"x/y": 3, "x/z": count}))
    )
    texts = (
        b"",
        b"{",
        b"[]",
        b"3",
        b"null",
        b'"x"',
        b'{"a": 3}{"a": 3}',
        b'{"a": 3, "a": 3}',
        b'{"a": NaN}',
        b"\xff",
        b"{'a': 3}",
        b'{"a": 3,}',
        b"[" * 10**5,
        b'{"a": 3}'.decode().encode("utf-16"),
        b'{"a": ' + b"9" * 5000 + b"}",
        b'{"a": 03}',
        b"{3: 3}",
        b'{"\\ud800": 3}',
        b'\xef\xbb\xbf{"a": 3}',
    )
    kinds = [kind for kind in KINDS if kind not in LIKE_NONE]  # none is planned
    known = [_plan(repr(text[:20]), text) for text in texts] + [_plan(kind, kind) for kind in kinds]
    no_numbers = values(("3",), ("x",)).filter(
        lambda one: type(one) is not int or not 1 <= one <= MOST_ROUNDS
    )
    any_ = no_numbers.map(lambda one: _plan(f"{str(one)[:40]} rounds", as_json({"x/y": 3, "x/z": one})))
    return numbers | any_ | st.sampled_from(known)


def any_plans() -> st.SearchStrategy[Input]:
    """Damaged plans, and any value."""
    any_ = damaged(as_json({"x/y": 3, "x/z": 1000})) | values(("x",), ("x/y",)).map(as_json)
    return any_.map(lambda content: _plan("garbage", content, False))


def _plan(what: str, content: bytes | str, is_wrong: bool = True) -> Input:
    return Input(what, "plan", (f"{HERE}/p.json",), {"p.json": content}, "p.json", is_wrong, _is_plan)


def _is_plan(here: Path) -> bool:
    planned = json.loads((here / "p.json").read_bytes())
    return isinstance(planned, dict) and all(
        type(n) is int and 1 <= n <= MOST_ROUNDS for n in planned.values()
    )
