"""Intervals that hold what they promise, and words that follow from them."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from snn.analysis.intervals import (
    Ratio,
    adjust,
    holm,
    mean_interval,
    mean_of,
    pool,
    ratio,
    ratio_verdict,
    speedup_verdict,
    with_best,
)
from snn.measurement.student import student_quantile, two_sided_p

REPETITIONS = 2000
FOUR_DEVIATIONS = pytest.approx(0.95, abs=4 * (0.95 * 0.05 / REPETITIONS) ** 0.5)  # neither narrow nor wide


def ratio_interval(baseline, other):
    return ratio(baseline, other)[1:3]


def simulated(random, mean, spread, runs, rounds=1, between=0.0):
    """Rounds of runs around a mean, with a relative spread of runs and another of rounds."""
    shift = 1 + between * random.standard_normal((rounds, 1))
    return list(mean * shift * (1 + spread * random.standard_normal((rounds, runs))))


def coverage(draw):
    """How often, of ``REPETITIONS`` draws of two sides, the interval holds the ratio that they have."""
    random, hits = np.random.default_rng(20), 0
    for _ in range(REPETITIONS):
        base, other, true = draw(random)
        low, high = ratio_interval(base, other)
        hits += low <= true <= high
    return hits / REPETITIONS


@pytest.mark.parametrize(
    ("runs_a", "runs_b", "rounds", "between"),
    [
        *((3, 3, 1, 0), (3, 10, 1, 0)),  # one round: of its runs
        *((5, 5, 2, 0.05), (3, 3, 3, 0.1), (2, 2, 5, 0.0), (2, 1, 5, 0.05), (1, 1, 10, 0.05)),
    ],
)
def test_the_interval_covers_the_true_ratio_as_often_as_it_says(runs_a, runs_b, rounds, between):
    def draw(random):
        sides = ((1.5, runs_a), (1.0, runs_b))
        return *(simulated(random, mean, 0.05, runs, rounds, between) for mean, runs in sides), 1.5

    assert coverage(draw) == FOUR_DEVIATIONS


def test_five_percent_slower_is_seen_and_no_change_is_not_taken_for_one():
    """On a machine whose speed wanders by 10%, and where a run now and then is held up by a fifth."""

    def word(random, slowed):
        wander = np.zeros(500)
        for step in range(1, 500):  # correlation 0.9 from one run to the next
            wander[step] = 0.9 * wander[step - 1] + 0.1 * 0.19**0.5 * random.standard_normal()
        times = np.exp(wander + 0.02 * random.standard_normal(500))
        times *= np.where(random.random(500) < 0.03, 1.2, 1.0)
        sides = [[t] for t in times[::2]], [[t * slowed] for t in times[1::2]]
        return speedup_verdict(*ratio_interval(*sides), 0.02)

    random = np.random.default_rng(8)
    words = {slowed: [word(random, slowed) for _ in range(20)] for slowed in (1.0, 1.05)}
    assert words[1.05] == ["slower"] * 20
    assert words[1.0].count("same") >= 19


SIDE = st.just([0.0]) | st.lists(st.floats(0.5, 2), max_size=3)


@given(st.lists(st.tuples(SIDE, SIDE), max_size=7), st.floats(0.5, 2))
def test_only_rounds_in_which_both_have_a_time_count(pairs, more):
    base, other = (
        ([list(side) for side in sides] for sides in zip(*pairs, strict=True)) if pairs else ([], [])
    )
    found = ratio(base, other)
    kept = [pair for pair in pairs if all(map(sum, pair))]
    assert found == pytest.approx(ratio(*zip(*kept, strict=True)) if kept else found, nan_ok=True)
    assert found.rounds == len(kept)
    assert ratio([*base, [more], [more]], [*other, []]) == pytest.approx(found, nan_ok=True)


times = st.lists(st.floats(0.5, 2), min_size=2, max_size=8)


@given(times, times, st.floats(0.1, 10))
def test_units_do_not_matter_and_the_inverse_is_the_inverse(a, b, unit):
    low, high = ratio_interval([a], [b])
    assert low <= np.mean(a) / np.mean(b) * (1 + 1e-9)
    assert high >= np.mean(a) / np.mean(b) * (1 - 1e-9)
    scaled = ratio_interval([[x * unit for x in a]], [[x * unit for x in b]])
    assert scaled == pytest.approx((low, high), rel=1e-9)
    assert ratio_interval([a], [b]) == (low, high)


@pytest.mark.parametrize(
    ("freedom", "exact"), [(1, 12.7062), (2, 4.3027), (3, 3.1824), (4, 2.7764), (10, 2.2281), (30, 2.0423)]
)
def test_student_quantiles(freedom, exact):
    assert student_quantile(freedom) == pytest.approx(exact, abs=5e-5)


@given(st.floats(1, 200), st.floats(0, 40))
def test_the_p_value_is_the_integral_of_students_density(freedom, t):
    """By Simpson's rule over the angle whose tangent is t / sqrt(freedom), to which the tail is bounded."""
    angle = np.linspace(np.arctan(t / math.sqrt(freedom)), np.pi / 2, 20001)
    weights = np.array([1, *[4, 2] * 9999, 4, 1]) * (angle[1] - angle[0]) / 3
    scale = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(math.pi)
    tails = 2 * scale * np.sum(weights * np.abs(np.cos(angle)) ** (freedom - 1))
    assert two_sided_p(t, freedom) == pytest.approx(tails, abs=1e-4)


