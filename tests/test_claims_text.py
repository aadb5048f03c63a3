"""The figures of a claim: the interval of a ratio, and its cases in words."""

from math import inf

import pandas as pd
import pytest
from test_claims import FASTER, run

from snn.analysis import claims, claims_text


@pytest.mark.parametrize(
    ("one", "other", "ends"),
    [
        ((7.0, 9.0), (1.0, 4.0), (1.75, 9.0)),
        ((7.0, 9.0), (0.0, 4.0), (1.75, inf)),  # the other may be next to nothing
        ((7.0, 9.0), (-0.5, 4.0), (1.75, inf)),
        ((None, 9.0), (1.0, 4.0), (None, None)),
        ((7.0, None), (1.0, 4.0), (None, None)),
        ((7.0, 9.0), (None, 4.0), (None, None)),
        ((7.0, 9.0), (1.0, None), (None, None)),
    ],
)
def test_a_ratio_has_an_interval_as_far_as_its_parts_have_one(one, other, ends):
    rows = [("pageable", 8.0, *one), ("pinned", 2.0, *other)]
    table = pd.DataFrame(rows, columns=["call", "median", "low", "high"])
    (case,) = run(FASTER | {"by": []}, table)[1].cases
    assert (case.low, case.high) == ends


def test_the_interval_of_a_fraction_is_in_percent():
    case = claims.Case((), 0.837, 0.8, 0.9, "holds")
    assert claims_text.figures(claims.Found({"unit": "%"}, (case,), "x")) == "83.7% (95% CI 80% to 90%)"
    case = claims.Case((), 1.5, 0.9, 2.0, "open")
    found = claims.Found({"unit": "times"}, (case,), "x")
    assert claims_text.figures(found) == "1.50 times (not significant, 95% CI 0.900 to 2.00)"


def test_the_name_of_a_column_stands_once():
    outcomes = {1: "holds", 2: "fails", 4: "holds", 8: "holds", 16: "holds", 32: "fails", 64: "holds"}
    cases = tuple(claims.Case((n,), 1.0, None, None, outcome) for n, outcome in outcomes.items())
    found = claims.Found({"by": ["stride_of"]}, cases, "x")
    assert claims_text.when(found) == "holds: stride of 1, 4 to 16, 64; fails: stride of 2, 32"


def test_a_range_of_sizes_is_written_as_one():
    cases = [claims.Case((4**n,), 1.0, None, None, "fails" if n == 4 else "holds") for n in range(4, 12)]
    found = claims.Found({"by": ["bytes"]}, tuple(cases), "x")
    assert claims_text.when(found) == "holds: 1 KiB to 4 MiB; fails: 256 bytes"


def test_the_cases_of_each_choice_are_by_size():
    sizes = (("to_host", 4096), ("to_device", 65536), ("to_host", 256), ("to_device", 256))
    outcomes = {at: "fails" if at == ("to_device", 256) else "holds" for at in sizes}
    cases = tuple(claims.Case(at, 1.0, None, None, outcome) for at, outcome in outcomes.items())
    assert claims_text.when(claims.Found({"by": ["direction", "bytes"]}, cases, "x")) == (
        "holds: to host 256 bytes, 4 KiB and to device 64 KiB; fails: to device 256 bytes"
    )


def test_an_interval_without_one_of_its_ends_is_left_out():
    for low, high in ((0.9, None), (None, 2.0), (1.5, 1.5)):
        found = claims.Found({"unit": "times"}, (claims.Case((), 1.5, low, high, "open"),), "x")
        assert claims_text.figures(found) == "1.50 times"


def test_three_digits_and_all_before_the_point():
    numbers = (0.01234, 1.0, 99.4, 100.4, 1234.5)
    assert [claims_text.number(one, "") for one in numbers] == ["0.0123", "1.00", "99.4", "100", "1234"]
