"""Peers: PyTorch called operation by operation, replayed as a graph, compiled, or with a DataLoader."""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from snn.backends.base import Backend
from snn.backends.cpu.ops import EPS, MOMENTUM
from snn.errors import Unsupported
from snn.files import cache
from snn.models.layers import (
    ACTIVATIONS,
    AvgPool2d,
    BatchNorm,
    BatchNorm1d,
    BatchNorm2d,
    Conv2d,
    Flatten,
    Layer,
    LayerNorm,
    Linear,
    MaxPool2d,
)
from snn.models.losses import CROSS_ENTROPY
from snn.models.network import Network
from snn.models.optimizers import PLAIN
from snn.models.row_order import Orders
from snn.models.schedules import CONSTANT, factor
from snn.models.storage import FP16, FP32
from snn.strategies.base import PEERS, Peer, required
from snn.strategies.torch_networks import (
    TorchLayers,
    TorchOptimizer,
    autocast,
    clipped,
    compiled_step,
    configure,
    device_of,
    eager_steps,
    half_of,
    pytorchs_optimizer,
    translated,
)


class TorchPeer(Peer):
    """PyTorch with the settings that a cell needs; ``close`` restores the former ones."""

    own_runtime = "torch"
    any_optimizer = any_schedule = True
    own_step = "PyTorch"
    shuffles = True
    as_published = False

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self._torch: Any = None
        self._restore: Callable[[], None] | None = None
        self.release_tensors()

    def begin(self, network: Network) -> Any:
        self._torch, self.network = super().begin(network), network
        self._device = device_of(self._torch, self.backend)
        self._restore = configure(self._torch, self.backend.precision, self.as_published)
        return self._torch

    @abstractmethod
    def release_tensors(self) -> None:
        """Hold no tensor: as before ``setup``, so that the allocator can reuse the memory."""

    def allocator_peaks(self) -> dict[str, int]:
        if self.backend.is_processor:
            return {}
        cuda = self._torch.cuda
        return {"allocated_bytes": cuda.max_memory_allocated(), "reserved_bytes": cuda.max_memory_reserved()}

    def close(self) -> None:
        self.release_tensors()
        if self._restore is not None:
            self._restore()
            self._restore = None
            self._torch.cuda.empty_cache()


