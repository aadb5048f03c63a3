"""Stacks of linear layers that the kernel of one launch trains, their networks, and plans for devices."""

from snn.backends.launches import DeviceCapability, LaunchConfiguration
from snn.backends.launches.layers import LayeredShape, LinearLayer
from snn.models.layers import Linear, ReLU
from snn.models.losses import CROSS_ENTROPY, MEAN_SQUARED_ERROR
from snn.models.network import Network

H200, FEW, TURING = (
    DeviceCapability(132, 232448, (9, 0)),
    DeviceCapability(5, 232448, (8, 0)),
    DeviceCapability(5, 65536, (7, 5)),
)


def shape(batch, features, *widths, cross_entropy=True, sequential=False, mean=True, bare=(), plain=()):
    """``bare``: layers without biases; ``plain``: hidden layers without ReLU."""
    layers = (
        LinearLayer(width, i not in bare, i not in plain and i < len(widths) - 1)
        for i, width in enumerate(widths)
    )
    return LayeredShape(batch, sequential, mean, cross_entropy, features, tuple(layers))


# Widths that no tile divides, layers with and without biases and ReLU, one layer, several tiles per block.
SHAPES = {
    "classifier": shape(20, 17, 24, 10),
    "in turn": shape(20, 17, 24, 10, sequential=True),
    "deep": shape(33, 20, 70, 9, 40, 3, bare=(1,), plain=(2,)),
    "deep in turn": shape(33, 20, 70, 9, 40, 3, sequential=True, bare=(1,), plain=(2,)),
    "regression": shape(40, 33, 24, 1, cross_entropy=False, sequential=True),
    "outputs": shape(7, 5, 13, 19, cross_entropy=False, mean=False),
    "one layer": shape(18, 30, 4),
    "many outputs": shape(16, 9, 16, 130, sequential=True, mean=False),
    "wide": shape(70, 40, 200, 130, 12),
    "smallest": shape(1, 1, 1, 1, cross_entropy=False),
}


def network_of(one, **others):
    layers = []
    for layer in one.layers:
        layers += [Linear(layer.width, layer.bias)] + [ReLU()] * layer.relu
    given = {
        "loss": CROSS_ENTROPY if one.cross_entropy else MEAN_SQUARED_ERROR,
        "update_order": "sequential" if one.sequential else "simultaneous",
        "reduction": "mean" if one.mean else "sum",
    }
    return Network((one.features,), tuple(layers), **(given | others))


def plan_for(one, limits=FEW):
    (found,) = one.configurations(limits)
    assert isinstance(found, LaunchConfiguration), found
    return found
