"""Garbage for any door: damaged texts, values of any shape."""

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st


@st.composite
def damaged(draw: Any, whole: bytes) -> bytes:
    """A file of which a few bytes, or a part, are changed, gone, doubled or further ones."""
    content = whole
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, max(len(content) - 1, 0)))
        size = draw(st.sampled_from((0, 1, 1, 4, 40)))
        new = draw(
            st.binary(max_size=4) | st.sampled_from((content[at : at + 60], b"\n", b"\0", b"\xff\xfe"))
        )
        content = content[:at] + new + content[at + size :]
    return content


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
