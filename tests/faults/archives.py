"""Malformed archives of records, and folders of results."""

import gzip
import random
import zlib
from collections.abc import Iterator
from typing import Any

from archived import COMPARE, RETABULATE, all_records, archive, archive_with, one_sweep, packed, two_cells
from archived_parts import hostile_limits, hostile_sweeps
from attempt import HERE, KINDS, Input
from garbage import damaged, values
from hypothesis import strategies as st
from real_records import forged
from records_of import limits_of
from stored_records import as_json, edits, no_records, reference
from test_record_door import IMPOSSIBLE


def malformed() -> st.SearchStrategy[Input]:
    """Archives with an edited record, sweeps or limits, and files that are none."""
    numbers = st.integers(0, 3)
    line = numbers.flatmap(
        lambda number: edits(two_cells()[number]).map(lambda edit: _edited_line(number, *edit))
    )
    impossible = st.builds(_impossible_line, numbers, st.sampled_from(list(IMPOSSIBLE)))
    cut = st.integers(0, len(all_records()) - 1).map(
        lambda size: archive_with(f"the first {size} bytes", records=all_records()[:size], names=f"{HERE}/a")
    )
    flipped = st.builds(_flipped, st.integers(10, len(all_records()) - 1), st.integers(1, 255))
    limits = edits(limits_of(), "limits").map(
        lambda edit: archive_with(edit[0], limits=as_json(edit[1]), is_wrong=edit[2], names="limits.json")
    )
    known = (_no_archives, hostile_sweeps, hostile_limits, _mixed, _folders, _calls)
    return st.one_of(
        line, impossible, cut, flipped, limits, *(st.sampled_from(list(some())) for some in known)
    )


def garbage() -> st.SearchStrategy[Input]:
    """Damaged archives, and any sweeps."""
    any_ = values(("strategy", *one_sweep()["mine"]["cells"]), ("axes", "cells", "mine"))
    published = st.dictionaries(
        st.sampled_from(("mine", "neurons", "x")) | st.text(max_size=3), any_, max_size=2
    )
    published |= st.dictionaries(
        st.sampled_from(("mine", "neurons", "depth", "peers", "cpu", "precision", "learning_rates")),
        st.fixed_dictionaries(
            {"axes": st.just(["strategy"]), "cells": st.just(one_sweep()["mine"]["cells"])}
        ),
        min_size=1,
        max_size=2,
    )
    sweeps = published.map(
        lambda value: archive_with("any sweeps", sweeps=as_json(value), is_wrong=False, names=f"{HERE}/a")
    )
    return sweeps | damaged(all_records()).map(
        lambda one: archive_with("garbage", records=one, is_wrong=False)
    )


def _edited_line(number: int, what: str, record: dict[str, Any], is_wrong: bool) -> Input:
    found = [*two_cells()]
    found[number] = record
    return archive_with(f"line {number + 1}: {what}", packed(found), is_wrong=is_wrong)


def _impossible_line(number: int, what: str) -> Input:
    found = [*two_cells()]
    found[number] = forged(found[number], *IMPOSSIBLE[what][0])
    return archive_with(f"line {number + 1}: {what}", packed(found))


def _flipped(place: int, change: int) -> Input:
    """Few bits are of no meaning, as those of the length of a code that no byte has: they change nothing."""
    content = bytearray(all_records())
    content[place] ^= change
    return archive_with(f"byte {place} is another", bytes(content), is_wrong=not _says_the_same(content))


def _says_the_same(packed_: bytes | bytearray) -> bool:
    try:
        return gzip.decompress(packed_) == gzip.decompress(all_records())
    except (OSError, EOFError, zlib.error):
        return False


def _no_archives() -> Iterator[Input]:
    whole = gzip.decompress(all_records())
    lines = whole.splitlines(keepends=True)
    zeros, spaces = gzip.compress(bytes(1 << 20)), gzip.compress(b" " * (1 << 20))
    contents = {
        "no gzip": whole,
        "gzip twice": gzip.compress(all_records()),
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
        "two files in one": all_records() + all_records(),
        "garbage behind": all_records() + b"x" * 10,
        "a bomb": zeros * 100_000,
        "a bomb of spaces": spaces * 80,
        "a bomb behind": all_records() + zeros * 100,
        "long lines": all_records()
        + (gzip.compress(lines[0].strip()) + spaces * 40 + gzip.compress(b"\n")) * 40,
        "a million lines": gzip.compress(b"{}\n" * 1000) * 1000,
        "a nested line": gzip.compress(whole + b"[" * 10**6 + b"\n"),
        "a header": all_records()[:10],
        "half a header": all_records()[:5],
        "zip": b"PK\x03\x04" + bytes(40),
    }
    for what, content in contents.items():
        for command, arguments in (("snn.retabulate", RETABULATE), ("snn.compare", COMPARE)):
            yield Input(what, command, arguments, archive(**{"records.jsonl.gz": content}), f"{HERE}/a")
    for number, line in enumerate(lines):
        yield archive_with(f"line {number + 1} twice", gzip.compress(whole + line))
    for kind in KINDS:
        yield archive_with(f"records: {kind}", kind, names=f"{HERE}/a")


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
        for command, arguments in (("snn.retabulate", RETABULATE), ("snn.compare", COMPARE)):
            yield Input(
                f"other {what}",
                command,
                arguments,
                archive(**{"records.jsonl.gz": packed(found)}),
                "a/records",
            )
            cells = {f"a/cells/{i}.json": as_json(record) for i, record in enumerate(found)}
            yield Input(f"other {what} in files", command, arguments, cells, "a/cells/")


def _folders() -> Iterator[Input]:
    """Folders of results with something else among their records."""
    good = {f"a/cells/x/{i}.json": as_json(record) for i, record in enumerate(two_cells())}
    for kind in KINDS:
        if kind != "no file":
            for command, arguments in (("snn.retabulate", RETABULATE), ("snn.compare", COMPARE)):
                name = "a/cells/x/odd.json"
                yield Input(f"among the cells: {kind}", command, arguments, {**good, name: kind}, name)
    for what, content in no_records(as_json(reference())):
        name = "a/cells/odd.json"
        yield Input(f"among the cells: {what}", "snn.retabulate", RETABULATE, {**good, name: content}, name)
    for files in (
        {"a/cells": b"x"},
        {"a/cells": "folder"},
        {"a": "folder"},
        {"a": b"x"},
        {},
        {"a/cells/x": b"{}"},
    ):
        yield Input(f"only {files}", "snn.retabulate", RETABULATE, files, f"{HERE}/a")


def _calls() -> Iterator[Input]:
    """A good archive and outputs, grids and other archives that are none."""
    outputs = {"a file": b"x", "device": "device", "pipe": "pipe", "socket": "socket", "endless": "endless"}
    for what, content in outputs.items():
        for command, arguments in (("snn.retabulate", RETABULATE), ("snn.compare", COMPARE)):
            yield Input(f"the output is: {what}", command, arguments, archive() | {"out": content}, "out")
            below = (*arguments[:-1], "out/further/out")
            yield Input(f"the output is below: {what}", command, below, archive() | {"out": content}, "out")
    for output in ("/proc/x", "/sys/x", "/dev/null/x", "x" * 300):
        yield Input(
            f"the output is {output[:20]!r}", "snn.retabulate", (f"{HERE}/a", output), archive(), output
        )
    for kind in KINDS:
        arguments = (*RETABULATE, "g.yaml")
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
