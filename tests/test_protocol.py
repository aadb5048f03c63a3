"""A cell's runs in rounds: their shares, when each stops, and when a warm-up is over."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from snn.config import groups
from snn.measurement.protocol import Round, Steadiness, of_round, relative_error

RULES = {
    "runs": 10,
    "min_runs": 4,
    "rounds": 2,
    "relative_error": None,
    "max_seconds": 120,
    "warmup_seconds": 1,
    "max_warmup_seconds": 4,
}


@given(runs=st.integers(1, 60), rounds=st.integers(1, 9), min_runs=st.integers(1, 60))
def test_rounds_share_the_runs_without_gap_or_overlap(runs, rounds, min_runs):
    rounds = min(rounds, runs)
    protocol = RULES | {"runs": runs, "rounds": rounds, "min_runs": min_runs}
    found = [of_round(protocol, number) for number in range(1, rounds + 1)]
    made = [run for one in found for run in range(one.first_run, one.first_run + one.runs)]
    assert made == list(range(runs))
    assert all(1 <= one.min_runs <= one.runs for one in found)
    assert sum(one.min_runs for one in found) >= min(min_runs, runs)
    assert max(one.runs for one in found) - min(one.runs for one in found) <= 1
    assert sum(one.max_seconds for one in found) == pytest.approx(120)


@given(runs=st.integers(1, 60), rounds=st.integers(1, 9), more=st.integers(1, 20))
def test_further_rounds_go_on_where_the_protocols_end(runs, rounds, more):
    rounds = min(rounds, runs)
    protocol = RULES | {"runs": runs, "rounds": rounds}
    found = [of_round(protocol, number) for number in range(1, rounds + more + 1)]
    made = [run for one in found for run in range(one.first_run, one.first_run + one.runs)]
    assert made == list(range(len(made)))
    assert {one.runs for one in found} == {one.runs for one in found[:rounds]}


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
