"""Malformed archives of records, and folders of results."""

import contextlib
import gzip
import io
import random
from collections.abc import Iterator
from functools import cache
from typing import Any

from attempt import HERE, KINDS, LIKE_NONE, Input
from garbage import damaged, values
from hypothesis import strategies as st
from real_records import edited, forged, measured, without
from records_of import limits_of
from stored_records import as_json, edits, no_records, reference
from test_record_door import IMPOSSIBLE

from snn.grid import catalogue, naming
from snn.records.digest import sealed

_RETABULATE = (f"{HERE}/a", f"{HERE}/out")
_COMPARE = (f"{HERE}/a", f"{HERE}/a", f"{HERE}/out")
_MERGE = (f"{HERE}/a", f"output={HERE}/out")


@cache
def _archived() -> tuple[dict[str, Any], ...]:
    """The records of two cells, two rounds of each."""
    several = ("network.hidden=[8]", "protocol.rounds=2", "protocol.runs=4")
    each = [(name, number) for name in ("reference", "combined") for number in (1, 2)]
    with contextlib.redirect_stderr(io.StringIO()):  # its progress
        return tuple(measured(f"strategy={name}", *several, f"round={number}") for name, number in each)


def _sweeps() -> dict[str, Any]:
    names = sorted({f"x/y-{naming.digest(record['cell'])}" for record in _archived()})
    return {"mine": {"axes": ["strategy"], "cells": names}}


def _packed(found: Any) -> bytes:
    return gzip.compress(b"".join(as_json(record) + b"\n" for record in found), 1, mtime=0)


def archive(**files: bytes | str) -> dict[str, bytes | str]:
    """The files of an archive, some of which may be given."""
    usual = {
        "records.jsonl.gz": _whole(),
        "sweeps.json": as_json(_sweeps()),
        "limits.json": as_json(limits_of()),
    }
    return {f"a/{name}": content for name, content in (usual | files).items()}


@cache
def _whole() -> bytes:
    return _packed(_archived())


def malformed() -> st.SearchStrategy[Input]:
    """Archives with an edited record, sweeps or limits, and files that are none."""
    numbers = st.integers(0, 3)
    line = numbers.flatmap(
        lambda number: edits(_archived()[number]).map(lambda edit: _edited_line(number, *edit))
    )
    impossible = st.builds(_impossible_line, numbers, st.sampled_from(list(IMPOSSIBLE)))
    cut = st.integers(0, len(_whole()) - 1).map(
        lambda size: _archive(f"the first {size} bytes", records=_whole()[:size], names=f"{HERE}/a")
    )
    flipped = st.builds(_flipped, st.integers(10, len(_whole()) - 1), st.integers(1, 255))
    limits = edits(limits_of(), "limits").map(
        lambda edit: _archive(edit[0], limits=as_json(edit[1]), is_wrong=edit[2], names="limits.json")
    )
    known = (_no_archives, _hostile_sweeps, _hostile_limits, _mixed, _folders, _calls)
    return st.one_of(
        line, impossible, cut, flipped, limits, *(st.sampled_from(list(some())) for some in known)
    )


def garbage() -> st.SearchStrategy[Input]:
    """Damaged archives, and any sweeps."""
    any_ = values(("strategy", *_sweeps()["mine"]["cells"]), ("axes", "cells", "mine"))
    published = st.dictionaries(
        st.sampled_from(("mine", "neurons", "x")) | st.text(max_size=3), any_, max_size=2
    )
    published |= st.dictionaries(
        st.sampled_from(("mine", "neurons", "depth", "peers", "cpu", "precision", "learning_rates")),
        st.fixed_dictionaries({"axes": st.just(["strategy"]), "cells": st.just(_sweeps()["mine"]["cells"])}),
        min_size=1,
        max_size=2,
    )
    sweeps = published.map(
        lambda value: _archive("any sweeps", sweeps=as_json(value), is_wrong=False, names=f"{HERE}/a")
    )
    return sweeps | damaged(_whole()).map(lambda one: _archive("garbage", records=one, is_wrong=False))


