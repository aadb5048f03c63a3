"""PyTorch's nn.Sequential as a network and its weights, and back."""

import sys
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from snn.backends.cpu.ops import EPS, MOMENTUM
from snn.errors import ConfigError, shown
from snn.models import layers as own
from snn.models.layers import ACTIVATIONS, Layer, layer_types
from snn.models.network import Network, mlp
from snn.strategies.base import PEERS
from snn.strategies.torch import modules, set_parameters, tensors, turned

_PLAIN = ("ReLU", "Tanh", "Sigmoid", "SiLU", "Identity", "Flatten")
"""Modules without a parameter that could differ from the layer of the same name."""


def require_torch() -> Any:
    """PyTorch. Raises ConfigError, with the command that installs it."""
    try:
        return import_module("torch")
    except ImportError as error:
        raise ConfigError(f"torch cannot be imported ({error}): `{PEERS}` installs it") from error


def load_model(reference: str) -> Any:
    """The nn.Sequential that ``module:factory`` returns. Raises ConfigError if there is none."""
    module, _, factory = reference.partition(":")
    if not module or not factory.isidentifier() or module.endswith(".py"):
        raise ConfigError(
            f"--model is {shown(reference)}: it must be MODULE:FACTORY, such as net:make for net.py"
        )
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.append(here)
    try:
        return getattr(import_module(module), factory)()
    except Exception as error:
        what = f"{type(error).__name__}: {error}"
        raise ConfigError(f"--model {reference}: it cannot be imported or called: {what}") from error


def layers_of(model: Any) -> tuple[Layer, ...]:
    """The layers of an nn.Sequential. Raises ConfigError for one that has no counterpart."""
    torch = require_torch()
    if not isinstance(model, torch.nn.Sequential):
        raise ConfigError(f"the model is {type(model).__name__}: it must be an nn.Sequential of known layers")
    found: list[Layer] = []
    for i, module in enumerate(_parts(model)):
        name = type(module).__name__
        if type(module) is not getattr(torch.nn, name, None) or name not in _FORMS:
            known = f"one of {', '.join(sorted(_FORMS))}"
            if name in ("Softmax", "LogSoftmax"):
                known = f"leave it out, since cross_entropy includes it, or use {known}"
            raise ConfigError(f"layer {i} of the model is {module}, which is not known: {known}")
        layer = _FORMS[name](module)
        if layer is None:
            what = "it has arguments that the layers here do not have"
            raise ConfigError(f"layer {i} of the model is {module}: {what}")
        found.append(layer)
    kept = tuple(layer for layer in found if not isinstance(layer, own.Identity))
    while kept and isinstance(kept[-1], own.Flatten):
        kept = kept[:-1]
    return kept


def _parts(model: Any) -> Iterator[Any]:
    """The modules of an nn.Sequential, and of those inside it."""
    for module in model:
        if isinstance(module, require_torch().nn.Sequential):
            yield from _parts(module)
        else:
            yield module


def inputs_of(model: Any) -> int | None:
    """The features that the first layer takes; None if it takes images or any number."""
    first = next((one for one in model.modules() if hasattr(one, "weight")), None)
    return getattr(first, "in_features", None) or getattr(first, "num_features", None)


def weights_of(model: Any, network: Network) -> list[np.ndarray]:
    """The model's parameters as the network has them. Raises ConfigError if their shapes differ."""
    weights = [tensor.detach().cpu().float().numpy() for tensor in tensors(_parts(model))]
    if [W.size for W in weights] != [*map(prod, network.shapes)]:
        raise ConfigError(
            f"the model's parameters have the shapes {[W.shape for W in weights]}, but samples of the shape "
            f"{network.inputs} need {[shape[::-1] for shape in network.shapes]}"
        )
    pairs = zip(weights, network.shapes, strict=True)
    return [np.array(turned(W, shape), np.float32, order="C") for W, shape in pairs]


