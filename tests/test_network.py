"""Networks: their names, their initial weights from the C library's generator, and layers in a grid."""

import ctypes
import re
import sys

import numpy as np
import pytest
from conftest import ROOT
from hypothesis import given
from hypothesis import strategies as st

from snn.errors import ConfigError, DataError
from snn.measurement.accuracy import predicted
from snn.models.glibc_random import RAND_MAX, GlibcRandom
from snn.models.layers import Conv2d, Linear, MaxPool2d, ReLU, parse
from snn.models.losses import LOSSES
from snn.models.network import Network, build, draw_weights, label, mlp, network_label


def test_label():
    assert label([256, 1024, 256]) == "256-1024-256"


def test_a_network_is_named_by_its_widths_or_its_layers():
    assert network_label({"hidden": [256, 256], "init": "he_uniform"}) == "256-256"
    assert network_label({"layers": ["conv2d 16 3", "relu", "linear 10"]}) == "conv16x3-relu-linear10"


def test_weights_are_drawn_row_by_row_and_runs_continue_the_stream():
    network = mlp((3, 4, 1))
    random, stream = GlibcRandom(1), GlibcRandom(1).uniform(32)
    for run in range(2):
        W1, W2 = draw_weights(network, random)
        assert W1.shape == (3, 4)
        assert W2.shape == (4, 1)
        assert np.array_equal(np.concatenate([W1.ravel(), W2.ravel()]), stream[16 * run : 16 * run + 16])


def test_he_uniform_scales_by_fan_in():
    u = GlibcRandom(1).uniform(8 * 2)
    W1 = draw_weights(mlp((8, 2, 1), init="he_uniform"), GlibcRandom(1))[0]
    assert W1.dtype == np.float32
    np.testing.assert_allclose(W1.ravel(), (2 * u - 1) * np.sqrt(2 / 8), rtol=1e-6)


def test_kaiming_uniform_draws_the_weights_of_the_published_programs():
    """Their first weights of each layer, from seed 21."""
    layers = tuple(map(parse, ("conv2d 16 3", "relu", "conv2d 32 3", "relu", "maxpool2d 2", "linear 10")))
    network = Network((1, 28, 28), layers, LOSSES["cross_entropy"], init="kaiming_uniform")
    W1, b1, W2, b2, W3, b3 = draw_weights(network, GlibcRandom(21))
    assert sum(W.size for W in (W1, b1, W2, b2, W3, b3)) == 50_890
    np.testing.assert_allclose(W1[0, :4], [0.00963392, -0.56441444, -0.27166045, 0.32380593], rtol=2e-6)
    np.testing.assert_allclose(W2[0, :3], [-0.17805809, -0.1355007, -0.14443323], rtol=2e-6)
    np.testing.assert_allclose(W3[0, :3], [-0.02184996, 0.00504784, 0.02947984], rtol=2e-6)
    assert not any(b.any() for b in (b1, b2, b3))


def test_pytorchs_initialiser_draws_weights_and_biases_up_to_one_over_the_root_of_fan_in():
    layers = tuple(map(parse, ("conv2d 9 3", "relu", "linear 30")))
    network = Network((2, 6, 6), layers, LOSSES["cross_entropy"], init="pytorch")
    for parameter, fan_in in zip(draw_weights(network, GlibcRandom(3)), (18, 18, 144, 144), strict=True):
        assert 0.5 < np.abs(parameter).max() * np.sqrt(fan_in) <= 1
        assert np.abs(parameter.mean()) * np.sqrt(fan_in) < 0.5


def test_the_how_to_starts_pytorch_from_the_same_weights():
    pytest.importorskip("torch")
    page = (ROOT / "docs/howto/same_weights.md").read_text(encoding="utf-8")
    made = {}
    exec(re.search(r"```python\n(.*?)```", page, re.DOTALL)[1], made)
    X = np.random.default_rng(1).uniform(-1, 1, (5, 32)).astype(np.float32)
    found = made["model"](made["torch"].from_numpy(X)).detach().numpy()
    np.testing.assert_allclose(found, predicted(made["network"], made["weights"], X), rtol=1e-5, atol=1e-6)


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
        ("conv3d 4", r"'conv3d 4' is not a layer: one of .*conv2d FILTERS KERNEL \[PADDING\]"),
        ("linear", "'linear' is not right: it must be linear WIDTH"),
        ("linear 3 4", "'linear 3 4' is not right"),
        ("linear 0", "in whole numbers, at least 1"),
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


def test_first_values_after_srand_1():
    assert GlibcRandom(1).integers(3).tolist() == [1804289383, 846930886, 1681692777]


@pytest.mark.skipif(sys.platform != "linux", reason="the C library here is not glibc")
@given(st.integers(1, 2**31 - 2), st.integers(0, 500))
def test_equals_the_c_library(seed, count):
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "gnu_get_libc_version"):
        pytest.skip("the C library here is not glibc")
    libc.srand(ctypes.c_uint(seed))
    assert GlibcRandom(seed).integers(count).tolist() == [libc.rand() for _ in range(count)]


@given(st.lists(st.integers(0, 200), max_size=8))
def test_portions_do_not_matter(portions):
    random = GlibcRandom(7)
    parts = np.concatenate([random.integers(n) for n in portions] or [np.empty(0, np.uint32)])
    assert np.array_equal(parts, GlibcRandom(7).integers(sum(portions)))


def test_uniform_is_float32_of_the_quotient():
    integers, floats = GlibcRandom(1).integers(1000), GlibcRandom(1).uniform(1000)
    assert floats.dtype == np.float32
    assert np.array_equal(floats, integers.astype(np.float32) / np.float32(RAND_MAX))


@pytest.mark.parametrize("seed", [0, -1])
def test_refuses_a_seed_below_one(seed):
    with pytest.raises(ValueError, match=str(seed)):
        GlibcRandom(seed)


def test_layers_are_named_as_the_network_names_them():
    rest = {"init": "uniform01", "update_order": "simultaneous", "clip_norm": None, "seed": 1}
    of_mlp = build({"hidden": [8, 7, 6], "recompute": [1, 3], **rest}, (4,))
    assert of_mlp.recompute == (0, 4)
    texts = ["conv2d 2 3", "relu", "maxpool2d 2", "linear 1"]
    of_layers = build({"layers": texts, "loss": "mean_squared_error", "recompute": [3, 1], **rest}, (1, 6, 6))
    assert of_layers.recompute == (2, 0)
