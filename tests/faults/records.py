"""Malformed records, archives of records with their sweeps and limits, and folders of results."""

import contextlib
import gzip
import io
import json
import random
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import real_records
from attempt import HERE, LIKE_NONE, Input
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
def _edits(draw: Any, record: Record, name: str = "record") -> tuple[Record, bool]:
    """A record with something changed or left out, with a digest that fits or not; whether that is wrong.

    Under a digest that fits, it is wrong if a validator of JSON Schema says so; else it may be valid.
    """
    way = draw(st.sampled_from(_ways(record)))
    way = way[: draw(st.integers(1, len(way)))]
    container, value = at(record, way[:-1]), draw(st.sampled_from(VALUES))
    more = {**container, "_x": {"y": [[]]}} if isinstance(container, dict) else [*container, {"_x": 1}]
    edits = (edited(record, way, value), without(record, way), edited(record, way[:-1], more))
    changed = draw(st.sampled_from(edits))
    if json.dumps(changed, sort_keys=True) == json.dumps(record, sort_keys=True):
        return changed | {"digest": "0" * 64}, True
    if way == ("digest",) or not draw(st.booleans()):
        return changed, True
    return sealed(changed), not _validator(name).is_valid(changed)


def _ways(record: Record) -> list[tuple[Any, ...]]:
    """The ways to all values, but of the many events to some."""
    ways = [way for way in leaves(record) if way not in (("schema_version",), ("limits_version",))]
    events = [way for way in ways if way[:3] == ("explanation", "trace", "events")]
    return [way for way in ways if way[:3] != ("explanation", "trace", "events")] + events[::40]


@cache
def _validator(name: str) -> jsonschema.Draft4Validator:
    return jsonschema.Draft4Validator(untrusted.load_schema(name))


_IMPOSSIBLE = st.sampled_from(list(IMPOSSIBLE))


def _impossible(record: Record, what: str) -> Record:
    return forged(record, *IMPOSSIBLE[what][0])


def malformed() -> st.SearchStrategy[Input]:
    """Records with an edit, impossible ones, and files that are not a record."""
    return st.one_of(
        _edits(reference()).map(lambda edit: _record(as_json(edit[0]), is_wrong=edit[1])),
        _IMPOSSIBLE.map(lambda what: _record(as_json(_impossible(reference(), what)))),
        cut(as_json(reference())).map(_record),
        st.sampled_from(list(known())),
    )


def known() -> Iterator[Input]:
    """Files that are not a record."""
    yield from map(_record, _no_records(as_json(reference())))
    yield from _record(b"").of_kinds("r.json")


def garbage() -> st.SearchStrategy[Input]:
    """Damaged records, and any value."""
    any_ = values(("ok", "x"), ("schema_version", "cell", "runs", "digest", "summary")).map(as_json)
    return (damaged(as_json(reference())) | any_).map(
        lambda content: replace(_record(content), is_wrong=False, really_valid=_is_the_record)
    )


def _record(content: bytes, is_wrong: bool = True) -> Input:
    return Input("snn perfetto", ("r.json", "t.json"), {"r.json": content}, "r.json", is_wrong)


def _is_the_record(here: Path) -> bool:
    return bool(json.loads((here / "r.json").read_bytes()) == reference())


def _no_records(whole: bytes) -> Iterator[bytes]:
    yield from no_json(whole, "reason")
    for version in ("0", "1", "6", "-5", "5.0", "true", "null", '"5"', "[5]", "{}", "1" + "0" * 400):
        yield whole.replace(b'"schema_version": 5', f'"schema_version": {version}'.encode())


# ---- archives


def one_sweep() -> Record:
    names = sorted({f"x/y-{naming.digest(record['cell'])}" for record in two_cells()})
    return {"mine": {"axes": ["strategy"], "cells": names}}


def _packed(found: Iterable[Any]) -> bytes:
    return gzip.compress(b"".join(as_json(record) + b"\n" for record in found), 1, mtime=0)


@cache
def all_records() -> bytes:
    return _packed(two_cells())


_PARTS = {"records": "a/records.jsonl.gz", "sweeps": "a/sweeps.json", "limits": "a/limits.json"}


def archive(**given: bytes) -> dict[str, bytes | str]:
    """The files of an archive, of which some may be given: records, sweeps, limits."""
    usual = {"records": all_records(), "sweeps": as_json(one_sweep()), "limits": as_json(limits_of())}
    return {_PARTS[what]: content for what, content in (usual | given).items()}


