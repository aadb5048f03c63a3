"""Write docs/claims/, a page per source and a summary of all.

The pages follow from the claims in config/claims/ and the tables in results/published/; run this after
either has changed.
"""

import sys
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import click  # noqa: E402
import markdown_cells as cells  # noqa: E402

from snn import command  # noqa: E402
from snn.arguments import Command, main_of  # noqa: E402
from snn.files import outputs  # noqa: E402
from snn.report import claims  # noqa: E402

PAGES = ROOT / "docs/claims"
NOTICE = "<!-- made: by scripts/claim_pages.py -->"
END = "<!-- end -->"
SCOPE = """\
Each sentence of a source that asserts something about the world is an entry in `config/claims/`, in our own
words, with the rows of published tables that test it. The verdict is computed from these rows. `snn claims`
prints the table below, `snn claims SOURCE` the entries of a source, and `--json` all cases. The sources:"""
RULE = """\
A case is a row, or the ratio of two rows of one table. The claim holds in a case if it holds for the whole
95% interval of the value. A speedup that its table calls not significant, after adjustment for all its
comparisons, may also be 1. The interval of a ratio is the widest that the intervals of its two rows allow. A
value without an interval decides alone, however much it may scatter: a count, a part of an instrumented pass,
a loss or an accuracy, a mean time, a latency, a printed value. A value in one table is never divided by one
in another, because they may come from different cards. A vague word ("about", "much") gets a bound, which the
entry states. Values are from the NVIDIA H200 or H100 that the entry names; on another GPU, such as the
paper's Tesla T4, a verdict can differ."""


def pages(sources: list[claims.Source]) -> dict[str, str]:
    """The text of each page by its file name."""
    return {"index.md": summary(sources), **{f"{source.name}.md": page(source) for source in sources}}


def summary(sources: list[claims.Source]) -> str:
    """The page that lists the sources, with the number of their claims by verdict."""
    titles = "\n".join(f"- `{source.name}`: {source.title}. {source.by}." for source in sources)
    rows = [
        [f"[{source.name.replace('_', ' ')}]({source.name}.md)", str(len(source.claims))]
        + [str(count) for count in source.counts().values()]
        for source in sources
    ]
    total = [str(sum(int(row[i]) for row in rows)) for i in range(1, len(rows[0]))]
    toctree = "```{toctree}\n:hidden:\n\n" + "\n".join(source.name for source in sources) + "\n```"
    return "\n\n".join(
        [
            "# The sources' claims, judged",
            NOTICE,
            SCOPE,
            titles,
            cells.table(["source", "claims", *claims.VERDICTS], [*rows, ["all", *total]]),
            RULE,
            cells.table(["verdict", "when"], [[word, when] for word, when in claims.VERDICTS.items()]),
            toctree,
            END + "\n",
        ]
    )


def page(source: claims.Source) -> str:
    """The page of a source: its claims by section, with verdict and evidence."""
    counts = ", ".join(f"{count} {word}" for word, count in source.counts().items() if count)
    parts = [
        f"# {source.title}: its claims",
        NOTICE,
        f"{source.by}. {len(source.claims)} claims: {counts}. [How a verdict is computed](index.md).",
    ]
    for section, of_section in groupby(source.claims, key=lambda claim: claim.section):
        rows = [[claim.says, f"**{claim.verdict}**", _evidence(claim)] for claim in of_section]
        parts.append(f"## {section}\n\n" + cells.table(["claim", "verdict", "evidence"], rows))
    return "\n\n".join([*parts, END]) + "\n"


def _evidence(claim: claims.Claim) -> str:
    """A line for each test, with links to its tables, then the note; or why no row can test the claim."""
    lines = [
        f"{says}: " + "; ".join(f"{_link(finding)}: {claims.result(finding)}" for finding in findings)
        for says, findings in groupby(claim.findings, key=lambda finding: finding.test["says"])
    ]
    return "<br>".join(filter(None, [*lines, claim.reason, f"*{claim.note}*" if claim.note else ""]))


def _link(finding: claims.Finding) -> str:
    """The table, as a link if it exists, and its device if it names one."""
    folder, _, stem = finding.table.rpartition("/")
    if folder.startswith("config"):
        return f"[{stem}.yaml](../../{finding.table}.yaml)"
    if not finding.cases:
        return f"`{finding.table}`"
    place = f"{folder}/tables/{stem}" if folder else stem
    link = f"[{stem}](../../results/published/{place}.csv)"
    return f"{link}, {finding.device}" if finding.device else link


@click.command("claim_pages", cls=Command, help=__doc__)
def write_pages() -> None:
    tables = claims.published_tables()
    texts = pages([claims.judge(name, tables) for name in claims.source_names()])
    PAGES.mkdir(exist_ok=True)
    for name, text in texts.items():
        with outputs.replaced(PAGES / name) as file:
            file.write(text.encode())
    for old in {path.name for path in PAGES.glob("*.md")} - texts.keys():
        (PAGES / old).unlink()


main = main_of(write_pages)


if __name__ == "__main__":
    sys.exit(command.run(main))
