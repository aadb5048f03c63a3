"""What the parts of a record say of each other: each rule at its edge, on records as small as can be."""

import math
import statistics
import sys

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from real_records import edited, without

from snn.errors import RecordError
from snn.records import consistency

# ---- records


def summary_of(seconds, losses, members=0):
    mean = statistics.fmean(seconds) if seconds else None
    whole = {
        "runs": len(seconds),
        "mean_seconds": mean,
        "std_seconds": statistics.stdev(seconds) if len(seconds) > 1 else None,
        "mean_final_loss": None if None in losses or not losses else statistics.fmean(losses),
    }
    if seconds:
        whole["setup_seconds"] = 0.25
        whole |= {"median_seconds": statistics.median(seconds)}
        whole |= {"min_seconds": min(seconds), "max_seconds": max(seconds)}
    if members and seconds:
        whole |= {"members": members, "mean_seconds_per_member": mean / members}
    return whole


def record_of(seconds=(1.0, 3.0), losses=(2.0, 5.0), **changes):
    """A record of a round with these runs, two of the four of its protocol."""
    return {
        "cell": {
            "network": {"hidden": [4]},
            "training": {"epochs": 100},
            "device": {"backend": "cpu", "name": "Abacus"},
            "protocol": {"runs": 2 * len(seconds), "rounds": 2, "relative_error": None, "max_seconds": None},
        },
        "provenance": {"backend": "cpu", "device": "Abacus", "elapsed_seconds": 99.0},
        "status": "ok",
        "reason": None,
        "stopped": "runs",
        "runs": [{"seconds": s, "final_loss": loss} for s, loss in zip(seconds, losses, strict=True)],
        "summary": summary_of(seconds, losses),
        "warmup": {"seconds": 0.5},
        "ledger": {"mallocs": 1},
        "memory": {"least_free_bytes": 1, "total_bytes": 2},
        "explanation": None,
        **changes,
    }


def ended(status, **changes):
    """A record of a round that ended before its first run."""
    nothing = {"stopped": None, "warmup": None, "runs": [], "ledger": {}, "memory": {}}
    whole = record_of((), (), status=status, reason="so", **nothing)
    whole["cell"]["protocol"]["runs"] = 4
    return whole | changes


def launched(*members_of_runs, seconds=(1.0, 3.0)):
    """A record of launches that each train several networks, which end with these losses."""
    losses = [None if None in some else statistics.fmean(some) for some in members_of_runs]
    whole = record_of(seconds, losses)
    for run, some in zip(whole["runs"], members_of_runs, strict=True):
        run["member_mse"] = list(some)
    members = len(members_of_runs[0])
    return whole | {"members": [{}] * members, "summary": summary_of(seconds, losses, members)}


def refused(record):
    """What is said of a record; empty where it is right."""
    try:
        consistency.check(record, "it")
    except RecordError as error:
        assert str(error).startswith("it: ")
        return str(error).removeprefix("it: ")
    return ""


def changed(record, *changes):
    for way, value in changes:
        record = edited(record, tuple(way.split(".")), value)
    return record


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


# ---- members


def test_the_members_of_launches_are_right():
    assert not refused(launched((1.0, 3.0), (2.0, 4.0)))
    assert not refused(
        launched((1.0, 3.0), (2.0, 4.0)) | {"traits": {"side_by_side": True, "own_runtime": ""}}
    )


def test_every_run_has_a_loss_of_every_member():
    record = launched((1.0, 3.0), (2.0, 4.0))
    said = "members, but a run has another number of losses in member_mse"
    assert refused(record | {"members": [{}]}) == f"there are 1 {said}"
    assert refused(without(record, ("members",))) == f"there are 0 {said}"
    record["runs"][1] = without(record["runs"][1], ("member_mse",))
    assert refused(record) == f"there are 2 {said}"


def test_traits_say_whether_there_are_members():
    traits = {"side_by_side": True, "own_runtime": ""}
    assert refused(record_of(traits=traits)) == "traits.side_by_side is True, but there are 0 members"
    found = refused(launched((1.0, 3.0), (2.0, 4.0)) | {"traits": traits | {"side_by_side": False}})
    assert found == "traits.side_by_side is False, but there are 2 members"
    assert not refused(ended("unsupported", traits=traits))


