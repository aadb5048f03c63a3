"""The rounds of one cell: what they must share, and what may differ between them."""

import pytest
from conftest import ROOT
from real_records import forged, reference, refusal

from snn.analysis import frame
from snn.config.groups import read_yaml
from snn.records import archive
from snn.records.store import check_rounds


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
