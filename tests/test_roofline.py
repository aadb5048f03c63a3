"""The floor of a step: what it follows from, that it stays below what is known, and that it refuses."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snn.analysis.roofline import Step, check, floor
from snn.errors import MeasurementError
from snn.hardware.limits import BYTES, FLOPS, SECONDS, Limit, Measured


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
NETWORKS = ((128,), (256,), (1024,), (256, 256), (256, 1024, 256))

# Microseconds a step of `persistent` on one H200.
KNOWN = dict(zip(NETWORKS, (1.68, 1.86, 2.94, 7.69, 19.8), strict=True))


def without(measured, *names):
    return replace(measured, limits=tuple(one for one in measured.limits if one.what not in names))


def test_arithmetic_is_that_of_the_products_that_cannot_be_left_out():
    """Forward, dW and dH of a hidden weight, no dH of the first; of the output's weight the forward one."""
    assert PAPER.flop == 2 * 256 * (2 * 32 * 256 + 256)
    assert replace(PAPER, hidden=(8, 4)).flop == 2 * 256 * (2 * 32 * 8 + 3 * 8 * 4 + 4)
    deep = Step(32, (256, 1024, 256), 25600, 256)
    assert deep.flop == 2 * 256 * (2 * 32 * 256 + 3 * 2 * 256 * 1024 + 256)
    whole = 3 * 2 * 256 * (32 * 256 + 2 * 256 * 1024 + 256) - 2 * 256 * 32 * 256
    assert 0.99 * whole < deep.flop <= whole
    assert PAPER.flop_of_bits == 2 * 256 * 32 * 256
    assert deep.flop_of_bits == 2 * 2 * 256 * 1024 * 256


def test_the_smallest_product_is_that_of_the_smallest_weight():
    assert replace(PAPER, hidden=(256, 1024, 256)).smallest_product == 2 * 256 * 32 * 256
    assert replace(PAPER, hidden=(1024, 4)).smallest_product == 2 * 256 * 4 * 1024


def test_it_counts_no_more_arithmetic_than_kernels_do_on_tensor_cores():
    """one_layer.cu: three products in TF32 forward, two backward, one operand of which is bits.
    three_layers.cu: two in FP16 where there are bits, three for the rest."""
    ours = {"fp32", "tf32", "fp16"}
    limits = tuple(one for one in H200.limits if one.what in ours and one.blocks == 1)
    one_multiprocessor = Measured((*limits, limit("grid_barrier", 1, 1.0)), 1, 50 << 20)
    outer, inner, last = (2 * 256 * k * n for k, n in ((32, 256), (256, 1024), (256, 1)))
    one, three = (
        floor(replace(PAPER, hidden=hidden), one_multiprocessor).arithmetic
        for hidden in ((256,), (256, 1024, 256))
    )
    assert one <= (3 * outer + 2 * outer + 3 * last) / 2.4e12
    assert three == pytest.approx((3 * (2 * outer + 4 * inner + last) + 2 * 2 * inner) / 4.8e12)


@pytest.mark.parametrize("precision", ["fp32", "tf32", "bf16"])
def test_fp32_units_compute_a_product_of_any_precision_at_once(precision):
    one = Measured((limit("fp32", 1, 1e12), limit("grid_barrier", 1, 1.0)), 1, 50 << 20)
    assert floor(replace(PAPER, precision=precision), one).arithmetic == pytest.approx(PAPER.flop / 1e12)


def test_batches_are_as_even_as_the_rows_allow():
    assert PAPER.batch == 256
    assert Step(32, (256,), 300, 256).batch == 150
    assert Step(32, (256,), 100, 256).batch == 100


@pytest.mark.parametrize("hidden", NETWORKS)
def test_it_is_positive_and_below_what_has_been_measured(hidden):
    for sequential in (True, False):
        found = floor(replace(PAPER, hidden=hidden, sequential=sequential), H200)
        assert 0 < 1e6 * found.seconds < KNOWN[hidden]


def test_more_to_do_takes_no_less():
    widths = [1, 4, 16, 64, 128, 256, 1024, 4096]
    for steps in (
        [replace(PAPER, hidden=(width,)) for width in widths],
        [replace(PAPER, hidden=(width, 256)) for width in widths],
        [replace(PAPER, features=width) for width in widths],
        [replace(PAPER, batch_size=width) for width in widths],
        [replace(PAPER, hidden=(256,) * depth) for depth in (1, 2, 3, 4)],
        [replace(PAPER, precision=precision) for precision in ("bf16", "tf32", "fp32")],
        [replace(PAPER, hidden=(256, 256), sequential=one) for one in (False, True)],
    ):
        found = [floor(step, H200).seconds for step in steps]
        assert found == sorted(found)


def test_a_slower_device_takes_no_less():
    seconds = floor(PAPER, H200).seconds
    for i, one in enumerate(H200.limits):
        slower = 2 * one.value if one.unit == SECONDS else one.value / 2
        limits = [*H200.limits[:i], replace(one, samples=(slower,)), *H200.limits[i + 1 :]]
        assert floor(PAPER, replace(H200, limits=tuple(limits))).seconds >= seconds
    assert floor(PAPER, without(H200, "cluster_exchange")).seconds >= seconds
    assert floor(PAPER, without(H200, "tf32", "fp16", "bf16")).seconds >= seconds