class TorchStrategy(TorchPeer):
    """Training by PyTorch, with tensors of its caching allocator.

    ``setup`` copies weights and batches to tensors. Each batch has its own tensor, so that it starts at
    an address aligned for wide loads. Images and the filters of convolutions lie with their channels last
    unless ``channels_last`` is false. ``close`` restores PyTorch's settings and returns the memory of its
    allocator to the device. Only ``load``, ``loss``, ``epoch_losses``, ``predict`` and ``weights`` wait.
    ``predict`` calls PyTorch operation by operation. With ``training.shuffle=epoch`` the host computes the
    order of an epoch and copies it in; before each step the batch's rows are gathered into its tensor.
    """

    grad_mode = "inference_mode"

    def __init__(self, backend: Backend, channels_last: bool = False) -> None:
        super().__init__(backend)
        self._channels_last = channels_last

    def release_tensors(self) -> None:
        self._graph: Any = None  # before the tensors that it uses
        self._captured_errors: Any = None
        self._steps: list[Callable[[], Any]] = []
        self._W: list[Any] = []
        self._batches: list[tuple[Any, Any]] = []
        self._orders: Orders | None = None
        self._data: Any = ()
        self._order: Any = None
        self._rows_of: tuple[Any, ...] = ()
        self._errors: Any = None
        self._totals: Any = None
        self._total_of: tuple[Any, ...] = ()
        self._held_out: list[Any] = []

    def setup(self, network: Network, X: np.ndarray, Y: np.ndarray, batch_size: int, rate: float) -> None:
        torch = self.begin(network)
        self._rate, self._batch = float(np.float32(rate)), batch_size
        self._model = TorchLayers(torch, network, self._channels_last)
        zeros = [np.zeros(shape, np.float32) for shape in network.shapes]
        with self.without_autograd():
            self._W = [W.clone() for W in self._model.parameters(zeros, self._device)]
            for start in range(0, len(X), batch_size):
                x = self._model.inputs(X[start : start + batch_size])
                y = self._model.targets(Y[start : start + batch_size])
                self._batches.append((x.to(self._device, copy=True), y.to(self._device, copy=True)))
            self._totals = torch.zeros(len(self._batches), device=self._device)
            self._total_of = self._totals.unbind()
            if network.order_seed is not None:
                self._orders = Orders(len(X), network.order_seed)
                whole = self._model.inputs(X), torch.from_numpy(Y)
                self._data = whole[0].to(self._device, copy=True), whole[1].to(self._device, copy=True)
                self._order = torch.arange(len(X), device=self._device)
                self._rows_of = self._order.split(batch_size)
            if self.validation is not None:
                self._held_out = [
                    batch.to(self._device, copy=True)
                    for batch in self._model.inputs(self.validation[0]).split(batch_size)
                ]

    @contextmanager
    def without_autograd(self) -> Iterator[None]:
        """A context without autograd recording, in which PyTorch's OutOfMemoryError becomes OutOfMemory."""
        with translated(self._torch), getattr(self._torch, self.grad_mode)():
            yield

    def load(self, weights: list[np.ndarray]) -> None:
        with self.without_autograd():
            for W, initial in zip(self._W, self._model.parameters(weights, "cpu"), strict=True):
                W.copy_(initial)
        if self._orders:
            self._orders.restart()
        self._errors = None

    def epoch(self) -> None:
        with self.without_autograd():
            if self._orders:
                self._order.copy_(self._torch.from_numpy(self._orders.next().astype(np.int64)))
            if self._graph is None:
                self._errors = self.all_steps()
            else:
                self._graph.replay()
                self._errors = self._captured_errors

    def take(self, batch: int) -> None:
        """Gather the rows of a batch, if they are not in file order."""
        if self._orders:
            self._model.take(self._rows_of[batch], self._data, self._batches[batch])

    @abstractmethod
    def all_steps(self) -> Any:
        """Train one step on each batch; returns what ``total`` of the model takes of the last one.

        With ``keeps_losses`` the total of each batch's loss is written to its place in ``_total_of``.
        """

    def capture(self) -> None:
        """Let a CUDA graph replay ``all_steps`` from now on, after one warm-up call on a side stream."""
        cuda = self._torch.cuda
        side = cuda.Stream()
        side.wait_stream(cuda.current_stream())
        with cuda.stream(side):
            self.all_steps()
        cuda.current_stream().wait_stream(side)
        graph = cuda.CUDAGraph()
        with cuda.graph(graph):
            self._captured_errors = self.all_steps()
        self._graph = graph

    def loss(self) -> float:
        if self._errors is None:
            return float("nan")
        with self.without_autograd():
            total = self._model.total(self._errors, self._batches[-1][1])
        return float(self._mean(total.cpu().numpy().reshape(1), -1)[0])

    def epoch_losses(self) -> np.ndarray:
        return self._mean(self._totals.cpu().numpy(), 0)

    def predict(self, X: np.ndarray) -> np.ndarray:
        outputs = np.empty((len(X), self.network.outputs), np.float32)
        with self.without_autograd():
            for start in range(0, len(X), self._batch):
                end = start + self._batch
                x = self._model.inputs(X[start:end]).to(self._device)
                outputs[start:end] = self._model.outputs(self._W, x).cpu().numpy()
        return outputs

    def validation_loss(self) -> float:
        assert self.validation is not None
        with self.without_autograd():
            outputs = self._torch.cat([self._model.outputs(self._W, x) for x in self._held_out])
            return self.network.loss.evaluate(outputs.cpu().numpy(), self.validation[1])

    def weights(self) -> list[np.ndarray]:
        return self._model.arrays(self._W)

    def _mean(self, totals: np.ndarray, first: int) -> np.ndarray:
        """The mean losses of the batches from this one on, from their totals."""
        rows = np.array([len(x) for x, _ in self._batches[first:]])
        return self._model.losses(totals.astype(np.float64), rows)


