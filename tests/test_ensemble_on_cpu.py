"""Members side by side in one launch, on the CPU by cuda_on_cpu: each ends with the bits it has alone."""

from dataclasses import replace

import cuda_on_cpu
import numpy as np
import pytest
from emulated_launch import launched
from hypothesis import given
from hypothesis import strategies as st
from test_persistent_on_cpu import H200, by_the_oracle, made, plan_for

from snn.backends.launches import HEAD, LaunchConfiguration, padded
from snn.backends.launches.linear import PerceptronShape

RATES = np.array([0.01, 0.002, 0.03], dtype=np.float32)


def members_of(layers, batch, rows, epochs, random):
    """The operands of each member alone, with its shape and steps, and of all together; weights differ."""
    *_, buffers, shape, steps = made(layers, batch, rows, epochs, "sequential", None, random)
    X, Y, W, E, S = buffers
    of_each = [(W * np.float32(1 + 0.1 * m)).astype(np.float32) for m in range(len(RATES))]
    alone = [
        (shape, [X, Y, own, E.copy(), S.copy()], steps._replace(rate=RATES[m]))
        for m, own in enumerate(of_each)
    ]
    workspace = np.concatenate([np.zeros(HEAD, np.float32), RATES, np.ones(1, np.float32)])
    together = [X, Y, np.concatenate(of_each), np.concatenate([E] * len(RATES)), workspace]
    return alone, (replace(shape, members=len(RATES)), together, steps._replace(rate=np.float32(np.nan)))


def by_kernel(shape, buffers, steps):
    plan = next(
        one for one in shape.configurations(H200) if isinstance(one, LaunchConfiguration) and one.cluster == 2
    )
    launched(plan, buffers, steps)


KERNEL = pytest.param(
    by_kernel, marks=pytest.mark.skipif(cuda_on_cpu.MISSING, reason="no g++ on this machine")
)


@pytest.mark.parametrize("train", [KERNEL, by_the_oracle])
@pytest.mark.parametrize("layers, batch, rows", [((20, 24, 1), 32, 70), ((7, 100, 1), 100, 250)])
def test_each_member_ends_as_it_does_alone(train, layers, batch, rows, random):
    alone, together = members_of(layers, batch, rows, 3, random)
    train(*together)
    weights, errors = (together[1][i].reshape(len(RATES), -1) for i in (2, 3))
    for m, (shape, buffers, steps) in enumerate(alone):
        train(shape, buffers, steps)
        last = rows % batch or batch
        assert np.array_equal(weights[m], buffers[2])
        assert np.array_equal(errors[m][:last], buffers[3][:last])
    assert len({w.tobytes() for w in weights}) == len(RATES)


@pytest.mark.skipif(cuda_on_cpu.MISSING, reason="no g++ on this machine")
def test_one_that_diverges_leaves_the_others_alone(random):
    alone, together = members_of((20, 24, 1), 32, 70, 3, random)
    together[1][4][HEAD + 1] = 1e30
    by_kernel(*together)
    errors = together[1][3].reshape(len(RATES), -1)[:, : 70 % 32]
    assert np.isfinite(errors).all(axis=1).tolist() == [True, False, True]
    by_kernel(*alone[2])
    assert np.array_equal(errors[2], alone[2][1][3][: 70 % 32])


@given(
    rows=st.integers(1, 1000),
    batch=st.integers(1, 300),
    members=st.integers(2, 200),
    hidden=st.lists(st.integers(1, 300).map(padded), min_size=1, max_size=3),
)
def test_members_share_the_data_and_nothing_else(rows, batch, members, hidden):
    one, several = (
        PerceptronShape((16, *hidden), batch, True, False, count).elements(rows) for count in (1, members)
    )
    assert several[:2] == one[:2]
    assert several[2:4] == tuple(members * n for n in one[2:4])
    assert several[4] == HEAD + members + 1  # their rates, and the scale of X


@given(members=st.integers(2, 500), hidden=st.integers(1, 1024).map(padded), batch=st.integers(1, 128))
def test_a_member_has_a_plan_of_one_alone_that_takes_one_cluster(members, hidden, batch):
    def of(count):
        shape = PerceptronShape((16, hidden), batch, True, False, count)
        return [
            plan
            for plan in shape.configurations(H200)
            if isinstance(plan, LaunchConfiguration) and plan.clusters == 1 and plan.kernel == "one_layer"
        ]

    for alone, several in zip(of(1), of(members), strict=True):
        assert (several.cluster, several.threads) == (alone.cluster, alone.threads)
        assert several.blocks == members * alone.blocks
        assert dict(several.defines) == dict(alone.defines) | {"MEMBERS": str(members)}


@pytest.mark.parametrize("members, blocks", [(1, 16), (7, 16), (8, 8), (10, 8), (15, 8), (70, 8)])
@pytest.mark.parametrize("held, per_sm", [(7, 1), (14, 2)])
def test_members_that_would_wait_for_others_have_fewer_blocks(members, blocks, held, per_sm):
    """An H200 holds 7 clusters of 16 blocks, or 14 with two blocks on an SM, and 15 of the larger 8."""
    plans = PerceptronShape((32, 256), 256, True, False, members).configurations(H200)
    of = {plan.cluster: plan for plan in plans if isinstance(plan, LaunchConfiguration)}
    costs = {16: of[16].total_cost(members, held, per_sm), 8: of[8].total_cost(members, 15, 1)}
    assert min(costs, key=costs.__getitem__) == blocks


@pytest.mark.parametrize(
    "hidden, members, kernel",
    [(256, 10, "one_layer"), (256, 64, "members"), (64, 64, "one_layer"), (64, 1024, "members")],
)
def test_many_members_train_in_a_block_each(hidden, members, kernel):
    """An H200 holds so many networks, by blocks for each; the faster kernel there is chosen."""
    held = {"members": {64: 1056, 256: 264}[hidden], "one_layer": {2: 132, 4: 66, 8: 15, 16: 14}}
    plans = PerceptronShape((32, hidden), 256, True, False, members).configurations(H200)
    costs = {
        plan: plan.total_cost(members, held["members"], held["members"] // 132)
        if plan.kernel == "members"
        else plan.total_cost(members, held["one_layer"][plan.cluster], 1 if plan.cluster == 8 else 2)
        for plan in plans
        if isinstance(plan, LaunchConfiguration)
    }
    assert min(costs, key=costs.__getitem__).kernel == kernel


def test_blocks_that_share_an_sm_take_longer():
    """Ten members of 16 blocks, two on an SM, took 2.78 us, and seven that have SMs of their own 1.78."""
    plan = next(
        one
        for one in PerceptronShape((32, 256), 256, True, False, 10).configurations(H200)
        if isinstance(one, LaunchConfiguration) and one.kernel == "one_layer"
    )
    alone, shared = plan.total_cost(7, 14, 2), plan.total_cost(10, 14, 2)
    assert alone == plan.total_cost(7, 7, 1) == plan.cost
    assert shared / alone == pytest.approx(2.778 / 1.779, rel=0.01)
    assert shared < plan.total_cost(10, 7, 1)


def test_what_no_cluster_trains_is_for_one_network():
    found = list(PerceptronShape((32, 256, 256), 256, True, False, 10).configurations(H200))
    assert found == [
        "no block with a network: its kernel trains one hidden layer without clipping",
        "no cluster: 2 hidden layers are too much arithmetic for one",
        "no grid: the whole device trains one network, not 10",
    ]
    assert plan_for(PerceptronShape((32, 256, 256), 256, True, False), H200, "grid").cluster == 0
