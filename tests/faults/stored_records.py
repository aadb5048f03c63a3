"""Malformed records."""

import contextlib
import io
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import real_records
from attempt import KINDS, Input
from garbage import damaged, values
from hypothesis import strategies as st
from real_records import at, edited, forged, leaves, without
from test_record_door import IMPOSSIBLE

from snn.records import untrusted
from snn.records.digest import sealed

_VALUES = (
    None,
    True,
    False,
    0,
    -1,
    1,
    1.5,
    1e300,
    10**30,
    "x",
    "../x",
    "",
    "\x1b",
    [],
    {},
    [None],
    ["x"],
    {"x": 1},
)


def as_json(value: Any) -> bytes:
    return json.dumps(value).encode()


@cache
def reference() -> dict[str, Any]:
    """The record of a cell, which is not to be changed."""
    with contextlib.redirect_stderr(io.StringIO()):  # its progress
        return real_records.reference()


@st.composite
def edits(draw: Any, record: dict[str, Any], name: str = "record") -> tuple[str, dict[str, Any], bool]:
    """A record with something changed or left out, with a digest that fits or not; whether that is wrong.

    Whether it is under a digest that fits, a validator of JSON Schema says; what it allows may be valid.
    """
    way = draw(st.sampled_from(_ways(record)))
    way = way[: draw(st.integers(1, len(way)))]
    value = draw(st.sampled_from(_VALUES))
    what, changed = draw(
        st.sampled_from(
            [
                (f"{way} is {value!r}", edited(record, way, value)),
                (f"{way} is left out", without(record, way)),
                (f"{way} has a further key", edited(record, way[:-1], _with_key(at(record, way[:-1])))),
            ]
        )
    )
    if json.dumps(changed, sort_keys=True) == json.dumps(record, sort_keys=True):
        return what, changed | {"digest": "0" * 64}, True
    is_sealed = way != ("digest",) and draw(st.booleans())
    return (
        what,
        sealed(changed) if is_sealed else changed,
        not is_sealed or not _validator(name).is_valid(changed),
    )


def _with_key(container: Any) -> Any:
    return {**container, "_x": {"y": [[]]}} if isinstance(container, dict) else [*container, {"_x": 1}]


def _ways(record: dict[str, Any]) -> list[tuple[Any, ...]]:
    """The ways to all values, but of the many events to some."""
    ways = [way for way in leaves(record) if way not in (("schema_version",), ("limits_version",))]
    few = [way for way in ways if way[:3] != ("explanation", "trace", "events")]
    return few + [way for way in ways if way[:3] == ("explanation", "trace", "events")][::40]


@cache
def _validator(name: str) -> jsonschema.Draft4Validator:
    return jsonschema.Draft4Validator(untrusted.load_schema(name))


def malformed() -> st.SearchStrategy[Input]:
    """Records with an edit, impossible ones, and files that are none."""
    whole = as_json(reference())
    known = dict(no_records(whole))
    cut = st.integers(0, len(whole) - 1).map(lambda size: _record(f"the first {size} bytes", whole[:size]))
    impossible = st.sampled_from(list(IMPOSSIBLE)).map(
        lambda what: _record(what, as_json(forged(reference(), *IMPOSSIBLE[what][0])))
    )
    return st.one_of(
        edits(reference()).map(lambda edit: _record(edit[0], as_json(edit[1]), edit[2], same=False)),
        impossible,
        cut,
        st.sampled_from(list(known)).map(lambda what: _record(what, known[what])),
        st.sampled_from(list(KINDS)).map(lambda kind: _record(kind, kind)),
    )


def garbage() -> st.SearchStrategy[Input]:
    """Damaged records, and any value."""
    any_ = values(("ok", "x"), ("schema_version", "cell", "runs", "digest", "summary")).map(as_json)
    return (damaged(as_json(reference())) | any_).map(lambda one: _record("garbage", one, is_wrong=False))


def _record(what: str, content: bytes | str, is_wrong: bool = True, same: bool = True) -> Input:
    valid = _is_the_record if same else None
    return Input(what, "snn.perfetto", ("r.json", "t.json"), {"r.json": content}, "r.json", is_wrong, valid)


def _is_the_record(here: Path) -> bool:
    return bool(json.loads((here / "r.json").read_bytes()) == reference())


def no_records(whole: bytes) -> Iterator[tuple[str, bytes]]:
    text = whole.decode()
    yield "two records", whole + whole
    yield "something after it", whole + b"x"
    yield "a list of it", b"[" + whole + b"]"
    yield "a key twice", whole[:-1] + b', "status": "ok"}'
    yield "the same key written otherwise", whole[:-1] + b', "st\\u0061tus": "ok"}'
    yield "a comma too many", whole[:-1] + b",}"
    yield "quotes of Python", text.replace('"', "'").encode()
    yield "a byte order mark", b"\xef\xbb\xbf" + whole
    for encoding in ("utf-16", "utf-32", "utf-16-le"):
        yield encoding, text.encode(encoding)
    for word in (
        "NaN",
        "Infinity",
        "-Infinity",
        "nan",
        "None",
        "1e999",
        "9" * 5000,
        "01",
        "0x1",
        "1_0",
        '"\\ud800"',
    ):
        yield f"a reason of {word[:9]}", text.replace('"reason": null', f'"reason": {word}').encode()
    for version in ("0", "1", "6", "-5", "5.0", "true", "null", '"5"', "[5]", "{}", "1" + "0" * 400):
        yield (
            f"version {version[:9]}",
            text.replace('"schema_version": 5', f'"schema_version": {version}').encode(),
        )
    for opening in ("[", '{"a":', "[{"):
        for levels in (100, 1000, 100_000):
            yield f"{levels} times {opening}", (opening * levels).encode()
    yield "a list of 100,000 levels", b"[" * 100_000 + b"]" * 100_000
    yield "levels in a reason", text.replace('"reason": null', f'"reason": {"[" * 5000}{"]" * 5000}').encode()
    yield "a NUL", whole + b"\0"
