"""Stacks of linear layers that are trained in one launch, their data and oracle, their kernel on the CPU."""

from dataclasses import replace

import emulated_launch
import layer_oracle
import numpy as np

from snn.backends.cpu import trainings
from snn.backends.launches import DeviceCapability, LaunchConfiguration, Steps
from snn.backends.launches.linear import CROSS_ENTROPY, LayeredShape, LinearLayer
from snn.models.layers import ACTIVATIONS, Linear
from snn.models.losses import LOSSES
from snn.models.network import Network
from snn.models.optimizers import PLAIN, Adam, AdamW, Sgd
from snn.models.row_order import row_order
from snn.models.schedules import CONSTANT, Cosine, factor
from snn.strategies.one_launch import in_batches

RATE, SEED = 0.05, 7

H200, FEW, TURING = (
    DeviceCapability(132, 232448, (9, 0)),
    DeviceCapability(5, 232448, (8, 0)),
    DeviceCapability(5, 65536, (7, 5)),
)


OPTIMIZERS = {
    one.op: one
    for one in (PLAIN, Sgd(weight_decay=0.1), Sgd(0.9), Sgd(0.9, True, 0.01), Adam(), AdamW(weight_decay=0.1))
}
"""Optimisers by their updates."""

CLIP = 0.05
"""The largest norm of all gradients together."""

RUN, SCHEDULE = 60, Cosine(warmup_steps=3, end_factor=0.1)
"""Steps of a run, and the schedule of those that have one."""


def shape(
    *sizes,
    loss="softmax_cross_entropy",
    sequential=False,
    mean=True,
    bare=(),
    activations=("relu",),
    update="update",
    scheduled=False,
    shuffled=False,
    clipped=False,
):
    """``bare``: layers without biases; ``activations``: of the hidden layers, again and again."""
    batch, features, *widths = sizes
    layers = (
        LinearLayer(
            width, i not in bare, activations[i % len(activations)] if i < len(widths) - 1 else "identity"
        )
        for i, width in enumerate(widths)
    )
    states = len(OPTIMIZERS[update].state)
    flags = sequential, mean, loss
    return LayeredShape(batch, *flags, features, tuple(layers), update, states, scheduled, shuffled, clipped)


# Widths that no tile divides, layers with and without biases and ReLU, one layer, several tiles per block.
SHAPES = {
    "classifier": shape(20, 17, 24, 10),
    "in turn": shape(20, 17, 24, 10, sequential=True),
    "deep": shape(33, 20, 70, 9, 40, 3, bare=(1,), activations=("relu", "relu", "identity")),
    "deep in turn": shape(
        33, 20, 70, 9, 40, 3, sequential=True, bare=(1,), activations=("relu", "relu", "identity")
    ),
    "regression": shape(40, 33, 24, 1, loss="error", sequential=True),
    "outputs": shape(7, 5, 13, 19, loss="error", mean=False),
    "one layer": shape(18, 30, 4),
    "many outputs": shape(16, 9, 16, 130, sequential=True, mean=False),
    "wide": shape(70, 40, 200, 130, 12),
    "smallest": shape(1, 1, 1, 1, loss="error"),
}


FURTHER = {
    "momentum": shape(20, 17, 24, 10, activations=("leaky_relu",), update="momentum_update", clipped=True),
    "nesterov": shape(20, 17, 24, 10, activations=("elu",), update="nesterov_update", sequential=True),
    "decay": shape(70, 17, 24, 10, activations=("gelu",), update="decay_update", scheduled=True),
    "shuffled": shape(20, 17, 24, 10, shuffled=True),
    "adam": shape(
        *(33, 17, 70, 24, 6),
        **{"activations": ("tanh",), "loss": "error", "update": "adam_update", "shuffled": True},
    ),
    "huber": shape(18, 9, 20, 1, loss="huber", activations=("tanh",)),
    "binary": shape(18, 9, 20, 5, loss="binary_cross_entropy", sequential=True),
    "adamw clipped": shape(70, 17, 24, 24, 10, update="adamw_update", scheduled=True, clipped=True),
    "adamw in turn": shape(
        *(16, 5, 24, 40, 20, 1),
        **{"activations": ("sigmoid", "silu", "gelu"), "loss": "error", "update": "adamw_update"},
        **{"sequential": True, "shuffled": True, "scheduled": True, "bare": (1,)},
    ),
}
"""With other activation functions and optimisers, and in another order of the rows in each epoch."""


