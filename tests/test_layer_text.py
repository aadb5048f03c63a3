"""Layers as a grid writes them: what is read, and what is refused."""

import numpy as np
import pytest

from snn.errors import ConfigError, DataError
from snn.models.layers import Conv2d, Linear, MaxPool2d, ReLU, parse
from snn.models.losses import LOSSES
from snn.models.network import Network


@pytest.mark.parametrize(
    ("text", "layer"),
    [
        ("conv2d 16 3", Conv2d(16, 3)),
        ("conv2d 16 3 1", Conv2d(16, 3, 1)),
        ("relu", ReLU()),
        ("maxpool2d 2", MaxPool2d(2)),
        ("linear  10", Linear(10)),
    ],
)
def test_a_layer_is_read_from_its_text(text, layer):
    assert parse(text) == layer


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "conv3d 4",
            r"network.layers: 'conv3d 4' is not a layer: one of .*conv2d FILTERS KERNEL \[PADDING\]",
        ),
        ("linear", "'linear' is not right: it must be linear WIDTH"),
        ("linear 3 4", "'linear 3 4' is not right"),
        ("linear 0", "must be at least 1"),
        ("linear x", "in whole numbers"),
        ("", "'' is not a layer"),
        (7, "7 is not a layer"),
    ],
)
def test_a_bad_layer_is_refused(text, message):
    with pytest.raises(ConfigError, match=message):
        parse(text)


@pytest.mark.parametrize(
    ("inputs", "layers", "message"),
    [
        ((4,), ("conv2d 2 3", "linear 1"), r"conv2d needs images, .* but its input has the shape \(4,\)"),
        ((1, 2, 2), ("conv2d 2 3", "linear 1"), "kernel of 3 does not fit images of"),
        ((1, 2, 2), ("maxpool2d 3", "linear 1"), "maxpool2d of 3 does not fit"),
        ((4,), ("relu", "linear 1"), "begins with relu"),
        ((1, 4, 4), ("maxpool2d 2",), "no layer with weights"),
    ],
)
def test_layers_that_do_not_fit_are_refused(inputs, layers, message):
    with pytest.raises(ConfigError, match=message):
        Network(inputs, tuple(map(parse, layers)))


def test_targets_that_do_not_fit_the_loss_are_refused():
    Y = np.array([[0], [1], [2.5]], np.float32)
    with pytest.raises(DataError, match=r"row 3 is 2\.5: cross_entropy needs labels, 0 to 2"):
        LOSSES["cross_entropy"].targets(Y, 3)
    with pytest.raises(ConfigError, match="end in 2 outputs: mean_squared_error needs one"):
        LOSSES["mean_squared_error"].targets(Y, 2)
