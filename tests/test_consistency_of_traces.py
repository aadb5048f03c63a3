"""The trace in a record: each rule at its edge."""

import math
import sys

import pytest
from small_records import record_of, refused

COLUMNS = ["call", "size", "stream", "start_us", "end_us", "device_start_us", "device_end_us"]
COLUMNS += ["device_bytes", "page_locked_bytes", "site"]
EVENT = ["copy_in", [4, 2.5], 1, 0.0, 2, 0.5, 1.5, 4, 8, 0]
LATER = ["free", [], None, 3, 3.0, None, None, 0, 0, 1]


def traced(*events, columns=COLUMNS, sites=("a", "b")):
    trace = {"steps": 1, "columns": columns, "events": list(events), "sites": list(sites)}
    return refused(record_of(explanation={"trace": trace}))


def event(**values):
    return [values.get(column, value) for column, value in zip(COLUMNS, EVENT, strict=True)]


def test_a_trace_is_right_and_so_is_none():
    assert not traced(EVENT, LATER)
    assert not traced()
    assert not traced(event(size=[]), sites=("a",))


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"call": 1}, "a value of call is not of the right type"),
        ({"size": 4}, "a value of size is not of the right type"),
        ({"stream": 1.0}, "a value of stream is not of the right type"),
        ({"start_us": None}, "a value of start_us is not of the right type"),
        ({"end_us": "x"}, "a value of end_us is not of the right type"),
        ({"device_start_us": True}, "a value of device_start_us is not of the right type"),
        ({"device_end_us": []}, "a value of device_end_us is not of the right type"),
        ({"device_bytes": 4.0}, "a value of device_bytes is not of the right type"),
        ({"page_locked_bytes": None}, "a value of page_locked_bytes is not of the right type"),
        ({"site": True}, "a value of site is not of the right type"),
        ({"size": [True]}, "a size or a time is not a finite number"),
        ({"size": ["x"]}, "a size or a time is not a finite number"),
        ({"size": [math.inf]}, "a size or a time is not a finite number"),
        ({"size": [-math.inf]}, "a size or a time is not a finite number"),
        ({"size": [10**400]}, "a size or a time is not a finite number"),
        ({"end_us": math.inf}, "a size or a time is not a finite number"),
        ({"size": [sys.float_info.max]}, ""),
        ({"size": [-sys.float_info.max]}, ""),
        ({"end_us": 0.0}, ""),
        ({"end_us": -0.5}, "a call ends before it starts"),
        ({"device_bytes": -1}, "from -1 to 8 bytes are held"),
        ({"page_locked_bytes": -1}, "from -1 to 4 bytes are held"),
        ({"device_bytes": 8}, ""),
        ({"page_locked_bytes": 2**63 - 1}, ""),
        ({"page_locked_bytes": 2**63}, f"from 4 to {2**63} bytes are held"),
        ({"device_bytes": 2**63}, f"from 8 to {2**63} bytes are held"),
        ({"site": -1}, "a site is not one of explanation.trace.sites"),
        ({"site": 1}, ""),
        ({"site": 2}, "a site is not one of explanation.trace.sites"),
        ({"device_start_us": None}, "the device's work has only one of its two times"),
        ({"device_end_us": None}, "the device's work has only one of its two times"),
        ({"device_start_us": None, "device_end_us": None}, ""),
    ],
)
def test_every_value_of_an_event_is_one_of_its_column(values, said):
    assert traced(event(**values)) == (said and f"explanation.trace.events: {said}")
    if said and "bytes" not in said:
        assert said in traced(LATER, event(**values))


def test_an_event_has_a_value_for_every_column():
    said = "explanation.trace.events: not every event has a value for every column"
    for one in (EVENT[:-1], [*EVENT, 0], tuple(EVENT), "x" * len(EVENT)):
        assert traced(one) == traced(EVENT, one) == said


def test_the_columns_are_those_of_a_trace():
    must = f"it must be {', '.join(COLUMNS)}"
    for columns in (
        [*COLUMNS[:-1], "place"],
        [*COLUMNS, "site"],
        COLUMNS[:-1],
    ):
        values = [*EVENT, 0][: len(columns)]
        assert traced(values, columns=columns).startswith("explanation.trace.columns is ['call', ")
        assert traced(values, columns=columns).endswith(must)
    assert not traced(EVENT[::-1], columns=COLUMNS[::-1])
