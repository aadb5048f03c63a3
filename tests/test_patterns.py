"""The data set `patterns`: images by a rule that convolutions learn and a linear model does not."""

import math
from contextlib import closing

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

from snn import backends, datasets
from snn.config import groups
from snn.datasets import patterns
from snn.errors import ConfigError
from snn.models import network as networks
from snn.models.glibc_random import GlibcRandom
from snn.strategies import factory

CHOICE = groups.load("dataset", "patterns")


def by_the_rule(numbers):
    """The pixels and the class of one image, from its 788 random numbers, one pixel after the other."""
    label = math.floor(10 * numbers[0])
    phase, amplitude, frequency = 2 * math.pi * numbers[1], 0.2 + 0.8 * numbers[2], 0.1 + 0.1 * numbers[3]
    angle, pixels = math.pi * label / 10, []
    for row in range(28):
        for column in range(28):
            along = (column - 13.5) * math.cos(angle) + (row - 13.5) * math.sin(angle)
            wave = math.cos(2 * math.pi * frequency * along + phase)
            value = 0.5 + amplitude / 2 * wave + 0.3 * (2 * numbers[4 + 28 * row + column] - 1)
            pixels.append(round(255 * min(max(value, 0), 1)))
    return pixels, label


def test_images_follow_the_rule():
    table = patterns.make(2, 1, seed=7)
    numbers = np.random.RandomState(7).random_sample(3 * 788).reshape(3, 788)
    for image, of_image in zip(table, numbers, strict=True):
        pixels, label = by_the_rule(of_image)
        assert np.array_equal(image[:-1], np.array(pixels, np.uint8) / np.float32(255))
        assert image[-1] == label


def test_any_number_of_rows_begins_with_the_same_images(monkeypatch):
    whole = patterns.make(1300, 200)
    assert np.array_equal(patterns.make(7, 3), whole[:10])
    monkeypatch.setattr(patterns, "_AT_ONCE", 17)
    assert np.array_equal(patterns.make(1300, 200), whole)
    assert not np.array_equal(patterns.make(7, 3, seed=43), whole[:10])
    assert set(whole[:, -1]) == set(range(10))
    assert 0 <= whole.min() < 0.01
    assert whole[:, :-1].max() == 1


def test_its_images_are_of_one_shape():
    with pytest.raises(ConfigError, match=r"dataset.shape is \[1, 56, 14\]"):
        datasets.make(CHOICE | {"shape": [1, 56, 14]})


def convolved(X, W, b, *of_outputs):
    """The outputs of a convolution with 5x5 filters, ReLU, maxima of 4x4 and a linear layer, in float64."""
    windows = sliding_window_view(X.astype(np.float64).reshape(-1, 28, 28), (5, 5), axis=(1, 2))
    maps = np.maximum(np.tensordot(windows.reshape(-1, 24, 24, 25), W, (3, 1)) + b, 0)
    largest = maps.reshape(-1, 6, 4, 6, 4, 8).max((2, 4)).transpose(0, 3, 1, 2)
    return linear(largest.reshape(len(X), -1), *of_outputs)


def linear(X, W, b):
    return X.astype(np.float64) @ W + b


@pytest.mark.parametrize(
    ("layers", "outputs", "least", "most"),
    [
        (["conv2d 8 5", "relu", "maxpool2d 4", "linear 10"], convolved, 0.75, 1),
        (["linear 10"], linear, 0, 0.35),
    ],
    ids=["convolutions", "linear model"],
)
def test_convolutions_learn_it_in_200_steps_and_a_linear_model_does_not(layers, outputs, least, most):
    choice = CHOICE | {"rows": 12800, "test_rows": 500}
    training, test = datasets.parts(datasets.make(choice).values, choice)
    section = groups.load("network", "layers") | {
        "layers": layers,
        "loss": "cross_entropy",
        "init": "he_uniform",
        "update_order": "simultaneous",
    }
    network = networks.build(section, (1, 28, 28) if len(layers) > 1 else (784,))
    X, Y = datasets.split(training, 64, "patterns")
    with closing(
        factory.make(
            groups.load("strategy", "resident"),
            backends.make("cpu", groups.load("kernel", "naive"), groups.ROOT),
        )
    ) as strategy:
        strategy.setup(network, X, network.loss.targets(Y, 10), 64, 0.1)
        strategy.load(networks.draw_weights(network, GlibcRandom(21)))
        strategy.epoch()
        weights = strategy.weights()
    right = outputs(test[:, :-1], *weights).argmax(1) == test[:, -1]
    assert least < right.mean() < most
