"""The floor of a step: what it follows from, that it stays below what is known, and whose time it takes."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from records_of import limits_of

from snn.analysis.roofline import (
    FLOOR,
    Step,
    fitting_limits,
    floor,
    fraction_of_limit,
    read_limits,
    steps,
    warning,
    warnings,
    with_floors,
)
from snn.errors import RecordError
from snn.hardware.limits import BYTES, FLOPS, SECONDS, Limit, Measured
from snn.records import store


def limit(what, blocks, value):
    unit = {"d": BYTES, "l": BYTES, "c": SECONDS, "g": SECONDS}.get(what[0], FLOPS)
    return Limit(what, blocks, unit, "", (value,))


# About what the data sheet of an H200 and measurements of others promise.
H200 = Measured(
    (
        *(limit("fp32", blocks, blocks * 0.45e12) for blocks in (1, 132)),
        *(limit("tf32", blocks, blocks * 2.4e12) for blocks in (1, 132)),
        *(limit(unit, blocks, blocks * 4.8e12) for unit in ("fp16", "bf16") for blocks in (1, 132)),
        limit("dram_read", None, 4.2e12),
        limit("l2_read", None, 5.5e12),
        *(limit("cluster_exchange", blocks, 0.3e-6) for blocks in (2, 16)),
        limit("grid_barrier", 132, 1.2e-6),
        limit("grid_exchange", 2, 0.8e-6),
    ),
    132,
    50 << 20,
)
PAPER = Step(32, (256,), 25600, 256)

# Microseconds a step of `persistent` on one H200.


def without(measured, *names):
    return replace(measured, limits=tuple(one for one in measured.limits if one.what not in names))


def test_arithmetic_is_that_of_the_products_that_cannot_be_left_out():
    """Forward, dW and dH of a hidden weight, no dH of the first; of the output's weight the forward one."""
    deep = replace(PAPER, hidden=(256, 1024, 256))
    assert PAPER.flop == 2 * 256 * (2 * 32 * 256 + 256)
    assert replace(PAPER, hidden=(8, 4)).flop == 2 * 256 * (2 * 32 * 8 + 3 * 8 * 4 + 4)
    assert deep.flop == 2 * 256 * (2 * 32 * 256 + 3 * 2 * 256 * 1024 + 256)
    assert (PAPER.flop_of_bits, deep.flop_of_bits) == (2 * 256 * 32 * 256, 2 * 2 * 256 * 1024 * 256)
    smallest = [replace(PAPER, hidden=hidden).smallest_product for hidden in (deep.hidden, (1024, 4))]
    assert smallest == [2 * 256 * 32 * 256, 2 * 256 * 4 * 1024]
    batches = [Step(32, (256,), rows, 256).batch for rows in (25600, 300, 100)]
    assert batches == [256, 150, 100]  # as even as the rows allow


@pytest.mark.parametrize(
    ("precision", "unit", "products", "of_bits"),
    [
        *(("fp32", *of) for of in (("fp32", 1, 1), ("tf32", 3, 2), ("fp16", 3, 2), ("bf16", 6, 3))),
        *(("tf32", unit, 1, 1) for unit in ("fp32", "tf32", "fp16")),
        *(("bf16", unit, 1, 1) for unit in ("fp32", "tf32", "bf16")),
        ("tf32", "bf16", None, None),
    ],
)
def test_so_many_products_of_a_unit_make_one_of_a_precision(precision, unit, products, of_bits):
    """With an operand of bits, which every unit holds exactly, as many as the other operand has parts."""
    step = replace(PAPER, hidden=(256, 1024), precision=precision)
    found = floor(step, Measured((limit(unit, 1, 1e12), limit("grid_barrier", 1, 1.0)), 1))
    if products is None:
        assert found is None
    else:
        rest = step.flop - step.flop_of_bits
        assert found.arithmetic == pytest.approx((products * rest + of_bits * step.flop_of_bits) / 1e12)