class TorchEager(TorchStrategy):
    """Training by PyTorch operations without autograd.

    For a multilayer perceptron ``setup`` allocates activations, gradients and every view that a step uses. A
    step writes into these. Nothing is allocated, except the workspace of a norm's reduction with clipping.
    Nothing is copied, except Y by the product that subtracts it. For other networks the tensors of a step
    come from PyTorch's caching allocator and go back to it, and one call updates all parameters. The host
    waits for nothing.

    Users would write a step with autograd, which records a graph and traverses it in its own threads. That
    takes 500 µs per step for the paper's network on an H200; these calls take less than a tenth of it. Nor
    can autograd do the ``sequential`` order. Products are fused with the next operation if PyTorch can: the
    last one subtracts Y, and a gradient's product updates its weights. The factor 2 / rows of the error is
    folded into the learning rate, which saves a pass. With one output, the error is propagated by a
    broadcast.

    With ``training.storage`` a step does what autocast does: weights and inputs are cast once per step, the
    loss is computed in float32, and gradients are cast back for the update. The scale of the loss is fixed.
    """

    any_storage = True
    _optimizer: TorchOptimizer | None = None
    _half: Any = None

    def check_network(self, network: Network) -> None:
        super().check_network(network)
        if network.storage == FP32:
            return
        others = [layer.name for layer in network.layers if not isinstance(layer, _IN_HALF)]
        if others or network.update_order != "simultaneous":
            reason = others[0] if others else f"network.update_order={network.update_order}"
            raise Unsupported(
                f"training.storage={network.storage} is not implemented here for {reason}: choose "
                "torch_loader, which has PyTorch's autocast, and network.update_order=simultaneous"
            )

    def setup(self, network: Network, X: np.ndarray, Y: np.ndarray, batch_size: int, rate: float) -> None:
        super().setup(network, X, Y, batch_size, rate)
        self._half = half_of(self._torch, network)
        with self.without_autograd():
            if network.optimizer != PLAIN:
                self._optimizer = TorchOptimizer(self._torch, network, self._W)
            if network.widths is not None and network.optimizer == PLAIN and self._half is None:
                self._steps = eager_steps(self._torch, network, self._W, self._batches, self._rate)
            else:
                self._steps = [partial(self._step_of_layers, *batch) for batch in self._batches]

    def all_steps(self) -> Any:
        for batch, step in enumerate(self._steps):
            self.take(batch)
            errors = step()
            if self.keeps_losses:
                self._total_of[batch].copy_(self._model.total(errors, self._batches[batch][1]))
        return errors

    def _step_of_layers(self, x: Any, targets: Any) -> Any:
        """One training step of any network."""
        if self._optimizer is not None:
            self._optimizer.count()
        if self._half is None:
            return self._model.step(self._W, x, targets, self._descend)[1]
        return self._model.step([w.to(self._half) for w in self._W], x.to(self._half), targets, self._cast)[1]

    def _cast(self, W: list[Any], gradients: list[Any]) -> list[Any]:
        """Update the weights in float32 with gradients of their copies."""
        found = [dW.float() for dW in gradients]
        if self.network.loss_scale != 1:
            found = self._torch._foreach_mul(found, 1 / self.network.loss_scale)
        self._descend(self._W, found)
        return W

    def load(self, weights: list[np.ndarray]) -> None:
        super().load(weights)
        if self._optimizer is not None:
            with self.without_autograd():
                self._optimizer.reset()

    def release_tensors(self) -> None:
        super().release_tensors()
        self._optimizer = None

    def _descend(self, W: list[Any], gradients: list[Any]) -> list[Any]:
        gradients = clipped(self._torch, gradients, self.network.clip_norm)
        if self._optimizer is None:
            self._torch._foreach_add_(W, gradients, alpha=-self._rate)
        else:
            self._optimizer.descend(W, gradients, self._rate)
        return W


