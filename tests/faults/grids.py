"""Malformed grids."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import data_files
import yaml
from attempt import CPU, HERE, Input
from garbage import CSV, NO_NAMES, damaged, values, words
from hypothesis import strategies as st
from wrong_settings import Wrong, all_wrong

from snn.config import groups
from snn.config.compose import composed
from snn.grid import catalogue, sweeps
from snn.grid.naming import SECTIONS

VALID = {
    "device": "cpu",
    "defaults": {"dataset": "small", "training.epochs": 2, "protocol": "glance"},
    "sweeps": {"mine": {"strategy": ["reference", "combined"], "network.hidden": [[4], [8]]}},
}
_TEXT = yaml.safe_dump(VALID, sort_keys=False)
_NO_KEYS = [*words("1 null true 1.5 [a] *a 2020-01-01"), "{a: b}", "? [1]\n  ", "!!str x"]
_NAMES = [*words('on ~ "abc\\n" "\\0" "" &x _x x/y x-y'), *_NO_KEYS]
_NAMES += [name for name in NO_NAMES if name.isprintable() and name.strip()]
_WORDS = words("yes No on OFF 1_000 0x10 017 0o7 1:30 2020-01-01 .inf -.INF .nan 1e3 = -0.0 1e999 '2' null")
_WORDS += ["[]", "[[]]", "{}", "9" * 19, '"\\u0000"', "|\n     2", ""]
_TAGS = [f"!!{tag} 2" for tag in ("str", "int", "float")] + ["!x 2", "! 2", "!<tag:x> 2", "!!binary Mg=="]
_TAGS += [f"!!python/{tag}" for tag in ("object/apply:os.system [touch x]", "name:os.system", "module:os")]
_TAGS += ["!!set {2}", "!!timestamp 2020-01-01"]
_SETTINGS = (
    *("dataset", "network", "strategy", "kernel", "precision", "protocol", "union", "strategy.streams"),
    *("dataset.path", "dataset.target", "dataset.rows", "strategy.seeds", "protocol.runs", "protocol.rounds"),
    *(f"network.{key}" for key in ("hidden", "layers", "loss", "clip_norm", "seed")),
    *(f"training.{key}" for key in ("epochs", "batch_size", "learning_rate")),
    "protocol.max_seconds",
)


def malformed() -> st.SearchStrategy[Input]:
    """Grids that are known to be wrong, by their settings or as texts."""
    wrong = st.builds(_with_setting, st.sampled_from(all_wrong()), st.sampled_from(_PLACES))
    openings = st.sampled_from(("[", "{a: ", "- ", "? ", "\n- - "))
    nested = st.builds(
        lambda levels, opening: _file(f"sweeps:\n  x: {opening * levels}"), st.integers(25, 200_000), openings
    )
    return st.one_of(wrong, wrong, st.sampled_from(list(known())), nested)


def known() -> Iterator[Input]:
    """Texts and kinds of files that are not a grid."""
    yield from map(_file, _texts())
    yield from _file("").of_kinds("grid.yaml", f"{HERE}/grid.yaml")


def garbage() -> st.SearchStrategy[Input]:
    """Grids of any settings, damaged ones, and any text."""
    any_ = values(words("small combined csv t.csv layers relu auto linear"), _SETTINGS)
    sweep = st.dictionaries(st.sampled_from(_SETTINGS), any_, max_size=4)
    contents = st.fixed_dictionaries(
        {"sweeps": st.dictionaries(st.sampled_from("xy") | st.text(max_size=3), sweep, max_size=2)},
        optional={"defaults": sweep, "on_cpu": any_, "device": any_},
    )
    texts = contents.map(_dumped) | st.text("[]{}:,&*!|>-?#'\"%@ \n\tab1.", max_size=60).map(str.encode)
    any_texts = texts | damaged(_TEXT.encode()) | st.binary(max_size=60)
    return any_texts.map(partial(_file, is_wrong=False, really_valid=_same_cells))


def _file(content: bytes | str, **others: Any) -> Input:
    content = content.encode() if isinstance(content, str) else content
    files = {"grid.yaml": content, "t.csv": CSV, **data_files.FOLDER}
    return Input("grid", (f"{HERE}/grid.yaml",), files, f"{HERE}/grid.yaml", **others)


def _dumped(content: Any) -> bytes:
    return yaml.safe_dump(content, allow_unicode=True).encode("utf-8", "surrogatepass")


def _same_cells(here: Path) -> bool:
    """Whether the cells of a grid that was accepted are composed as they are planned."""
    for cell in list(sweeps.all_cells(sweeps.read(here / "grid.yaml", CPU)).values())[:2]:
        settings = composed(sweeps.overrides(cell))
        if any(settings[section] != cell[section] for section in SECTIONS if section != "device"):
            return False
    return True


def _on_axis(settings: dict[str, Any], wrong: Wrong) -> Any:
    """The wrong value is one of two; if a value is a list itself, so is the other one."""
    other = [4] if isinstance(wrong.value, list) or wrong.key in groups.list_valued() else 4
    return {"sweeps": {"good": {}, "mine": {**settings, wrong.key: [wrong.value, other]}}}


_PLACES = (
    lambda settings, wrong: {"sweeps": {"mine": settings}},
    lambda settings, wrong: {"defaults": settings, "sweeps": {"mine": {}}},
    lambda settings, wrong: {"on_cpu": settings, "sweeps": {"mine": {}}},
    lambda settings, wrong: {
        "sweeps": {"mine": {"union": [{"strategy": "reference"}, {"union": [settings]}]}}
    },
    _on_axis,
)
"""Where a grid may have a setting."""


def _with_setting(wrong: Wrong, place: Any) -> Input:
    return _file(_dumped(place({**wrong.beside, wrong.key: wrong.value}, wrong)))


def _texts() -> Iterator[bytes | str]:
    for name in (*_NAMES, *sorted(catalogue.RESERVED)):
        yield f"sweeps:\n  {name}: {{strategy: reference}}\n"
    for word in (*_WORDS, *_TAGS):
        yield f"sweeps:\n  mine:\n    training.epochs: {word}\n"
    yield from (f"device: cpu\nsweeps: {tag}\n" for tag in _TAGS)
    for key in (*_NO_KEYS, "<<"):
        yield f"{_TEXT}{key}: 3\n"
        yield f"sweeps:\n  mine:\n    {key}: 3\n"
    for encoding in ("utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-7"):
        yield (_TEXT if encoding != "utf-7" else _TEXT.replace("mine", "m\u00efne")).encode(encoding)
    for odd in (b"\xe9", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\0", b"\x01", b"\x1b", b"\xf5\x80\x80\x80"):
        yield _TEXT.replace("combined", "'@'").encode().replace(b"@", odd)
        yield _TEXT.encode() + b"# " + odd + b"\n"
    yield from (_TEXT + further for further in (f"---\n{_TEXT}", "...\n---\nx: 1\n", "device: cpu\n"))
    yield from (
        "sweeps:\n  mine: {}\n  mine: {}\n",
        "sweeps: {mine: {strategy: reference, strategy: reference}}",
    )
    yield from (_TEXT.replace("  ", "\t"), "%YAML 9.9\n---\n" + _TEXT)
    for end in ("'", '"', "[", "{", "- ", "]", "}", "x: [1,\n", "&", "*", "|x", "%", "@", "`"):
        yield f"{_TEXT}x: {end}"
    yield from ("", "#", "a", "[]", "{}", "3", "null", "- sweeps")
    yield from (f"sweeps: {of}" for of in ("", "{}", "[]", "x"))
    values = ("null", "[]", "3", "[{}]", "{a: 1}", "{union: 3}", "x", "{sweeps: {}}", "{device: cpu}")
    for section in ("defaults", "on_cpu", "device"):
        for value in values:
            if (section, value) != ("defaults", "[]"):
                yield f"{section}: {value}\nsweeps: {{mine: {{}}}}\n"
    for union in ("[]", "{}", "null", "[3]", "[[]]", "[{union: []}]", "x", "[null]", "[{colour: 1}]"):
        yield f"sweeps: {{mine: {{union: {union}}}}}\n"
    for anchor in ("&a {mine: *a}", "{mine: *a}", "\n  mine: &a\n    union: [*a]"):
        yield f"sweeps: {anchor}\n"
    for width, levels, opening in ((9, 20, "["), (2, 60, "["), (1000, 4, "["), (1, 200, "[[[[[")):
        end = "]" * len(opening)
        lines = [f"a{i + 1}: &a{i + 1} {opening}{', '.join([f'*a{i}'] * width)}{end}" for i in range(levels)]
        yield "\n".join(["a0: &a0 [1]", *lines, _TEXT])
    axes = words("network.seed training.epochs training.batch_size protocol.runs dataset.seed dataset.rows")
    axes += words("protocol.rounds protocol.min_runs protocol.max_seconds")
    for sides, most in ((2, 400), (4, 20), (len(axes), 10)):
        lines = [f"    {key}: {list(range(1, most + 1))}\n" for key in axes[:sides]]
        yield "sweeps:\n  mine:\n" + "".join(lines)
    yield _TEXT + "#" * (2 << 20)
    yield f"{_TEXT}x: [{'1, ' * 100_000}1]\n"
    yield "sweeps: {" + "x" * 1_000_000 + ": {}}\n"
    yield "sweeps:\n" + "".join(f"  s{i}: 3\n" for i in range(10_000))