# ---- losses


def test_an_error_under_its_earlier_name_is_the_loss():
    record = record_of()
    record["runs"][1]["final_mse"] = 5.0
    assert not refused(record)
    record["runs"][1]["final_mse"] = 5.0000001
    assert refused(record) == "runs[1].final_mse is 5.0000001, but final_loss is 5.0"


finite = st.floats(-1e300, 1e300)


@given(st.lists(st.tuples(finite, finite, finite), min_size=1, max_size=4), st.sampled_from((0, 1e-11, 1e-7)))
def test_a_runs_loss_is_the_mean_of_its_members(runs, error):
    record = launched(*runs, seconds=[1.0] * len(runs))
    scale = max(map(abs, runs[-1]))
    wrong = record["runs"][-1]["final_loss"] + error * scale
    record["runs"][-1]["final_loss"] = wrong
    found = refused(record)
    if error == 1e-7 and wrong != statistics.fmean(runs[-1]):
        assume(scale > 1e-290)  # smaller ones lose the digits by which they differ
        assert found == f"runs[{len(runs) - 1}].final_loss is {wrong}: it is not the mean of member_mse"
    else:
        assert "].final_loss is" not in found


def test_a_mean_that_no_float_holds_is_null():
    record = launched((1.0, 1.0), (1.0, 3.0)) | {"status": "diverged", "reason": "so"}
    record["runs"][0] |= {"final_loss": None, "member_mse": [sys.float_info.max] * 2}
    record["summary"]["mean_final_loss"] = None
    assert not refused(record)
    record["runs"][1]["final_loss"] = None
    assert refused(record) == "runs[1].final_loss is None: it is not the mean of member_mse"


# ---- epochs and test rows


def with_epochs(*epochs_of_runs, seconds=(1.0, 3.0), accuracies=()):
    """A record whose runs have these seconds an epoch, and these accuracies."""
    record = record_of(seconds)
    record["cell"]["training"] = {"epochs": 2}
    for run, epochs in zip(record["runs"], epochs_of_runs, strict=False):
        if epochs is not None:
            run["epochs"] = [{"seconds": one} for one in epochs]
    for run, accuracy in zip(record["runs"], accuracies, strict=False):
        run |= {"test_accuracy": accuracy, "test_seconds": 0.1}
    if accuracies:
        record["summary"]["mean_test_accuracy"] = statistics.fmean(accuracies)
    return record


def test_every_run_has_its_epochs_which_take_its_time():
    assert not refused(with_epochs((0.25, 0.75), (1.0, 2.0)))
    assert not refused(with_epochs((), ()))
    assert refused(with_epochs((0.5, 0.5))) == "some runs have epochs, and others have not"
    for epochs in ((1.0,), (0.5, 0.25, 0.25)):
        found = refused(with_epochs(epochs, (1.0, 2.0)))
        assert found == f"runs[0] has {len(epochs)} epochs, but training.epochs is 2"
    assert refused(with_epochs((0.5, 0.5), (1.0, 2.5))) == "runs[1].seconds is 3.0: its epochs take 3.5"
    assert not refused(with_epochs((0.5, 0.5 + 0.9e-9), (1.0, 2.0)))
    assert refused(with_epochs((0.5, 0.5 + 1.1e-9), (1.0, 2.0))).startswith("runs[0].seconds is 1.0: its")


def test_every_run_has_an_accuracy_with_its_seconds_or_none_has():
    record = with_epochs(accuracies=(0.5, 0.75))
    assert not refused(record)
    for way, said in (
        (("runs", 1, "test_accuracy"), "some runs have test_accuracy, and others have not"),
        (("runs", 0, "test_seconds"), "some runs have test_seconds, and others have not"),
    ):
        assert refused(without(record, way)) == said
    for key in ("test_accuracy", "test_seconds"):
        neither = without(without(record, ("runs", 0, key)), ("runs", 1, key))
        assert refused(neither) == "runs[0] has only one of test_accuracy and test_seconds"