def _archive(
    what: str,
    records: bytes | str | None = None,
    sweeps: bytes | str | None = None,
    limits: bytes | str | None = None,
    is_wrong: bool = True,
    names: str = "a/records.jsonl.gz",
) -> Input:
    """An archive of which this is not as it was; with its sweeps and limits only retabulate reads it, and
    what is there twice counts once where folders are merged."""
    given = {"records.jsonl.gz": records, "sweeps.json": sweeps, "limits.json": limits}
    files = archive(**{name: content for name, content in given.items() if content is not None})
    if records is not None and len(what) % 3 == 1:
        return Input(what, "snn.compare", _COMPARE, files, names, is_wrong)
    if records is not None and len(what) % 3 == 2 and "twice" not in what:
        return Input(what, "snn.merge", _MERGE, files, names, is_wrong)
    return Input(what, "snn.retabulate", _RETABULATE, files, names, is_wrong)


def _edited_line(number: int, what: str, record: dict[str, Any], is_wrong: bool) -> Input:
    found = [*_archived()]
    found[number] = record
    return _archive(f"line {number + 1}: {what}", _packed(found), is_wrong=is_wrong)


def _impossible_line(number: int, what: str) -> Input:
    found = [*_archived()]
    found[number] = forged(found[number], *IMPOSSIBLE[what][0])
    return _archive(f"line {number + 1}: {what}", _packed(found))


def _flipped(place: int, change: int) -> Input:
    content = bytearray(_whole())
    content[place] ^= change
    return _archive(f"byte {place} is another", bytes(content))


def _no_archives() -> Iterator[Input]:
    whole = gzip.decompress(_whole())
    lines = whole.splitlines(keepends=True)
    zeros, spaces = gzip.compress(bytes(1 << 20)), gzip.compress(b" " * (1 << 20))
    contents = {
        "no gzip": whole,
        "gzip twice": gzip.compress(_whole()),
        "nothing": b"",
        "gzip of nothing": gzip.compress(b""),
        "a blank line": gzip.compress(b"\n"),
        "a blank line at its end": gzip.compress(whole + b"\n"),
        "a line of text": gzip.compress(whole + b"x\n"),
        "no UTF-8": gzip.compress(whole + b"\xff\n"),
        "UTF-16": gzip.compress(whole.decode().encode("utf-16")),
        "one line": gzip.compress(whole.replace(b"\n", b" ")),
        "a list": gzip.compress(b"[" + whole.strip().replace(b"\n", b",") + b"]\n"),
        "a list in a line": gzip.compress(b"[]\n" + whole),
        "the same twice": gzip.compress(whole + whole),
        "two files in one": _whole() + _whole(),
        "garbage behind": _whole() + b"x" * 10,
        "a bomb": zeros * 100_000,
        "a bomb of spaces": spaces * 80,
        "a bomb behind": _whole() + zeros * 100,
        "long lines": _whole() + (gzip.compress(lines[0].strip()) + spaces * 40 + gzip.compress(b"\n")) * 40,
        "a million lines": gzip.compress(b"{}\n" * 1000) * 1000,
        "a nested line": gzip.compress(whole + b"[" * 10**6 + b"\n"),
        "a header": _whole()[:10],
        "half a header": _whole()[:5],
        "zip": b"PK\x03\x04" + bytes(40),
    }
    for what, content in contents.items():
        for command, arguments in (("snn.retabulate", _RETABULATE), ("snn.compare", _COMPARE)):
            yield Input(what, command, arguments, archive(**{"records.jsonl.gz": content}), f"{HERE}/a")
    for number, line in enumerate(lines):
        yield _archive(f"line {number + 1} twice", gzip.compress(whole + line))
    for kind in KINDS:
        yield _archive(f"records: {kind}", kind, names=f"{HERE}/a")


