"""Text of ``snn claims``: the sources' claims, and what the published tables say about them."""

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from snn.report import claims


def show(name: str | None, as_json: bool) -> None:
    """Print one source's claims or, without a name, how many of each source's claims have each verdict."""
    tables = claims.published_tables()
    sources = [claims.judge(one, tables) for one in ([name] if name else claims.source_names())]
    if as_json:
        found = {source.name: {**asdict(source), "counts": source.counts()} for source in sources}
        json.dump(found, sys.stdout, indent=1, default=str)
        print()
    elif name:
        print("\n".join(_listing(sources[0])))
    else:
        print("\n".join(_summary(sources)))


def _summary(sources: list[Any]) -> Iterator[str]:
    """A line per source: its number of claims, and how many have each verdict; then the titles."""
    width = max(len(source.name) for source in sources)
    counts = [{"claims": len(source.claims), **source.counts()} for source in sources]
    yield "  ".join(["source".ljust(width), *counts[0]])
    for source, numbers in zip(sources, counts, strict=True):
        columns = (str(number).rjust(len(word)) for word, number in numbers.items())
        yield "  ".join([source.name.ljust(width), *columns])
    yield ""
    yield from (f"{source.name.ljust(width)}  {source.title} ({source.by})" for source in sources)


def _listing(source: Any) -> Iterator[str]:
    """Each claim with its verdict, the evidence and what follows."""
    yield f"{source.title} ({source.by})"
    for claim in source.claims:
        yield f"\n{claim.verdict}: {claim.says} [{claim.section}]"
        evidence = [
            f"{one.device or one.table}: {one.test['says']}: {claims.result(one)}" for one in claim.findings
        ]
        yield from (f"  {text}" for text in (claim.reason, *evidence, claim.note) if text)
