"""Malformed sweeps and limits beside the records of an archive."""

from collections.abc import Iterator
from typing import Any

from archived import RETABULATE, archive, archive_with, one_sweep
from attempt import KINDS, LIKE_NONE, Input
from real_records import edited, without
from records_of import limits_of
from stored_records import as_json

from snn.grid import catalogue
from snn.records.digest import sealed


def hostile_sweeps() -> Iterator[Input]:
    cells = one_sweep()["mine"]["cells"]
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
        yield _of_sweeps(f"a further sweep {name!r}", {**one_sweep(), name: {"axes": [], "cells": cells}})
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
        [one_sweep()],
    ):
        yield _of_sweeps(f"sweeps {str(value)[:30]}", value)
    text = as_json(one_sweep())
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
    return archive_with(
        what,
        sweeps=value if isinstance(value, bytes) or str(value) in KINDS else as_json(value),
        names="a/sweeps.json",
    )


def hostile_limits() -> Iterator[Input]:
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
        yield archive_with(f"limits: {what}", limits=as_json(sealed(changed)), names="a/limits.json")
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
        yield archive_with(f"limits: {content[:20]!r}", limits=content, names="a/limits.json")
    for kind in KINDS:
        if kind not in LIKE_NONE:
            yield archive_with(f"limits: {kind}", limits=kind, names="a/limits.json")
            files = archive() | {"a/limits/x.json": kind}
            yield Input(f"one of limits: {kind}", "snn.retabulate", RETABULATE, files, "a/limits/x.json")
