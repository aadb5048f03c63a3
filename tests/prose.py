"""What the documentation says in words and numbers, held against the rows that its comments name.

A block is a paragraph, a list item or a row of a table. One of these comments accounts for the numbers in it:

    <!-- from DEVICE/SET/TABLE: ... -->        they are those of rows (scripts/published_numbers.py)
    <!-- checked by tests/FILE.py -->          a test there derives them
    <!-- not from a table: REASON -->          one of REASONS

A comment of the last two kinds that is a block of its own holds to the end of its section.
"""

import re
from dataclasses import dataclass
from functools import cache

from conftest import ROOT
from published_numbers import PAGES, VALUE, VERDICTS, blocks, significant

__all__ = ["MEASURED", "PAGES", "faults", "parsed"]

REASONS = {
    "definition": "a threshold, a limit or a property of the method",
    "development run": "measured while developing, not published",
    "development runs": "the same",
    "example": "output or arithmetic that illustrates",
    "another report": "what another publication says",
    "simulation": "computed from random numbers",
}
SLOWNESS = ("slowdown", "time_ratio")
"""Columns of ratios that are above 1 where the row takes longer."""

MARK = re.compile(r"<!--\s+(?:checked by (?P<test>[\w/.]+)|not from a table: (?P<reason>[^>]*?))\s+-->")
_CELL = r"(?<=\| )\d+\.\d+(?= \|)"
_UNIT = r"(?:[KMG]i?B|bytes)(?:/s| per)|[GT]?FLOPS?\b|×|x faster"
MEASURED = re.compile(rf"{VALUE.pattern}|{_CELL}|\d[\d,.]*\s*(?:{_UNIT})")
"""What looks measured: a number with an interval, a spread or a unit, or decimals that fill a cell."""

PEER = "jax_scan"
_NAME = re.compile(r"`(?P<name>\w+)`|JAX\b")
_AS_FAST = re.compile(
    rf"\s*(?:times )?as (?:fast|long) as (?:the (?:runner-up|best peer)(?: in \w+)?,\s+)?(?:{_NAME.pattern})"
)
FASTEST = re.compile(
    r"\b(?:is|are|was|were|remains?) (?:\w+ly )?(?:the )?(?:fastest|quickest|best)\b"
    r"|\b[Tt]he (?:fastest|quickest) (?:strategy|of all|of them)\b(?=[^.,;]*\b(?:is|are|was)\b)"
)
_ASKS = re.compile(r"\b(?:which|whether|if|not that)\b[^.,;:]*$", re.IGNORECASE)
_OBJECT = re.compile(
    r"(?:\bthan|\bas fast as|\bas long as|\bover|\bnext to|\brelative to|runner-up(?: in \w+)?,|\bpeer,)"
    r"\s+(?:the (?:runner-up|best peer)(?: in \w+)?,\s+)?$",
    re.IGNORECASE,
)
_WORD = re.compile(
    r"(?P<open>\bnot (?:clearly |significantly )?(?:faster|slower|different)|\bnot significant\b)"
    r"|(?P<faster>\bfaster\b|\bfastest\b|\bquicker\b|\bless time\b|\bshorter than\b)"
    r"|(?P<slower>\bslower\b|\bmore time\b|\blonger than\b)"
)
_NEGATED = re.compile(r"\b(?:no|none|neither|nothing|nor)\b[^.,;:]*$", re.IGNORECASE)
_SENTENCES = re.compile(r"(?<=[.?!*])\s+(?=[A-Z`*\[(\d])")
_COMPARES = re.compile(r"`(\w+)`[^.;:]*?\b(?:is|are) (?:significantly )?(?:faster|slower)\b")


@cache
def choices(group):
    return {path.stem for path in (ROOT / "config" / group).glob("*.yaml")}


@dataclass
class Block:
    """A block's text without comments, the rows and columns it names, and why its numbers may have none."""

    prose: str
    pairs: list
    marks: list

    @property
    def is_row(self):
        return self.prose.startswith("|")


