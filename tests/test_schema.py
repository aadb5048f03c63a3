"""Values against small schemas: what fits, what does not, and what is said of it."""

import json
import sys

import pytest

from snn.errors import RecordError
from snn.records import schema


@pytest.fixture
def said(monkeypatch):
    """What is said of a value by a schema; empty where it fits."""

    def check(of, value):
        monkeypatch.setattr(schema, "load", lambda name: json.loads(json.dumps(of)))
        schema._of.cache_clear()
        try:
            schema.check("some", value, "it")
        except RecordError as error:
            assert str(error).startswith("it: ")
            return str(error).removeprefix("it: ")
        finally:
            schema._of.cache_clear()
        return ""

    return check


EVERY = {
    "object": ({}, "an object"),
    "array": ([], "a list"),
    "string": ("", "text"),
    "integer": (1, "a whole number"),
    "number": (1.5, "a number"),
    "boolean": (True, "true or false"),
    "null": (None, "null"),
}


@pytest.mark.parametrize("name", EVERY)
def test_a_value_is_of_the_type_of_its_schema(said, name):
    for other, (value, _) in EVERY.items():
        fits = other == name or (name, other) == ("number", "integer")
        assert said({"type": name}, value) == (
            "" if fits else f"it is {value}: it must be {EVERY[name][1]}".replace("is :", "is '':")
        )


def test_it_may_be_of_several_types(said):
    several = {"type": ["integer", "null", "string"]}
    for value in (3, None, "x"):
        assert not said(several, value)
    assert said(several, 1.5) == "it is 1.5: it must be a whole number, null, text"
    assert said({"type": ["integer", "number"]}, None) == "it is None: it must be a whole number, a number"
    assert not said({"type": ["integer", "number"]}, 1.5)


def test_a_choice_is_one_of_its_list_and_of_its_type(said):
    choice = {"enum": ["a", 1, None], "description": "of three"}
    for value in ("a", 1, None):
        assert not said(choice, value)
    for value in ("b", 1.0, True, [], {}, ["a"]):
        assert said(choice, value) == f"it is {value!r}: it must be one of a, 1, null"


NUMBERS = {
    "finite": ({}, "", [0, -1.5, sys.float_info.max, -sys.float_info.max], [float("inf"), float("-inf")]),
    "least": ({"minimum": 2}, ", at least 2", [2, 2.0, 3], [1, 1.999]),
    "most": ({"maximum": 2}, ", at most 2", [2, 2.0, -3], [3, 2.001]),
    "both": ({"minimum": 1, "maximum": 2}, ", at least 1 and at most 2", [1, 2], [0, 3]),
    "above": ({"exclusiveMinimum": 0}, ", above 0", [1e-300, 1], [0, 0.0, -0.0, -1]),
    "above and most": ({"exclusiveMinimum": 0, "maximum": 1}, ", above 0 and at most 1", [1], [0, 1.5]),
    "of 64 bits": ({}, "", [2**63 - 1, -(2**63) + 1, 1e300], [2**63, -(2**63)]),
}


@pytest.mark.parametrize(("bounds", "words", "good", "bad"), NUMBERS.values(), ids=list(NUMBERS))
def test_a_number_is_finite_and_within_its_bounds(said, bounds, words, good, bad):
    for value in good:
        assert not said({"type": "number", **bounds}, value)
    for value in bad:
        assert (
            said({"type": "number", **bounds}, value) == f"it is {value!r}: it must be a finite number{words}"
        )


def test_a_nan_is_no_number(said):
    assert said({"type": "number"}, float("nan")) == "it is nan: it must be a finite number"


def test_a_text_fits_its_pattern_whole_and_its_length(said):
    text = {"type": "string", "pattern": "[a-c]+", "maxLength": 3}
    assert not said(text, "abc")
    assert said(text, "abcd") == "it is 'abcd': it must have at most 3 characters"
    for value in ("", "xa", "ax", "a\n"):
        assert said(text, value) == f"it is {value!r}: it must match [a-c]+"
    assert not said({"type": "string", "maxLength": 2}, "\n\n")
    assert said({"type": "string", "maxLength": 2}, "\n\n\n")
    assert said({"type": "string", "pattern": "a*"}, "b") and not said(
        {"type": "string", "pattern": "a*"}, "a" * 99
    )