def _archive(
    command: str = "snn retabulate", is_wrong: bool = True, names: str = "", **given: bytes
) -> Input:
    """An archive of which a file is not as it was; sweeps and limits only retabulate reads."""
    (part,) = given
    names = names or (f"{HERE}/a" if part == "records" else _PARTS[part])
    return Input(command, READERS[command], archive(**given), names, is_wrong)


def archives() -> st.SearchStrategy[Input]:
    """Archives with an edited record, sweeps or limits, and files that are not an archive."""
    number = st.integers(0, 3)
    bytes_ = cut(all_records()).map(lambda one: (one, True))
    bytes_ |= flipped(all_records(), 10).map(lambda one: (one, not _says_the_same(one)))
    lines = number.flatmap(
        lambda i: _edits(two_cells()[i]).map(lambda edit: (_with_line(i, edit[0]), edit[1]))
    )
    impossible = st.builds(
        lambda i, what: (_with_line(i, _impossible(two_cells()[i], what)), True), number, _IMPOSSIBLE
    )
    return st.one_of(
        st.builds(
            lambda one, command: _archive(command, one[1], records=one[0]),
            bytes_ | lines | impossible,
            st.sampled_from(list(READERS)),
        ),
        _edits(limits_of(), "limits").map(
            lambda edit: _archive(is_wrong=edit[1], limits=as_json(edit[0]), names="limits.json")
        ),
        *(st.sampled_from(list(some())) for some in (_no_archives, *KNOWN.values())),
    )


def damaged_archives() -> st.SearchStrategy[Input]:
    """Damaged archives, and any sweeps."""
    cells = one_sweep()["mine"]["cells"]
    any_ = values(("strategy", *cells), ("axes", "cells", "mine"))
    names = st.sampled_from(("mine", "neurons", "x")) | st.text(max_size=3)
    own_forms = st.sampled_from(("mine", "neurons", "depth", "peers", "cpu", "precision", "learning_rates"))
    usual = st.fixed_dictionaries({"axes": st.just(["strategy"]), "cells": st.just(cells)})
    sweeps = st.dictionaries(names, any_, max_size=2)
    sweeps |= st.dictionaries(own_forms, usual, min_size=1, max_size=2)
    return st.one_of(
        sweeps.map(lambda one: _archive(is_wrong=False, names=f"{HERE}/a", sweeps=as_json(one))),
        damaged(all_records()).map(lambda one: _archive(is_wrong=False, records=one)),
    )


def _with_line(number: int, record: Record) -> bytes:
    found = [*two_cells()]
    found[number] = record
    return _packed(found)


def _says_the_same(packed: bytes) -> bool:
    """A few bits have no meaning, such as those of the length of a code that no byte has."""
    try:
        return gzip.decompress(packed) == gzip.decompress(all_records())
    except (OSError, EOFError, zlib.error):
        return False


def _no_archives() -> Iterator[Input]:
    whole, packed, zeros = gzip.decompress(all_records()), gzip.compress, gzip.compress(bytes(1 << 20))
    lines, spaces = whole.splitlines(keepends=True), gzip.compress(b" " * (1 << 20))
    contents = [
        *(whole, packed(all_records()), b"", packed(b""), packed(b"\n"), packed(whole + b"\n")),
        *(packed(whole + b"x\n"), packed(whole + b"\xff\n"), packed(whole.decode().encode("utf-16"))),
        packed(whole.replace(b"\n", b" ")),
        packed(b"[" + whole.strip().replace(b"\n", b",") + b"]\n"),
        *(packed(b"[]\n" + whole), packed(whole + whole), all_records() + all_records()),
        *(packed(whole + line) for line in lines),
        *(all_records() + b"x" * 10, all_records()[:10], all_records()[:5], b"PK\x03\x04" + bytes(40)),
        *(zeros * 100_000, spaces * 80, all_records() + zeros * 100),
        all_records() + (packed(lines[0].strip()) + spaces * 40 + packed(b"\n")) * 40,
        packed(b"{}\n" * 1000) * 1000,
        packed(whole + b"[" * 10**6 + b"\n"),
    ]
    for command in _BOTH:  # what is there twice counts once if folders are merged
        yield from (_archive(command, records=content) for content in contents)
        yield from _archive(command, records=b"").of_kinds(_PARTS["records"], f"{HERE}/a")