@given(
    alone=st.floats(1, 100),
    speedup=st.floats(0.5, 200),
    sms=st.integers(2, 100),
    cluster=st.none() | st.integers(2, 16),
    waits=st.tuples(*[st.floats(1e-3, 1e3)] * 4),
    depth=st.integers(1, 3),
    sequential=st.booleans(),
)
def test_the_fastest_way_is_one_block_or_a_cluster_or_the_device(
    alone, speedup, sms, cluster, waits, depth, sequential
):
    step = Step(2, (3, 4, 5)[:depth], 40, 10, sequential)
    together = alone * speedup
    limits = [limit("fp32", 1, alone), limit("fp32", sms, together)]
    limits += [limit("grid_barrier", sms, waits[0]), limit("grid_exchange", 2, waits[1])]
    nearer = [limit("cluster_barrier", cluster, waits[2]), limit("cluster_exchange", 2, waits[3])]
    found = floor(step, Measured((*limits, *(nearer if cluster else ())), sms))

    saved = step.smallest_product / alone
    far = min(*waits[:2], saved)
    near = min(far, *waits[2:]) if cluster else far
    waited = depth if sequential else 1
    ways = [
        (step.flop / min(alone, together), 0.0),
        (step.flop / min(sms * alone, together), far + (waited - 1) * near),
    ]
    if cluster:
        ways.append((step.flop / min(cluster * alone, together), waited * near))
    assert found.seconds == pytest.approx(min(map(max, ways)))
    assert (found.arithmetic, found.exchanges) == pytest.approx(min(ways, key=max))


@pytest.mark.parametrize(
    "measured",
    [
        Measured((limit("fp32", None, 7e10), limit("dram_copy", None, 2e10))),  # a CPU
        without(H200, "grid_barrier", "grid_exchange"),
        without(H200, "fp32", "tf32", "fp16", "bf16"),
        replace(H200, multiprocessors=None),
        replace(H200, limits=tuple(one for one in H200.limits if one.blocks != 1)),
    ],
)
def test_a_device_whose_limits_are_unknown_has_no_floor(measured):
    assert floor(PAPER, measured) is None


def test_data_are_the_rows_of_a_batch_with_their_target_of_which_l2_holds_a_share():
    assert PAPER.data_bytes == 4 * 256 * 33
    of_dram = without(H200, "l2_read")
    for l2_bytes, share in ((0, 1), (25600 * 33, 0.75), (4 * 25600 * 33, 0), (8 * 25600 * 33, 0), (None, 1)):
        found = floor(PAPER, replace(of_dram, l2_bytes=l2_bytes))
        assert found.memory == pytest.approx(PAPER.data_bytes * share / 4.2e12)
    # Of a memory whose rate is not known nothing is claimed.
    small = floor(PAPER, H200).memory
    assert small == floor(PAPER, without(H200, "dram_read")).memory == PAPER.data_bytes / 5.5e12
    assert floor(PAPER, without(H200, "l2_read", "dram_read")).memory == 0
    slow = floor(PAPER, replace(of_dram, limits=(*of_dram.limits, limit("l2_read", None, 1e9))))
    assert slow.seconds == slow.memory == PAPER.data_bytes / 1e9


def test_a_warning_names_a_time_below_its_floor_and_the_floor():
    assert warning(1.0, 1.0) == warning(1.0, None) == warning(1.0, np.nan) == warning(np.nan, 1.0) == ""
    said = warning(2.3455001e-6, 3.4565001e-6)
    assert "2.346 us" in said and "3.457 us" in said


# ---- the rows of tables


def row(**values):
    cell = dict.fromkeys(("dataset", "network", "strategy", "kernel", "precision"), "x")
    usual = {"training.epochs": 10, "training.batch_size": 256, "dataset.rows": 512, "mean_s": 1.0}
    usual |= {"members": 1, "several_devices": False}
    return pd.DataFrame([cell | usual | {FLOOR: 0.01} | values])


@pytest.mark.parametrize(
    ("changes", "batches"),
    [
        *(({"dataset.rows": rows}, batches) for rows, batches in ((512, 2), (513, 3), (256, 1), (1, 1))),
        ({"dataset.rows": 513, "training.drop_last": True}, 2),
        ({"dataset.rows": np.nan}, np.nan),
    ],
)
def test_the_last_batch_is_a_step_however_few_rows_it_has_unless_it_is_dropped(changes, batches):
    assert steps(row(**changes)).tolist() == pytest.approx([10 * batches], nan_ok=True)
    assert steps(row(**changes).drop(columns="dataset.rows")).isna().all()


