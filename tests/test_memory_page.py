"""What ``scripts/memory_page.py`` refuses: it never writes a page from what is no result, table or claim."""

import sys

import pytest
import yaml
from conftest import ROOT

from snn.errors import ConfigError

sys.path.insert(0, str(ROOT / "scripts"))

import memory_page

TABLE = "device/folder/tables/memory.csv"
CLAIM = {
    "section": "Allocation",
    "says": "It helps.",
    "tests": [
        {
            "says": "share",
            "table": "device/folder/memory",
            "where": {"strategy": "pool"},
            "column": "share",
            "is": {"above": 0},
        }
    ],
}
GOOD = "strategy,share,all,device\npool,2,4,H200\nreference,1,4,H200\n"


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with a page, a guide of one claim and the table that tests it."""
    page = tmp_path / "page.md"
    page.write_text("<!-- made: guide -->\n<!-- end -->\n")
    monkeypatch.setattr(memory_page, "PAGE", page)
    monkeypatch.setattr(memory_page, "GUIDES", tmp_path / "guides")
    (tmp_path / TABLE).parent.mkdir(parents=True)
    (tmp_path / TABLE).write_text(GOOD)
    write_guide(tmp_path, {"it_helps": CLAIM})
    return tmp_path


def write_guide(place, claims):
    folder = place / "guides/guide"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "1.yaml").write_text(yaml.safe_dump({"guide": "A guide", "claims": claims}))


def of_test(**changes):
    return {"it_helps": {**CLAIM, "tests": [{**CLAIM["tests"][0], **changes}]}}


def refusal(place, capsys):
    before = memory_page.PAGE.read_text()
    assert memory_page.main([str(place)]) == 2
    assert memory_page.PAGE.read_text() == before
    return capsys.readouterr().err


def test_a_page_is_written_from_published_tables(place):
    assert memory_page.main([str(place)]) == 0
    assert "| It helps. | **confirmed** | share: 2.00 |" in memory_page.PAGE.read_text()


def test_a_folder_without_tables_makes_no_page(place, capsys):
    before = memory_page.PAGE.read_text()
    assert memory_page.main(["--help"]) == 0
    assert memory_page.main([str(place), "more"]) == 2
    for other in (place / "device", place / "nowhere"):
        assert f"{other} has no device/folder/tables/memory.csv" in refusal(other, capsys)
    assert memory_page.PAGE.read_text() == before


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\xff\xfe", "not a table"),
        (b"", "not a table"),
        (None, "it is a folder"),
        (
            b"strategy,share,device\npool,much,H200\n",
            "device/folder/memory has share 'much': it must be a number\n",
        ),
    ],
)
def test_a_damaged_table_is_refused_by_name(place, capsys, content, said):
    path = place / TABLE
    path.unlink()
    path.mkdir() if content is None else path.write_bytes(content)
    message = refusal(place, capsys)
    assert said in message and "memory" in message


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"where": "pool"}, r"tests\[0\].where: 'pool': it must be values by column"),
        ({"by": "strategy"}, r"tests\[0\].by: 'strategy': it must be a list"),
        ({"is": {"above": "1"}}, r"tests\[0\].is: .* with a number"),
        ({"is": {"equals": 1, "above": 2}}, r"tests\[0\].is: "),
        ({"is": 1}, r"tests\[0\].is: 1"),
        ({"table": 5}, r"tests\[0\].table: 5"),
    ],
)
def test_a_test_of_the_wrong_form_is_refused_by_key(place, changes, said):
    write_guide(place, of_test(**changes))
    with pytest.raises(ConfigError, match=said):
        memory_page.fill(memory_page.PAGE.read_text(), place)


@pytest.mark.parametrize("changes", [{"per": "all"}, {"over": {"strategy": "reference"}}])
def test_nothing_is_divided_by_zero(place, changes):
    write_guide(place, of_test(**changes))
    assert memory_page.main([str(place)]) == 0
    (place / TABLE).write_text(GOOD.replace("4", "0").replace("reference,1", "reference,0"))
    with pytest.raises(ConfigError, match=r"0.*: it must be a number above 0, to divide by it"):
        memory_page.fill(memory_page.PAGE.read_text(), place)


@pytest.mark.parametrize("claim", [None, "text", {"says": "It helps."}, {"section": "A", "says": 5}])
def test_a_claim_without_section_or_text_is_refused_by_name(place, claim):
    write_guide(place, {"it_helps": claim})
    with pytest.raises(ConfigError, match=r"1.yaml: it_helps is .*: it must have a text as s"):
        memory_page.fill(memory_page.PAGE.read_text(), place)
