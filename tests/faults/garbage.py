"""What is wrong almost anywhere: texts that are not numbers or names, values, broken JSON, damaged files."""

from collections.abc import Iterator, Sequence
from typing import Any

from hypothesis import strategies as st


def words(*lines: str) -> list[str]:
    return " ".join(lines).split()


CSV = b"a,b\n1,2\n3,4\n"
"""A small table, which the other files of an input refer to."""

NO_NUMBERS = [
    *words("x nan -inf 1_0 0x10 ٣ １ 1..2 1e e5 . - --1 +-1 1e1.5 1j 1f 1/2 1, (1) 1% =1+1 1e999 −1"),
    *("", " ", "1 2", '""', "<script>", "9" * 5000, "\0", "1\0", "1\u00a02"),
]
"""Texts that no setting, option or cell of a table reads as a number."""

NO_FILES = [
    *words(". .. / o/ o/. /dev/null /dev/stdout /dev/x /dev/fd/1 /proc/x /proc/self/fd/1 /sys/x"),
    *("/proc/sys/kernel/hostname", "x" * 300),
]
"""Paths that cannot be written."""

NO_NAMES = [
    *words(". .. /tmp/X ../../../X a/b A é 1x -x x.csv CON"),
    *("", "x y", "a" * 65, "x\n", "\0", "mine\u200b"),
]
"""What is not the name of a sweep."""

VALUES = (
    *(None, True, False, 0, -1, 1, 1.5, 1e300, 10**30, "x", "../x", "", "\x1b"),
    *([], {}, [None], ["x"], {"x": 1}),
)
"""One of each sort of what JSON has."""

NO_VALUES = [
    *words("NaN -Infinity None 1e999 01 0x1 1_0 'x' 1,"),
    *("9" * 5000, '"\\ud800"', "[" * 5000),
]
"""What JSON does not have, or what a float cannot hold."""

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 3\n"
PAGE = b"<!DOCTYPE html><html><body>404, not found</body></html>\n"
"""What a failed download leaves."""


def no_json(whole: bytes, key: str) -> Iterator[bytes]:
    """Broken forms of an object in JSON; the value of the key has no comma in it."""
    text = whole.decode()
    before, after = text.split(f'"{key}": ', 1)
    old = after.split(",")[0].split("}")[0]
    yield from (b"", whole + whole, whole + b"x", whole + b"\0", b"[" + whole + b"]", whole[:-1])
    yield from (whole[:-1] + b",}", text.replace('"', "'").encode(), b"\xef\xbb\xbf" + whole, b"\xff" + whole)
    for twice in (key, f"\\u{ord(key[0]):04x}{key[1:]}"):  # the same key, also written in another way
        yield f'{text[:-1]}, "{twice}": {old}}}'.encode()
    yield from (text.encode(encoding) for encoding in ("utf-16", "utf-32", "utf-16-le"))
    for word in NO_VALUES:
        yield f'{before}"{key}": {word}{after[len(old) :]}'.encode()
    yield from (value.encode() for value in ("[]", "null", "3", '"x"', "[" * 100_000 + "]" * 100_000))
    for opening in (b"[", b'{"a":', b"[{"):
        yield from (opening * levels for levels in (100, 1000, 100_000))


@st.composite
def damaged(draw: Any, whole: bytes) -> bytes:
    """A file in which a few bytes, or a part, are changed, removed, doubled or added."""
    content = whole
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, max(len(content) - 1, 0)))
        size = draw(st.sampled_from((0, 1, 1, 4, 40)))
        further = st.sampled_from((content[at : at + 60], b"\n", b"\0", b"\xff\xfe"))
        content = content[:at] + draw(st.binary(max_size=4) | further) + content[at + size :]
    return content


def cut(whole: bytes) -> st.SearchStrategy[bytes]:
    """The first bytes of a file."""
    return st.integers(0, len(whole) - 1).map(lambda size: whole[:size])


@st.composite
def flipped(draw: Any, whole: bytes, first: int = 0) -> bytes:
    """A file with one byte changed, at or after ``first``."""
    content, place = bytearray(whole), draw(st.integers(first, len(whole) - 1))
    content[place] ^= draw(st.integers(1, 255))
    return bytes(content)


def values(words: Sequence[str], keys: Sequence[str]) -> st.SearchStrategy[Any]:
    """Any value that JSON and YAML have, with some of these words and keys in it."""
    numbers = st.integers(-3, 300) | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    scalars = st.none() | st.booleans() | numbers | st.sampled_from(words) | st.text(max_size=6)
    some_keys = st.sampled_from(keys) | st.text(max_size=4)
    return st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(some_keys, inner, max_size=3),
        max_leaves=8,
    )


def given(usual: Sequence[str], *further: str) -> tuple[str, ...]:
    """The arguments KEY=VALUE of a valid command line, some of them replaced."""
    keys = {each.partition("=")[0] for each in further}
    return (*(each for each in usual if each.partition("=")[0] not in keys), *further)