@given(st.floats(1, 50), st.floats(1e-6, 0.9))
def test_quantile_and_p_value_are_inverse(freedom, level):
    assert two_sided_p(student_quantile(freedom, level), freedom) == pytest.approx(level, rel=1e-6)


@pytest.mark.parametrize(
    ("low", "high", "word"),
    [
        (1 / 1.02, 1.02, "same"),
        (0.98, 1.0, "not significant"),
        (1.0, 1.021, "not significant"),
        (1.001, 1.02, "same"),
        (1.001, 1.021, "faster"),
        (0.9, 0.999, "slower"),
        (0.97, 1.03, "not significant"),
        (float("nan"), 0.5, "not significant"),
        (2.0, float("nan"), "not significant"),
    ],
)
def test_the_word_of_an_interval_at_its_edges(low, high, word):
    assert speedup_verdict(low, high, 0.02) == word


def test_the_interval_is_students_over_rounds():
    found = ratio([[2.0], [3.0, 5.0], [8.0]], [[1.0], [1.0], [1.0]])
    logs = np.log([2, 4, 8])
    margin = student_quantile(2) * logs.std(ddof=1) / np.sqrt(3)
    mean = 14 / 3  # each round counts alike
    expected = (mean, mean * np.exp(-margin), mean * np.exp(margin), 3, logs.std(ddof=1))
    assert found[:5] == pytest.approx(expected)
    assert found.p == pytest.approx(two_sided_p(math.log(mean) * math.sqrt(3) / logs.std(ddof=1), 2))


@pytest.mark.parametrize("limit", [1.0, 2.5])
def test_it_covers_the_ratio_as_often_where_slow_rounds_of_one_side_are_cut_short(limit):
    """What slows a whole pass cancels, though a time limit leaves one side fewer runs of it."""

    def draw(random):
        passes = np.exp(0.1 * random.standard_normal((5, 1)))
        base, other = (list(passes * simulated(random, 1.0, 0.01, 4, 5, 0.02)) for _ in range(2))
        return [runs[: 1 + int((np.cumsum(runs) < limit).sum())] for runs in base], other, 1

    assert coverage(draw) == FOUR_DEVIATIONS


@pytest.mark.parametrize(
    ("base", "other", "word"),
    [
        ([[1.9, 1.901, 1.902]], [[1.0, 1.001, 1.002]], "not significant"),
        ([[1.0, 1.001]], [[1.0, 1.001]], "not significant"),
        ([[1.0, 1.001]], [[1.9, 1.901]], "not significant"),
        ([[2.1, 2.101, 2.102]], [[1.0, 1.001, 1.002]], "faster"),
        ([[1.0, 1.001]], [[2.1, 2.101]], "slower"),
        ([[9.0]], [[1.0]], "not significant"),
        ([[1.2], [1.201], [1.202]], [[1.0], [1.001], [1.002]], "faster"),
        ([[1.0], [1.001], [1.002]], [[1.0], [1.001], [1.002]], "same"),
    ],
)
def test_a_single_round_tells_only_large_ratios_apart(base, other, word):
    found = ratio(base, other)
    assert ratio_verdict(found, found.p, 0.02, 2) == word
    if found.rounds > 1 and word != "same":
        assert ratio_verdict(found, 0.05, 0.02, 2) == "not significant"


def test_of_one_round_it_is_that_of_student_and_welch():
    a, b = np.array([1.0, 2.0, 3.0]), np.array([4.0, 6.0])
    variances = [(x.std(ddof=1) / x.mean()) ** 2 / len(x) for x in (a, b)]
    freedom = sum(variances) ** 2 / (variances[0] ** 2 / 2 + variances[1] ** 2 / 1)
    margin = student_quantile(freedom) * np.sqrt(sum(variances))
    found = ratio([list(a)], [list(b)])
    assert found[:4] == pytest.approx((0.4, 0.4 * np.exp(-margin), 0.4 * np.exp(margin), 1))
    assert np.isnan(found.spread)
    assert ratio([[2.0, 2.0]], [[1.0, 1.0]])[:3] == (2.0, 2.0, 2.0)
    for sides in (([[2.0]], [[1.0, 2.0]]), ([[2.0, 3.0]], [[1.0]])):
        assert np.isnan(ratio(*sides)[1:3]).all()


