"""Claims of the memory guides: which rows test them, how the verdict follows, and the page of them."""

import re
import sys
from dataclasses import replace
from importlib import import_module
from io import StringIO
from itertools import groupby

import pandas as pd
import pytest
from conftest import ROOT
from records_of import record
from whole_grid import sweeps_of

from snn.analysis import claims, claims_text, frame
from snn.config.groups import read_yaml
from snn.errors import ConfigError
from snn.microbenchmarks.settings import resolved
from snn.tables import memory_remedies

sys.path.insert(0, str(ROOT / "scripts"))

import memory_page

GUIDES = memory_page.guides()
TEXT = memory_page.PAGE.read_text(encoding="utf-8")

COPIES = pd.DataFrame(
    [
        ("pageable", "to_device", 256, 6.0, 5.5, 6.5),
        ("pageable", "to_device", 4096, 8.0, 7.9, 8.1),
        ("pageable", "to_device", 65536, 30.0, 29.0, 31.0),
        ("pageable", "to_host", 256, 3.0, 2.9, 3.1),
        ("pageable", "to_host", 4096, None, None, None),  # out of memory
        ("pinned", "to_device", 256, 6.0, 5.9, 6.1),
        ("pinned", "to_device", 4096, 4.0, 3.9, 4.1),
        ("pinned", "to_device", 65536, 10.0, 9.9, 10.1),
        ("pinned", "to_host", 256, 6.0, 5.9, 6.1),
        ("pinned", "to_host", 4096, 6.0, 5.9, 6.1),
    ],
    columns=["call", "direction", "bytes", "median", "low", "high"],
).assign(device="NVIDIA H200")

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


def run(test, table=COPIES):
    claim = {"says": "x", "section": "y", "tests": [test]}
    found = claims.run(claim, lambda name: table if name == "memory/copies" else None, "it")
    return claims.verdict(claim, found), found[0]


def test_each_pair_of_rows_is_a_case_of_a_ratio_with_its_interval():
    word, found = run(FASTER)
    assert word == "conditional"
    assert [case.at for case in found.cases] == [
        ("to_device", 256),
        ("to_device", 4096),
        ("to_device", 65536),
        ("to_host", 256),
    ]
    assert [case.outcome for case in found.cases] == ["open", "holds", "holds", "fails"]
    assert found.cases[1].value == 2 and found.cases[1].low == 7.9 / 4.1 and found.cases[1].high == 8.1 / 3.9
    assert claims_text.figures(found) == "0.500 to 3.00 times"
    assert claims_text.when(found) == (
        "holds: to device 4 KiB, 64 KiB; fails: to host 256 bytes; not significant: to device 256 bytes"
    )
    turned, at = (
        FASTER | {"where": FASTER["over"], "over": FASTER["where"]},
        [case.at for case in found.cases],
    )
    assert [case.at for case in run(turned)[1].cases] == at  # nor is there one over what has no value


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"where": {"call": "pageable", "bytes": 65536}}, "confirmed"),
        ({"where": {"call": "pageable", "direction": "to_device"}}, "conditional"),
        ({"where": {"call": "pageable", "direction": "to_host"}}, "refuted"),
        ({"where": {"call": "pageable", "direction": "to_device", "bytes": 256}}, "not significant"),
        ({"where": {"call": "pageable", "bytes": 256}}, "refuted"),  # fails once, and once it is open
        ({"best": True}, "confirmed"),
        ({"is": {"at_least": 0.1, "at_most": 10}}, "confirmed"),
        ({"is": {"above": 9}}, "refuted"),
        ({"is": {"below": 1}, "where": {"call": "pageable", "direction": "to_host"}}, "confirmed"),
        ({"table": "memory/others"}, "not measured yet"),
        ({"where": {"call": "pageable", "direction": "to_host", "bytes": 4096}}, "not measured yet"),
    ],
)
def test_the_verdict_follows_from_the_cases(changes, word):
    assert run(FASTER | changes)[0] == word


CLOSED, OPEN = {"at_least": 2, "at_most": 3}, {"above": 2, "below": 3}


