"""Claims of the sources: the rows that test them, the verdicts, and the pages and command that show them."""

import json
import re
from itertools import groupby
from math import inf

import claim_pages
import pandas as pd
import pytest

from snn import cli
from snn.config.groups import read_yaml
from snn.errors import ConfigError, RecordError
from snn.report import claims

SOURCES = claims.source_names()

_COPIES = {
    ("pageable", "to_device", 256): (6.0, 5.5, 6.5),
    ("pageable", "to_device", 4096): (8.0, 7.9, 8.1),
    ("pageable", "to_device", 65536): (30.0, 29.0, 31.0),
    ("pageable", "to_host", 256): (3.0, 2.9, 3.1),
    ("pageable", "to_host", 4096): (None, None, None),  # out of memory
    ("pinned", "to_device", 256): (6.0, 5.9, 6.1),
    ("pinned", "to_device", 4096): (4.0, 3.9, 4.1),
    ("pinned", "to_device", 65536): (10.0, 9.9, 10.1),
    ("pinned", "to_host", 256): (6.0, 5.9, 6.1),
    ("pinned", "to_host", 4096): (6.0, 5.9, 6.1),
}
_COLUMNS = ["call", "direction", "bytes", "median", "low", "high"]
COPIES = pd.DataFrame([at + times for at, times in _COPIES.items()], columns=_COLUMNS).assign(
    device="NVIDIA H200"
)

FASTER = {
    "says": "pageable over pinned",
    "table": "memory/copies",
    "where": {"call": "pageable"},
    "over": {"call": "pinned"},
    "by": ["direction", "bytes"],
    "column": "median",
    "unit": "times",
    "is": {"above": 1},
}


def judge(test, table=COPIES):
    """The verdict on a claim with this test, and the test's finding."""
    test = {"says": "", "table": "memory/copies"} | test
    judged = judge_claim({"tests": [test]}, {"memory/copies": table})
    return judged.verdict, judged.findings[0]


def judge_claim(claim, tables):
    """A claim, judged by these tables."""
    rows = {name: table.to_dict("records") for name, table in tables.items()}
    return claims.judge_claim("it", {"says": "x", "section": "y"} | claim, rows.get, "file")


def test_each_pair_of_rows_is_a_case_of_a_ratio_with_its_interval():
    word, found = judge(FASTER)
    assert word == "conditional"
    assert [case.at for case in found.cases] == [at[1:] for at in _COPIES][:4]
    assert [case.outcome for case in found.cases] == ["open", "holds", "holds", "fails"]
    assert found.cases[1].value == 2 and found.cases[1].low == 7.9 / 4.1 and found.cases[1].high == 8.1 / 3.9
    turned = FASTER | {"where": FASTER["over"], "over": FASTER["where"]}
    at = [case.at for case in found.cases]
    assert [case.at for case in judge(turned)[1].cases] == at  # nor is there one over what has no value


TO_DEVICE, TO_HOST = ({"call": "pageable", "direction": direction} for direction in ("to_device", "to_host"))


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"where": {"call": "pageable", "bytes": 65536}}, "confirmed"),
        ({"where": TO_DEVICE}, "conditional"),
        ({"where": TO_HOST}, "refuted"),
        ({"where": TO_DEVICE | {"bytes": 256}}, "not significant"),
        ({"where": {"call": "pageable", "bytes": 256}}, "refuted"),  # fails once, and once it is open
        ({"best": True}, "confirmed"),
        ({"is": {"at_least": 0.1, "at_most": 10}}, "confirmed"),
        ({"is": {"above": 9}}, "refuted"),
        ({"is": {"below": 1}, "where": TO_HOST}, "confirmed"),
        ({"table": "memory/others"}, "not measured yet"),
        ({"where": TO_HOST | {"bytes": 4096}}, "not measured yet"),
        ({"where": {"call": "pageable", "median": None}}, "not measured yet"),  # the empty cell alone
    ],
)
def test_the_verdict_follows_from_the_cases(changes, word):
    assert judge(FASTER | changes)[0] == word


