"""The ledger of a whole training by a strategy, and the products that follow from the equations alone."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from snn.backends.cpu.backend import CpuBackend
from snn.config import groups
from snn.models.glibc_random import GlibcRandom
from snn.models.network import draw_weights, mlp
from snn.profiling.ledger import Ledger
from snn.profiling.observed import ObservedBackend
from snn.strategies import factory


def ledger_of(name, hidden, rows, batch, epochs=2, backend=None, update_order="sequential", **parameters):
    """The ledger of a training, closed and checked; products and bytes in and out, counted apart."""
    network = mlp((5, *hidden, 1), update_order=update_order)
    ledger = Ledger()
    observed = ObservedBackend(backend or CpuBackend(), ledger)
    strategy = factory.make(groups.load("strategy", name) | parameters, observed)
    random = np.random.default_rng(1)
    X, Y = (random.random((rows, n), dtype=np.float32) for n in (5, 1))
    try:
        with np.errstate(all="ignore"):  # what is computed does not matter here
            strategy.setup(network, X, Y, batch, 0.01)
            strategy.load(draw_weights(network, GlibcRandom(1)))
            for _ in range(epochs):
                strategy.epoch()
    finally:
        strategy.close()
        observed.live.check_nothing_held()  # also where it has failed
    return ledger


def operands(hidden, rows, batch, epochs):
    """(m, k, n) of every product of a training, from the equations alone."""
    layers = (5, *hidden, 1)
    products = []
    for size in [min(batch, rows - start) for start in range(0, rows, batch)] * epochs:
        for i in range(len(layers) - 1):
            products.append((size, layers[i], layers[i + 1]))
            products.append((layers[i], size, layers[i + 1]))
            if i > 0:
                products.append((size, layers[i + 1], layers[i]))
    return products


def host_matrices(hidden, rows, batch, epochs):
    """Data and weights once; in each step a result a product, and a transpose a gradient or error."""
    layers = len(hidden) + 1
    steps = -(-rows // batch) * epochs
    return 2 + layers + steps * ((3 * layers - 1) + (2 * layers - 1))


shapes = given(
    hidden=st.lists(st.integers(1, 6), min_size=1, max_size=3),
    rows=st.integers(1, 40),
    batch=st.integers(1, 20),
    epochs=st.integers(1, 3),
)
