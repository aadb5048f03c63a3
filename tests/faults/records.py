"""Malformed records, archives of records with their sweeps and limits, and folders of results."""

import contextlib
import gzip
import io
import json
import random
import zlib
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import jsonschema
import real_records
from attempt import HERE, KINDS, LIKE_NONE, Input
from garbage import NO_FILES, NO_NAMES, VALUES, cut, damaged, flipped, no_json, values, words
from hypothesis import strategies as st
from real_records import at, edited, forged, leaves, measured, without
from records_of import limits_of
from test_record_door import IMPOSSIBLE

from snn.grid import catalogue, naming
from snn.records import untrusted
from snn.records.store import sealed

Record = dict[str, Any]

READERS = {
    "snn retabulate": (f"{HERE}/a", f"{HERE}/out"),
    "snn compare": (f"{HERE}/a", f"{HERE}/a", f"{HERE}/out"),
    "snn merge": (f"{HERE}/a", f"output={HERE}/out"),
}
"""The commands that read an archive, with their arguments."""
_BOTH = ("snn retabulate", "snn compare")


def as_json(value: Any) -> bytes:
    return json.dumps(value).encode()


@cache
def reference() -> Record:
    """The record of a cell, which is not to be changed."""
    with contextlib.redirect_stderr(io.StringIO()):  # its progress
        return real_records.reference()


@cache
def two_cells() -> tuple[Record, ...]:
    """The records of two cells, two rounds of each."""
    several = ("network.hidden=[8]", "protocol.rounds=2", "protocol.runs=4")
    each = [(name, number) for name in ("reference", "combined") for number in (1, 2)]
    with contextlib.redirect_stderr(io.StringIO()):
        return tuple(measured(f"strategy={name}", *several, f"round={number}") for name, number in each)


# ---- single records


@st.composite
def _edits(draw: Any, record: Record, name: str = "record") -> tuple[str, Record, bool]:
    """A record with something changed or left out, with a digest that fits or not; whether that is wrong.

    Whether it is under a digest that fits, a validator of JSON Schema says; what it allows may be valid.
    """
    way = draw(st.sampled_from(_ways(record)))
    way = way[: draw(st.integers(1, len(way)))]
    container, value = at(record, way[:-1]), draw(st.sampled_from(VALUES))
    more = {**container, "_x": {"y": [[]]}} if isinstance(container, dict) else [*container, {"_x": 1}]
    edits = (
        (f"{way} is {value!r}", edited(record, way, value)),
        (f"{way} is left out", without(record, way)),
        (f"{way} has a further key", edited(record, way[:-1], more)),
    )
    what, changed = draw(st.sampled_from(edits))
    if json.dumps(changed, sort_keys=True) == json.dumps(record, sort_keys=True):
        return what, changed | {"digest": "0" * 64}, True
    if way == ("digest",) or not draw(st.booleans()):
        return what, changed, True
    return what, sealed(changed), not _validator(name).is_valid(changed)


def _ways(record: Record) -> list[tuple[Any, ...]]:
    """The ways to all values, but of the many events to some."""
    ways = [way for way in leaves(record) if way not in (("schema_version",), ("limits_version",))]
    events = [way for way in ways if way[:3] == ("explanation", "trace", "events")]
    return [way for way in ways if way[:3] != ("explanation", "trace", "events")] + events[::40]


@cache
def _validator(name: str) -> jsonschema.Draft4Validator:
    return jsonschema.Draft4Validator(untrusted.load_schema(name))


def malformed() -> st.SearchStrategy[Input]:
    """Records with an edit, impossible ones, and files that are none."""
    whole = as_json(reference())
    impossible = st.sampled_from(list(IMPOSSIBLE)).map(
        lambda what: _record(what, as_json(forged(reference(), *IMPOSSIBLE[what][0])))
    )
    return st.one_of(
        _edits(reference()).map(lambda edit: _record(edit[0], as_json(edit[1]), edit[2], same=False)),
        impossible,
        cut(whole).map(lambda content: _record(f"the first {len(content)} bytes", content)),
        st.sampled_from(list(known())),
    )


def known() -> Iterator[Input]:
    """Files that are no record."""
    for what, content in (*_no_records(as_json(reference())), *((kind, kind) for kind in KINDS)):
        yield _record(what, content)