def parsed(text):
    """The blocks of a page, without code and without what scripts write between ``made`` and ``end``."""
    text = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"<!-- made: .*?<!-- end -->", "", text, flags=re.DOTALL)
    level, scopes = 0, []
    for prose, pairs in blocks(text):
        heading = re.match(r"(#+) ", prose)
        marks = [found.groupdict() for found in MARK.finditer(prose)]
        prose = MARK.sub("", prose).strip()
        if heading:
            level = len(heading[1])
            scopes = [scope for scope in scopes if scope[0] < level]
        if marks and not prose:
            scopes += [(level, mark) for mark in marks]
        elif prose:
            yield Block(prose, pairs, marks + [mark for _, mark in scopes])


def faults(text):
    """What a page says that no row says, or that no comment accounts for, one line each."""
    for block in parsed(text):
        for mark in block.marks:
            if mark["test"] and not (ROOT / mark["test"]).is_file():
                yield f"there is no {mark['test']}: {block.prose}"
            if mark["reason"] and mark["reason"] not in REASONS:
                yield f"not from a table: {mark['reason']!r} is none of {', '.join(REASONS)}: {block.prose}"
        if not block.pairs and not block.marks:
            prose = re.sub(r"\]\([^)]*\)|`[^`]*`", " ", block.prose)  # neither links nor code
            for number in MEASURED.finditer(prose):
                yield f"{number[0]!r} has no comment that says where it is from: {block.prose}"
        if block.pairs:
            yield from disagreements(block)
        if not block.marks:
            yield from unproven(block)


def unproven(block):
    """Sentences that call a strategy faster, slower or the fastest, with no row that says so."""
    leads = [row for row, column in block.pairs if column == "lead"]
    for sentence in sentences(block):
        for claim in FASTEST.finditer(sentence):
            if not _ASKS.search(sentence[: claim.start()]):
                yield from (f"{fault}: {sentence}" for fault in wrong_leads(sentence, claim, leads))
        found = _COMPARES.search(sentence)
        if found and found[1] in choices("strategy") and not block.pairs:
            yield f"no comment names the rows that say so: {sentence}"


def wrong_leads(sentence, claim, leads):
    """Why the rows of a block do not show that the strategy that a sentence names is the fastest.

    They need a significant lead in every row, and a row for each case that the sentence names.
    """
    if {row["lead_verdict"] for row in leads} != {"significant"}:
        return [f"{claim[0]!r} needs a significant lead"]
    before = [*named(sentence[: claim.start()], "strategy")]
    who = before[-1:] or [*named(sentence[claim.end() :], "strategy")][:1]
    if not who:
        return [f"{claim[0]!r} names no strategy"]
    (start, name), found = who[0], []
    kernels = [kernel for at, kernel in named(sentence[: claim.start()], "kernel") if at > start]
    if any(strategy(row) != name or {*kernels} - {kernel_of(row)} for row in leads):
        found.append(f"the fastest is {leading(leads)}")
    if {row["dataset"] for row in leads} != (
        set(re.findall(r"`(small|medium|large)`", sentence)) or {"large"}
    ):
        found.append("the rows are of other data sets")
    if not set(re.findall(r"\b\d+(?:-\d+)+\b", sentence)) <= {row["network"] for row in leads}:
        found.append("the rows are of other networks")
    return found


def named(text, group):
    """The choices of a group that a text names, with their places."""
    for found in re.finditer(r"`(\w+)`", text):
        if found[1] in choices(group):
            yield found.start(), found[1]


def leading(leads):
    return ", ".join(sorted({f"{strategy(row)} with {kernel_of(row)}" for row in leads}))


def strategy(row):
    """The strategy of a row, of whichever table."""
    return (
        row.get("strategy")
        or row.get("fastest", "").partition(" ")[0]
        or ("combined_s" in row and "combined")
    )


def kernel_of(row):
    said = re.search(r"\(kernel (\w+)\)", row.get("fastest", ""))
    return said[1] if said else row.get("kernel")


def sentences(block):
    return [block.prose] if block.is_row else _SENTENCES.split(block.prose)


def ratio(row, column):
    """The ratio that a column is; for a verdict, the one that its table is about. None if it is none."""
    several = ("speedup", "speedup_over_best_peer", *SLOWNESS) if column in VERDICTS else (column,)
    return next((name for name in several if f"{name}_ci_low" in row), None)