class TorchGraph(TorchEager):
    """Training by PyTorch in which a CUDA graph replays an epoch.

    ``setup`` does what ``torch_eager`` does and trains an epoch on a side stream, as PyTorch's documentation
    recommends, so that every library is loaded and has its workspace. It then captures the next epoch. Per
    epoch: 1 replay; nothing is allocated, copied or waited for.
    """

    def setup(self, network: Network, X: np.ndarray, Y: np.ndarray, batch_size: int, rate: float) -> None:
        required("torch", PEERS)
        if self.backend.is_processor:
            raise Unsupported("CUDA graphs need a CUDA device: use torch_eager on the CPU")
        super().setup(network, X, Y, batch_size, rate)
        with self.without_autograd():
            self.capture()


_IN_HALF: tuple[type[Layer], ...] = (Linear, Flatten, *ACTIVATIONS.values())
"""Layers that ``torch_eager`` and ``torch_graph`` compute in 16 bits."""

_NO_COMPILER = ("No working C++ compiler", "Failed to find C compiler", "Cannot find a working triton")

Step = Callable[[list[Any], Any, Any], tuple[list[Any], Any, Any]]


class TorchCompile(TorchStrategy):
    """Training by a step that ``torch.compile`` compiles, in a CUDA graph that replays an epoch.

    ``setup`` compiles a step for each batch size, with products autotuned, and on a GPU captures an epoch of
    such steps. Per epoch: 1 replay. A step writes new weights to other memory than the old ones, and they are
    copied into place once per epoch. Nothing is waited for.

    A step is compiled rather than an epoch: a hundred equal steps would compile for minutes into the same
    kernels. The graph is captured here rather than by ``mode="max-autotune"``, whose graph would be launched
    for every step. On the CPU an epoch is one call of the compiled step per batch.

    The user's cache keeps compiled code of PyTorch and Triton and the choice of the fastest products: later
    processes with the same step, device and versions load them.
    """

    any_optimizer = any_schedule = False
    grad_mode = "no_grad"  # inference mode would make PyTorch compile again outside of it

    def __init__(
        self, backend: Backend, mode: str = "max-autotune-no-cudagraphs", channels_last: bool = False
    ) -> None:
        super().__init__(backend, channels_last)
        self._mode = mode

    def release_tensors(self) -> None:
        self._step: Step | None = None
        super().release_tensors()

    def setup(self, network: Network, X: np.ndarray, Y: np.ndarray, batch_size: int, rate: float) -> None:
        cache.lend("torch", "TORCHINDUCTOR_CACHE_DIR")
        super().setup(network, X, Y, batch_size, rate)
        step = make_step(self._torch, self._model, network, self._rate, self.keeps_losses)
        self._step = self._torch.compile(step, mode=self._mode, fullgraph=True, dynamic=False)
        with self.without_autograd(), _compiler_required():
            if self.backend.is_processor:
                self.all_steps()
            else:
                self.capture()

    def all_steps(self) -> Any:
        W, step = self._W, self._step
        assert step is not None
        for batch, (X, Y) in enumerate(self._batches):
            self.take(batch)
            W, errors, total = step(W, X, Y)
            if self.keeps_losses:
                self._total_of[batch].copy_(total)
        self._torch._foreach_copy_(self._W, W)
        return errors

    def close(self) -> None:
        super().close()
        if self._torch is not None:
            self._torch.compiler.reset()


@contextmanager
def _compiler_required() -> Iterator[None]:
    """A context that raises Unsupported if PyTorch finds no C++ compiler, no C compiler or no Triton."""
    try:
        yield
    except Exception as error:
        if not any(message in str(error) for message in _NO_COMPILER):
            raise
        reason = str(error).splitlines()[0]
        raise Unsupported(f"torch.compile needs a compiler that is not installed: {reason}") from error


