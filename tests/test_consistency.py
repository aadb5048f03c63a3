"""What the parts of a record say of each other: its cell, status, rounds and passes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from real_records import edited
from small_records import changed, ended, launched, record_of, refused

# ---- the cell, the device, the status


@pytest.mark.parametrize(
    ("network", "is_one"),
    [
        ({"hidden": [4]}, True),
        ({"hidden": [4], "loss": "x"}, True),
        ({"layers": [], "loss": "x"}, True),
        ({"layers": []}, False),
        ({"hidden": [4], "layers": [], "loss": "x"}, False),
        ({}, False),
        ({"loss": "x"}, False),
    ],
)
def test_a_network_has_hidden_widths_or_layers_and_a_loss(network, is_one):
    found = refused(changed(record_of(), ("cell.network", network)))
    assert found == ("" if is_one else "cell.network must have hidden, or layers and a loss")


@pytest.mark.parametrize("key", ["backend", "device"])
def test_the_cells_device_is_that_of_the_provenance(key):
    found = refused(changed(record_of(), (f"provenance.{key}", "cuda")))
    backend, device = ("cuda", "Abacus") if key == "backend" else ("cpu", "cuda")
    assert found == (
        f"cell.device is cpu 'Abacus', but provenance says that it was measured on {backend} {device!r}"
    )


def test_rounds_without_runs_are_right():
    for status in ("out_of_memory", "unsupported"):
        assert not refused(ended(status))


@pytest.mark.parametrize(
    ("record", "said"),
    [
        (ended("ok", reason=None), "status is ok, but runs is empty"),
        (ended("diverged"), "status is diverged, but runs is empty"),
        (ended("unsupported", reason=None), "status is unsupported, but reason is None: every status but ok"),
        (record_of(reason="so"), "status is ok, but reason is 'so': every status but ok has a reason"),
        (record_of(losses=(2.0, None)), "status is ok, but a loss is null, which means not finite"),
        (record_of(status="diverged", reason="so"), "status is diverged, but no loss is null, which means"),
        (ended("unsupported", stopped="runs"), "status is unsupported, but stopped is runs"),
        (record_of(stopped=None), "status is ok, but stopped is None"),
    ],
)
def test_a_status_has_its_reason_its_runs_and_its_losses(record, said):
    assert refused(record).startswith(said)


def test_a_loss_that_is_not_finite_may_be_of_any_run_or_member():
    diverged = {"status": "diverged", "reason": "so"}
    assert not refused(record_of(losses=(None, 2.0)) | diverged)
    assert not refused(launched((1.0, None), (1.0, 3.0)) | diverged)
    assert refused(launched((1.0, None), (1.0, 3.0))).startswith("status is ok, but a loss is null")


# ---- runs


@given(runs=st.integers(1, 12), rounds=st.integers(1, 5), made=st.integers(1, 14), ended_early=st.booleans())
def test_a_round_has_its_share_of_the_protocols_runs(runs, rounds, made, ended_early):
    record = record_of([1.0] * made, [2.0] * made, stopped="max_seconds" if ended_early else "runs")
    protocol = {"runs": runs, "rounds": rounds, "relative_error": None, "max_seconds": 5.0}
    found = refused(changed(record, ("cell.protocol", protocol)))
    shares = {len(range(i, runs, rounds)) for i in range(rounds)}
    if made > max(shares):
        assert found == f"there are {made} runs: the protocol has {max(shares)} in a round"
    elif made < min(shares) and not ended_early:
        assert found == f"stopped is runs after {made} runs: the protocol has {min(shares)} in a round"
    else:
        assert not found


@pytest.mark.parametrize("rule", ["relative_error", "max_seconds"])
def test_only_a_rule_that_the_protocol_has_ends_a_round(rule):
    record = record_of(stopped=rule)
    assert refused(record) == f"stopped is {rule}, but protocol.{rule} is null"
    assert not refused(changed(record, (f"cell.protocol.{rule}", 0.0)))


# ---- the round's time


@pytest.mark.parametrize("way", ["warmup", "summary.setup_seconds"])
def test_before_runs_there_is_a_setup_and_a_warm_up(way):
    said = "there are runs, but no warm-up or no setup before them"
    assert refused(changed(record_of(), (way, None))) == said
    assert not refused(changed(ended("out_of_memory"), ("summary.setup_seconds", None)))


def test_all_that_is_timed_lies_within_the_round():
    record = record_of((1.0, 3.0))  # 0.25 of setup, 0.5 of warm-up
    assert not refused(changed(record, ("provenance.elapsed_seconds", 4.75)))
    assert refused(changed(record, ("provenance.elapsed_seconds", 4.74999))) == (
        "setup, warm-up and runs take 4.75 s, but provenance.elapsed_seconds is 4.74999"
    )
    assert not refused(changed(record, ("provenance.elapsed_seconds", 4.75 - 4e-9)))
    assert not refused(changed(ended("unsupported"), ("provenance.elapsed_seconds", 0.0)))
    early = changed(ended("out_of_memory"), ("warmup", {"seconds": 2.0}), ("summary.setup_seconds", 1.0))
    assert not refused(changed(early, ("provenance.elapsed_seconds", 3.0)))
    assert refused(changed(early, ("provenance.elapsed_seconds", 2.5))).startswith("setup, warm-up and runs")


# ---- the passes


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ([("memory", {})], "memory is empty: one pass makes both the ledger and the memory"),
        ([("ledger", {})], "ledger is empty: one pass makes both the ledger and the memory"),
        ([("memory.least_free_bytes", 2)], ""),
        ([("memory.least_free_bytes", 3)], "memory.least_free_bytes is more than memory.total_bytes"),
        (
            [("ledger", {}), ("memory", {}), ("explanation", {"trace": None})],
            "status is ok and ledger {}, but there is an explanation",
        ),
        ([("explanation", {"trace": None})], ""),
        ([("ledger", {}), ("memory", {})], ""),
        (
            [("traits", {"side_by_side": False, "own_runtime": "torch"})],
            "there is a ledger, but torch has a runtime of its own, whose calls are unseen",
        ),
        ([("traits", {"side_by_side": False, "own_runtime": None})], ""),
        (
            [("traits", {"side_by_side": False, "own_runtime": "torch"}), ("ledger", {}), ("memory", {})],
            "",
        ),
        (
            [("traits", {"side_by_side": False, "own_runtime": None}), ("ledger", {}), ("memory", {})],
            "ledger is empty, but the strategy ran and has no runtime of its own",
        ),
    ],
)
def test_the_passes_are_those_of_the_strategy(changes, said):
    record = record_of()
    for way, value in changes:
        record = edited(record, tuple(way.split(".")), value)
    assert refused(record) == said


def test_a_round_that_did_not_run_may_lack_passes_but_has_no_explanation():
    traits = {"side_by_side": False, "own_runtime": None}
    assert not refused(ended("out_of_memory", traits=traits))
    both = {"ledger": {"mallocs": 1}, "memory": {"least_free_bytes": 0, "total_bytes": 0}}
    assert not refused(ended("out_of_memory", traits=traits, **both))
    assert refused(ended("out_of_memory", explanation={"trace": None}, **both)) == (
        "status is out_of_memory and ledger {'mallocs': 1}, but there is an explanation"
    )
