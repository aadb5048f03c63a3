"""The version of the sources: the commit of the checkout, and the version of the project."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from snn.files.project import IS_INSTALLED, ROOT

BUILT_FROM = "revision.json"
"""The file of an installed package with what ``git`` returned when its wheel was built."""

_OF_A_REPOSITORY = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY")


def version() -> str:
    """The project's version in ``pyproject.toml``."""
    import tomllib

    with (ROOT / "pyproject.toml").open("rb") as file:
        return str(tomllib.load(file)["project"]["version"])


def said() -> str:
    found = git()
    dirty = ", dirty working tree" if found["dirty"] else ""
    return f"snn {version()}, commit {found['commit'] or 'unknown'}{dirty}"


def git() -> dict[str, Any]:
    """The commit, and whether tracked files outside docs/ are modified; None if git does not report it. If
    the checkout is not a repository (it may be inside another project's), the commit is SNN_GIT_COMMIT."""
    if IS_INSTALLED:
        return dict(json.loads((ROOT / BUILT_FROM).read_text(encoding="utf-8")))
    top, _, commit = (_output("rev-parse", "--show-toplevel", "HEAD") or "").partition("\n")
    if not commit or Path(top).resolve() != ROOT:
        return {"commit": os.environ.get("SNN_GIT_COMMIT"), "dirty": None}
    # Jupyter writes to a notebook that is open.
    changed = _output("status", "--porcelain", "--untracked-files=no", "--", ".", ":!docs")
    return {"commit": commit, "dirty": None if changed is None else bool(changed)}


def has_commit(commit: str) -> bool | None:
    """Whether this clone has a commit; None if that is not known, for example in a shallow clone."""
    if IS_INSTALLED or _output("rev-parse", "--is-shallow-repository") != "false":
        return None
    return _output("cat-file", "-e", f"{commit}^{{commit}}") is not None


def _output(*arguments: str) -> str | None:
    # In a git hook, GIT_DIR and other variables point to the repository of the hook.
    here = {name: value for name, value in os.environ.items() if name not in _OF_A_REPOSITORY}
    command = ["git", "-C", str(ROOT), *arguments]
    try:
        done = subprocess.run(command, env=here, capture_output=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return os.fsdecode(done.stdout).strip()