def _hostile_sweeps() -> Iterator[Input]:
    cells = _sweeps()["mine"]["cells"]
    names = (
        "../../../X",
        "/tmp/X",
        "x\n",
        "",
        ".",
        "..",
        "a/b",
        "A",
        "x y",
        "\u00e9",
        "a" * 65,
        "1x",
        "\0",
        "x.csv",
        "-x",
    )
    for name in (*names, "CON", "mine\u200b", *sorted(catalogue.RESERVED)):
        yield _of_sweeps(f"a sweep {name!r}", {name: {"axes": [], "cells": cells}})
        yield _of_sweeps(f"a further sweep {name!r}", {**_sweeps(), name: {"axes": [], "cells": cells}})
    for axes in (
        "strategy",
        None,
        3,
        {},
        [3],
        [None],
        ["verdict"],
        ["strategy.x.y"],
        [""],
        ["Strategy"],
        ["../x"],
        ["strategy.none"],
        ["none.name"],
        [["strategy"]],
        ["strategy\n"],
        ["__class__"],
        [True],
    ):
        yield _of_sweeps(f"axes {axes}", {"mine": {"axes": axes, "cells": cells}})
    for given in (
        [],
        None,
        {},
        "x",
        [3],
        [None],
        ["x-"],
        ["-"],
        ["x"],
        ["x-123"],
        ["x-" + "0" * 65],
        ["x-0000000G"],
        ["a\n-" + "0" * 8],
        ["x" * 1001 + "-" + "0" * 8],
        [[]],
        [cells],
        cells[0],
        ["\0-" + "0" * 8],
    ):
        yield _of_sweeps(f"cells {str(given)[:30]}", {"mine": {"axes": [], "cells": given}})
    for value in (
        {},
        [],
        None,
        3,
        "x",
        {"mine": []},
        {"mine": None},
        {"mine": {}},
        {"mine": {"axes": []}},
        {"mine": {"cells": cells}},
        {"mine": {"axes": [], "cells": cells, "x": 1}},
        [_sweeps()],
    ):
        yield _of_sweeps(f"sweeps {str(value)[:30]}", value)
    text = as_json(_sweeps())
    for content in (
        b"",
        b"{",
        text[:-1],
        text + text,
        text[:-1] + b', "mine": {}}',
        b"\xff" + text,
        b"[" * 10**5,
        text.decode().encode("utf-16"),
        b"NaN",
        b"null",
    ):
        yield _of_sweeps(f"sweeps {content[-30:]!r}", content)
    for kind in KINDS:
        if kind not in LIKE_NONE:  # there need not be any
            yield _of_sweeps(f"sweeps: {kind}", kind)


def _of_sweeps(what: str, value: Any) -> Input:
    return _archive(
        what,
        sweeps=value if isinstance(value, bytes) or str(value) in KINDS else as_json(value),
        names="a/sweeps.json",
    )


def _hostile_limits() -> Iterator[Input]:
    good = limits_of()
    changes = {
        "a negative sample": edited(good, ("limits", 0, "samples"), [-1.0]),
        "a sample of text": edited(good, ("limits", 0, "samples"), ["1"]),
        "another unit": edited(good, ("limits", 0, "unit"), "furlong"),
        "no device": without(good, ("provenance", "device")),
        "a device of two lines": edited(good, ("provenance", "device"), "a\nb"),
        "no limits": without(good, ("limits",)),
        "an object of limits": edited(good, ("limits",), {}),
        "version 3": good | {"limits_version": 3},
        "version 2.0": good | {"limits_version": 2.0},
        "no version": without(good, ("limits_version",)),
    }
    for what, changed in changes.items():
        yield _archive(f"limits: {what}", limits=as_json(sealed(changed)), names="a/limits.json")
    for content in (
        b"",
        b"{",
        b"[]",
        b"null",
        b"3",
        as_json(good)[:-9],
        as_json(good) * 2,
        b"[" * 10**5,
        b"\xff",
        as_json(edited(good, ("l2_bytes",), 1)),
        as_json(without(good, ("digest",))),
    ):
        yield _archive(f"limits: {content[:20]!r}", limits=content, names="a/limits.json")
    for kind in KINDS:
        if kind not in LIKE_NONE:
            yield _archive(f"limits: {kind}", limits=kind, names="a/limits.json")
            files = archive() | {"a/limits/x.json": kind}
            yield Input(f"one of limits: {kind}", "snn.retabulate", _RETABULATE, files, "a/limits/x.json")


