"""The rounds of one cell: what they must share, and what may differ between them."""

import pytest
from small_records import refusal

from snn.records import rounds


def one(number=1, started="2026-01-01", ledger=None, traits=None, **provenance):
    whole = {"versions": {"numpy": "2"}, "source_hash": "0", "started": started} | provenance
    record = {"cell": {"a": 1}, "round": number, "provenance": whole, "ledger": ledger or {}}
    return record | ({"traits": traits} if traits else {})


def peer(runtime, on_host=False):
    return {"own_runtime": runtime, "on_host": on_host}


def test_rounds_of_several_cells_have_nothing_to_do_with_each_other():
    other = one(source_hash="1") | {"cell": {"a": 2}}
    rounds.check({"x": one(), "y": other})
    assert refusal(rounds.check, {"x": one(), "y": other, "z": one()}) == (
        "x and z are both round 1 of one cell: remove one of them"
    )


def test_the_order_of_a_cells_keys_does_not_matter():
    records = {"x": one() | {"cell": {"a": 1, "b": 2}}, "y": one() | {"cell": {"b": 2, "a": 1}}}
    assert "x and y are both round 1" in refusal(rounds.check, records)


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
        assert refusal(rounds.check, records) == (
            f"x and y: the rounds of one cell have different {said}: y is the oldest"
        )
    else:
        rounds.check(records)


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
        records = {
            place: one(number, traits=traits, versions={package: place})
            for number, place in enumerate(("x", "y"), 1)
        }
        if package in packages:
            assert f"versions of {package}, x, y" in refusal(rounds.check, records)
        else:
            rounds.check(records)


def test_a_later_round_is_compared_with_the_first_that_has_the_same():
    ledgers = [{}, {"frees": 1}, {"frees": 2}]
    records = {str(number): one(number, ledger=ledger) for number, ledger in enumerate(ledgers)}
    assert refusal(rounds.check, records).startswith(
        "1 and 2: the rounds of one cell have different ledgers: "
    )