def outcome(row, column):
    """What a ratio says of its row: faster, slower or not significant. None if it is no ratio."""
    column = ratio(row, column)
    if column is None:
        return None
    if not significant(row, column):
        return "not significant"
    return "faster" if (float(row[column]) > 1) != (column in SLOWNESS) else "slower"


def disagreements(block):
    """Words of a block that say something else than its rows, and names that are not theirs."""
    outcomes = {(strategy(row), outcome(row, column)) for row, column in block.pairs}
    known = {name for pair in block.pairs for name in (strategy(pair[0]), other_side(*pair))}
    for _, name in named(block.prose, "strategy"):
        if any(known) and name not in known:
            yield f"no row is of {name}: {block.prose}"
    for row, column in block.pairs:
        if column in VERDICTS and outcome(row, column) != column:
            yield f"{strategy(row)} is {outcome(row, column)}, not {column}: {block.prose}"
    if any("diverged" in row["status"] for row, column in block.pairs if column == "lead"):
        if "diverge" not in block.prose:
            yield f"it does not say that a loss diverged: {block.prose}"
    numbered = iter([pair for pair in block.pairs if pair[1] not in VERDICTS])
    for sentence in sentences(block):
        word = None
        for token in re.finditer(rf"(?P<value>{VALUE.pattern})|{_WORD.pattern}", sentence):
            if token["value"]:
                pair = next(numbered, None)
                if pair is None:
                    yield f"{token[0]!r} has no row: {sentence}"
                    continue
                yield from (f"{fault}: {sentence}" for fault in of_number(sentence, token, pair, word, block))
            elif not _NEGATED.search(sentence[: token.start()]):
                word = next(name for name in ("open", "faster", "slower") if token[name])
                word = "not significant" if word == "open" else word
                who = subjects_of(sentence[: token.start()], block)[-1:]
                if not any(word == said and (not who or name == who[0]) for name, said in outcomes):
                    yield f"no row of {who or 'the comment'} is {word}: {sentence}"


def of_number(sentence, number, pair, word, block):
    """What is wrong about one number: the word before it, and the names on its two sides."""
    row, column = pair
    result, after = outcome(row, column), sentence[number.end() :]
    if result and word and word != result:
        yield f"{number[0]!r} is {result}, not {word}"
    unit = re.match(r"\s*(?:times )?as (fast|long|slow)\b", after)
    if result and unit and (unit[1] == "fast") == (column in SLOWNESS):
        yield f"{number[0]!r} is of {column}, not how many times as {unit[1]}"
    before = sentence[: number.start()]
    subjects = subjects_of(before, block)
    if subjects and strategy(row) and strategy(row) not in subjects:
        yield f"{number[0]!r} is of {strategy(row)}"
    over = _AS_FAST.match(after)
    objects = [over["name"] or PEER] if over else [name for name, is_object in names(before) if is_object]
    other = other_side(row, column)
    if objects and other and objects[-1] in choices("strategy") and objects[-1] != other:
        yield f"{number[0]!r} is over {other}, not {objects[-1]}"


def subjects_of(text, block):
    """The strategies that a text names, without those that others are compared with."""
    return [] if block.is_row else [name for name, is_object in names(text) if not is_object]


def names(text):
    """The strategies that a text names, in order, each with whether something is compared with it."""
    for found in _NAME.finditer(text):
        name = found["name"] or PEER
        if name in choices("strategy"):
            yield name, bool(_OBJECT.search(text[: found.start()]))


def other_side(row, column):
    """The strategy that a ratio of a row is over; empty where its sides are of one strategy."""
    text = {
        "lead": row.get("runner_up"),
        "speedup": row.get("baseline", "reference"),
        "speedup_over_best_peer": row.get("best_peer"),
        "speedup_over_fastest_cpu": row.get("fastest_cpu"),
        "speedup_over_sequential": "sequential",
        "slowdown": row.get("neighbour"),
    }.get(ratio(row, column))
    found = re.match(r"\w+", text or "")
    return found[0] if found and found[0] in choices("strategy") else ""