def test_a_list_has_so_many_values_each_of_its_schema(said):
    some = {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 2}
    assert not said(some, [1]) and not said(some, [1, 2])
    for value in ([], [1, 2, 3]):
        assert said(some, value) == f"it has {len(value)} values: it must have 1 or more, and 2 at most"
    assert said(some, [1, "x"]) == "[1] is 'x': it must be a whole number"
    assert not said({"type": "array"}, [1, "x", []])
    assert not said({"type": "array", "items": {"type": "integer"}}, [])
    assert (
        said({"type": "array", "items": some}, [[1], [1, None]])
        == "[1][1] is None: it must be a whole number"
    )
    assert said({"type": "array", "minItems": 1}, []).endswith(f"1 or more, and {sys.maxsize} at most")
    assert (
        said({"type": "array", "maxItems": 0}, [1])
        == "it has 1 values: it must have 0 or more, and 0 at most"
    )


def test_an_object_has_its_keys(said):
    some = {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "null"}, "c": {"type": "null"}},
        "required": ["a", "b"],
        "additionalProperties": False,
    }
    assert not said(some, {"a": 1, "b": None}) and not said(some, {"a": 1, "b": None, "c": None})
    assert said(some, {}) == "it lacks a, b"
    assert said(some, {"b": None, "c": None}) == "it lacks a"
    assert said(some, {"a": 1.5, "b": None}) == "a is 1.5: it must be a whole number"
    assert said(some, {"a": 1, "b": None, "x": 1}) == "it has the unknown key 'x'"


def test_an_object_may_have_further_keys(said):
    assert not said({"type": "object"}, {"x": 1})
    assert not said({"type": "object", "additionalProperties": True}, {"x": [{}]})
    others = {
        "type": "object",
        "properties": {"a": {"type": "null"}},
        "additionalProperties": {"type": "integer"},
    }
    assert not said(others, {"a": None, "x": 1, "y": 2})
    assert said(others, {"x": 1, "y": None}) == "y is None: it must be a whole number"
    assert said(others, {"no name": None}) == "['no name'] is None: it must be a whole number"
    assert said(others, {"a": 1}) == "a is 1: it must be null"
    known = {"type": "object", "properties": {"a": {"type": "null"}}}
    assert said(known, {"x": 1, "a": 1}) == "a is 1: it must be null"


def test_keys_need_others_and_an_object_so_many(said):
    pair = {"type": "object", "dependentRequired": {"a": ["b", "c"]}}
    for value in ({}, {"b": 1}, {"a": 1, "b": 2, "c": 3}):
        assert not said(pair, value)
    assert said(pair, {"a": 1, "c": 3}) == "it lacks b"
    assert said(pair, {"a": 1}) == "it lacks b, c"
    some = {"type": "object", "minProperties": 1}
    assert said(some, {}) == "it is empty" and not said(some, {"a": 1}) and not said({"type": "object"}, {})


def test_the_way_to_a_wrong_value_is_said(said):
    inner = {"$ref": "#/$defs/count"}
    whole = {
        "$defs": {"count": {"type": "integer", "minimum": 0}},
        "type": "object",
        "properties": {"a": {"type": "array", "items": {"type": "object", "additionalProperties": inner}}},
    }
    assert not said(whole, {"a": [{"b": 0}]})
    assert said(whole, {"a": [{}, {"b": -1}]}) == "a[1].b is -1: it must be a finite number, at least 0"
    assert said(whole, {"a": [{"1": -1}]}) == "a[0]['1'] is -1: it must be a finite number, at least 0"


@pytest.mark.parametrize(
    "unknown",
    [
        {"type": "object", "maxProperties": 3},
        {"type": "string", "format": "date"},
        {"type": "string", "minimum": 3},
        {"type": "array", "properties": {"items": {"type": "null", "const": 1}}},
        {"type": "array", "items": {"type": "integer", "multipleOf": 2}},
        {"enum": [1], "type": "integer"},
    ],
)
def test_a_keyword_that_nothing_checks_is_an_error(said, unknown):
    with pytest.raises(ValueError, match=r"nothing here checks"):
        said(unknown, None)


def test_notes_are_no_keywords(said):
    assert not said({"$schema": "x", "title": "x", "description": "x", "type": "null"}, None)


def test_a_long_value_is_cut_off():
    assert schema.shown("x" * 58) == f"'{'x' * 58}'"
    assert schema.shown("x" * 59) == f"'{'x' * 59}..."
    assert len(schema.shown("x" * 1000)) == 63