def test_the_fraction_is_of_a_step_and_of_a_launch_with_several_members():
    """A launch of four members takes four times one member's share, which alone may be below the floor."""
    for floor_s, members, fraction in ((0.01, 1, 0.2), (0.01, 4, 0.05), (0.1, 4, 0.5)):
        found = fraction_of_limit(row(members=members, **{FLOOR: floor_s}))
        assert found.tolist() == pytest.approx([fraction])
        assert warnings(row(members=members, **{FLOOR: floor_s})).tolist() == [""]
    below = row(**{FLOOR: 0.1})
    assert fraction_of_limit(below).tolist() == [2.0] and "below the floor" in warnings(below)[0]


LIMITS = limits_of()


def measured_row(**values):
    usual = {"backend": "cuda", "device": "NVIDIA H200", "device_uuid": "GPU-1", "hidden": (64, 32)}
    usual |= {"dataset.features": 32, "network.update_order": "sequential", "precision": "fp32"}
    return row(**{**usual, **values})


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({"network.update_order": "simultaneous"}, Step(32, (64, 32), 512, 256, False, "fp32")),
        ({"precision": "bf16", "hidden": (8,)}, Step(32, (8,), 512, 256, True, "bf16")),
        ({"dataset.rows": 300, "training.batch_size": 7}, Step(32, (64, 32), 300, 7, True, "fp32")),
    ],
)
def test_the_floor_of_a_row_is_that_of_its_step(changes, wanted):
    found = with_floors(measured_row(**changes), LIMITS)[FLOOR]
    assert found.tolist() == [floor(wanted, Measured.of(LIMITS)).seconds]


@pytest.mark.parametrize(
    "changes",
    [
        {"hidden": None},
        {"dataset.rows": np.nan},
        {"dataset.features": np.nan},
        {"mean_s": np.nan},
        {"several_devices": True},
        {"backend": "cpu", "device": "AMD EPYC"},
    ],
)
def test_what_has_no_floor_is_empty(changes):
    rows = pd.concat([measured_row(**changes), measured_row()], ignore_index=True)
    found = with_floors(rows, LIMITS)
    assert np.isnan(found[FLOOR][0]) and found[FLOOR][1] > 0
    assert np.isnan(fraction_of_limit(found)[0]) and 0 < fraction_of_limit(found)[1] < 1
    assert with_floors(rows, LIMITS | {"limits": [], "multiprocessors": None})[FLOOR].isna().all()
    assert fraction_of_limit(rows.drop(columns=FLOOR)).isna().all()


@pytest.mark.parametrize("changes", [{"device": "Tesla T4"}, {"device_uuid": "GPU-2"}])
def test_limits_of_another_device_are_refused(changes):
    other = " ".join(({"device": "NVIDIA H200", "device_uuid": "GPU-1"} | changes).values())
    with pytest.raises(RecordError, match=f"the limits are of NVIDIA H200 GPU-1, times of {other}: measure"):
        with_floors(measured_row(**changes), LIMITS)


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
    one, second, third, fourth = (slower(1, f"GPU-{number}") for number in range(1, 5))
    assert fitting_limits([one, second, fourth], [third, second, one]) == [one, second]


def test_limits_of_other_sources_are_refused(tmp_path):
    path = tmp_path / "limits.json"
    store.write(path, LIMITS)
    assert read_limits(path) == read_limits(path, "0123456789abcdef") == LIMITS
    with pytest.raises(RecordError, match=r"other sources \(0123456789abcdef\) .* ones \(other\)"):
        read_limits(path, "other")


def test_the_wait_that_counts_is_that_of_the_block_that_computes_fastest():
    """Of the two kinds of products the faster one says how much a block could compute meanwhile."""
    step = replace(PAPER, hidden=(256, 256))
    rates = [limit(unit, blocks, blocks * 1e9) for unit in ("tf32", "bf16") for blocks in (1, 64)]
    found = floor(step, Measured((*rates, limit("grid_barrier", 64, 1e9)), 64))
    assert found.exchanges == pytest.approx(2 * step.smallest_product / (1e9 / 2))
    fewer = without(H200, "cluster_exchange")
    nothing = replace(fewer, limits=(*fewer.limits, limit("cluster_exchange", 2, 0.0)))
    assert floor(PAPER, nothing) == floor(PAPER, fewer)
