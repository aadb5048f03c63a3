"""The layer of docs/howto/add_layer.md, added to a copy of the project, as a stranger would."""

import json
import subprocess
import sys

import cuda_on_cpu
import howto_code
import numpy as np
from conftest import ROOT
from project import IGNORED, copied

from snn.backends.ops import THREADS

SOFTPLUS = howto_code.files("add_layer")
"""A layer that the project does not have: a class, two operations with NumPy versions, a kernel file."""

TRAIN = """
import sys
import numpy as np
from snn.backends.cpu.backend import CpuBackend
from snn.config import groups
from snn.models.glibc_random import GlibcRandom
from snn.models.layers import parse
from snn.models.network import Network, draw_weights
from snn.strategies import factory

network = Network((4,), tuple(map(parse, ("linear 5", "softplus", "linear 1"))), init="he_uniform")
random = np.random.default_rng(1)
X, Y = random.normal(size=(6, 4)).astype("f4"), random.normal(size=(6, 1)).astype("f4")
weights = [W.astype("f8") for W in draw_weights(network, GlibcRandom(1))]

def loss():
    H = np.logaddexp(0, X @ weights[0] + weights[1])
    return np.mean((H @ weights[2] + weights[3] - Y) ** 2)

slopes = []
for W in weights:
    slope = np.zeros_like(W)
    for i in np.ndindex(W.shape):
        kept = W[i]
        W[i] = kept + 1e-6; above = loss(); W[i] = kept - 1e-6; below = loss(); W[i] = kept
        slope[i] = (above - below) / 2e-6
    slopes.append(slope)
for name in ("reference", "workspace", "resident", "pipelined", "blas"):
    strategy = factory.make(groups.load("strategy", name), CpuBackend())
    strategy.setup(network, X, Y, 6, 0.5)
    strategy.load([W.astype("f4") for W in weights])
    strategy.epoch()
    last = strategy.weights()[2:]
    for W, new, slope in zip(weights[2:], last, slopes[2:]):
        np.testing.assert_allclose(new, W - 0.5 * slope, rtol=1e-3, atol=1e-4)
    strategy.close()
"""


def test_a_new_layer_is_a_class_its_operations_and_a_kernel(tmp_path):
    """It trains, is checked by finite differences, and is found by its name in the configuration."""
    folder = copied(ROOT, tmp_path / "project", ignore=IGNORED).folder
    for path, text in SOFTPLUS.items():
        with (folder / path).open("a") as file:
            file.write("\n\n" + text)

    def python(*arguments):
        done = subprocess.run([sys.executable, *arguments], cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    python("-c", TRAIN)
    layers = "network.layers=[linear 3,softplus,linear 1]"
    settings = ("training.epochs=2", "protocol=brief", "protocol.runs=1", "dataset=small", "device=cpu")
    record = json.loads(python("-m", "snn", "network=layers", layers, "strategy=combined", *settings))
    assert record["status"] == "ok"

    if not cuda_on_cpu.MISSING:
        X = np.random.default_rng(2).normal(size=300).astype(np.float32)
        Z = np.empty_like(X)
        cuda_on_cpu.load(folder / "kernels/layers/softplus.cu")["softplus_forward"](
            (2,), (THREADS,), (X, Z, 300)
        )
        np.testing.assert_allclose(Z, np.logaddexp(0, X), rtol=1e-6)
