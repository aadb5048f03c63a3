"""Malformed command lines."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import image_sets
from attempt import Input
from hypothesis import strategies as st
from known_command_lines import VALID, known
from wrong_settings import Wrong, all_wrong

from snn.config import groups
from snn.config.compose import composed
from snn.config.grammar import written
from snn.grid import sweeps
from snn.grid.naming import SECTIONS

_TABLE = b"a,b\n1,2\n3,4\n"
_ODD = "\\'\"$%{}[]()=,:;#&|<>*?!~@+- \t\u00e9\u2028a1"


def malformed() -> st.SearchStrategy[Input]:
    """Command lines with something wrong in them."""
    wrong = [
        st.builds(_with_setting, st.sampled_from(all_wrong()), st.just(f"snn{of}")) for of in ("", ".prepare")
    ]
    return st.one_of(*wrong, st.sampled_from(list(known())))


def garbage() -> st.SearchStrategy[Input]:
    """Keys with any value, and any arguments."""
    keys = [f"{section}.{key}" for section in groups.GROUPS for key in groups.options(section, None)]
    keys += [
        *groups.GROUPS,
        "training.epochs",
        "training.learning_rate",
        "round",
        "profile",
        "strategy.seeds",
    ]
    texts = (
        st.text(_ODD, max_size=8) | st.text(max_size=5) | st.sampled_from(("null", "1e3", "1_0", "'1'", "01"))
    )
    settings = st.dictionaries(st.sampled_from(keys), texts, min_size=1, max_size=3).map(
        lambda given: [f"{key}={value}" for key, value in given.items()]
    )
    arguments = st.lists(
        st.text(max_size=12) | st.text("snetwork.=+~@[]{}1", max_size=12), min_size=1, max_size=3
    )
    return (settings | arguments).map(_any)


def _same_settings(arguments: Sequence[str]) -> bool:
    """Whether a command line that was accepted says the same as the one that is made of its cell."""
    settings = composed(arguments)
    again = composed(sweeps.overrides({section: settings[section] for section in SECTIONS}))
    return all(settings[section] == again[section] for section in SECTIONS)


def _any(further: Sequence[str]) -> Input:
    given = {each.partition("=")[0] for each in further}
    arguments = (*(each for each in VALID if each.partition("=")[0] not in given), *further)

    def same(here: Path) -> bool:
        return _same_settings([each for each in arguments if not each.startswith("output=")])

    return Input("garbage", "snn", arguments, is_wrong=False, really_valid=same)


def _with_setting(wrong: Wrong, command: str) -> Input:
    given = {**wrong.beside, wrong.key: wrong.value}
    arguments = [*(each for each in VALID if each.partition("=")[0] not in given)]
    arguments += [f"{key}={_text(key, value)}" for key, value in given.items()]
    what = f"{wrong.key} is {str(wrong.value)[:60]!r} beside {dict(wrong.beside)}"
    return Input(
        what, command, tuple(arguments), {"t.csv": _TABLE, **image_sets.FOLDER}, wrong.key.partition(".")[0]
    )


def _text(key: str, value: Any) -> str:
    """A value as an argument has it, whether it may be one or not."""
    if key in groups.GROUPS and isinstance(value, str):
        return value
    if isinstance(value, dict):
        return "{" + ",".join(f"{inner}:{_text('', of)}" for inner, of in value.items()) + "}"
    return written(value)