@pytest.mark.parametrize(
    ("column", "verdict", "said", "outcome"),
    [
        ("speedup", "verdict", "faster", "holds"),
        ("speedup", "verdict", "not significant", "open"),
        ("speedup_over_fastest_cpu", "verdict_over_fastest_cpu", "not significant", "open"),
        ("speedup_over_best_peer", "verdict", "not significant", "open"),  # the only speedup of its table
        ("time_ratio", "verdict", "not significant", "holds"),  # of which it is no verdict
    ],
)
def test_a_claim_says_no_more_than_its_table_of_a_speedup(column, verdict, said, outcome):
    """The interval alone is above 1; the verdict is adjusted for all comparisons of the table."""
    row = {"a": "x", column: 1.2, f"{column}_ci_low": 1.1, f"{column}_ci_high": 1.3, verdict: said}
    test = {"where": {"a": "x"}, "column": column, "unit": "times"}
    for bounds in ({"above": 1}, {"at_least": 1.05}, {"at_least": 1}):
        _, found = judge(test | {"is": bounds}, pd.DataFrame([row]))
        assert found.cases[0].outcome == outcome
    _, found = judge(test | {"is": {"below": 1}}, pd.DataFrame([row]))
    assert found.cases[0].outcome == {"holds": "fails"}.get(outcome, outcome)
    assert found.cases[0].low == 1.1  # what is printed is the table's
    _, found = judge(test | {"is": {"above": 1.4}}, pd.DataFrame([row]))
    assert found.cases[0].outcome == "fails"  # 1 is as far from it


CLOSED, OPEN = {"at_least": 2, "at_most": 3}, {"above": 2, "below": 3}


@pytest.mark.parametrize(
    ("bounds", "outcome", "intervals"),
    [
        (CLOSED, "holds", [(2.0, 2.5, 3.0)]),
        (CLOSED, "open", [(1.9, 2.2, 2.5), (2.5, 2.8, 3.1), (1.0, 2.5, 4.0)]),
        (CLOSED, "fails", [(1.0, 1.5, 1.9), (3.1, 3.5, 4.0)]),
        (OPEN, "holds", [(2.1, 2.5, 2.9)]),
        (OPEN, "open", [(2.0, 4.0, 5.0), (1.0, 1.5, 3.0)]),
        (OPEN, "fails", [(1.0, 1.5, 2.0), (3.0, 4.0, 5.0)]),
    ],
)
@pytest.mark.parametrize("ends", ["_{}", "_ci_{}"])
def test_an_interval_is_within_bounds_beside_them_or_open(bounds, outcome, intervals, ends):
    columns = [ends.format("low").join(["x", ""]), "x", ends.format("high").join(["x", ""])]
    table = pd.DataFrame(intervals, columns=columns).assign(device="y", a=range(len(intervals)))
    test = {"where": {"a": table["a"].tolist()}, "by": ["a"], "column": "x", "is": bounds}
    assert {case.outcome for case in judge(test, table)[1].cases} == {outcome}


def test_a_share_of_another_column_and_a_word():
    table = pd.DataFrame(
        [{"a": n, "part_s": n, "mean_s": 4.0, "verdict": "faster", "device": "x"} for n in (1, 3)]
    )
    share = {"where": {"a": [1, 3]}, "by": ["a"], "unit": "%"}
    word, found = judge(share | {"column": "part_s", "per": "mean_s", "is": {"at_least": 0.5}}, table)
    assert word == "conditional" and claims.figures(found) == "25% to 75%"
    assert claims.when(found) == "holds: a 3; fails: a 1"
    word, found = judge(share | {"column": "verdict", "is": {"equals": "faster"}}, table)
    assert word == "confirmed" and claims.figures(found) == "faster"
    assert claims.when(found) == "holds in both cases"


@pytest.mark.parametrize("wanted", [256, "256", ["256"]])
@pytest.mark.parametrize("column", [[256, 1024], ["256", "256-256"]])
def test_a_network_is_found_whether_its_column_holds_numbers_or_texts(wanted, column):
    table = pd.DataFrame({"network": column, "x": [2.0, 0.5], "device": "y"})
    assert judge({"where": {"network": wanted}, "column": "x", "is": {"above": 1}}, table)[0] == "confirmed"


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"where": {"call": "pinnd"}}, ".where pinnd"),
        ({"where": {"kall": "pinned"}}, ".where memory/copies kall"),
        ({"where": "pinned"}, ".where pinned"),
        ({"where": {"call": ["pinned", "pageabel"]}}, ".where pageabel"),
        *(({"where": one}, ".where") for one in ({"call": []}, {"call": {"pinned": 1}}, {1: "pinned"})),
        ({"column": "mean"}, " memory/copies mean"),
        ({"column": "call"}, " memory/copies call pageable"),
        ({"over": {}}, ".over {}"),
        ({"over": {"call": "pooled"}}, ".over pooled"),
        ({"by": ["direction"]}, ".over 3 rows by"),
        ({"by": ["bytes"]}, ".over 2 rows"),
        ({"by": ["size"]}, ".by size"),
        ({"by": "direction"}, ".by direction"),
        ({"by": [{}]}, ".by"),
        ({"over": {"call": "pinned", "direction": "to_device", "bytes": 256}, "by": []}, ".by"),
        ({"is": {}}, ".is above"),
        ({"is": {"about": 1}}, ".is about"),
        ({"is": {"above": "1"}}, ".is number"),
        *(({"is": one}, ".is") for one in ({"equals": 1, "above": 2}, {"equals": [1]})),
        ({"is": {"above": float("nan")}}, ".is nan"),
        ({"table": 5}, ".table 5"),
        ({"digits": 0}, ".digits 0"),
        ({"bye": []}, " bye"),
    ],
)
def test_a_wrong_test_is_rejected_by_key_and_value(changes, named):
    with pytest.raises(ConfigError) as error:
        judge(FASTER | changes)
    key, *words = named.split(" ")
    assert all(word in str(error.value) for word in ["file: it", f"tests[0]{key}", *words])


