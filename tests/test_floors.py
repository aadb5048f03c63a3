"""The fraction of the limit: what a step is, and whose time it takes."""

import numpy as np
import pandas as pd
import pytest

from snn.analysis.floors import FLOOR, fraction_of_limit, steps
from snn.errors import MeasurementError


def row(**values):
    cell = dict.fromkeys(("dataset", "network", "strategy", "kernel", "precision"), "x")
    usual = {"training.epochs": 10, "training.batch_size": 256, "dataset.rows": 512, "mean_s": 1.0}
    return pd.DataFrame([cell | usual | {"members": 1, FLOOR: 0.01} | values])


@pytest.mark.parametrize(("rows", "batches"), [(512, 2), (513, 3), (300, 2), (256, 1), (1, 1)])
def test_the_last_batch_is_a_step_however_few_rows_it_has(rows, batches):
    assert steps(row(**{"dataset.rows": rows})).tolist() == [10 * batches]


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
