"""A network: layers, a loss, and how its weights are initialised and updated."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from snn.errors import ConfigError
from snn.models import dropout, gradients, optimizers, remedies, schedules, storage
from snn.models.glibc_random import GlibcRandom
from snn.models.gradients import EXACT, Gradient
from snn.models.layers import ACTIVATIONS, Dropout, Layer, Linear, Parameter, check_order, parse
from snn.models.losses import LOSSES, MEAN_SQUARED_ERROR, Loss
from snn.models.optimizers import PLAIN, Optimizer
from snn.models.row_order import EPOCH
from snn.models.step import Place, Shape

INITIALISERS = ("uniform01", "he_uniform", "kaiming_uniform", "pytorch")
_NUMERATORS = {"he_uniform": 2, "kaiming_uniform": 6, "pytorch": 1}
MLP_DEFAULTS = {"bias": False, "activation": "relu"}
"""Keys of an MLP that cells name only if they differ from these values, the paper's."""
UPDATE_ORDERS = ("sequential", "simultaneous")
REDUCTIONS = ("mean", "sum")
LEAN, PUBLISHED, LOOPS = FIDELITIES = ("none", "published", "published_loops")
"""Values of ``training.fidelity``: what a host-driven step does in addition to its equations."""
ALIGNMENT = 32
"""Where in a buffer of all parameters a layer's begin: at multiples of so many float32, 128 bytes."""


