"""``snn claims [SOURCE] [--json]``: what the sources claim, and what the published tables say about it.

Without SOURCE it prints the number of claims with each verdict, by source. With one, it prints each of the
source's claims with its verdict and the rows that test it.

  --json      print this as JSON, with every case
  --help      print this
"""

import json
import sys
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
        json.dump({source.name: _plain(source) for source in sources}, sys.stdout, indent=1, default=str)
        print()
    elif names:
        print(_listing(sources[0]))
    else:
        print(_summary(sources))
    return 0


def _plain(source: Any) -> dict[str, Any]:
    return {**asdict(source), "counts": source.counts()}


def _summary(sources: list[Any]) -> str:
    """A line per source, with the number of its claims and of those with each verdict."""
    from snn.report.claims import VERDICTS

    rows = [["source", "claims", *VERDICTS]]
    rows += [
        [source.name, str(len(source.claims)), *map(str, source.counts().values())] for source in sources
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(n) for cell, n in zip(row[1:], widths[1:], strict=True))]
        )
        for row in rows
    ]
    titles = [f"{source.name.ljust(widths[0])}  {source.title} ({source.by})" for source in sources]
    return "\n".join([*lines, "", *titles])


def _listing(source: Any) -> str:
    """Each claim with its verdict, the evidence and what follows."""
    from snn.report.claims import evidence

    lines = [f"{source.title} ({source.by})"]
    for claim in source.claims:
        lines += ["", f"{claim.verdict}: {claim.says} [{claim.section}]"]
        lines += [f"  {claim.reason}"] if claim.reason else []
        lines += [f"  {finding.device or finding.table}: {evidence(finding)}" for finding in claim.findings]
        lines += [f"  {claim.note}"] if claim.note else []
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(command.run(main))