def make_step(torch: Any, model: TorchLayers, network: Network, rate: float, totals: bool) -> Step:
    """A training step as a pure function of W, X and targets.

    It returns the new W, what the model computes the loss from and, with ``totals``, the loss's total.
    """
    step_of_model = model.step if network.widths is None else partial(compiled_step, torch, network)

    def descend(W: list[Any], gradients: list[Any]) -> list[Any]:
        return [w - rate * dW for w, dW in zip(W, clipped(torch, gradients, network.clip_norm), strict=True)]

    def step(W: list[Any], X: Any, targets: Any) -> tuple[list[Any], Any, Any]:
        new, errors = step_of_model(W, X, targets, descend)
        return new, errors, model.total(errors, targets) if totals else None

    return step


_CRITERIA = {
    "mean_squared_error": "MSELoss",
    "huber": "HuberLoss",
    "cross_entropy": "CrossEntropyLoss",
    "binary_cross_entropy": "BCEWithLogitsLoss",
}
"""PyTorch's modules by the names of losses."""


class TorchLoader(TorchPeer):
    """Training by PyTorch's modules, autograd and SGD on batches of a DataLoader, as in the CNN report.

    ``setup`` makes the modules, and a DataLoader over the data in pageable host memory. Batches are in file
    order, or a sampler's with ``training.shuffle=epoch``, so that all strategies end with the same weights;
    the report's program draws its own order. Each epoch starts ``workers`` processes, which collate samples
    to batches, and ends them; with none the process that trains does it. With ``images`` each sample is
    an item of ``Images``, else a row of a tensor. With ``pin_memory`` a thread copies each batch to pinned
    memory. Per step: 2 blocking copies to the device, forward, ``backward``, an SGD step, and
    ``loss.item()``, which waits for the device. Everything comes from PyTorch's allocators. As in the report,
    cuDNN is deterministic and does not time its algorithms.
    ``predict`` uses a DataLoader of the same kind.

    ``training.storage`` is automatic mixed precision: autocast and, with FP16, a GradScaler that starts with
    ``training.loss_scale``. It checks the gradients of each step, for which the host waits, and skips a step
    whose gradients overflow.
    """

    as_published = any_storage = True
    further_layers = BatchNorm1d, BatchNorm2d

    def __init__(
        self,
        backend: Backend,
        workers: int = 4,
        pin_memory: bool = False,
        images: bool = False,
        on_host: bool = False,
    ) -> None:
        super().__init__(backend)
        if on_host and not backend.is_processor:
            raise Unsupported("strategy.on_host=true is for device=cpu, or for a sweep on a GPU's host")
        self._workers, self._pin_memory, self._images = workers, pin_memory, images
        self._sampler: _Sampler | None = None
        self._losses: list[float] = []

    def release_tensors(self) -> None:
        self._model: Any = None
        self._loader: Any = None
        self._optimiser: Any = None
        self._scaler: Any = None
        self._scheduler: Any = None

    def check_network(self, network: Network) -> None:
        super().check_network(network)
        if network.update_order != "simultaneous":
            raise Unsupported(
                "autograd propagates errors through the weights of the forward pass, so "
                f"network.update_order={network.update_order} is not possible: choose simultaneous"
            )
        if self._images and (network.loss is not CROSS_ENTROPY or len(network.inputs) != 3):
            raise Unsupported(
                "strategy.images=true is for images with a class each: choose such a data set, or false"
            )

    def setup(self, network: Network, X: np.ndarray, Y: np.ndarray, batch_size: int, rate: float) -> None:
        torch = self.begin(network)
        if self._pin_memory and self.backend.is_processor:
            raise Unsupported("strategy.pin_memory=true is for copies to a GPU: on the CPU choose false")
        self._batch = batch_size
        with translated(torch):
            self._model = torch.nn.Sequential(*modules(torch, network)).to(self._device)
        criterion = getattr(torch.nn, _CRITERIA[network.loss.name])
        self._criterion = criterion(reduction=network.reduction)
        parameters, self._rate = self._model.parameters(), float(np.float32(rate))
        self._optimiser = pytorchs_optimizer(torch, network, parameters, self._rate)
        self._scaler = self._make_scaler()
        targets = torch.from_numpy(Y.argmax(axis=1) if network.loss is CROSS_ENTROPY else Y)
        if network.order_seed is not None:
            self._sampler = _Sampler(len(X), network.order_seed)
        self._loader = self._load_from(X, targets, sampler=self._sampler)

    def load(self, weights: list[np.ndarray]) -> None:
        set_parameters(self._torch, self._model, weights)
        self._optimiser.state.clear()
        self._scaler = self._make_scaler()
        if self.network.optimizer.schedule != CONSTANT:
            self._begin_schedule()
        if self._sampler:
            self._sampler.restart()
        self._losses = []

    def epoch(self) -> None:
        model, criterion, optimiser, device = self._model, self._criterion, self._optimiser, self._device
        max_norm, losses, is_sum = self.network.clip_norm, [], self.network.reduction == "sum"
        of_row = self.network.loss.errors(self.network.outputs)
        clip_norm = self.network.optimizer.clip_norm
        scheduler, scaler = self._scheduler, self._scaler

        def forward(inputs: Any, targets: Any) -> Any:
            return criterion(model(inputs), targets)

        loss_of = autocast(self._torch, device, self.network, forward)
        with translated(self._torch), _workers_of(self._loader) as batches:
            for inputs, targets in batches:
                inputs, targets = inputs.to(device), targets.to(device)
                optimiser.zero_grad()
                loss = loss_of(inputs, targets)
                (loss if scaler is None else scaler.scale(loss)).backward()
                if scaler is not None and (max_norm is not None or clip_norm is not None):
                    scaler.unscale_(optimiser)
                if max_norm is not None:
                    for parameter in model.parameters():
                        self._torch.nn.utils.clip_grad_norm_(parameter, max_norm)
                if clip_norm is not None:
                    self._torch.nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
                if scaler is None:
                    optimiser.step()
                else:
                    scaler.step(optimiser)
                    scaler.update()
                if scheduler is not None:
                    scheduler.step()
                losses.append(loss.item() / (len(inputs) * of_row if is_sum else 1))
        self._losses = losses

    def _make_scaler(self) -> Any:
        """PyTorch's scaler of the loss; None unless activations are FP16."""
        if self.network.storage != FP16:
            return None
        return self._torch.amp.GradScaler(self._device.type, self.network.loss_scale)

    def _begin_schedule(self) -> None:
        """Have PyTorch's scheduler begin with the rate of the first step."""
        numbers = self.network.optimizer.schedule.numbers(self.network.run_steps)
        for group in self._optimiser.param_groups:
            group["lr"] = group["initial_lr"] = self._rate
        make = self._torch.optim.lr_scheduler.LambdaLR
        self._scheduler = make(self._optimiser, lambda done: float(factor(done, *numbers)))

    def loss(self) -> float:
        return self._losses[-1] if self._losses else float("nan")

    def epoch_losses(self) -> np.ndarray:
        return np.array(self._losses)

    def predict(self, X: np.ndarray) -> np.ndarray:
        self._model.eval()
        forward = autocast(self._torch, self._device, self.network, self._model)
        with self._torch.no_grad(), translated(self._torch), _workers_of(self._load_from(X)) as batches:
            outputs = []
            for x, *_ in batches:
                outputs.append(forward(x.to(self._device)).float().cpu().numpy())
        self._model.train()
        return np.concatenate(outputs)

    def weights(self) -> list[np.ndarray]:
        found = zip(tensors(self._model), self.network.shapes, strict=True)
        return [np.array(turned(W.detach().cpu().numpy(), shape), order="C") for W, shape in found]

    def _load_from(self, X: np.ndarray, *targets: Any, sampler: Any = None) -> Any:
        """A DataLoader over rows of data and their targets, in their order or a sampler's."""
        data, pixels = self._torch.utils.data, X.reshape(len(X), *self.network.inputs)
        if self._images:
            samples: Any = Images(pixels, targets[0].numpy() if targets else np.zeros(len(X)))
        else:
            samples = data.TensorDataset(self._torch.from_numpy(pixels), *targets)
        return data.DataLoader(
            samples,
            batch_size=self._batch,
            shuffle=False,
            sampler=sampler,
            num_workers=self._workers,
            pin_memory=self._pin_memory,
        )


