"""A cell's runs in rounds: their shares, when each stops, when a warm-up is over; what rounds must share."""

import numpy as np
import pytest
from conftest import ROOT
from hypothesis import given
from hypothesis import strategies as st
from real_records import forged, reference, refusal

from snn.analysis import frame
from snn.config import groups
from snn.config.groups import read_yaml
from snn.measurement.protocol import Round, Steadiness, of_round, relative_error
from snn.records import archive
from snn.records.store import check_rounds

RULES = {
    "runs": 10,
    "min_runs": 4,
    "rounds": 2,
    "relative_error": None,
    "max_seconds": 120,
    "warmup_seconds": 1,
    "max_warmup_seconds": 4,
}


@given(
    runs=st.integers(1, 60), rounds=st.integers(1, 9), min_runs=st.integers(1, 60), more=st.integers(1, 20)
)
def test_rounds_share_the_runs_and_further_ones_go_on_without_gap_or_overlap(runs, rounds, min_runs, more):
    rounds = min(rounds, runs)
    protocol = RULES | {"runs": runs, "rounds": rounds, "min_runs": min_runs}
    further = [of_round(protocol, number) for number in range(1, rounds + more + 1)]
    made = [run for one in further for run in range(one.first_run, one.first_run + one.runs)]
    assert made == list(range(len(made)))
    found = further[:rounds]
    assert {one.runs for one in further} == {one.runs for one in found}
    assert sum(one.runs for one in found) == runs
    assert all(1 <= one.min_runs <= one.runs for one in found)
    assert sum(one.min_runs for one in found) >= min(min_runs, runs)
    assert max(one.runs for one in found) - min(one.runs for one in found) <= 1
    assert sum(one.max_seconds for one in found) == pytest.approx(120)


@pytest.mark.parametrize("name", groups.names("protocol"))
def test_every_protocol_has_five_rounds_or_more_and_a_run_in_each(name):
    protocol = groups.load("protocol", name)
    assert protocol["rounds"] >= 5
    assert protocol["min_runs"] >= protocol["rounds"] <= protocol["runs"]


@pytest.mark.parametrize(
    ("seconds", "rules", "stopped"),
    [
        ([1.0], {"max_seconds": 0.5}, None),  # too long already, but there must be two
        ([1.0, 1.0], {"max_seconds": 2.5}, "max_seconds"),  # a third would end after the limit
        ([1.0, 1.0], {"max_seconds": 3.5}, None),
        ([1.0] * 6, {}, "runs"),
        ([1.0] * 6, {"max_seconds": 0.1}, "runs"),
        ([1.0, 1.0], {"relative_error": 0.01}, None),  # two runs know nothing of their spread
        ([1.0, 1.001, 0.999], {"relative_error": 0.01}, "relative_error"),
        ([1.0, 1.01, 0.99], {"relative_error": 0.01}, None),
        ([1.0, 1.01, 0.99], {"relative_error": 0.01, "max_seconds": 3.5}, "max_seconds"),
    ],
)
def test_stop_rule(seconds, rules, stopped):
    assert Round(**{"runs": 6, "min_runs": 2} | rules).stop(seconds) == stopped


def test_the_interval_holds_the_mean_as_often_as_it_says():
    random = np.random.default_rng(11)
    held = 0
    for _ in range(2000):
        seconds = random.normal(1.0, 0.02, 5)
        held += abs(seconds.mean() - 1) <= relative_error(list(seconds)) * seconds.mean()
    assert 0.93 < held / 2000 < 0.97


def steady_after(epochs, least=1.0):
    steadiness = Steadiness(least)
    for made, seconds in enumerate(epochs, 1):
        steadiness.add(seconds)
        if steadiness.reached:
            return made
    return None


def test_a_warm_up_lasts_until_epochs_have_one_length():
    assert steady_after([0.3] * 10) == 4
    falling = [0.3 * 0.9**i for i in range(12)]
    assert steady_after(falling) is None
    assert steady_after([*falling, *[falling[-1]] * 40]) > 12
    # A quarter of the least time at once: short epochs are judged by their mean.
    assert steady_after([0.01, 0.02] * 1000) == pytest.approx(1 / 0.015, abs=6)


