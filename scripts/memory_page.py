"""``python scripts/memory_page.py [PUBLISHED]``: write the tables of docs/explanation/gpu_memory.md.

They are made from the claims in config/memory_guides/ and the tables in PUBLISHED, which is results/published
unless given, and where each of these tables must be.
"""

import re
import sys
from collections import Counter
from collections.abc import Mapping
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import pandas as pd

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import markdown_cells as cells  # noqa: E402

from snn import command  # noqa: E402
from snn.analysis import claims, claims_text  # noqa: E402
from snn.analysis.claims import Found  # noqa: E402
from snn.config.groups import read_yaml  # noqa: E402
from snn.errors import ConfigError, shown  # noqa: E402
from snn.files import outputs  # noqa: E402
from snn.files.published_sets import PUBLISHED  # noqa: E402
from snn.report.read import read  # noqa: E402

PAGE = ROOT / "docs/explanation/gpu_memory.md"
GUIDES = ROOT / "config/memory_guides"
BLOCK = re.compile(r"(<!-- made: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)

Judged = tuple[str, Mapping[str, Any], list[Found | None], str]
"""A claim's name, the claim, what its tests found, and the verdict."""


def fill(text: str, published: Path) -> str:
    """The page with its made parts written anew. Raises ConfigError for a part that there is no guide of."""
    judged = {folder.name: judge(folder, published) for folder in guides()}

    def made(found: re.Match[str]) -> str:
        name = found[2]
        if name == "summary":
            return f"{found[1]}\n{summary(judged)}\n\n{found[3]}"
        if name not in judged:
            raise ConfigError(f"{PAGE}: there is no part {name!r}: one of summary, {', '.join(judged)}")
        return f"{found[1]}\n{guide(judged[name])}\n\n{found[3]}"

    return BLOCK.sub(made, text)


def guides() -> list[Path]:
    """The folders of the guides."""
    return sorted(path for path in GUIDES.iterdir() if path.is_dir())


def claims_of(folder: Path) -> dict[str, Mapping[str, Any]]:
    """The claims of a guide by name, in the order of its files.

    Raises ConfigError where two have a name, or where a file or a claim lacks something.
    """
    named: dict[str, Mapping[str, Any]] = {}
    for path in sorted(folder.glob("*.yaml")):
        content = read_yaml(path)
        if not isinstance(content, dict) or not isinstance(content.get("claims"), dict):
            raise ConfigError(f"{path}: it must have the key claims, with claims by name")
        for name, claim in content["claims"].items():
            if name in named:
                raise ConfigError(f"{path}: {name}: another file of this guide has a claim of this name")
            for key in ("section", "says"):
                if not isinstance(claim, dict) or not isinstance(claim.get(key), str):
                    raise ConfigError(f"{path}: {name} is {shown(claim)}: it must have a text as {key}")
            named[name] = claim
    return named


def judge(folder: Path, published: Path) -> list[Judged]:
    """The claims of a guide in its order, held against published tables. Raises as ``claims.run`` does."""

    @cache
    def table(name: str) -> pd.DataFrame | None:
        where, _, stem = name.rpartition("/")
        file = published / where / f"tables/{stem}.csv"
        return read(file, stem) if file.exists() else None

    judged = []
    for name, claim in claims_of(folder).items():
        found = claims.run(claim, table, f"config/memory_guides/{folder.name}: {name}")
        judged.append((name, claim, found, claims.verdict(claim, found)))
    return judged


def absent(published: Path) -> list[str]:
    """The tables that claims of the guides are held against and that are not published."""
    of_guides = [claim for folder in guides() for claim in claims_of(folder).values()]
    names = dict.fromkeys(test["table"] for claim in of_guides for test in claim.get("tests", ()))
    paths = (f"{name.rpartition('/')[0]}/tables/{name.rpartition('/')[2]}.csv" for name in names)
    return [path for path in paths if not (published / path).exists()]


def summary(judged: Mapping[str, list[Judged]]) -> str:
    """How many claims of each guide have which verdict."""
    words = (
        *(claims.CONFIRMED, claims.CONDITIONAL, claims.REFUTED, claims.NOT_SIGNIFICANT),
        *(claims.NOT_YET, claims.NOT_TESTED),
    )
    rows = []
    for name, of_guide in judged.items():
        counts = Counter(verdict for *_, verdict in of_guide)
        title = read_yaml(min((GUIDES / name).glob("*.yaml")))["guide"]
        rows.append([title, str(len(of_guide)), *(str(counts[word]) for word in words)])
    return cells.table(["guide", "claims", *words], rows)


def guide(judged: list[Judged]) -> str:
    """The claims of a guide by section: those that rows test, and those that none does, with the reason."""
    parts = []
    for section, of_section in groupby(judged, key=lambda one: one[1]["section"]):
        rows = [row(*one) for one in of_section]
        parts.append(
            f"**{section}**\n\n"
            + cells.table(["claim", "verdict", "measured", "when it holds", "from"], rows)
        )
    return "\n\n".join(parts)


def row(name: str, claim: Mapping[str, Any], found: list[Found | None], verdict: str) -> list[str]:
    """The cells of a claim."""
    if verdict == claims.NOT_TESTED:
        return [claim["says"], verdict, f"*{claim['untested']}*", "", ""]
    tests = claim["tests"]
    measured = [
        f"{test['says']}: {claims_text.figures(of)}" for test, of in zip(tests, found, strict=True) if of
    ]
    holds = [claims_text.when(of) for of in found if of]
    sources = dict.fromkeys(_link(test["table"], of) for test, of in zip(tests, found, strict=True))
    return [claim["says"], f"**{verdict}**", "<br>".join(measured), _joined(holds), "<br>".join(sources)]


def _joined(parts: list[str]) -> str:
    return "<br>".join(dict.fromkeys(filter(None, parts)))


def _link(name: str, found: Found | None) -> str:
    """The table with its device, as a link where it is published."""
    folder, _, stem = name.rpartition("/")
    if found is None:
        return f"`{folder}`: {stem}"
    return f"[{stem}](../../results/published/{folder}/tables/{stem}.csv), {found.device}"


def main(arguments: list[str]) -> int:
    """Write the page; 2 where PUBLISHED lacks a table, or a claim or a table is wrong; then it stays."""
    return command.answered(arguments, __doc__, _main)


def _main(arguments: list[str]) -> int:
    command.counted(arguments, "memory_page", "[PUBLISHED]", 0, 1)
    published = Path(arguments[0]) if arguments else PUBLISHED
    text = fill(PAGE.read_text(encoding="utf-8"), published)
    for path in absent(published):
        raise ConfigError(f"{published} has no {path}: it must be a folder as results/published is")
    with outputs.replaced(PAGE) as file:
        file.write(text.encode())
    return 0


if __name__ == "__main__":
    sys.exit(command.run(main))