@pytest.mark.parametrize(
    ("bounds", "low", "value", "high", "outcome"),
    [
        (CLOSED, 2.0, 2.5, 3.0, "holds"),
        (CLOSED, 1.9, 2.2, 2.5, "open"),
        (CLOSED, 2.5, 2.8, 3.1, "open"),
        (CLOSED, 1.0, 2.5, 4.0, "open"),
        (CLOSED, 1.0, 1.5, 1.9, "fails"),
        (CLOSED, 3.1, 3.5, 4.0, "fails"),
        (OPEN, 2.1, 2.5, 2.9, "holds"),
        (OPEN, 2.0, 4.0, 5.0, "open"),
        (OPEN, 1.0, 1.5, 3.0, "open"),
        (OPEN, 1.0, 1.5, 2.0, "fails"),
        (OPEN, 3.0, 4.0, 5.0, "fails"),
    ],
)
def test_an_interval_is_within_bounds_beside_them_or_open(bounds, low, value, high, outcome):
    table = pd.DataFrame([{"median": value, "low": low, "high": high, "device": "x", "a": 1}])
    test = {"says": "", "table": "memory/copies", "where": {"a": 1}, "column": "median"}
    assert run(test | {"is": bounds}, table)[1].cases[0].outcome == outcome


def test_a_share_of_another_column_and_a_word():
    table = pd.DataFrame(
        [{"a": n, "part_s": n, "mean_s": 4.0, "verdict": "faster", "device": "x"} for n in (1, 3)]
    )
    share = {"says": "", "table": "memory/copies", "where": {"a": [1, 3]}, "by": ["a"], "unit": "%"}
    word, found = run(share | {"column": "part_s", "per": "mean_s", "is": {"at_least": 0.5}}, table)
    assert word == "conditional" and claims_text.figures(found) == "25% to 75%"
    assert claims_text.when(found) == "holds: a 3; fails: a 1"
    word, found = run(share | {"column": "verdict", "is": {"equals": "faster"}}, table)
    assert word == "confirmed" and claims_text.figures(found) == "faster"
    assert claims_text.when(found) == "holds in both cases"


@pytest.mark.parametrize("ends", [("x_low", "x_high"), ("x_ci_low", "x_ci_high")])
def test_an_interval_has_one_of_two_names(ends):
    table = pd.DataFrame([{"a": 1, "x": 2.0, ends[0]: 0.5, ends[1]: 3.0, "device": "y"}])
    test = {"says": "", "table": "memory/copies", "where": {"a": 1}, "column": "x", "is": {"above": 1}}
    assert run(test, table)[0] == "not significant"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"where": {"call": "pinnd"}}, "where: no row has {'call': 'pinnd'}"),
        ({"where": {"kall": "pinned"}}, "where: the table has no column kall"),
        ({"column": "mean"}, "memory/copies has no column mean"),
        ({"over": {"call": "pooled"}}, "over.where: no row has"),
        ({"by": ["direction"]}, "over: 3 rows have .*: name more in by"),
        ({"by": ["bytes"]}, "over: 2 rows have"),
        ({"is": {}}, "is: {}: it must be equals with a word, or one or more of above"),
        ({"is": {"about": 1}}, "it must be equals with a word, or one or more of above"),
        ({"bye": []}, "unknown keys bye"),
    ],
)
def test_what_a_test_gets_wrong_is_named(changes, said):
    with pytest.raises(ConfigError, match=said):
        run(FASTER | changes)


def test_a_claim_is_of_one_device_and_has_tests_or_a_reason():
    claim = {"tests": [FASTER, FASTER | {"table": "memory/others"}]}
    tables = {"memory/copies": COPIES, "memory/others": COPIES.assign(device="NVIDIA H100")}
    with pytest.raises(ConfigError, match="it: its tests are of NVIDIA H100 and NVIDIA H200"):
        claims.run(claim, tables.get, "it")
    for wrong in ({}, claim | {"untested": "why"}):
        with pytest.raises(ConfigError, match="tests, or untested with the reason"):
            claims.run(wrong, tables.get, "it")


# ---- the guides and the page


def test_the_page_is_what_its_sources_make():
    assert memory_page.fill(TEXT, memory_page.PUBLISHED) == TEXT
    assert [name for _, name, _ in memory_page.BLOCK.findall(TEXT)] == [
        "summary",
        *(path.name for path in GUIDES),
    ]


def test_every_claim_is_on_the_page_with_a_verdict():
    words = {"confirmed", "conditional", "refuted", "not significant", "not measured yet", "not tested"}
    for path in GUIDES:
        for claim in memory_page.claims_of(path).values():
            (line,) = [one for one in TEXT.splitlines() if one.startswith(f"| {claim['says']} |")]
            verdict = line.split("|")[2].strip().strip("*")
            assert verdict in words and (verdict == "not tested") == ("untested" in claim)


def test_nothing_is_measured_without_published_tables(tmp_path):
    judged = [one for path in GUIDES for one in memory_page.judge(path, tmp_path)]
    assert {word for *_, word in judged} == {"not measured yet", "not tested"}
    with pytest.raises(ConfigError, match="there is no part 'other'"):
        memory_page.fill("<!-- made: other -->\n<!-- end -->", tmp_path)