def test_the_mean_accuracy_is_that_of_the_runs():
    record = with_epochs(accuracies=(0.5, 0.75))
    for wrong in (0.6, None):
        assert refused(changed(record, ("summary.mean_test_accuracy", wrong))) == (
            f"summary.mean_test_accuracy is {wrong}: it is not the runs' mean"
        )
    assert refused(changed(record_of(), ("summary.mean_test_accuracy", 0.5))).startswith("summary.mean_test")


def with_errors(*r2_of_runs):
    """A record of a regression whose runs have test errors, and these R²."""
    record = record_of((1.0, 3.0))
    for run, r2 in zip(record["runs"], r2_of_runs, strict=True):
        run |= {"test_mse": 0.5, "test_rmse": 2.0, "test_r2": r2}
    mean = None if None in r2_of_runs else statistics.fmean(r2_of_runs)
    record["summary"] |= {"mean_test_mse": 0.5, "mean_test_rmse": 2.0, "mean_test_r2": mean}
    return record


def test_every_run_has_all_test_errors_or_none_has_any_and_means_are_theirs():
    record = with_errors(0.25, 0.75)
    assert not refused(record)
    assert not refused(with_errors(None, 0.75))
    assert refused(without(record, ("runs", 1, "test_r2"))) == "some runs have test_r2, and others have not"
    neither = without(without(record, ("runs", 0, "test_rmse")), ("runs", 1, "test_rmse"))
    assert refused(neither) == "runs[0] has only some of test_mse, test_rmse, test_r2"
    for key, wrong in (("mean_test_r2", 0.4), ("mean_test_rmse", 3.0), ("mean_test_mse", None)):
        assert refused(changed(record, (f"summary.{key}", wrong))) == (
            f"summary.{key} is {wrong}: it is not the mean of the runs"
        )
    assert refused(changed(record_of(), ("summary.mean_test_r2", 0.5))).startswith("summary.mean_test_r2")


# ---- the summary


times = st.lists(st.floats(1e-6, 1e3), min_size=1, max_size=6)


@given(times, st.integers(0, 3))
def test_the_summary_of_any_runs_is_right(seconds, members):
    if members:
        record = launched(*[[float(i) for i in range(members)]] * len(seconds), seconds=seconds)
    else:
        record = record_of(seconds, [2.0] * len(seconds))
    assert not refused(changed(record, ("provenance.elapsed_seconds", math.fsum(seconds) + 0.75)))


@given(st.lists(st.floats(0.1, 10), min_size=1, max_size=5), st.data())
def test_no_other_summary_is(seconds, data):
    record = launched(*[[1.0, 3.0, 5.0]] * len(seconds), seconds=seconds)
    key = data.draw(st.sampled_from(sorted(record["summary"].keys() - {"setup_seconds"})))
    value = record["summary"][key]
    other = data.draw(st.sampled_from((None, 0.0 if value is None else value + 1e-6)))
    found = refused(changed(record, (f"summary.{key}", other)))
    if other == value:
        assert not found
    elif key == "runs":
        assert found == f"summary.runs is {other}, but there are {len(seconds)} runs"
    elif key == "mean_final_loss":
        assert found == f"summary.{key} is {other}: it is not the mean of the runs' losses"
    else:
        assert found.startswith(f"summary.{key} is {other}: of these runs it is ")


def test_rounding_is_of_the_longest_run():
    record = record_of((1.0, 3.0))
    for error, is_right in ((2.9e-9, True), (-2.9e-9, True), (3.1e-9, False), (-3.1e-9, False)):
        assert (not refused(changed(record, ("summary.mean_seconds", 2.0 + error)))) == is_right


def test_a_mean_loss_may_stand_under_its_earlier_name():
    record = record_of()
    record["summary"] = without(record["summary"], ("mean_final_loss",)) | {"mean_final_mse": 3.5}
    assert not refused(record)
    assert refused(changed(record, ("summary.mean_final_mse", 3.6))) == (
        "summary.mean_final_mse is 3.6: it is not the mean of the runs' losses"
    )


def test_there_is_no_mean_of_no_runs():
    record = ended("unsupported")
    for key in ("mean_seconds", "std_seconds", "mean_final_loss"):
        assert key in refused(changed(record, (f"summary.{key}", 0.0)))


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


# ---- the trace

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