class Images:
    """A data set as torchvision's MNIST with ``ToTensor``: each sample is made of a PIL image.

    A sample costs what it costs there: an element of a tensor of bytes, an image, a copy of it, another order
    of its dimensions, and a division by 255. ``pixels`` are float32, (rows, 1, height, width). Raises
    Unsupported without Pillow, and for several channels or pixels that are not whole 255ths of 1.
    """

    def __init__(self, pixels: np.ndarray, labels: np.ndarray) -> None:
        torch = required("torch", PEERS)
        required("PIL.Image", "pip install pillow")
        values = np.rint(pixels * 255).astype(np.uint8)
        if pixels.shape[1] != 1 or (values / np.float32(255) != pixels).any():
            raise Unsupported("images must have one channel, and pixels that are whole 255ths of 1")
        self._pixels, self._labels = torch.from_numpy(values[:, 0]), torch.from_numpy(labels.astype(np.int64))

    def __len__(self) -> int:
        return len(self._pixels)

    def __getitem__(self, i: int) -> tuple[Any, int]:
        torch, Image = import_module("torch"), import_module("PIL.Image")
        image, label = Image.fromarray(self._pixels[i].numpy()), int(self._labels[i])
        width, height = image.size
        pixels = torch.from_numpy(np.array(image, np.uint8, copy=True)).view(height, width, 1)
        return pixels.permute(2, 0, 1).contiguous().to(torch.float32).div(255), label


