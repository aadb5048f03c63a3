"""The table that ``benchmarks/headline.py`` prints, from times of our choosing."""

import sys

import pytest
from conftest import ROOT
from records_of import limits_of

from snn.errors import MeasurementError
from snn.hardware.limits import Measured

sys.path.insert(0, str(ROOT / "benchmarks"))

import headline

LIMITS = Measured.of(limits_of(seconds=1e-6))
NAMES = ["32-128-1", "32-256-1", "32-1024-1", "32-256-256-1", "32-256-1024-256-1"]


def rows(times):
    lines = headline.table(times, LIMITS).splitlines()
    return {
        cells[0]: cells[1:]
        for cells in ([one.strip() for one in line.split("|")[1:-1]] for line in lines[2:])
    }


def test_a_row_holds_the_best_peer_the_ratio_and_the_share_of_the_limit():
    found = rows(
        {name: {} for name in NAMES}
        | {"32-1024-1": {"torch_graph": 4e-5, "jax_scan": 2e-5, "persistent": 4e-6}}
    )
    assert list(found) == NAMES
    assert found["32-1024-1"] == ["jax_scan", "20.00", "", "4.00", "5.00", "1.00", "25%"]
    assert found["32-128-1"][:5] == [""] * 5
    assert found["32-256-1024-256-1"][5] == "8.14"


def test_a_time_below_its_floor_is_refused():
    with pytest.raises(MeasurementError, match=r"32-1024-1 by graph: .* 0.5 us, .* floor of 1 us"):
        rows({name: {} for name in NAMES} | {"32-1024-1": {"graph": 5e-7}})


def test_where_nobody_has_a_time_rows_are_empty_and_the_reason_is_said():
    times, remarks = headline.in_turns(2, ["jax_scan"], lambda name: dict.fromkeys(NAMES, "no JAX"))
    assert all(row[:5] == [""] * 5 for row in rows(times).values())
    assert remarks == ["jax_scan is left out: no JAX"]


def test_who_fails_in_one_round_is_left_out_of_that_network_alone():
    """One peer is not there, another fails at one network in the second of three rounds."""
    asked = []

    def take(name):
        asked.append(name)
        if name == "jax_scan":
            return dict.fromkeys(NAMES, "JAX is not installed")
        found = {network: headline.Timed(1e-6 * len(asked), "a plan") for network in NAMES}
        if name == "torch_graph" and asked.count(name) == 2:
            found["32-256-1"] = "no memory"
        return found

    times, remarks = headline.in_turns(3, ["jax_scan", "torch_graph", "persistent"], take)
    assert asked == ["jax_scan", *["torch_graph", "persistent"] * 3]
    assert set(times["32-256-1"]) == {"persistent"}
    assert times["32-128-1"] == {"torch_graph": pytest.approx(4e-6), "persistent": pytest.approx(5e-6)}
    assert [one for one in remarks if "left out" in one] == [
        "jax_scan is left out: JAX is not installed",
        "torch_graph is left out of 32-256-1: no memory",
    ]
    assert [one for one in remarks if "plan" in one] == [f"{name} by persistent: a plan" for name in NAMES]


@pytest.mark.parametrize("option", ["--rounds=0", "--seconds=-1", "--rounds=1.5"])
def test_options_that_measure_nothing_are_refused(option, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["headline.py", option])
    with pytest.raises(SystemExit):
        headline.main()
    assert option.partition("=")[0] in capsys.readouterr().err


def test_without_a_gpu_it_says_so(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["headline.py"])
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(SystemExit, match="device=cuda, but"):
        headline.main()
