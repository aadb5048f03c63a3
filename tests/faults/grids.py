"""Malformed grids."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import image_sets
import yaml
from attempt import CPU, HERE, KINDS, Input
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


def malformed() -> st.SearchStrategy[Input]:
    """Grids that are known to be wrong, by their settings or as texts."""
    wrong = [st.builds(_with_setting, st.sampled_from(all_wrong()), st.just(place)) for place in _PLACES]
    listed = st.sampled_from(list(known()))
    openings = st.sampled_from(("[", "{a: ", "- ", "? ", "\n- - "))
    return st.one_of(*wrong, listed, st.builds(_nested, st.integers(25, 200_000), openings))


def known() -> Iterator[Input]:
    """Texts and kinds of files that are no grid."""
    for what, content in (*_texts(), *((kind, kind) for kind in KINDS)):
        yield _file(what, content)


def garbage() -> st.SearchStrategy[Input]:
    """Grids of any settings, damaged ones, and any text."""
    any_ = values(words("small combined csv t.csv layers relu auto linear"), _SETTINGS)
    sweep = st.dictionaries(st.sampled_from(_SETTINGS), any_, max_size=4)
    contents = st.fixed_dictionaries(
        {"sweeps": st.dictionaries(st.sampled_from("xy") | st.text(max_size=3), sweep, max_size=2)},
        optional={"defaults": sweep, "on_cpu": any_, "device": any_},
    )
    texts = contents.map(_dumped) | st.text("[]{}:,&*!|>-?#'\"%@ \n\tab1.", max_size=60).map(str.encode)
    return (texts | damaged(_TEXT.encode()) | st.binary(max_size=60)).map(_any)


def _dumped(content: Any) -> bytes:
    return yaml.safe_dump(content, allow_unicode=True).encode("utf-8", "surrogatepass")


def _same_cells(here: Path) -> bool:
    """Whether the cells of a grid that was accepted are composed as they are planned."""
    for cell in list(sweeps.all_cells(sweeps.read(here / "grid.yaml", CPU)).values())[:2]:
        settings = composed(sweeps.overrides(cell))
        if any(settings[section] != cell[section] for section in SECTIONS if section != "device"):
            return False
    return True


_SETTINGS = (
    *("dataset", "network", "strategy", "kernel", "precision", "protocol", "union", "strategy.streams"),
    *("dataset.path", "dataset.target", "dataset.rows", "strategy.seeds", "protocol.runs", "protocol.rounds"),
    *(f"network.{key}" for key in ("hidden", "layers", "loss", "clip_norm", "seed")),
    *(f"training.{key}" for key in ("epochs", "batch_size", "learning_rate")),
    "protocol.max_seconds",
)


def _in_sweep(settings: Mapping[str, Any], wrong: Wrong) -> Any:
    return {"sweeps": {"mine": settings}}


def _in_defaults(settings: Mapping[str, Any], wrong: Wrong) -> Any:
    return {"defaults": settings, "sweeps": {"mine": {}}}


def _on_cpu(settings: Mapping[str, Any], wrong: Wrong) -> Any:
    return {"on_cpu": settings, "sweeps": {"mine": {}}}


def _in_union(settings: Mapping[str, Any], wrong: Wrong) -> Any:
    return {"sweeps": {"mine": {"union": [{"strategy": "reference"}, {"union": [settings]}]}}}


def _on_axis(settings: Mapping[str, Any], wrong: Wrong) -> Any:
    """The wrong value is one of two; where a value is a list itself, so is the other one."""
    other = [4] if isinstance(wrong.value, list) or wrong.key in groups.list_valued() else 4
    return {"sweeps": {"good": {}, "mine": {**settings, wrong.key: [wrong.value, other]}}}


_PLACES = (_in_sweep, _in_defaults, _on_cpu, _in_union, _on_axis)


def _with_setting(wrong: Wrong, place: Any) -> Input:
    content = place({**wrong.beside, wrong.key: wrong.value}, wrong)
    return _file(f"{place.__name__} {wrong}"[:200], _dumped(content))


def _file(what: str, content: bytes | str) -> Input:
    files = {"grid.yaml": content, "t.csv": CSV, **image_sets.FOLDER}
    return Input(what, "grid", (f"{HERE}/grid.yaml",), files, f"{HERE}/grid.yaml")


def _any(content: bytes) -> Input:
    files, place = {"grid.yaml": content, "t.csv": CSV}, f"{HERE}/grid.yaml"
    return Input("garbage", "grid", (place,), files, place, is_wrong=False, really_valid=_same_cells)


def _nested(levels: int, opening: str) -> Input:
    return _file(f"{levels} times {opening!r}", f"sweeps:\n  x: {opening * levels}".encode())


def _texts() -> Iterator[tuple[str, bytes]]:
    """Texts that are no grid, each with what is wrong with it."""
    for name in (*_NAMES, *sorted(catalogue.RESERVED)):
        yield f"a sweep of the name {name}", f"sweeps:\n  {name}: {{strategy: reference}}\n".encode()
    for word in (*_WORDS, *_TAGS):
        yield f"epochs of {word}", f"sweeps:\n  mine:\n    training.epochs: {word}\n".encode()
    for tag in _TAGS:
        yield f"the tag {tag}", f"device: cpu\nsweeps: {tag}\n".encode()
    for key in (*_NO_KEYS, "<<"):
        yield f"the key {key}", f"{_TEXT}{key}: 3\n".encode()
        yield f"the setting {key}", f"sweeps:\n  mine:\n    {key}: 3\n".encode()
    for encoding in ("utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-7"):
        text = _TEXT if encoding != "utf-7" else _TEXT.replace("mine", "m\u00efne")
        yield f"a grid in {encoding}", text.encode(encoding)
    for odd in (b"\xe9", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\0", b"\x01", b"\x1b", b"\xf5\x80\x80\x80"):
        yield f"the bytes {odd!r}", _TEXT.replace("combined", "'@'").encode().replace(b"@", odd)
        yield f"the bytes {odd!r} in a comment", _TEXT.encode() + b"# " + odd + b"\n"
    for further in (f"---\n{_TEXT}", "...\n---\nx: 1\n", "device: cpu\n"):
        yield f"also {further[:20]}", (_TEXT + further).encode()
    yield "a sweep twice", b"sweeps:\n  mine: {}\n  mine: {}\n"
    yield "a setting twice", b"sweeps: {mine: {strategy: reference, strategy: reference}}\n"
    yield "tabs", _TEXT.replace("  ", "\t").encode()
    yield "another YAML", b"%YAML 9.9\n---\n" + _TEXT.encode()
    for end in ("'", '"', "[", "{", "- ", "]", "}", "x: [1,\n", "&", "*", "|x", "%", "@", "`"):
        yield f"an end with {end!r}", (_TEXT + "x: " + end).encode()
    sections = ["sweeps:", *(f"sweeps: {of}" for of in ("{}", "[]", "x"))]
    for top in ("", "#", "a", "[]", "{}", "3", "null", "- sweeps", *sections):
        yield f"only {top!r}", top.encode()
    for section in ("defaults", "on_cpu", "device"):
        for value in (
            "null",
            "[]",
            "3",
            "[{}]",
            "{a: 1}",
            "{union: 3}",
            "x",
            "{sweeps: {}}",
            "{device: cpu}",
        ):
            if (section, value) != ("defaults", "[]"):
                yield f"{section} of {value}", f"{section}: {value}\nsweeps: {{mine: {{}}}}\n".encode()
    for union in ("[]", "{}", "null", "[3]", "[[]]", "[{union: []}]", "x", "[null]", "[{colour: 1}]"):
        yield f"a union of {union}", f"sweeps: {{mine: {{union: {union}}}}}\n".encode()
    for anchor in ("&a {mine: *a}", "{mine: *a}", "\n  mine: &a\n    union: [*a]"):
        yield f"the anchor {anchor}", f"sweeps: {anchor}\n".encode()
    for width, levels, opening in (
        (9, 20, "["),
        (2, 60, "["),
        (99, 9, "["),
        (1000, 4, "["),
        (1, 200, "[[[[["),
    ):
        end = "]" * len(opening)
        lines = [f"a{i + 1}: &a{i + 1} {opening}{', '.join([f'*a{i}'] * width)}{end}" for i in range(levels)]
        yield f"{width}^{levels} aliases", ("a0: &a0 [1]\n" + "\n".join(lines) + "\n" + _TEXT).encode()
    axes = ["network.seed", "training.epochs", "training.batch_size", "protocol.runs", "dataset.seed"]
    axes += ["dataset.rows", "protocol.rounds", "protocol.min_runs", "protocol.max_seconds"]
    for sides, most in ((2, 400), (3, 100), (4, 20), (len(axes), 10)):
        lines = [f"    {key}: {list(range(1, most + 1))}" for key in axes[:sides]]
        yield f"{most}^{sides} cells", ("sweeps:\n  mine:\n" + "\n".join(lines) + "\n").encode()
    yield "two megabytes", _TEXT.encode() + b"#" * (2 << 20)
    yield "100,000 values", f"{_TEXT}x: [{'1, ' * 100_000}1]\n".encode()
    yield "a line of a megabyte", b"sweeps: {" + b"x" * 1_000_000 + b": {}}\n"
    yield "10,000 sweeps of nothing", b"sweeps:\n" + b"".join(b"  s%d: 3\n" % i for i in range(10_000))