def garbage() -> st.SearchStrategy[Input]:
    """Damaged records, and any value."""
    any_ = values(("ok", "x"), ("schema_version", "cell", "runs", "digest", "summary")).map(as_json)
    return (damaged(as_json(reference())) | any_).map(lambda one: _record("garbage", one, is_wrong=False))


def _record(what: str, content: bytes | str, is_wrong: bool = True, same: bool = True) -> Input:
    valid = _is_the_record if same else None
    return Input(what, "snn perfetto", ("r.json", "t.json"), {"r.json": content}, "r.json", is_wrong, valid)


def _is_the_record(here: Path) -> bool:
    return bool(json.loads((here / "r.json").read_bytes()) == reference())


def _no_records(whole: bytes) -> Iterator[tuple[str, bytes]]:
    yield from no_json(whole, "reason")
    for version in ("0", "1", "6", "-5", "5.0", "true", "null", '"5"', "[5]", "{}", "1" + "0" * 400):
        text = whole.decode().replace('"schema_version": 5', f'"schema_version": {version}')
        yield f"version {version[:9]}", text.encode()


# ---- archives


def one_sweep() -> Record:
    names = sorted({f"x/y-{naming.digest(record['cell'])}" for record in two_cells()})
    return {"mine": {"axes": ["strategy"], "cells": names}}


def _packed(found: Any) -> bytes:
    return gzip.compress(b"".join(as_json(record) + b"\n" for record in found), 1, mtime=0)


@cache
def all_records() -> bytes:
    return _packed(two_cells())


def archive(**given: bytes | str) -> dict[str, bytes | str]:
    """The files of an archive, some of which may be given: records, sweeps, limits."""
    usual = {"records": all_records(), "sweeps": as_json(one_sweep()), "limits": as_json(limits_of())}
    names = {"records": "a/records.jsonl.gz", "sweeps": "a/sweeps.json", "limits": "a/limits.json"}
    return {names[what]: content for what, content in (usual | given).items()}


def _archive(
    what: str, command: str = "snn retabulate", names: str = "", is_wrong: bool = True, **given: bytes | str
) -> Input:
    """An archive of which these files are not as they were; sweeps and limits only retabulate reads."""
    (part,) = given
    names = names or {"sweeps": "a/sweeps.json", "limits": "a/limits.json"}.get(part, f"{HERE}/a")
    return Input(f"{part}: {what}", command, READERS[command], archive(**given), names, is_wrong)


def archives() -> st.SearchStrategy[Input]:
    """Archives with an edited record, sweeps or limits, and files that are none."""
    command, limits = st.sampled_from(list(READERS)), limits_of()
    bytes_ = cut(all_records()).map(lambda one: (f"the first {len(one)} bytes", one, True))
    bytes_ |= flipped(all_records(), 10).map(lambda one: ("another byte", one, not _says_the_same(one)))
    lines = st.integers(0, 3).flatmap(lambda number: _edits(two_cells()[number]).map(partial(_line, number)))
    impossible = st.builds(_impossible_line, st.integers(0, 3), st.sampled_from(list(IMPOSSIBLE)))
    of_limits = _edits(limits, "limits").map(
        lambda edit: _archive(edit[0], limits=as_json(edit[1]), is_wrong=edit[2], names="limits.json")
    )
    known = (_no_archives, *KNOWN.values())
    return st.one_of(
        st.builds(
            lambda one, command: _archive(one[0], command, records=one[1], is_wrong=one[2]),
            bytes_ | lines | impossible,
            command,
        ),
        of_limits,
        *(st.sampled_from(list(some())) for some in known),
    )


def damaged_archives() -> st.SearchStrategy[Input]:
    """Damaged archives, and any sweeps."""
    cells = one_sweep()["mine"]["cells"]
    any_ = values(("strategy", *cells), ("axes", "cells", "mine"))
    sweeps = st.dictionaries(
        st.sampled_from(("mine", "neurons", "x")) | st.text(max_size=3), any_, max_size=2
    )
    own_forms = st.sampled_from(("mine", "neurons", "depth", "peers", "cpu", "precision", "learning_rates"))
    usual = st.fixed_dictionaries({"axes": st.just(["strategy"]), "cells": st.just(cells)})
    sweeps |= st.dictionaries(own_forms, usual, min_size=1, max_size=2)
    return st.one_of(
        sweeps.map(lambda one: _archive("any", sweeps=as_json(one), is_wrong=False, names=f"{HERE}/a")),
        damaged(all_records()).map(lambda one: _archive("garbage", records=one, is_wrong=False)),
    )