def _no_sweeps() -> Iterator[Input]:
    cells = one_sweep()["mine"]["cells"]
    found: list[Any] = [[one_sweep()]]
    for name in (*NO_NAMES, *sorted(catalogue.RESERVED)):
        sweep = {name: {"axes": [], "cells": cells}}
        found += [sweep, one_sweep() | sweep]
    axes = words("verdict strategy.x.y Strategy strategy.none none.name __class__")
    for axis in (*VALUES, *axes, "strategy\n"):
        found += [{"mine": {"axes": one, "cells": cells}} for one in (axis, [axis])]
    odd = [f"{name}-{'0' * 8}" for name in ("a\n", "\0", "x" * 1001)]
    for cell in (*VALUES, *words("x- - x-123 x-0000000G"), "x-" + "0" * 65, *odd, cells):
        found += [{"mine": {"axes": [], "cells": one}} for one in (cell, [cell])]
    for value in (*VALUES, {"axes": []}, {"cells": cells}, {"axes": [], "cells": cells, "x": 1}):
        found += [{"mine": value}, value]
    contents = [as_json(value) for value in found if value != {"mine": {"axes": [], "cells": cells}}]
    for content in (*contents, *no_json(as_json(one_sweep()), "axes")):
        yield _archive(sweeps=content)
    yield from _archive(sweeps=b"").of_kinds(_PARTS["sweeps"], but=LIKE_NONE)  # there need not be any


def _no_limits() -> Iterator[Input]:
    good = limits_of()
    changed = (
        *(edited(good, ("limits", 0, "samples"), samples) for samples in ([-1.0], ["1"])),
        edited(good, ("limits", 0, "unit"), "furlong"),
        edited(good, ("provenance", "device"), "a\nb"),
        *(without(good, (key,)) for key in ("limits", "limits_version")),
        *(good | {"limits_version": version} for version in (3, 2.0)),
    )
    contents = [*(as_json(sealed(one)) for one in changed), as_json(without(good, ("digest",)))]
    for content in (*contents, *no_json(as_json(good), "l2_bytes")):
        yield _archive(limits=content)
    for name in (_PARTS["limits"], "a/limits/x.json"):
        yield from _archive(limits=as_json(good)).of_kinds(name, but=LIKE_NONE)


def _mixed() -> Iterator[Input]:
    """Rounds of one cell that were not measured with the same, each with a digest that fits."""
    first, second, *others = two_cells()
    changes = {
        ("provenance", "source_hash"): "0" * 16,
        ("provenance", "versions", "numpy"): "1.0",
        ("provenance", "versions", "python"): "2.7",
        ("provenance", "blas_threads"): 99,
        ("ledger", "mallocs"): 12345,
        ("round",): 1,
    }
    for change in changes.items():
        found = [first, forged(second, change), *others]
        random.Random(str(change)).shuffle(found)
        cells = {f"a/cells/{i}.json": as_json(record) for i, record in enumerate(found)}
        for command in _BOTH:
            yield _archive(command, names="a/records", records=_packed(found))
            yield Input(command, READERS[command], cells, "a/cells/")


def _folders() -> Iterator[Input]:
    """Folders of results with something else among their records."""
    good = {f"a/cells/x/{i}.json": as_json(record) for i, record in enumerate(two_cells())}
    odd, retabulate = "a/cells/x/odd.json", ("snn retabulate", READERS["snn retabulate"])
    for command in _BOTH:
        yield from Input(command, READERS[command], good).of_kinds(odd, but=("no file",))
    for content in _no_records(as_json(reference())):
        yield Input(*retabulate, {**good, odd: content}, odd)
    only: tuple[dict[str, bytes | str], ...] = ({"a/cells": b"x"}, {"a/cells": "folder"}, {"a": "folder"})
    for files in (*only, {"a": b"x"}, {}, {"a/cells/x": b"{}"}):
        yield Input(*retabulate, files, f"{HERE}/a")


def _calls() -> Iterator[Input]:
    """A good archive and outputs, grids and other archives that are wrong."""
    usual = READERS["snn retabulate"]
    for command in _BOTH:
        *inputs, _ = READERS[command]
        for output in ("out", "out/further/out"):
            for kind in ("device", "pipe", "socket", "endless", b"x"):
                yield Input(command, (*inputs, output), archive() | {"out": kind}, "out")
    for output in NO_FILES:
        if output.startswith(("/proc", "/sys", "x")):
            yield Input("snn retabulate", (f"{HERE}/a", output), archive(), output)
    yield from Input("snn retabulate", (*usual, "g.yaml"), archive()).of_kinds("g.yaml")
    yield from Input("snn compare", (f"{HERE}/a", f"{HERE}/b", "out"), archive()).of_kinds("b", f"{HERE}/b")
    yield Input("snn compare", ("x" * 300, f"{HERE}/a", "out"), archive(), "x" * 300)


KNOWN = {"sweeps": _no_sweeps, "limits": _no_limits, "rounds": _mixed, "folders": _folders, "calls": _calls}
"""Lists of what is not an archive, except for files that unpack to gigabytes."""