def test_the_interval_of_a_mean_is_that_over_one_second():
    low, high = mean_interval([[2.0], [4.0]])
    assert (low, high) == pytest.approx(ratio_interval([[2.0], [4.0]], [[1.0], [1.0]]))
    assert all(np.isnan(mean_interval([[2.0]])))
    assert mean_interval([[2.0, 2.0]]) == (2.0, 2.0)
    assert mean_of([[], [1.0, 3.0], [4.0]]) == 3.0
    assert np.isnan(mean_of([[], []])) and np.isnan(mean_of([]))


@given(times, times, st.floats(0.1, 10))
def test_units_do_not_matter_and_the_interval_holds_the_ratio(a, b, unit):
    low, high = ratio_interval([a], [b])
    assert low * (1 - 1e-9) <= np.mean(a) / np.mean(b) <= high * (1 + 1e-9)
    scaled = ratio_interval([[x * unit for x in a]], [[x * unit for x in b]])
    assert scaled == pytest.approx((low, high), rel=1e-9)
    low, high = mean_interval([a])
    assert low * (1 - 1e-9) <= np.mean(a) <= high * (1 + 1e-9)
    assert mean_interval([[unit * x for x in a]]) == pytest.approx((unit * low, unit * high))


# ---- several comparisons


def test_holm_multiplies_the_smallest_p_value_by_their_number():
    assert adjust([0.01, 0.04, 0.03], holm) == pytest.approx([0.03, 0.06, 0.06])
    assert adjust([], holm) == []


def test_candidates_are_compared_with_the_best_as_pairs_that_are_left():
    """Of four candidates there are six pairs; without the clearest three, then one."""
    ps = [0.3, 0.02, 0.001]
    assert adjust(ps, with_best) == pytest.approx([0.3, 0.06, 0.006])
    assert adjust([0.02, 0.03, 0.04], with_best) == pytest.approx([0.04] * 3)  # all of them, so the best is
    assert adjust([0.02], with_best) == [0.02]


@given(st.lists(st.floats(0, 1) | st.just(math.nan), max_size=30), st.sampled_from([holm, with_best]))
def test_adjusted_p_values_are_larger_and_in_the_same_order(ps, factors):
    adjusted = adjust(ps, factors)
    assert [math.isnan(p) for p in adjusted] == [math.isnan(p) for p in ps]
    known = [(p, q) for p, q in zip(ps, adjusted, strict=True) if not math.isnan(p)]
    assert all(p <= q <= 1 for p, q in known)
    assert sorted(q for _, q in known) == [q for _, q in sorted(known)]


def test_a_variance_is_half_its_own_and_half_that_of_the_family():
    found = [Ratio(1.5, 1.4, 1.6, rounds, spread) for rounds, spread in ((5, 0.1), (5, 0.9), (8, 0.2))]
    assert pool(found[:2]) == found[:2]
    single = Ratio(2.0, 1.9, 2.1, 1, math.nan)
    *pooled, same = pool([*found, single])
    logs = [
        math.log(one.spread**2) + 1 / f + 1 / (3 * f * f) for one, f in zip(found, (4, 4, 7), strict=True)
    ]
    common = math.exp(sum(logs) / 3)
    for one, own in zip(pooled, found, strict=True):
        expected = max((own.spread**2 + common) / 2, 0.75 * own.spread**2)
        assert one.spread == pytest.approx(math.sqrt(expected))
        t = math.log(1.5) * math.sqrt(own.rounds) / one.spread
        assert one.p == pytest.approx(two_sided_p(t, 2 * (own.rounds - 1)))
    assert pooled[1].spread == pytest.approx(0.9 * math.sqrt(0.75))
    assert math.isnan(same.p) and math.isnan(same.spread)
    exact = [*found, Ratio(1.5, 1.5, 1.5, 5, 0.0)]
    assert pool(exact) == exact


def test_a_noisy_ratio_does_not_hide_what_quiet_ones_show():
    quiet = [Ratio(0.927, 0.922, 0.931, 5, 0.004)] * 3
    assert pool([*quiet, Ratio(0.5, 0.2, 1.2, 5, 0.7)])[0].p < 1e-4


@pytest.mark.parametrize("spreads", [[0.1] * 8, [0.02, 0.14] * 4, [0.2, *[0.02] * 7]])
def test_equals_are_seldom_called_slower_than_the_one_with_the_shortest_mean(spreads):
    random = np.random.default_rng(11)
    wrong = 0
    for _ in range(400):
        cells = np.exp(np.array(spreads)[:, None] * random.standard_normal((8, 5)))[..., None].tolist()
        first, *others = sorted(cells, key=np.mean)
        ps = adjust([one.p for one in pool([ratio(other, first) for other in others])], with_best)
        wrong += min(ps) < 0.05
    assert wrong <= 0.05 * 400 + 4 * math.sqrt(400 * 0.05 * 0.95)
