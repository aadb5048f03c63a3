"""``snn claims [SOURCE] [--json]``: what the sources claim, and what the published tables say about it.

Without SOURCE it prints the number of claims with each verdict, by source. With one, it prints each of the
source's claims with its verdict and the rows that test it.

  --json      print this as JSON, with every case
  --help      print this
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from snn import command
from snn.errors import ConfigError, shown

JSON = "--json"


def main(arguments: list[str]) -> int:
    """Print the claims; 0, or 2 for an unknown source or option."""
    return command.answered(arguments, __doc__, _main)


def _main(arguments: list[str]) -> int:
    from snn.report import claims

    names = [argument for argument in arguments if argument != JSON]
    for name in names:
        if name.startswith("-"):
            raise ConfigError(f"{shown(name)}: unknown option; the only one is {JSON}")
    command.counted(names, "claims", f"[SOURCE] [{JSON}]", 0, 1)
    tables = claims.published_tables()
    sources = [claims.judge(name, tables) for name in names or claims.source_names()]
    if JSON in arguments:
        found = {source.name: {**asdict(source), "counts": source.counts()} for source in sources}
        json.dump(found, sys.stdout, indent=1, default=str)
        print()
    elif names:
        print("\n".join(_listing(sources[0])))
    else:
        print("\n".join(_summary(sources)))
    return 0


def _summary(sources: list[Any]) -> Iterator[str]:
    """A line per source, with the number of its claims and of those with each verdict; then the titles."""
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
    from snn.report.claims import result

    yield f"{source.title} ({source.by})"
    for claim in source.claims:
        yield f"\n{claim.verdict}: {claim.says} [{claim.section}]"
        evidence = [f"{one.device or one.table}: {one.test['says']}: {result(one)}" for one in claim.findings]
        yield from (f"  {text}" for text in (claim.reason, *evidence, claim.note) if text)


if __name__ == "__main__":
    sys.exit(command.run(main))
