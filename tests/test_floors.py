"""The fraction of the limit: what a step is, and whose time it takes."""

import numpy as np
import pandas as pd
import pytest
from records_of import limits_of

from snn.analysis.roofline import (
    FLOOR,
    Step,
    fitting_limits,
    floor,
    fraction_of_limit,
    read_limits,
    steps,
    with_floors,
)
from snn.errors import MeasurementError, RecordError
from snn.hardware.limits import Measured
from snn.records import store


def row(**values):
    cell = dict.fromkeys(("dataset", "network", "strategy", "kernel", "precision"), "x")
    usual = {"training.epochs": 10, "training.batch_size": 256, "dataset.rows": 512, "mean_s": 1.0}
    return pd.DataFrame([cell | usual | {"members": 1, FLOOR: 0.01} | values])


@pytest.mark.parametrize(("rows", "batches"), [(512, 2), (513, 3), (300, 2), (256, 1), (1, 1)])
def test_the_last_batch_is_a_step_however_few_rows_it_has(rows, batches):
    assert steps(row(**{"dataset.rows": rows})).tolist() == [10 * batches]


def test_rows_that_fill_no_batch_may_be_left_out():
    assert steps(row(**{"dataset.rows": 513, "training.drop_last": True})).tolist() == [20]


def test_a_data_set_that_does_not_say_its_size_has_no_steps():
    assert steps(row(**{"dataset.rows": np.nan})).isna().all()
    assert steps(row().drop(columns="dataset.rows")).isna().all()


def test_the_fraction_is_of_a_step_and_of_a_launch_with_several_members():
    assert fraction_of_limit(row()).tolist() == pytest.approx([0.01 / (1.0 / 20)])
    # A launch of four members takes four times one member's share.
    assert fraction_of_limit(row(members=4)).tolist() == pytest.approx([0.01 / (4.0 / 20)])


def test_a_launch_is_refused_below_the_floor_and_a_members_share_is_not():
    floor = {FLOOR: 0.1}
    with pytest.raises(MeasurementError, match=r"x, x, x, x, x: .* is below the floor"):
        fraction_of_limit(row(**floor))
    assert fraction_of_limit(row(members=4, **floor)).tolist() == pytest.approx([0.5])


LIMITS = limits_of()


def measured_row(**values):
    usual = {"backend": "cuda", "device": "NVIDIA H200", "device_uuid": "GPU-1", "hidden": (64, 32)}
    usual |= {"dataset.features": 32, "network.update_order": "sequential", "precision": "fp32"}
    return row(**{**usual, **values})


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({}, Step(32, (64, 32), 512, 256, True, "fp32")),
        ({"network.update_order": "simultaneous"}, Step(32, (64, 32), 512, 256, False, "fp32")),
        ({"precision": "bf16", "hidden": (8,)}, Step(32, (8,), 512, 256, True, "bf16")),
        ({"dataset.rows": 300, "training.batch_size": 7}, Step(32, (64, 32), 300, 7, True, "fp32")),
    ],
)
def test_the_floor_of_a_row_is_that_of_its_step(changes, wanted):
    found = with_floors(pd.concat([measured_row(**changes)]), LIMITS)[FLOOR]
    assert found.tolist() == [floor(wanted, Measured.of(LIMITS)).seconds]


@pytest.mark.parametrize(
    "changes",
    [
        {"hidden": None},
        {"dataset.rows": np.nan},
        {"dataset.features": np.nan},
        {"mean_s": np.nan},
        {"backend": "cpu", "device": "AMD EPYC"},
    ],
)
def test_what_has_no_floor_is_empty(changes):
    rows = pd.concat([measured_row(**changes), measured_row()], ignore_index=True)
    found = with_floors(rows, LIMITS)
    assert np.isnan(found[FLOOR][0]) and found[FLOOR][1] > 0
    assert np.isnan(fraction_of_limit(found)[0]) and 0 < fraction_of_limit(found)[1] < 1


def test_the_precision_of_a_row_says_how_many_products_it_takes():
    tensor = [one | {"what": "tf32"} if one["what"] == "fp32" else one for one in LIMITS["limits"]]
    wide = {"hidden": (4096, 4096), "training.batch_size": 512}
    exact, rounded = (
        with_floors(measured_row(precision=precision, **wide), LIMITS | {"limits": tensor})[FLOOR][0]
        for precision in ("fp32", "tf32")
    )
    assert 2 < exact / rounded <= 3


def test_limits_that_are_missing_give_no_floor():
    assert with_floors(measured_row(backend="cpu"), LIMITS)[FLOOR].dtype == float
    nothing = LIMITS | {"limits": [], "multiprocessors": None}
    assert with_floors(measured_row(), nothing)[FLOOR].isna().all()
    assert fraction_of_limit(row().drop(columns=FLOOR)).isna().all()


@pytest.mark.parametrize("changes", [{"device": "Tesla T4"}, {"device_uuid": "GPU-2"}])
def test_limits_of_another_device_are_refused(changes):
    other = {"device": "NVIDIA H200", "device_uuid": "GPU-1"} | changes
    with pytest.raises(RecordError) as refused:
        with_floors(measured_row(**changes), LIMITS)
    assert str(refused.value) == (
        f"the limits are of NVIDIA H200 GPU-1, times of {other['device']} {other['device_uuid']}: measure "
        "the limits there, or the cells here, again"
    )


def slower(factor, gpu):
    """Limits of another GPU, with so many times less arithmetic per second."""
    slow = [one | {"samples": [sample / factor for sample in one["samples"]]} for one in LIMITS["limits"]]
    return LIMITS | {"limits": slow, "provenance": LIMITS["provenance"] | {"device_uuid": gpu}}


def test_rounds_on_several_gpus_have_the_least_of_their_floors():
    wide = {"hidden": (4096, 4096)}
    gpus = ("GPU-1", "GPU-2", "GPU-2, GPU-1", "GPU-1, GPU-3", "GPU-3")
    rows = pd.concat([measured_row(device_uuid=uuids, **wide) for uuids in gpus], ignore_index=True)
    alone, other, both, partly, unknown = with_floors(rows, LIMITS, slower(2, "GPU-2"))[FLOOR]
    assert both == alone < other
    assert np.isnan([partly, unknown]).all()


def test_limits_fit_if_one_of_the_records_was_measured_on_their_gpu():
    one, second, third, fourth = (slower(1, f"GPU-{number}") for number in range(1, 5))
    assert fitting_limits([one, second, fourth], [third, second, one]) == [one, second]


def test_limits_of_other_sources_are_refused(tmp_path):
    path = tmp_path / "limits.json"
    store.write(path, LIMITS)
    assert read_limits(path) == read_limits(path, "0123456789abcdef") == LIMITS
    with pytest.raises(
        RecordError, match=r"other sources \(0123456789abcdef\) than the current ones \(other\)"
    ):
        read_limits(path, "other")
