"""The plan of a stack of linear layers in one launch: its tiles, and what has none."""

import re
from dataclasses import replace

import cuda_on_cpu
import pytest
from conftest import ROOT
from layered_shapes import H200, SHAPES, network_of, plan_for, shape

from snn.backends.launches import LaunchConfiguration
from snn.backends.launches.layers import SOURCE
from snn.errors import Unsupported
from snn.models.gradients import PublishedNaive
from snn.models.layers import parse
from snn.strategies.common.one_launch import layered_shape

on_cpu = pytest.mark.skipif(cuda_on_cpu.MISSING, reason="no g++ on this machine")


def test_a_small_network_has_a_tile_of_every_product_in_each_block_and_a_wide_one_several():
    plan = plan_for(shape(256, 32, 256, 10), H200)
    assert (plan.source, plan.cluster, plan.blocks) == (SOURCE, 0, 128)
    assert plan.words == "128 blocks together, a tile of every product in each"
    plan = plan_for(shape(1024, 1024, 2048, 2048, 100), H200)
    assert plan.words == "132 blocks together, up to 8 tiles of a product in each"
    assert dict(plan.defines)["FORWARD"] == "{64,64},{64,64},{16,128}"


def test_what_graph_trains_faster_has_no_plan():
    def plan_of(batch, features, width, **biased):
        (found,) = shape(batch, features, width, 1, cross_entropy=False, **biased).configurations(H200)
        return found

    bare = {"bare": (0, 1)}
    assert "one hidden layer of 1423 neurons on 13 features" in plan_of(336, 13, 1423, **bare)
    assert "one hidden layer of 656 neurons on 53 features" in plan_of(779, 53, 656, **bare)
    assert isinstance(plan_of(471, 939, 535, **bare), LaunchConfiguration)
    assert isinstance(
        plan_of(336, 13, 1423), LaunchConfiguration
    )  # with biases graph launches twice as many kernels


@pytest.mark.parametrize(
    ("reason", "one"),
    [
        ("9 linear layers, 8 at most", shape(16, 8, *[8] * 9)),
        ("batches of 16 rows, widths of up to 2112", shape(16, 8, 2049, 2)),
        ("batches of 2049 rows", shape(2049, 8, 8)),
        ("257 outputs, 256 at most", shape(16, 8, 257)),
    ],
)
def test_what_the_kernel_does_not_take_has_no_plan(reason, one):
    (found,) = one.configurations(H200)
    assert isinstance(found, str) and found.startswith(f"no stack of layers in one launch: {reason}")


@pytest.mark.parametrize(
    ("reason", "changes"),
    [
        (
            "linear and relu, and this one is maxpool2d",
            {"inputs": (1, 4, 4), "layers": "maxpool2d 2,linear 2"},
        ),
        ("one relu between two linear layers", {"layers": "linear 3,relu,relu,linear 2"}),
        ("none at the end", {"layers": "linear 3,relu"}),
        ("its kernel does not clip", {"clip_norm": 1.0}),
        ("along the gradient itself", {"gradient": PublishedNaive(256)}),
    ],
)
def test_another_network_has_no_shape(reason, changes):
    if "layers" in changes:
        changes = changes | {"layers": tuple(map(parse, changes["layers"].split(",")))}
    network = replace(network_of(SHAPES["classifier"]), **changes)
    with pytest.raises(Unsupported, match=re.escape(reason)):
        layered_shape(network, 16)


@on_cpu
@pytest.mark.parametrize("name", ["classifier", "deep", "outputs"])
def test_the_plan_knows_the_kernels_workspace(name):
    one = SHAPES[name]
    constants = cuda_on_cpu.load(ROOT / SOURCE, **dict(plan_for(one).defines))
    assert one.elements(1)[-1] == constants["workspace_floats"]
    assert constants["shared_bytes"] <= H200.shared_bytes