def network_of(one, **others):
    layers = []
    for layer in one.layers:
        layers += [Linear(layer.width, layer.bias), ACTIVATIONS[layer.activation]()]
    given = {
        "loss": next(loss for loss in LOSSES.values() if loss.op == one.loss),
        "update_order": "sequential" if one.sequential else "simultaneous",
        "reduction": "mean" if one.mean else "sum",
    }
    return Network((one.features,), tuple(layers[:-1]), **(given | training_of(one) | others))


def training_of(one):
    """The fields of a network that is trained as a shape of any family says."""
    schedule, clip_norm = SCHEDULE if one.scheduled else CONSTANT, CLIP if one.clipped else None
    optimizer = replace(OPTIMIZERS[one.update], schedule=schedule, clip_norm=clip_norm)
    return {"optimizer": optimizer, "run_steps": RUN, "order_seed": SEED if one.shuffled else None}


def steps_of(one, rows, epochs, rate=RATE):
    number = epochs * -(-rows // one.batch)
    numbers, schedule = OPTIMIZERS[one.update].numbers, SCHEDULE if one.scheduled else CONSTANT
    return Steps(
        rows, 0, number, rate, CLIP * one.clipped, seed=SEED, numbers=numbers, schedule=schedule.numbers(RUN)
    )


def plan_for(one, limits=FEW):
    (found,) = one.configurations(limits)
    assert isinstance(found, LaunchConfiguration), found
    return found


def made(one, rows, random):
    """Data, its targets as an oracle and as a kernel has them, and fresh parameters; biases are not zero."""
    X = random.uniform(-1, 1, (rows, one.features)).astype(np.float32)
    if one.loss in (CROSS_ENTROPY, "binary_cross_entropy"):
        labels = random.integers(0, one.outputs, rows)
        Y = np.eye(one.outputs, dtype=np.float32)[labels]
    else:
        labels = Y = random.uniform(-2, 2, (rows, one.outputs)).astype(np.float32)
    weights = []
    for parameter in network_of(one).parameters:
        limit = np.sqrt(3 / (parameter.fan_in or 100))
        weights.append(random.uniform(-limit, limit, parameter.shape).astype(np.float32))
    return X, labels, Y, weights


def padded_shapes(one):
    for k, n, layer in zip(one.padded_widths, one.padded_widths[1:], one.layers, strict=False):
        yield from [(k, n), (n,)] if layer.bias else [(k, n)]


def buffers_of(one, X, Y, weights):
    """What the op is launched on; what is not read before it is written is not a number."""
    flat = []
    for W, size in zip(weights, padded_shapes(one), strict=True):
        larger = np.zeros(size, np.float32)
        larger[tuple(map(slice, W.shape))] = W
        flat.append(larger.ravel())
    E, S = (np.full(size, np.nan, np.float32) for size in one.elements(len(X))[-2:])
    S[:32] = 0  # the head
    inputs, *_, outputs = one.padded_widths
    together = (len(X), len(X)) if one.shuffled else (one.batch, one.rows)
    X, Y = (in_batches(M, together[0], n, together[1]) for M, n in ((X, inputs), (Y, outputs)))
    W = np.concatenate(flat)
    M = [np.zeros(one.states * W.size, np.float32)] if one.states else []
    return [X, Y, W, *M, E, S]


def launched(one, buffers, rows, epochs, rate=RATE, limits=FEW, source=None, **further):
    steps = steps_of(one, rows, epochs, rate)
    emulated_launch.launched(plan_for(one, limits), buffers, steps, source, **further)


def by_numpy(one, buffers, rows, epochs, rate=RATE):
    trainings.train(one, [b.reshape(-1) for b in buffers], steps_of(one, rows, epochs, rate))


def descent_of(one):
    """The oracle's optimiser."""
    optimizer = OPTIMIZERS[one.update]
    return getattr(layer_oracle, type(optimizer).__name__)(**optimizer.keys)


def order_of(one, rows, epoch):
    return row_order(rows, SEED, epoch) if one.shuffled else np.arange(rows)


def factor_of(one, done):
    """The rate after so many steps, divided by the full one."""
    return float(factor(done, *SCHEDULE.numbers(RUN))) if one.scheduled else 1.0


def oracle(one, X, Y, weights, epochs, rate=RATE):
    """Parameters in float64, and E of the last epoch, by plain formulae; Y as the kernel has it."""
    return list(oracle_epochs(one, X, Y, weights, epochs, rate))[-1]


def oracle_epochs(one, X, Y, weights, epochs, rate=RATE):
    """The oracle's parameters and E after each epoch."""
    parameters = [W.astype(np.float64) for W in weights]
    descend, done = descent_of(one), 0
    for epoch in range(epochs):
        errors = []
        order = order_of(one, len(X), epoch)
        for start in range(0, len(X), one.batch):
            x, y = (M[order[start : start + one.batch]].astype(np.float64) for M in (X, Y))
            now = rate * factor_of(one, done)
            due = []
            at_once = (lambda W, dW, due=due: due.append((W, dW))) if one.clipped else None
            errors += oracle_step(one, parameters, x, y, at_once or (lambda W, dW, r=now: descend(W, dW, r)))
            norm = np.sqrt(sum((dW**2).sum() for _, dW in due))
            for W, dW in due:
                descend(W, dW * min(1, CLIP / (norm + 1e-6)), now)
            done += 1
        yield [W.copy() for W in parameters], np.array(errors)


def losses_of(one, errors):
    """The losses whose mean is the loss, from E."""
    return errors**2 if one.loss == "error" else errors


def oracle_step(one, parameters, x, y, descend):
    inputs, of_layer, functions, at = [], [], [], 0
    for layer in one.layers:
        of_layer.append(parameters[at : at + 1 + layer.bias])
        inputs.append(x)
        x = x @ parameters[at] + (parameters[at + 1] if layer.bias else 0)
        functions.append(getattr(layer_oracle, ACTIVATIONS[layer.activation].__name__)())
        x = functions[-1].forward(x)
        at += 1 + layer.bias
    if one.loss == CROSS_ENTROPY:
        p = np.exp(x - x.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        errors, d = -np.log((p * y).sum(axis=1)), p - y
    elif one.loss == "huber":
        small = np.abs(x - y) <= 1
        errors = np.where(small, (x - y) ** 2 / 2, np.abs(x - y) - 0.5).ravel()
        d = np.where(small, x - y, np.sign(x - y))
    elif one.loss == "binary_cross_entropy":
        p = 1 / (1 + np.exp(-x))
        errors = -(y * np.log(p) + (1 - y) * np.log(1 - p)).ravel()
        d = (p - y) / one.outputs if one.mean else p - y
    else:
        errors, d = (x - y).ravel(), 2 * (x - y)
    d = d / len(x) if one.mean else d
    for i in reversed(range(len(one.layers))):
        W, *b = of_layer[i]
        old = W.copy()
        descend(W, inputs[i].T @ d)
        if b:
            descend(b[0], d.sum(axis=0))
        d = d @ (W if one.sequential else old).T
        d = functions[i - 1].backward(d) if i else d
    return list(errors)


def check(one, buffers, expected, errors, within=3e-6):
    at = 0
    for exact, size in zip(expected, padded_shapes(one), strict=True):
        found = buffers[2][at : at + int(np.prod(size))].reshape(size)
        at += found.size
        real = tuple(map(slice, exact.shape))
        assert np.linalg.norm(found[real] - exact) < within * max(np.linalg.norm(exact), 1e-2)
        assert np.count_nonzero(found) == np.count_nonzero(found[real])
    np.testing.assert_allclose(buffers[-2], errors, rtol=20 * within, atol=20 * within)