def _line(number: int, edit: tuple[str, Record, bool]) -> tuple[str, bytes, bool]:
    what, record, is_wrong = edit
    found = [*two_cells()]
    found[number] = record
    return f"line {number + 1}: {what}", _packed(found), is_wrong


def _impossible_line(number: int, what: str) -> tuple[str, bytes, bool]:
    return _line(number, (what, forged(two_cells()[number], *IMPOSSIBLE[what][0]), True))


def _says_the_same(packed: bytes) -> bool:
    """Few bits are of no meaning, as those of the length of a code that no byte has: they change nothing."""
    try:
        return gzip.decompress(packed) == gzip.decompress(all_records())
    except (OSError, EOFError, zlib.error):
        return False


def _no_archives() -> Iterator[Input]:
    whole, packed, zeros = gzip.decompress(all_records()), gzip.compress, gzip.compress(bytes(1 << 20))
    lines, spaces = whole.splitlines(keepends=True), gzip.compress(b" " * (1 << 20))
    contents = {
        "no gzip": whole,
        "gzip twice": packed(all_records()),
        "nothing": b"",
        "gzip of nothing": packed(b""),
        "a blank line": packed(b"\n"),
        "a blank line at its end": packed(whole + b"\n"),
        "a line of text": packed(whole + b"x\n"),
        "no UTF-8": packed(whole + b"\xff\n"),
        "UTF-16": packed(whole.decode().encode("utf-16")),
        "one line": packed(whole.replace(b"\n", b" ")),
        "a list": packed(b"[" + whole.strip().replace(b"\n", b",") + b"]\n"),
        "a list in a line": packed(b"[]\n" + whole),
        "the same twice": packed(whole + whole),
        "two files in one": all_records() + all_records(),
        "garbage behind": all_records() + b"x" * 10,
        "a bomb": zeros * 100_000,
        "a bomb of spaces": spaces * 80,
        "a bomb behind": all_records() + zeros * 100,
        "long lines": all_records() + (packed(lines[0].strip()) + spaces * 40 + packed(b"\n")) * 40,
        "a million lines": packed(b"{}\n" * 1000) * 1000,
        "a nested line": packed(whole + b"[" * 10**6 + b"\n"),
        "a header": all_records()[:10],
        "half a header": all_records()[:5],
        "zip": b"PK\x03\x04" + bytes(40),
    }
    contents |= {f"line {number} twice": packed(whole + line) for number, line in enumerate(lines, 1)}
    for command in _BOTH:  # what is there twice counts once where folders are merged
        yield from (_archive(what, command, records=content) for what, content in contents.items())
        yield from (_archive(kind, command, records=kind) for kind in KINDS)


def _no_sweeps() -> Iterator[Input]:
    cells, text = one_sweep()["mine"]["cells"], as_json(one_sweep())
    found: list[tuple[str, Any]] = [("a list", [one_sweep()])]
    for name in (*NO_NAMES, *sorted(catalogue.RESERVED)):
        sweep = {name: {"axes": [], "cells": cells}}
        found += [(f"named {name!r}", sweep), (f"a further one {name!r}", one_sweep() | sweep)]
    axes = words("verdict strategy.x.y Strategy strategy.none none.name __class__")
    for axis in (*VALUES, *axes, "strategy\n"):
        found += [(f"axes {one}", {"mine": {"axes": one, "cells": cells}}) for one in (axis, [axis])]
    odd = [f"{name}-{'0' * 8}" for name in ("a\n", "\0", "x" * 1001)]
    for cell in (*VALUES, *words("x- - x-123 x-0000000G"), "x-" + "0" * 65, *odd, cells):
        found += [(f"cells {str(one)[:30]}", {"mine": {"axes": [], "cells": one}}) for one in (cell, [cell])]
    for value in (*VALUES, {"axes": []}, {"cells": cells}, {"axes": [], "cells": cells, "x": 1}):
        found += [(f"a sweep {value}", {"mine": value}), (f"{value}", value)]
    for what, value in found:
        if value != {"mine": {"axes": [], "cells": cells}}:
            yield _archive(what, sweeps=as_json(value))
    for what, content in no_json(text, "axes"):
        yield _archive(what, sweeps=content)
    for kind in KINDS:
        if kind not in LIKE_NONE:  # there need not be any
            yield _archive(kind, sweeps=kind)