class _Sampler(Orders):
    """A DataLoader's sampler: the rows of the next epoch."""

    def __len__(self) -> int:
        return self._rows

    def __iter__(self) -> Iterator[int]:
        return iter(self.next().tolist())


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
    """The layers as PyTorch's modules."""
    nn, made = torch.nn, []
    for layer, shape in zip(network.layers, network.layer_shapes, strict=False):
        if isinstance(layer, Linear):
            made += [nn.Flatten()] if len(shape) > 1 else []
            made.append(nn.Linear(int(np.prod(shape)), layer.width, bias=layer.bias))
        elif isinstance(layer, Conv2d):
            made.append(nn.Conv2d(shape[0], layer.filters, layer.kernel, layer.stride, layer.padding))
        elif isinstance(layer, (MaxPool2d, AvgPool2d)):
            made.append(getattr(nn, type(layer).__name__)(layer.size))
        elif isinstance(layer, LayerNorm):
            made.append(nn.LayerNorm(shape, EPS))
        elif isinstance(layer, BatchNorm):
            made.append(getattr(nn, type(layer).__name__)(shape[0], EPS, MOMENTUM))
        else:
            made.append(getattr(nn, type(layer).__name__)(*vars(layer).values()))
    return [*made, nn.Flatten()] if len(network.layer_shapes[-1]) > 1 else made


def set_parameters(torch: Any, model: Any, weights: Sequence[np.ndarray]) -> None:
    """Copy a network's weights, as ``draw_weights`` returns them, to a model of its ``modules``."""
    with torch.no_grad():
        for tensor, W in zip(tensors(model), weights, strict=True):
            tensor.copy_(torch.from_numpy(np.ascontiguousarray(turned(W, tensor.shape))))


def tensors(model: Any) -> list[Any]:
    """The tensors of a network's parameters: of each module its own, then its running means."""
    found = [one for module in model for one in (*module.parameters(), *module.buffers())]
    return [one for one in found if one.is_floating_point()]  # a batch norm also counts its batches


def turned(parameter: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """A parameter in the shape of PyTorch or of the network, which transpose a linear layer's."""
    return parameter.T if parameter.ndim == len(shape) == 2 else parameter.reshape(shape)