def test_a_small_network_computes_longest_and_a_wide_one_waits():
    """The one fits a cluster, the other takes the device; data count where memory is slow."""
    of_small = replace(PAPER, batch_size=512, rows=2 * PAPER.rows)
    small, wide = floor(of_small, H200), floor(replace(PAPER, hidden=(1024,)), H200)
    every, bits = of_small.flop, of_small.flop_of_bits
    assert small.seconds == small.arithmetic == pytest.approx((3 * (every - bits) + 2 * bits) / (16 * 4.8e12))
    assert wide.seconds == wide.exchanges == 0.8e-6
    slow = replace(H200, limits=(*without(H200, "l2_read").limits, limit("l2_read", None, 1e9)))
    assert floor(PAPER, slow).seconds == PAPER.data_bytes / 1e9


def test_a_batch_comes_from_dram_where_l2_cannot_hold_the_data():
    small = floor(PAPER, H200).memory
    assert small == PAPER.data_bytes / 5.5e12
    large = floor(replace(PAPER, rows=256 * 10**6), H200).memory
    assert large == pytest.approx(PAPER.data_bytes / 4.2e12, rel=0.01)
    # Of a memory whose rate is not known nothing is claimed.
    assert floor(PAPER, without(H200, "l2_read", "dram_read")).memory == 0
    assert floor(PAPER, without(H200, "dram_read")).memory == small


def test_a_wait_is_never_longer_than_doing_the_work_alone():
    tiny = replace(PAPER, hidden=(1,), batch_size=1)
    assert floor(tiny, H200).seconds <= tiny.flop / 0.8e12


def test_a_device_without_limits_has_no_floor():
    cpu = Measured((limit("fp32", None, 7e10), limit("dram_copy", None, 2e10)))
    assert floor(PAPER, cpu) is None
    assert floor(PAPER, without(H200, "grid_barrier", "grid_exchange")) is None
    assert floor(PAPER, without(H200, "fp32", "tf32", "fp16", "bf16")) is None


def test_blocks_wait_once_per_hidden_layer_and_on_the_whole_device_once_from_afar():
    """A device of slow SMs: no step is done by one of them, and each wait is shorter than its work."""
    step = replace(PAPER, features=256, hidden=(256, 256, 256))
    alone = step.smallest_product  # seconds that one SM takes for it at 1 FLOP/s
    near, far = 0.2 * alone, 0.5 * alone
    rates = [limit("fp32", blocks, float(blocks)) for blocks in (1, 1000)]
    waits = [limit("grid_barrier", 1000, far), limit("grid_exchange", 2, 2 * far)]
    for cluster, waited in ((None, 3 * far), (2, far + 2 * near), (100, 3 * near)):
        nearer = [limit("cluster_exchange", cluster, near)] if cluster else []
        found = floor(step, Measured((*rates, *waits, *nearer), 1000, 50 << 20))
        assert found.seconds == found.exchanges == pytest.approx(waited)
    found = floor(replace(step, sequential=False), Measured((*rates, *waits), 1000, 50 << 20))
    assert found.seconds == found.exchanges == pytest.approx(far)


@pytest.mark.parametrize(
    ("precision", "unit", "products", "of_bits"),
    [
        ("fp32", "fp32", 1, 1),
        ("fp32", "tf32", 3, 2),
        ("fp32", "fp16", 3, 2),
        ("fp32", "bf16", 6, 3),
        ("tf32", "fp32", 1, 1),
        ("tf32", "tf32", 1, 1),
        ("tf32", "fp16", 1, 1),
        ("bf16", "fp32", 1, 1),
        ("bf16", "tf32", 1, 1),
        ("bf16", "bf16", 1, 1),
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


def test_a_wait_is_saved_by_the_slowest_way_of_one_block_that_computes_fastest():
    """Of the two kinds of products the faster one says how much a block could compute meanwhile."""
    step = replace(PAPER, hidden=(256, 256))
    rates = [limit(unit, blocks, blocks * 1e9) for unit in ("tf32", "bf16") for blocks in (1, 64)]
    found = floor(step, Measured((*rates, limit("grid_barrier", 64, 1e9)), 64))
    assert found.exchanges == pytest.approx(2 * step.smallest_product / (1e9 / 2))


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


def test_limits_without_a_value_and_without_multiprocessors_say_nothing():
    nothing = limit("cluster_exchange", 2, 0.0)
    assert floor(PAPER, replace(without(H200, "cluster_exchange"), limits=(*H200.limits, nothing))) == floor(
        PAPER, H200
    )
    assert floor(PAPER, replace(H200, multiprocessors=None)) is None
    assert floor(PAPER, replace(H200, limits=tuple(one for one in H200.limits if one.blocks != 1))) is None


def test_data_are_the_rows_of_a_batch_with_their_target_of_which_l2_holds_a_share():
    assert PAPER.data_bytes == 4 * 256 * 33
    for held in (0.0, 0.25, 1.0, 2.0):
        whole = 4 * 25600 * 33
        found = floor(PAPER, replace(without(H200, "l2_read"), l2_bytes=int(held * whole)))
        assert found.memory == pytest.approx(PAPER.data_bytes * max(0, 1 - held) / 4.2e12)
    unknown = floor(PAPER, replace(without(H200, "l2_read"), l2_bytes=None))
    assert unknown.memory == PAPER.data_bytes / 4.2e12


def test_a_time_is_refused_below_its_floor_alone():
    check("x", 1.0, 1.0)
    for low, high, said in ((2.3455001e-6, 3.4565001e-6, "2.346"), (2.345499e-6, 3.456499e-6, "2.345")):
        with pytest.raises(MeasurementError) as refused:
            check("large, 256", low, high)
        assert str(refused.value) == (
            f"large, 256: the measured time per step, {said} us, is below the floor of "
            f"{float(said) + 1.111:.3f} us that follows from the limits of this device: measure both again"
        )
