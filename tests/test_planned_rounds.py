"""The file of planned rounds: what is read from it, and that no plan is lost."""

import json
import subprocess
import sys
from contextlib import contextmanager

import pytest
from conftest import ROOT

from snn.errors import ConfigError
from snn.grid import more_rounds
from snn.records import store


@pytest.mark.parametrize(
    ("change", "planned"), [(more_rounds.limit, {"a": 3, "b": 5}), (more_rounds.add, {"a": 9, "b": 5})]
)
def test_what_another_process_planned_meanwhile_is_kept(tmp_path, monkeypatch, change, planned):
    """It had the lock, and this one waited for it."""

    @contextmanager
    def waiting(file):
        store.write(file, {"a": 9, "b": 5})
        yield

    store.write(tmp_path / "plan.json", {"a": 2})
    monkeypatch.setattr(more_rounds, "file_lock", waiting)
    change({"a": 3}, tmp_path / "plan.json")
    assert more_rounds.read(tmp_path / "plan.json") == planned


def test_a_plan_is_read_and_grows(tmp_path):
    file = tmp_path / "plan.json"
    assert more_rounds.read(file) == {}
    more_rounds.add({"a": 1, "b": 1000}, file)
    more_rounds.add({"a": 3, "b": 2, "c": 1}, file)
    assert more_rounds.read(file) == json.loads(file.read_text()) == {"a": 3, "b": 1000, "c": 1}
    assert more_rounds.FILE.as_posix() == "results/more_rounds.json"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"a": 0}', "a has 0 rounds: it must be from 1 to 1000; remove it"),
        ('{"a": 1001}', "a has 1001 rounds: it must be from 1 to 1000; remove it"),
        ('{"b": 1, "a": true}', "a has True rounds: it must be from 1 to 1000; remove it"),
        ('{"a": 1e9}', "a has 1000000000.0 rounds: it must be from 1 to 1000; remove it"),
        ('{"a": "5"}', "a has '5' rounds: it must be from 1 to 1000; remove it"),
        ("[]", "it must hold the number of rounds by the name of a cell; remove it"),
        ("", "; remove it, or plan again with snn more-rounds"),
        ("{", "; remove it, or plan again with snn more-rounds"),
    ],
)
def test_a_plan_that_is_none_is_refused(tmp_path, text, said):
    file = tmp_path / "plan.json"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        more_rounds.read(file)
    found = str(caught.value)
    assert found.startswith(str(file)) and found.endswith(said)


def test_where_nothing_is_planned_a_limit_leaves_nothing(tmp_path):
    more_rounds.limit({"a": 3}, tmp_path / "results/more_rounds.json")
    assert not list(tmp_path.iterdir())
    more_rounds.add({"a": 3}, tmp_path / "deep/results/more_rounds.json")
    assert more_rounds.read(tmp_path / "deep/results/more_rounds.json") == {"a": 3}


def test_two_commands_that_plan_at_once_lose_no_round(tmp_path):
    file = tmp_path / "more_rounds.json"
    code = "import sys; from pathlib import Path; from snn.grid import more_rounds\n"
    code += "for i in range(40): more_rounds.add({f'{sys.argv[1]}{i}': 7}, Path(sys.argv[2]))"
    command = [sys.executable, "-c", code]
    both = [subprocess.Popen([*command, name, str(file)], cwd=ROOT) for name in "ab"]
    assert [one.wait(timeout=60) for one in both] == [0, 0]
    assert more_rounds.read(file) == {f"{name}{i}": 7 for name in "ab" for i in range(40)}
