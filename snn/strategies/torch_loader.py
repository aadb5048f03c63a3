"""A peer: PyTorch as most programs are written, with a DataLoader and autograd."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from snn.backends.base import Backend
from snn.errors import Unsupported
from snn.models.layers import Conv2d, Linear, MaxPool2d, ReLU
from snn.models.losses import CROSS_ENTROPY
from snn.models.network import Network
from snn.strategies.common.strategy import PEERS, Strategy, check_exact_gradient, required
from snn.strategies.common.torch import Settings, device_of, translated


class TorchLoader(Strategy):
    """Training by PyTorch's modules, autograd and SGD on batches of a DataLoader, as in the CNN report.

    ``setup`` makes the modules, and a DataLoader over the data in pageable host memory. Batches are in file
    order (``shuffle=False``), unlike the report's, so that all strategies end with the same weights. Each
    epoch starts ``workers`` processes, which collate samples to batches, and ends them; with none the process
    that trains does it. With ``pin_memory`` a thread copies each batch to pinned memory. Per step: 2 blocking
    copies to the device, forward, ``backward``, an SGD step, and ``loss.item()``, which waits for the device.
    Everything comes from PyTorch's allocators. As in the report cuDNN is to be deterministic and times no
    algorithms. ``predict`` has a DataLoader of the same kind.
    """

    own_runtime = "torch"
    any_network = True

    def __init__(self, backend: Backend, workers: int = 4, pin_memory: bool = False) -> None:
        super().__init__(backend)
        self._workers, self._pin_memory = workers, pin_memory
        self._torch: Any = None
        self._settings: Settings | None = None
        self._model: Any = None
        self._loader: Any = None
        self._optimiser: Any = None
        self._losses: list[float] = []

    def check_network(self, network: Network) -> None:
        super().check_network(network)
        check_exact_gradient(network, "PyTorch")
        if network.update_order != "simultaneous":
            raise Unsupported(
                "autograd propagates errors through the weights of the forward pass, so "
                f"network.update_order={network.update_order} is not possible: choose simultaneous"
            )

    def setup(self, network: Network, X: np.ndarray, Y: np.ndarray, batch_size: int, rate: float) -> None:
        torch = self._torch = required("torch", PEERS)
        self._device = device_of(torch, self.backend)
        if self._pin_memory and self.backend.is_processor:
            raise Unsupported("strategy.pin_memory=true is for copies to a GPU: on the CPU choose false")
        self._settings = Settings(torch, self.backend.precision, as_published=True)
        self.network, self._batch = network, batch_size
        with translated(torch):
            self._model = torch.nn.Sequential(*modules(torch, network)).to(self._device)
        nn, reduction = torch.nn, network.reduction
        is_classification = network.loss is CROSS_ENTROPY
        self._criterion = (nn.CrossEntropyLoss if is_classification else nn.MSELoss)(reduction=reduction)
        self._optimiser = torch.optim.SGD(self._model.parameters(), lr=float(np.float32(rate)))
        targets = torch.from_numpy(Y.argmax(axis=1) if is_classification else Y)
        self._loader = self._load_from(X, targets)

    def load(self, weights: list[np.ndarray]) -> None:
        with self._torch.no_grad():
            for parameter, W in zip(self._model.parameters(), weights, strict=True):
                parameter.copy_(self._torch.from_numpy(np.ascontiguousarray(_turned(W, parameter))))
        self._losses = []

    def epoch(self) -> None:
        model, criterion, optimiser, device = self._model, self._criterion, self._optimiser, self._device
        max_norm, losses = self.network.clip_norm, []
        with translated(self._torch), _workers_of(self._loader) as batches:
            for inputs, targets in batches:
                inputs, targets = inputs.to(device), targets.to(device)
                optimiser.zero_grad()
                loss = criterion(model(inputs), targets)
                loss.backward()
                if max_norm is not None:
                    for parameter in model.parameters():
                        self._torch.nn.utils.clip_grad_norm_(parameter, max_norm)
                optimiser.step()
                losses.append(loss.item() / (len(inputs) if self.network.reduction == "sum" else 1))
        self._losses = losses

    def loss(self) -> float:
        return self._losses[-1] if self._losses else float("nan")

    def epoch_losses(self) -> np.ndarray:
        return np.array(self._losses)

    def predict(self, X: np.ndarray) -> np.ndarray:
        with self._torch.no_grad(), translated(self._torch), _workers_of(self._load_from(X)) as batches:
            return np.concatenate([self._model(x.to(self._device)).cpu().numpy() for (x,) in batches])

    def weights(self) -> list[np.ndarray]:
        found = zip(self._model.parameters(), self.network.shapes, strict=True)
        arrays = ((parameter.detach().cpu().numpy(), shape) for parameter, shape in found)
        return [
            np.array(array.T if array.ndim == 2 else array.reshape(shape), order="C")
            for array, shape in arrays
        ]

    def close(self) -> None:
        self._model = self._loader = self._optimiser = None
        if self._settings is not None:
            self._settings.restore()
            self._settings = None
            self._torch.cuda.empty_cache()

    def _load_from(self, X: np.ndarray, *targets: Any) -> Any:
        """A DataLoader over rows of data and their targets, in their order."""
        data = self._torch.utils.data
        inputs = self._torch.from_numpy(X.reshape(len(X), *self.network.inputs))
        return data.DataLoader(
            data.TensorDataset(inputs, *targets),
            batch_size=self._batch,
            shuffle=False,
            num_workers=self._workers,
            pin_memory=self._pin_memory,
        )


@contextmanager
def _workers_of(loader: Any) -> Iterator[Any]:
    """An iterator over a loader's batches, whose processes have ended when the context is left."""
    batches = iter(loader)
    try:
        yield batches
    finally:
        if loader.num_workers:  # whoever holds the iterator still, such as a traceback
            batches._shutdown_workers()


def modules(torch: Any, network: Network) -> list[Any]:
    """The layers as PyTorch's modules. Raises Unsupported for a layer that has none here."""
    nn, made = torch.nn, []
    for layer, shape in zip(network.layers, network.layer_shapes, strict=False):
        if type(layer) is Linear:
            made += [nn.Flatten()] if len(shape) > 1 else []
            made.append(nn.Linear(int(np.prod(shape)), layer.width, bias=layer.bias))
        elif type(layer) is Conv2d:
            made.append(nn.Conv2d(shape[0], layer.filters, layer.kernel, padding=layer.padding))
        elif type(layer) is MaxPool2d:
            made.append(nn.MaxPool2d(layer.size))
        elif type(layer) is ReLU:
            made.append(nn.ReLU())
        else:
            raise Unsupported(f"the peers have no form of the layer {type(layer).__name__}")
    return [*made, nn.Flatten()] if len(network.layer_shapes[-1]) > 1 else made


def _turned(W: np.ndarray, parameter: Any) -> np.ndarray:
    """A parameter in PyTorch's shape: of a linear layer (outputs, inputs)."""
    return W.T if parameter.dim() == 2 else W.reshape(parameter.shape)