@pytest.fixture(scope="module")
def points():
    """The tables that claims wait for, with every row that the grid gives; their numbers mean nothing."""
    settings = read_yaml(ROOT / "config/grid.yaml")["microbenchmarks"]
    quick = {"memory_access": {"bytes": "1MiB", "samples": 6}, "memory_calls": {"samples": 6, "seconds": 0.0}}
    tables = {}
    for name, changes in quick.items():
        given = {key: value for key, value in settings[name].items() if key != "on_cpu"}
        asked = resolved(name, given | changes)
        if "sizes" in asked:
            asked["sizes"] = [nbytes for nbytes in asked["sizes"] if nbytes <= 1 << 20]
        readings = import_module(f"snn.microbenchmarks.{name}").measure("cpu", asked)
        whole = [replace(one, seconds=(1.0,) * 6, status="ok", reason="") for one in readings]
        record = {
            "readings": [one.plain() for one in whole],
            "provenance": {"device": "NVIDIA H200", "backend": "cuda"},
        }
        table = import_module(f"snn.tables.{name}").build(record)
        text = table.fillna({"limit_gb_s": 1.0} if "limit_gb_s" in table else {}).to_csv(index=False)
        tables[f"nvidia-h200/memory/{name}"] = pd.read_csv(StringIO(text))
    text = of_remedies().assign(peak_bytes=1, saved_fraction=0.5).to_csv(index=False)
    tables["nvidia-h200/memory/memory_remedies"] = pd.read_csv(StringIO(text))
    return tables


def of_remedies():
    """The table of the sweep memory_remedies, each of whose cells took a second."""
    cells = sweeps_of()["memory_remedies"].cells
    records = {}
    for cell in cells:
        for number in (1, 2):
            records[f"{len(records)}"] = record(cell, [1.0 + 0.01 * number], number=number)
    thresholds = read_yaml(ROOT / "config/verdicts.yaml")
    return memory_remedies.build(frame.tabulate(records, thresholds), {}, thresholds)


@pytest.mark.parametrize("path", GUIDES, ids=lambda path: path.name)
def test_claims_name_rows_that_the_grid_gives(points, path):
    checked = 0
    for name, claim in memory_page.claims_of(path).items():
        for i, test in enumerate(claim.get("tests", ())):
            if test["table"] in points:
                where = test["where"]
                if isinstance(where.get("bytes"), list):
                    where = where | {"bytes": [size for size in where["bytes"] if size <= 1 << 20]}
                (found,) = claims.run({"tests": [test | {"where": where}]}, points.get, f"{name}.tests[{i}]")
                assert found.cases
                checked += 1
    assert checked >= 1


def test_a_changed_row_changes_the_verdict(tmp_path):
    """The verdict on the pipeline is that of the published rows, and of no others."""
    folder = tmp_path / "nvidia-h200/strategies/tables"
    folder.mkdir(parents=True)
    rows = pd.read_csv(memory_page.PUBLISHED / "nvidia-h200/strategies/tables/strategies.csv")
    (guide,) = [path for path in GUIDES if path.name == "cuda_memory_guide"]

    def word(table):
        table.to_csv(folder / "strategies.csv", index=False)
        return {name: word for name, _, _, word in memory_page.judge(guide, tmp_path)}["overlap_pipelined"]

    assert word(rows) == "confirmed"
    of_pipelined, ratio = rows["strategy"] == "pipelined", ["speedup", "speedup_ci_low", "speedup_ci_high"]
    rows.loc[of_pipelined, ratio] = (0.8, 0.7, 0.9)
    assert word(rows) == "refuted"
    rows.loc[of_pipelined & (rows["dataset"] == "small"), "speedup_ci_high"] = 1.1
    assert word(rows) == "refuted"
    rows.loc[of_pipelined & (rows["dataset"] == "large"), ratio] = (1.5, 1.4, 1.6)
    assert word(rows) == "conditional"


def test_claims_are_in_our_own_words_and_sections_are_together():
    for path in GUIDES:
        named = memory_page.claims_of(path)
        sections = [section for section, _ in groupby(named.values(), lambda one: one["section"])]
        assert len({read_yaml(file)["guide"] for file in path.glob("*.yaml")}) == 1
        assert len(set(sections)) == len(sections)
        for name, claim in named.items():
            assert re.fullmatch(r"[a-z0-9_]+", name) and claim["says"].endswith((".", ")."))
            assert not any("|" in test["says"] for test in claim.get("tests", ()))