# ---- what the rounds of one cell must share, and what may differ between them


def one(number=1, started="2026-01-01", ledger=None, traits=None, **provenance):
    whole = {"versions": {"numpy": "2"}, "source_hash": "0", "started": started} | provenance
    record = {"cell": {"a": 1}, "round": number, "provenance": whole, "ledger": ledger or {}}
    return record | ({"traits": traits} if traits else {})


def peer(runtime, on_host=False):
    return {"own_runtime": runtime, "on_host": on_host}


def test_rounds_of_several_cells_have_nothing_to_do_with_each_other():
    other = one(source_hash="1") | {"cell": {"a": 2}}
    check_rounds({"x": one(), "y": other})
    assert "x and z are both round 1 of" in refusal(check_rounds, {"x": one(), "y": other, "z": one()})


def test_the_order_of_a_cells_keys_does_not_matter():
    records = {"x": one() | {"cell": {"a": 1, "b": 2}}, "y": one() | {"cell": {"b": 2, "a": 1}}}
    assert "x and y are both round 1" in refusal(check_rounds, records)


@pytest.mark.parametrize(
    ("a", "b", "said"),
    [
        ({}, {"source_hash": "1"}, "sources, 0, 1"),
        ({}, {"versions": {"numpy": "3"}}, "versions of numpy, 2, 3"),
        ({"blas_threads": 1}, {"blas_threads": 2}, "BLAS threads, 1, 2"),
        ({"ledger": {"frees": 1}}, {"ledger": {"frees": 2}}, "ledgers"),
        ({"ledger": {"frees": 1}}, {}, ""),
        ({}, {"versions": {"numpy": "2", "numba": "1"}}, ""),
        ({"versions": {"numba": "1"}}, {"versions": {"numba": "2"}}, "versions of numba, 1, 2"),
    ],
)
def test_what_rounds_must_share(a, b, said):
    records = {"x": one(1, **a), "y": one(2, started="2025-12-31", **b)}
    if said:
        assert refusal(check_rounds, records).endswith(f"have different {said}: y is the oldest")
    else:
        check_rounds(records)


@pytest.mark.parametrize(
    ("traits", "packages"),
    [
        (peer(None), ()),
        (peer("torch"), ("torch",)),
        (peer("jax"), ("jax",)),
        (peer(None, on_host=True), ("numba",)),
        (None, ("numba", "torch", "jax")),
    ],
)
def test_only_the_packages_that_take_part_are_compared(traits, packages):
    for package in ("numba", "torch", "jax"):
        records = {at: one(i, traits=traits, versions={package: at}) for i, at in enumerate(("x", "y"), 1)}
        if package in packages:
            assert f"versions of {package}, x, y" in refusal(check_rounds, records)
        else:
            check_rounds(records)


def test_a_later_round_is_compared_with_the_first_that_has_the_same():
    ledgers = [{}, {"frees": 1}, {"frees": 2}]
    records = {str(number): one(number, ledger=ledger) for number, ledger in enumerate(ledgers)}
    assert refusal(check_rounds, records).startswith("1 and 2: the rounds of one cell have different led")


def test_of_a_workflow_the_older_round_is_to_be_measured_again():
    records = {f"results/cells/{i}.json": one(i, started=f"202{9 - i}", blas_threads=i) for i in (1, 2)}
    said = refusal(check_rounds, records)
    assert "results/cells/2.json is the oldest" in said and "--force results/cells/2.json" in said


def test_rounds_of_an_archive_must_belong_together(tmp_path):
    forked = forged(reference(), (("round",), 2), (("provenance", "blas_threads"), 8))
    for other, said in ((forked, "different BLAS threads"), (reference(), "are both round 1 of one cell")):
        archive.write([reference(), other], tmp_path)
        found = refusal(archive.read_all, tmp_path)
        assert "records.jsonl.gz, line 1 and " in found and said in found
    other = forged(reference(), (("cell", "network", "seed"), 2), (("provenance", "versions", "numpy"), "1"))
    records = {"a": reference(), "b": other}
    check_rounds(records)  # cells of one table may be measured with different versions
    assert len(frame.tabulate(records, read_yaml(ROOT / "config/verdicts.yaml"))) == 2