def to_torch(network: Network, weights: Sequence[np.ndarray]) -> Any:
    """An nn.Sequential with these weights, in evaluation mode."""
    torch = require_torch()
    model = torch.nn.Sequential(*modules(torch, network))
    set_parameters(torch, model, weights)
    return model.eval()


def settings_of(layers: Sequence[Layer], classify: bool) -> dict[str, str]:
    """The settings for the layers of a model: ``network.layers``, or ``network.hidden`` without biases.

    Raises ConfigError for Linear layers without a bias that no setting describes.
    """
    linear = [one for one in layers if isinstance(one, own.Linear)]
    if all(one.bias for one in linear):
        return {"network.layers": f"[{', '.join(map(_text_of, layers))}]"}
    hidden, activation = [one.width for one in linear[:-1]], layers[1].name if layers[1:] else ""
    is_known = hidden and not classify and linear[-1].width == 1 and activation in ACTIVATIONS
    if not is_known or mlp([1, *hidden, 1], activation=activation).layers != tuple(layers):
        raise ConfigError(
            "the model has a Linear without a bias: on the command line that is possible only if none has "
            "one, the same activation follows each but the last, and that has one output: add biases, or use "
            "from_torch of snn.estimators"
        )
    return {"network.hidden": str(hidden), "network.bias": "false", "network.activation": activation}


def _text_of(layer: Layer) -> str:
    """A layer as ``network.layers`` has it."""
    numbers = [value for value in vars(layer).values() if not isinstance(value, bool)]
    return " ".join([layer.name, *(f"{value:g}" for value in numbers)])


def _alike(value: Any) -> Any:
    """The number of a value that is the same in both directions, or the value if it is not."""
    pair = value if isinstance(value, (tuple, list)) else (value, value)
    return pair[0] if len(set(pair)) == 1 else value


def _linear(module: Any) -> Layer:
    return own.Linear(module.out_features, module.bias is not None)


def _conv2d(module: Any) -> Layer | None:
    sizes = [_alike(value) for value in (module.kernel_size, module.padding, module.stride)]
    usual = module.groups == 1 and _alike(module.dilation) == 1 and module.padding_mode == "zeros"
    if not usual or module.bias is None or not all(isinstance(size, int) for size in sizes):
        return None
    return own.Conv2d(module.out_channels, *sizes)


def _pooling(module: Any) -> Layer | None:
    size, stride = _alike(module.kernel_size), _alike(module.stride)
    others = module.padding, getattr(module, "dilation", 1), module.ceil_mode
    if not isinstance(size, int) or size != stride or others != (0, 1, False):
        return None
    return layer_types()[type(module).__name__.lower()](size)  # type: ignore[call-arg]


def _norm(module: Any) -> Layer | None:
    momentum = getattr(module, "momentum", MOMENTUM)
    usual = module.eps == EPS and momentum == MOMENTUM and module.weight is not None
    has_bias = usual and module.bias is not None and getattr(module, "track_running_stats", True)
    return layer_types()[type(module).__name__.lower()]() if has_bias else None


def _if(name: str, **arguments: Any) -> Callable[[Any], Layer | None]:
    """An activation function, if its arguments are PyTorch's defaults."""

    def form(module: Any) -> Layer | None:
        is_usual = all(getattr(module, key) == value for key, value in arguments.items())
        return ACTIVATIONS[name]() if is_usual else None

    return form


_FORMS: dict[str, Callable[[Any], Layer | None]] = {
    "Linear": _linear,
    "Conv2d": _conv2d,
    "Dropout": lambda module: own.Dropout(module.p) if module.p else own.Identity(),
    **dict.fromkeys(("MaxPool2d", "AvgPool2d"), _pooling),
    **dict.fromkeys(("LayerNorm", "BatchNorm1d", "BatchNorm2d"), _norm),
    **{name: lambda module: layer_types()[type(module).__name__.lower()]() for name in _PLAIN},
    "LeakyReLU": _if("leaky_relu", negative_slope=0.01),
    "ELU": _if("elu", alpha=1.0),
    "GELU": _if("gelu", approximate="none"),
}
"""The layer of each module that has one; None if its arguments differ from what the layer does."""