@dataclass(frozen=True)
class Network:
    """Layers on samples of a shape, ``inputs``, and a loss.

    ``update_order`` says whether the error is propagated through the updated weights (``sequential``, as in
    the paper's programs) or through the old ones (``simultaneous``, the textbook). ``clip_norm`` bounds the
    L2 norm of each parameter's gradient. ``reduction`` says whether the gradient is taken of the mean of a
    batch's losses or of their sum; a reported loss is always the mean. A batch is computed as
    ``accumulate`` micro-batches; the outputs of the layers ``recompute``, counted from 0, are computed again
    in the backward pass (``snn.models.remedies``). ``order_seed``: the seed of the order in which each epoch
    takes the rows (``snn.models.row_order``), None for the order of the file; ``dropout_seed``: what decides
    which elements are dropped (``snn.models.dropout``). ``fidelity``: whether a host-driven step does
    what the authors' programs do (``snn.strategies.published_step``). ``run_steps``: the steps of a run, from
    which the optimiser's schedule follows. ``storage``: how activations are held on the device, with the
    gradient of the loss multiplied by ``loss_scale`` (``snn.models.storage``). Raises ConfigError if a layer
    does not fit the one before it, or a remedy the network.
    """

    inputs: Shape
    layers: tuple[Layer, ...]
    loss: Loss = MEAN_SQUARED_ERROR
    init: str = "uniform01"
    update_order: str = "sequential"
    clip_norm: float | None = None
    reduction: str = "mean"
    gradient: Gradient = EXACT
    accumulate: int = 1
    optimizer: Optimizer = PLAIN
    recompute: tuple[int, ...] = ()
    order_seed: int | None = None
    dropout_seed: int = 0
    fidelity: str = LEAN
    run_steps: int = 0
    storage: str = storage.FP32
    loss_scale: float = 1.0

    def __post_init__(self) -> None:
        if not self.parameters:
            raise ConfigError("network.layers has no layer with weights: add one, such as linear 1")
        check_order(self.layers)
        remedies.check_divisible(self.accumulate, self.layers)
        remedies.check(self.accumulate, self.recompute, self.update_order, self.gradient)
        optimizers.check(self.optimizer, self.gradient.name, self.update_order, self.clip_norm)
        schedules.check(self.optimizer.schedule, self.run_steps)

    @cached_property
    def layer_shapes(self) -> tuple[Shape, ...]:
        """The shape of each layer's input, and of the output behind them."""
        shapes = [self.inputs]
        for layer in self.layers:
            shapes.append(layer.output(shapes[-1]))
        return tuple(shapes)

    @cached_property
    def layer_parameters(self) -> tuple[tuple[Parameter, ...], ...]:
        """The parameters of each layer."""
        every = enumerate(zip(self.layers, self.layer_shapes, strict=False))
        return tuple(layer.parameters(i, shape) for i, (layer, shape) in every)

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """Everything that is trained or that a prediction needs, layer by layer."""
        return tuple(itertools.chain(*self.layer_parameters))

    @property
    def slices(self) -> list[slice]:
        """The slice of ``parameters`` that belongs to each layer."""
        ends = itertools.accumulate(map(len, self.layer_parameters))
        return [slice(end - len(own), end) for own, end in zip(self.layer_parameters, ends, strict=True)]

    @property
    def shapes(self) -> list[Shape]:
        """The shapes of all parameters; an MLP's weight i has (inputs, outputs)."""
        return [parameter.shape for parameter in self.parameters]

    @property
    def state(self) -> dict[str, int]:
        """The elements of each buffer that lives from step to step, 0 when a run starts."""
        has_dropout = any(isinstance(layer, Dropout) for layer in self.layers)
        return self.optimizer.state_sizes(self.parameters) | (dropout.STATE if has_dropout else {})

    @cached_property
    def places(self) -> dict[str, Place]:
        """Where each trained parameter lies in a buffer of all: each layer's side by side, in order."""
        places, end = {}, 0
        for own in self.layer_parameters:
            end = -(-end // ALIGNMENT) * ALIGNMENT
            for parameter in own:
                if parameter.trained:
                    places[parameter.name] = end, prod(parameter.shape)
                    end += prod(parameter.shape)
        return places

    @property
    def outputs(self) -> int:
        """Number of outputs per sample."""
        return prod(self.layer_shapes[-1])

    @cached_property
    def widths(self) -> tuple[int, ...] | None:
        """The widths, features to output, of the paper's multilayer perceptron; None for any other network.

        That is what ``mlp`` makes by default.
        """
        widths = (*self.inputs, *(layer.width for layer in self.layers if isinstance(layer, Linear)))
        usual = self.loss is MEAN_SQUARED_ERROR and self.reduction == "mean" and self.gradient == EXACT
        is_mlp = usual and self.layers == _perceptron(widths[1:])
        return widths if is_mlp else None

    def mlp_widths(self) -> tuple[int, ...]:
        """``widths`` of a network that is known to be an MLP."""
        assert self.widths is not None
        return self.widths


def mlp(widths: Sequence[int], bias: bool = False, activation: str = "relu", **rest: Any) -> Network:
    """A multilayer perceptron: linear layers, an activation function between them, the mean squared error.

    ``widths`` are from the features to the output; ``rest``: further fields of ``Network``.
    """
    return Network((widths[0],), _perceptron(widths[1:], bias, activation), **rest)


def build(settings: Mapping[str, Any], inputs: Shape, **training: Any) -> Network:
    """The network of a cell's section ``network``, for samples of this shape. Raises ConfigError.

    ``hidden`` is of an MLP with one output; other networks say ``layers`` and a ``loss``. ``training``: the
    fields that ``trained`` takes from a cell's section ``training``.
    """
    rest = {key: settings[key] for key in ("init", "update_order", "clip_norm")} | training
    rest["recompute"] = remedies.layers(settings)
    if "hidden" in settings:
        rest |= {key: settings[key] for key in MLP_DEFAULTS if key in settings}
        return mlp((prod(inputs), *settings["hidden"], 1), **rest)
    return Network(inputs, tuple(map(parse, settings["layers"])), LOSSES[settings["loss"]], **rest)


def trained(cell: Mapping[str, Any], inputs: Shape) -> Network:
    """The network of a cell as its section ``training`` has it trained. Raises ConfigError."""
    training = cell["training"]
    gradient = gradients.of(training["gradient"], cell["kernel"]["block"])
    seed = cell["network"]["seed"]
    rest = {key: training[key] for key in ("reduction", "accumulate")} | {"dropout_seed": seed}
    rest["fidelity"] = training.get("fidelity", LEAN)
    rest |= {key: training[key] for key in ("storage", "loss_scale") if training.get(key) is not None}
    if training.get("shuffle") == EPOCH:
        rest["order_seed"] = seed
    return build(cell["network"], inputs, gradient=gradient, optimizer=optimizers.of(training), **rest)


def _perceptron(widths: Sequence[int], bias: bool = False, activation: str = "relu") -> tuple[Layer, ...]:
    hidden = [(Linear(width, bias), ACTIVATIONS[activation]()) for width in widths[:-1]]
    return (*itertools.chain(*hidden), Linear(widths[-1], bias)) if widths else ()


def label(hidden: Sequence[int]) -> str:
    """The name of a network in tables and paths: its hidden widths, ``256-1024-256``."""
    return "-".join(str(width) for width in hidden)


def network_label(network: Mapping[str, Any]) -> str:
    """The name of a cell's ``network`` in tables and paths.

    ``256-1024-256`` from the widths in ``hidden``, with ``-tanh`` or ``-bias`` if it is not the paper's MLP;
    ``conv16x3-relu-linear10`` from the texts in ``layers``.
    """
    if layers := network.get("layers"):
        words = (layer.split() for layer in layers)
        return "-".join(kind.removesuffix("2d") + "x".join(sizes) for kind, *sizes in words)
    own = without_defaults({key: network[key] for key in MLP_DEFAULTS if key in network})
    return "-".join([label(network["hidden"]), *("bias" if key == "bias" else own[key] for key in own)])


def without_defaults(network: Mapping[str, Any]) -> dict[str, Any]:
    """A cell's section ``network`` as cells have it: without keys that have the value of ``MLP_DEFAULTS``."""
    return {
        key: value for key, value in network.items() if key not in MLP_DEFAULTS or value != MLP_DEFAULTS[key]
    }


def draw_weights(network: Network, random: GlibcRandom) -> list[np.ndarray]:
    """Fresh float32 parameters, drawn row by row, the first layer's first; each call continues the stream.

    With u = rand() / RAND_MAX: ``uniform01`` is w = u (the published MSE comes from it), ``he_uniform`` is
    w = (2 u - 1) sqrt(2 / fan_in), as the paper's authors have it, and ``kaiming_uniform`` is
    w = (2 u - 1) sqrt(6 / fan_in), whose variance is 2 / fan_in (He, Zhang, Ren and Sun, 2015). Biases are
    0, the weights of a norm 1, and they draw nothing, except with ``pytorch``: there weights and biases of
    linear layers and convolutions are w = (2 u - 1) / sqrt(fan_in), the distribution, not the numbers, of
    PyTorch's nn.Linear and nn.Conv2d.
    """
    weights = []
    for own in network.layer_parameters:
        of_layer = own[0].fan_in if own and network.init == "pytorch" else None
        for parameter in own:
            fan_in = parameter.fan_in or of_layer
            if fan_in is None:
                weights.append(np.full(parameter.shape, parameter.start, dtype=np.float32))
                continue
            u = random.uniform(prod(parameter.shape)).reshape(parameter.shape)
            if network.init in _NUMERATORS:
                limit = np.sqrt(np.float32(_NUMERATORS[network.init]) / np.float32(fan_in))
                u = (np.float32(2) * u - np.float32(1)) * limit
            weights.append(u)
    return weights