@pytest.mark.parametrize("changes", [{"per": "bytes"}, {"over": {"call": "pinned"}}])
def test_nothing_is_divided_by_zero(changes):
    median = COPIES["median"].where(COPIES["call"] == "pageable", 0.0)
    test = {key: value for key, value in FASTER.items() if key != "over"} | changes
    with pytest.raises(ConfigError, match=r"0.*above 0"):
        judge(test, COPIES.assign(median=median, **({"bytes": 0} if "per" in changes else {})))


def test_a_ratio_of_speedups_over_different_baselines_is_rejected():
    rows = [("tiled", 4.0, "naive"), ("naive", 2.0, "naive"), ("fused", 3.0, "reference")]
    table = pd.DataFrame(rows, columns=["kernel", "speedup", "baseline"])
    test = FASTER | {"by": [], "column": "speedup", "where": {"kernel": "tiled"}, "over": {"kernel": "naive"}}
    assert judge(test, table)[1].cases[0].value == 2
    with pytest.raises(ConfigError) as error:
        judge(test | {"over": {"kernel": "fused"}}, table)
    assert all(word in str(error.value) for word in ["tests[0].over", "speedup", "'naive'", "'reference'"])
    assert judge(test | {"over": {"kernel": "fused"}, "column": "x"}, table.assign(x=1.0))[0] == "refuted"


@pytest.mark.parametrize(
    ("claim", "named"),
    [
        (None, "None"),
        ({"section": None}, "section"),
        ({"says": 5}, "says 5"),
        ({"tests": None}, "tests not_testable"),
        ({"not_testable": "why"}, "tests not_testable"),
        ({"tests": ["pinned"]}, "tests[0] pinned"),
        ({"tests": []}, "tests []"),
        ({"tests": None, "not_testable": 3}, "not_testable 3"),
        ({3: "z"}, "3"),
    ],
)
def test_a_wrong_claim_is_rejected_by_name_and_key(claim, named):
    if isinstance(claim, dict):  # what is changed of a right one; None is left out
        claim = {"says": "x", "section": "y", "tests": [FASTER]} | claim
        claim = {key: value for key, value in claim.items() if value is not None}
    with pytest.raises(ConfigError) as error:
        claims.judge_claim("it", claim, lambda name: None, "file")
    assert all(word in str(error.value) for word in ["file: it", *named.split()])


def test_a_ratio_names_the_devices_of_both_rows():
    devices = COPIES["call"].map({"pageable": "Xeon", "pinned": "NVIDIA H200"})
    assert judge(FASTER, COPIES.assign(device=devices))[1].device == "NVIDIA H200 and Xeon"


def test_a_verdict_covers_the_rows_of_every_table_and_device():
    median = COPIES["median"].where(COPIES["call"] == "pinned", 0.1)
    slower = COPIES.assign(device="NVIDIA H100", median=median, low=None, high=None)
    tables = {"memory/copies": COPIES, "memory/others": slower}
    one = FASTER | {"where": {"call": "pageable", "bytes": 65536}}

    several = {"tests": [one | {"table": [*tables]}]}
    both = judge_claim(several, tables)
    assert both.verdict == "conditional"
    assert [finding.device for finding in both.findings] == ["NVIDIA H200", "NVIDIA H100"]
    assert judge_claim({"tests": [one]}, tables).verdict == "confirmed"
    assert judge_claim(several, {"memory/copies": COPIES}).verdict == "not measured yet"
    for key, word in (("not_measured", "not measured yet"), ("not_testable", "not testable here")):
        found = judge_claim({key: "why"}, {})
        assert (found.verdict, found.reason, found.findings) == (word, "why", ())


@pytest.mark.parametrize(
    ("one", "other", "ends"),
    [
        ((7.0, 9.0), (1.0, 4.0), (1.75, 9.0)),
        *(((7.0, 9.0), (low, 4.0), (1.75, inf)) for low in (0.0, -0.5)),  # it may be next to nothing
        *((one, (1.0, 4.0), (None, None)) for one in ((None, 9.0), (7.0, None))),
        *(((7.0, 9.0), other, (None, None)) for other in ((None, 4.0), (1.0, None))),
    ],
)
def test_a_ratio_has_an_interval_as_far_as_its_parts_have_one(one, other, ends):
    rows = [("pageable", 8.0, *one), ("pinned", 2.0, *other)]
    table = pd.DataFrame(rows, columns=["call", "median", "low", "high"])
    (case,) = judge(FASTER | {"by": []}, table)[1].cases
    assert (case.low, case.high) == ends


