"""Settings of micro-batches and of outputs computed again: what is refused, and how layers are named."""

import shlex

import pytest
from test_refusals import cases

from snn.config import compose
from snn.errors import ConfigError
from snn.models.network import build

LAYERS = ["network=layers", "network.layers=[linear 8, relu, linear 4, linear 1, relu]"]


REFUSED = r"""
    training.accumulate=3 => accumulate is 3: it must divide training.batch_size=256, the rows of one
    training.accumulate=3 => as 2 or 4 does
    training.accumulate=512 => it must divide training.batch_size=256
    training.accumulate=0 => training.accumulate is 0: it must be a whole number, at least 1
    training.accumulate=4 => choose network.update_order=simultaneous
    training.accumulate=4 network.update_order=simultaneous training.gradient=published_naive => choose
    network.recompute=[1] training.gradient=published_optimised => network.recompute is set: train
    network.recompute=[2] => network.recompute names 2: it must be the number of a hidden layer, 1
    network.recompute=[1,1] => network.recompute is [1, 1]: it must be a list of layers, each once
    network.recompute=1 => network.recompute is 1: it must be a list of layers
    network.recompute=[true] => network.recompute names True: it must be the number of a hidden
    network.recompute=[1.0] => network.recompute names 1.0: it must be the number of a hidden
    LAYERS network.recompute=[0] => names 0: it must be the number of a layer in network.layers, from
    LAYERS network.recompute=[2] => layer 2, relu, works in place on the output of another
    LAYERS network.recompute=[4] => layer 4, linear 1, has the network's outputs
    LAYERS network.recompute=[x] => network.recompute names 'x': it must be the number of a layer
    network=layers 'network.layers=[linear 1]' network.recompute=[1] => none, since there is no other layer
"""


@pytest.mark.parametrize(("arguments", "said"), cases(REFUSED))
def test_what_cannot_be_is_refused_by_name_before_any_work(arguments, said):
    given = LAYERS if arguments.startswith("LAYERS") else []
    with pytest.raises(ConfigError) as refused:
        compose.composed([*given, *shlex.split(arguments.removeprefix("LAYERS"))])
    assert said in str(refused.value)


def test_layers_in_another_order_are_the_same_cell():
    one, other = (compose.composed([*LAYERS, f"network.recompute={given}"]) for given in ("[3,1]", "[1,3]"))
    assert one["network"] == other["network"] and one["network"]["recompute"] == [1, 3]


def test_layers_are_named_as_the_network_names_them():
    rest = {"init": "uniform01", "update_order": "simultaneous", "clip_norm": None, "seed": 1}
    of_mlp = build({"hidden": [8, 7, 6], "recompute": [1, 3], **rest}, (4,))
    assert of_mlp.recompute == (0, 4)
    texts = ["conv2d 2 3", "relu", "maxpool2d 2", "linear 1"]
    of_layers = build({"layers": texts, "loss": "mean_squared_error", "recompute": [3, 1], **rest}, (1, 6, 6))
    assert of_layers.recompute == (2, 0)
