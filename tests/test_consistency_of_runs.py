"""What the runs of a record say of each other: members, losses, epochs, test rows, and their summary."""

import math
import statistics
import sys

from hypothesis import assume, given
from hypothesis import strategies as st
from real_records import without
from small_records import changed, ended, launched, record_of, refused

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