def _no_limits() -> Iterator[Input]:
    good = limits_of()
    changes = {
        "a negative sample": edited(good, ("limits", 0, "samples"), [-1.0]),
        "a sample of text": edited(good, ("limits", 0, "samples"), ["1"]),
        "another unit": edited(good, ("limits", 0, "unit"), "furlong"),
        "a device of two lines": edited(good, ("provenance", "device"), "a\nb"),
        "no limits": without(good, ("limits",)),
        "version 3": good | {"limits_version": 3},
        "version 2.0": good | {"limits_version": 2.0},
        "no version": without(good, ("limits_version",)),
    }
    contents = {what: as_json(sealed(changed)) for what, changed in changes.items()} | dict(
        no_json(as_json(good), "l2_bytes")
    )
    contents["no digest"] = as_json(without(good, ("digest",)))
    for what, content in contents.items():
        yield _archive(what, limits=content)
    for kind in KINDS:
        if kind not in LIKE_NONE:
            yield _archive(kind, limits=kind)
            name = "a/limits/x.json"
            yield Input(f"one of limits: {kind}", *_retabulated(archive() | {name: kind}), name)


def _retabulated(files: dict[str, bytes | str]) -> tuple[str, tuple[str, ...], dict[str, bytes | str]]:
    return "snn retabulate", READERS["snn retabulate"], files


def _mixed() -> Iterator[Input]:
    """Rounds of one cell that were not measured with the same, each with a digest that fits."""
    first, second, *others = two_cells()
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
        cells = {f"a/cells/{i}.json": as_json(record) for i, record in enumerate(found)}
        for command in _BOTH:
            yield _archive(f"other {what}", command, "a/records", records=_packed(found))
            yield Input(f"other {what} in files", command, READERS[command], cells, "a/cells/")


def _folders() -> Iterator[Input]:
    """Folders of results with something else among their records."""
    good = {f"a/cells/x/{i}.json": as_json(record) for i, record in enumerate(two_cells())}
    odd = "a/cells/x/odd.json"
    for command in _BOTH:
        for kind in KINDS:
            if kind != "no file":
                files = {**good, odd: kind}
                yield Input(f"among the cells: {kind}", command, READERS[command], files, odd)
    for what, content in _no_records(as_json(reference())):
        yield Input(f"among the cells: {what}", *_retabulated({**good, odd: content}), odd)
    only: tuple[dict[str, bytes | str], ...] = (
        {"a/cells": b"x"},
        {"a/cells": "folder"},
        {"a": "folder"},
        {"a": b"x"},
    )
    for files in (*only, {}, {"a/cells/x": b"{}"}):
        yield Input(f"only {files}", *_retabulated(files), f"{HERE}/a")


def _calls() -> Iterator[Input]:
    """A good archive and outputs, grids and other archives that are none."""
    for kind in ("device", "pipe", "socket", "endless", "a file"):
        files = archive() | {"out": b"x" if kind == "a file" else kind}
        for command in _BOTH:
            *inputs, _ = READERS[command]
            for output in ("out", "out/further/out"):
                yield Input(f"the output {output} is: {kind}", command, (*inputs, output), files, "out")
    for output in NO_FILES:
        if output.startswith(("/proc", "/sys", "x")):
            yield Input(
                f"the output is {output[:20]!r}", "snn retabulate", (f"{HERE}/a", output), archive(), output
            )
    for kind in KINDS:
        arguments = (*READERS["snn retabulate"], "g.yaml")
        yield Input(
            f"the grid is: {kind}", "snn retabulate", arguments, archive() | {"g.yaml": kind}, "g.yaml"
        )
        arguments = (f"{HERE}/a", f"{HERE}/b", "out")
        yield Input(f"the other is: {kind}", "snn compare", arguments, archive() | {"b": kind}, f"{HERE}/b")
    yield Input("a long name", "snn compare", ("x" * 300, f"{HERE}/a", "out"), archive(), "x" * 300)


KNOWN = {"sweeps": _no_sweeps, "limits": _no_limits, "rounds": _mixed, "folders": _folders, "calls": _calls}
"""Lists of what is no archive, but for files that unpack to gigabytes."""