def _mixed() -> Iterator[Input]:
    """Rounds of one cell that were not measured with the same, each with a digest that fits."""
    first, second, *others = _archived()
    changes = {
        "sources": (("provenance", "source_hash"), "0" * 16),
        "NumPy": (("provenance", "versions", "numpy"), "1.0"),
        "Python": (("provenance", "versions", "python"), "2.7"),
        "threads": (("provenance", "blas_threads"), 99),
        "ledgers": (("ledger", "mallocs"), 12345),
        "rounds": (("round",), 1),
    }
    for what, change in changes.items():
        found = [first, forged(second, change), *others]
        random.Random(what).shuffle(found)
        for command, arguments in (("snn.retabulate", _RETABULATE), ("snn.compare", _COMPARE)):
            yield Input(
                f"other {what}",
                command,
                arguments,
                archive(**{"records.jsonl.gz": _packed(found)}),
                "a/records",
            )
            cells = {f"a/cells/{i}.json": as_json(record) for i, record in enumerate(found)}
            yield Input(f"other {what} in files", command, arguments, cells, "a/cells/")


def _folders() -> Iterator[Input]:
    """Folders of results with something else among their records."""
    good = {f"a/cells/x/{i}.json": as_json(record) for i, record in enumerate(_archived())}
    for kind in KINDS:
        if kind != "no file":
            for command, arguments in (("snn.retabulate", _RETABULATE), ("snn.compare", _COMPARE)):
                name = "a/cells/x/odd.json"
                yield Input(f"among the cells: {kind}", command, arguments, {**good, name: kind}, name)
    for what, content in no_records(as_json(reference())):
        name = "a/cells/odd.json"
        yield Input(f"among the cells: {what}", "snn.retabulate", _RETABULATE, {**good, name: content}, name)
    for files in (
        {"a/cells": b"x"},
        {"a/cells": "folder"},
        {"a": "folder"},
        {"a": b"x"},
        {},
        {"a/cells/x": b"{}"},
    ):
        yield Input(f"only {files}", "snn.retabulate", _RETABULATE, files, f"{HERE}/a")


def _calls() -> Iterator[Input]:
    """A good archive and outputs, grids and other archives that are none."""
    outputs = {"a file": b"x", "device": "device", "pipe": "pipe", "socket": "socket", "endless": "endless"}
    for what, content in outputs.items():
        for command, arguments in (("snn.retabulate", _RETABULATE), ("snn.compare", _COMPARE)):
            yield Input(f"the output is: {what}", command, arguments, archive() | {"out": content}, "out")
            below = (*arguments[:-1], "out/further/out")
            yield Input(f"the output is below: {what}", command, below, archive() | {"out": content}, "out")
    for output in ("/proc/x", "/sys/x", "/dev/null/x", "x" * 300):
        yield Input(
            f"the output is {output[:20]!r}", "snn.retabulate", (f"{HERE}/a", output), archive(), output
        )
    for kind in KINDS:
        arguments = (*_RETABULATE, "g.yaml")
        yield Input(
            f"the grid is: {kind}", "snn.retabulate", arguments, archive() | {"g.yaml": kind}, "g.yaml"
        )
        yield Input(
            f"the other is: {kind}",
            "snn.compare",
            (f"{HERE}/a", f"{HERE}/b", "out"),
            archive() | {"b": kind},
            f"{HERE}/b",
        )
    yield Input("a long name", "snn.compare", ("x" * 300, f"{HERE}/a", "out"), archive(), "x" * 300)