@pytest.mark.parametrize("ends", [(0.9, None), (None, 2.0), (1.5, 1.5)])
def test_no_interval_is_given_without_two_ends(ends):
    case = claims.Case((), 1.5, *ends, "open")
    assert claims.figures(claims.Finding({"unit": "times"}, "t", (case,), "x")) == "1.50 times"


# ---- the sources, their pages and the command


@pytest.fixture(scope="module")
def judged():
    """Every source, judged by the published tables."""
    tables = claims.published_tables()
    return [claims.judge(name, tables) for name in SOURCES]


def test_the_pages_are_what_the_claims_and_the_tables_give(judged):
    pages = claim_pages.pages(judged)
    assert {path.name: path.read_text(encoding="utf-8") for path in claim_pages.PAGES.iterdir()} == pages
    for source in judged:
        for claim in source.claims:
            assert f"| {claim.says} | **{claim.verdict}** |" in pages[f"{source.name}.md"]


def test_the_command_counts_what_the_sources_hold(judged, capsys, monkeypatch):
    by_name = dict(zip(SOURCES, judged, strict=True))
    monkeypatch.setattr(claims, "judge", lambda name, tables=None: by_name[name])

    def said(*arguments):
        assert cli.main(["claims", *arguments]) == 0
        return capsys.readouterr().out

    printed, counts = json.loads(said("--json")), [line.split() for line in said().splitlines()[1:]]
    for source, line in zip(judged, counts, strict=False):
        of_source = printed[source.name]
        assert [claim["verdict"] for claim in of_source["claims"]] == [one.verdict for one in source.claims]
        assert of_source["counts"] == source.counts() and sum(source.counts().values()) == len(source.claims)
        assert line == [source.name, str(len(source.claims)), *map(str, source.counts().values())]
    assert json.loads(said(SOURCES[0], "--json")) == {SOURCES[0]: printed[SOURCES[0]]}
    text = said(SOURCES[0])
    assert all(f"{claim.verdict}: {claim.says}" in text for claim in judged[0].claims)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["cuda_memory_gide"], "'cuda_memory_gide' cuda_memory_guide"),
        (["paper", "b"], "claims (b)"),
        (["--yaml"], "'--yaml' --json"),
    ],
)
def test_the_command_rejects_what_it_does_not_know(arguments, named, capsys):
    assert cli.main(["claims", *arguments]) == 2
    message = capsys.readouterr().err
    assert message.count("\n") == 1 and all(word in message for word in named.split())


def test_nothing_is_measured_without_published_tables(tmp_path):
    tables = claims.published_tables(tmp_path)
    for name in SOURCES:
        for claim in claims.judge(name, tables).claims:
            measured = [one for one in claim.findings if not one.table.startswith("config/")]
            assert not measured or claim.verdict == "not measured yet"


@pytest.mark.parametrize(
    ("file", "content"),
    [
        *(("claims/guide.yaml", content) for content in ("{}", "claims: []", "{claims: {}, title: x}")),
        *(("config/gpus.yaml", content) for content in ("[1]", "rows: [1]", "rows: 3", "a: 1", "")),
        *(("device/set/tables/memory.csv", content) for content in (b"\xff\xfe", "", None)),
    ],
)
def test_a_damaged_file_is_rejected_by_name(tmp_path, monkeypatch, file, content):
    path = tmp_path / file
    path.parent.mkdir(parents=True)
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    monkeypatch.setattr(claims, "SOURCES", tmp_path / "claims")
    monkeypatch.setattr(claims, "ROOT", tmp_path)
    read = {
        "guide": lambda: claims.judge("guide"),
        "gpus": lambda: claims.published_tables()("config/gpus"),
        "memory": lambda: claims.published_tables(tmp_path)("device/set/memory"),
    }[path.stem]
    with pytest.raises(RecordError if path.stem == "memory" else ConfigError, match=re.escape(path.name)):
        read()


@pytest.mark.parametrize("name", SOURCES)
def test_claims_are_in_our_own_words_and_sections_are_together(name):
    named = read_yaml(claims.SOURCES / f"{name}.yaml")["claims"]
    sections = [section for section, _ in groupby(named.values(), lambda one: one["section"])]
    assert len(set(sections)) == len(sections)
    for each, claim in named.items():
        assert re.fullmatch(r"[a-z0-9_]+", each) and claim["says"].endswith((".", ")."))
        assert not any("|" in test["says"] for test in claim.get("tests", ()))
