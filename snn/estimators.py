"""Multilayer perceptrons with the interface of scikit-learn, trained by the strategies of this program.

Parameters that scikit-learn's ``MLPRegressor`` and ``MLPClassifier`` have mean the same here. scikit-learn
itself is optional, and so is PyTorch, which only ``to_torch``, ``from_torch`` and models of it need.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import prod
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from snn.config.suggestions import meant
from snn.errors import ConfigError, Unsupported
from snn.measurement.accuracy import predicted
from snn.models.layers import ACTIVATIONS, Layer, Linear, parse
from snn.models.losses import LOSSES, Loss
from snn.models.network import Network
from snn.models.optimizers import Adam, AdamW, Optimizer, Sgd
from snn.models.saved import build_layers, describe_layers
from snn.strategies.factory import Job
from snn.training import torch_models
from snn.training.fit import AUTO, Fit, check_single, fit, strategy_choice

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
    from sklearn.utils import check_random_state, column_or_1d
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError:
    from snn.training.without_sklearn import (
        BaseEstimator,
        ClassifierMixin,
        RegressorMixin,
        check_classification_targets,
        check_is_fitted,
        check_random_state,
        column_or_1d,
        validate_data,
    )

_NAMES = {"logistic": "sigmoid"}
"""scikit-learn's names of activation functions that have another name here."""

_SOLVERS = ("adam", "sgd", "adamw")
_MOST_BATCH = 200
_VARIED = ("random_state", "learning_rate_init", "alpha")
"""Parameters that ``fit_many`` varies."""


class _Perceptron(BaseEstimator, ABC):
    """Estimator of a network of layers.

    ``network``: an nn.Sequential, whose weights training starts from, or the texts of ``network.layers``;
    without it, ``hidden_layer_sizes`` and ``activation`` describe the network. ``input_shape``: of a sample,
    such as (1, 28, 28), if its first layer takes images. ``strategy`` and ``device`` are as in ``snn run``;
    ``auto`` takes the first of ``fit.TRIED`` that supports the network. ``solver`` may also be adamw, whose
    weight decay is ``alpha``. For the others, ``alpha`` is divided by the batch size; it decays weights and
    biases. With ``early_stopping`` the validation loss decides, and the best weights are kept; without it,
    all ``max_iter`` epochs are trained. Without ``loss_curve`` and ``early_stopping`` a GPU trains all epochs
    in one launch, and ``loss_curve_`` is empty.
    """

    def __init__(
        self,
        hidden_layer_sizes: Sequence[int] = (100,),
        activation: str = "relu",
        *,
        solver: str = "adam",
        alpha: float = 0.0001,
        batch_size: int | str = "auto",
        learning_rate_init: float = 0.001,
        max_iter: int = 200,
        shuffle: bool = True,
        random_state: Any = None,
        momentum: float = 0.9,
        nesterovs_momentum: bool = True,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        strategy: str = AUTO,
        device: str = "auto",
        network: Any = None,
        input_shape: Sequence[int] | None = None,
        loss_curve: bool = True,
        verbose: bool = False,
    ) -> None:
        self.hidden_layer_sizes = hidden_layer_sizes
        self.activation = activation
        self.solver = solver
        self.alpha = alpha
        self.batch_size = batch_size
        self.learning_rate_init = learning_rate_init
        self.max_iter = max_iter
        self.shuffle = shuffle
        self.random_state = random_state
        self.momentum = momentum
        self.nesterovs_momentum = nesterovs_momentum
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.strategy = strategy
        self.device = device
        self.network = network
        self.input_shape = input_shape
        self.loss_curve = loss_curve
        self.verbose = verbose

    # ---- training

    def fit(self, X: Any, y: Any) -> Any:
        """Train on X (rows, features) and y (rows,). Raises ValueError or SnnError."""
        X, targets = self._data(X, y)
        job, initial = self._job(X, targets)
        self._keep(job, fit(job, self.device, initial=initial, report=self._report))
        return self

    def fit_many(
        self, X: Any, y: Any, settings: Mapping[str, Sequence[Any]]
    ) -> tuple[list[Any], list[float]]:
        """Train an estimator for every combination of ``settings``, all at once if a kernel can.

        ``settings`` has lists of values of random_state, learning_rate_init and alpha. Returns the fitted
        estimators, the last of these parameters varying fastest, and the score of each on rows that none is
        trained on: the share ``validation_fraction``, drawn by this estimator's random_state. With
        ``early_stopping``, each stops by its validation loss on a second share, the same rows for all.
        """
        if unknown := [key for key in settings if key not in _VARIED]:
            raise ValueError(f"settings has {unknown[0]!r}: it may have {', '.join(_VARIED)}")
        checked = self._with({})
        X, targets = checked._data(X, y)
        rows = check_random_state(self.random_state).permutation(len(X))
        share = self._held_out(len(X), 2 if self.early_stopping else 1)
        held, validation, rows = np.split(rows, [share, 2 * share if self.early_stopping else share])
        seed = int(check_random_state(self.random_state).randint(1, 2**31 - 1))
        usual = {"random_state": seed, "learning_rate_init": self.learning_rate_init, "alpha": self.alpha}
        values = {name: np.atleast_1d(settings.get(name, value)).tolist() for name, value in usual.items()}
        if empty := [name for name, list_of in values.items() if not list_of]:
            raise ValueError(f"settings: {empty[0]} is empty")
        each = [checked._with(dict(zip(_VARIED, one, strict=True))) for one in product(*values.values())]
        stop = (X[validation], targets[validation]) if self.early_stopping else None
        jobs = [one._job(X[rows], targets[rows], stop) for one in each]
        for one, (job, _), found in zip(each, jobs, self._fit_each(jobs), strict=True):
            try:
                one._keep(job, found)
            except ValueError as error:
                chosen = ", ".join(f"{name}={getattr(one, name)}" for name in settings)
                raise ValueError(f"settings: with {chosen}, {error}") from error
        scored = self._rows_of(y, held)
        return each, [float(one.score(X[held], scored)) for one in each]

    def _fit_each(self, jobs: list[tuple[Job, Any]]) -> list[Fit]:
        """The fits of jobs that differ in seed, rate and weight decay, by one launch or one after another."""
        first, initial = jobs[0]
        seeds, rates = (
            list(dict.fromkeys(getattr(job, key) for job, _ in jobs)) for key in ("seed", "learning_rate")
        )
        decays = list(dict.fromkeys(job.network.optimizer.weight_decay for job, _ in jobs))
        lists = {"seeds": seeds, "learning_rates": rates, "weight_decays": decays}
        if self.strategy == AUTO and len(jobs) == prod(map(len, lists.values())):
            choice = strategy_choice("ensemble", starts=1, **lists)
            try:
                job = replace(first, strategy=choice, keeps_losses=False)
                many = fit(job, self.device, initial=initial, report=self._report)
            except Unsupported:
                pass  # one after another
            else:
                count = len(many.weights) // len(jobs)
                each = [
                    replace(many, weights=many.weights[i * count : (i + 1) * count], final_losses=[loss])
                    for i, loss in enumerate(many.final_losses)
                ]
                if many.watched:
                    for one, epochs in zip(each, many.watched, strict=True):
                        one.losses, one.validation_losses = map(np.ndarray.tolist, epochs[:2])
                return each
        return [fit(job, self.device, initial=own, report=self._report) for job, own in jobs]

    def _with(self, settings: Mapping[str, Any]) -> Any:
        """A new estimator with these parameters changed."""
        return type(self)(**{**self.get_params(deep=False), **settings})

    def _data(self, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
        """Checked X, and targets (rows, 1) float32; sets what is known of the classes."""
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        X, y = validate_data(self, X, y, dtype=np.float64, multi_output=True, y_numeric=self._is_numeric)
        with np.errstate(over="ignore"):
            X = X.astype(np.float32)
        if not np.isfinite(X).all():
            raise ValueError("X has numbers beyond float32: scale its columns")
        targets = self._targets(column_or_1d(y, warn=True))
        if not np.isfinite(targets).all():
            raise ValueError("y has a NaN or an infinite number")
        return X, targets

    def _job(
        self, X: np.ndarray, targets: np.ndarray, stop: tuple[np.ndarray, np.ndarray] | None = None
    ) -> tuple[Job, list[np.ndarray] | None]:
        """Return the job that trains on X and targets, and its initial weights if they are given.

        ``stop``: X and targets whose loss decides when training ends, instead of some of these rows.
        """
        seed = int(check_random_state(self.random_state).randint(1, 2**31 - 1))
        if self.early_stopping and stop is None:
            order, held = np.random.RandomState(seed).permutation(len(X)), self._held_out(len(X))
            trained, held_out = np.split(order, [len(X) - held])
            (X, targets), stop = (X[trained], targets[trained]), (X[held_out], targets[held_out])
        rows = len(X)
        batch = min(_MOST_BATCH, rows) if self.batch_size == "auto" else min(int(self.batch_size), rows)
        self._check(batch)
        chosen = {} if self.strategy == AUTO else strategy_choice(self.strategy)
        if chosen:
            check_single(chosen)
        loss = self._loss()
        network = Network(
            *(self._inputs(X.shape[1]), self._layers(), loss),
            init="pytorch",
            update_order="simultaneous",
            optimizer=self._optimizer(batch, loss.factor),
            order_seed=seed if self.shuffle else None,
            dropout_seed=seed,
        )
        if network.outputs != self._outputs():
            raise ConfigError(f"the network ends in {network.outputs} outputs, and needs {self._outputs()}")
        if stop:
            stop = stop[0], np.ascontiguousarray(loss.targets(stop[1], network.outputs))
        job = Job(
            strategy=chosen,
            network=network,
            X=np.ascontiguousarray(X),
            Y=np.ascontiguousarray(loss.targets(targets, network.outputs)),
            seed=seed,
            epochs=int(self.max_iter),
            batch_size=batch,
            keeps_losses=bool(self.loss_curve),
            learning_rate=self.learning_rate_init / (loss.factor if self.solver == "sgd" else 1),
            validation=stop,
            patience=int(self.n_iter_no_change) if stop else None,
        )
        return job, self._given_weights(network)

    def _check(self, batch: int) -> None:
        """Raise ValueError for a parameter that is out of range."""
        wrong = {
            "max_iter": self.max_iter < 1,
            "batch_size": batch < 1,
            "learning_rate_init": not 0 < self.learning_rate_init < np.inf,
            "alpha": not 0 <= self.alpha < np.inf,
            "n_iter_no_change": self.n_iter_no_change < 1,
        }
        for name, is_wrong in wrong.items():
            if is_wrong:
                raise ValueError(f"{name} is {getattr(self, name)!r}, which is out of range")
        for name, words in {"solver": _SOLVERS, "activation": (*_NAMES, *ACTIVATIONS)}.items():
            if (value := getattr(self, name)) not in words:
                one_of = ", ".join(words)
                raise ValueError(f"{name} is {value!r}{meant(str(value), words)}: it must be one of {one_of}")

    def _held_out(self, rows: int, times: int = 1) -> int:
        """Return the number of rows in each of ``times`` shares that are held out."""
        held = round(self.validation_fraction * rows)
        if not 0 < times * held < rows:
            raise ValueError(
                f"validation_fraction is {self.validation_fraction!r}: of {rows} rows, one or more must be "
                f"held out{', and as many to stop early' * (times > 1)}, and one or more trained on"
            )
        return held

    def _layers(self) -> tuple[Layer, ...]:
        if isinstance(self.network, str):
            raise ValueError(f"network is {self.network!r}: it must be a list of layers or an nn.Sequential")
        if self.network is not None:
            is_list = isinstance(self.network, (list, tuple))
            return tuple(map(parse, self.network)) if is_list else torch_models.layers_of(self.network)
        activation = ACTIVATIONS[_NAMES.get(self.activation, self.activation)]
        widths = np.atleast_1d(np.asarray(self.hidden_layer_sizes, int)).tolist()
        if any(width < 1 for width in widths):
            raise ValueError(f"hidden_layer_sizes is {self.hidden_layer_sizes!r}: each must be at least 1")
        hidden = [layer for width in widths for layer in (Linear(width), activation())]
        return (*hidden, Linear(self._outputs()))

    def _inputs(self, features: int) -> tuple[int, ...]:
        shape = (features,) if self.input_shape is None else tuple(map(int, self.input_shape))
        if prod(shape) != features:
            raise ValueError(f"input_shape is {shape}, but X has {features} features")
        return shape

    def _optimizer(self, batch: int, factor: float) -> Optimizer:
        """``factor``: of the loss's gradient, which scikit-learn's lacks; the decay gets it, too."""
        decay = factor * self.alpha / batch
        if self.solver == "sgd":
            nesterov = bool(self.nesterovs_momentum and self.momentum)
            return Sgd(momentum=self.momentum, nesterov=nesterov, weight_decay=decay)
        return Adam(weight_decay=decay) if self.solver == "adam" else AdamW(weight_decay=self.alpha)

    def _given_weights(self, network: Network) -> list[np.ndarray] | None:
        if self.network is None or isinstance(self.network, (list, tuple)):
            return None
        return torch_models.weights_of(self.network, network)

    def _report(self, done: float, loss: float | None, validation_loss: float | None) -> None:
        if self.verbose:
            print(
                f"epoch {done:.0f}: loss {loss}"
                + f", validation loss {validation_loss}" * bool(validation_loss)
            )

    def _keep(self, job: Job, found: Fit) -> None:
        """Set the attributes of a fitted estimator."""
        losses = found.losses or found.final_losses
        if not np.isfinite(found.validation_losses or losses[-1:]).any():
            raise ValueError(f"the loss is {losses[-1]}: scale the columns of X, or lower learning_rate_init")
        self.n_features_in_ = job.X.shape[1]
        self.n_iter_ = len(found.losses) or job.epochs
        self.loss_curve_, self.loss_ = found.losses, losses[-1]
        self.validation_losses_ = found.validation_losses
        self.strategy_, self.plan_, self.seconds_ = found.strategy, found.plan, found.seconds
        self._set_network(job.network, found.weights)

    def _set_network(self, network: Network, weights: Sequence[np.ndarray]) -> None:
        self.inputs_, self.layers_ = network.inputs, describe_layers(network.layers)
        self.weights_ = list(weights)
        names = [parameter.name[0] for parameter in network.parameters]
        of_layers = list(zip(names, self.weights_, strict=True))
        self.coefs_ = [W for name, W in of_layers if name == "W"]
        self.intercepts_ = [b for name, b in of_layers if name == "b"]
        self.n_outputs_, self.n_layers_ = network.outputs, len(self.coefs_) + 1

    # ---- predicting

    def _trained(self) -> Network:
        check_is_fitted(self)
        return Network(self.inputs_, build_layers(self.layers_), self._loss())

    def _raw(self, X: Any) -> np.ndarray:
        """The network's outputs, computed in float64, (rows, outputs)."""
        network = self._trained()
        X = validate_data(self, X, reset=False, dtype=np.float64)
        with threadpool_limits(1, "blas"):  # batches are computed side by side
            return predicted(network, [W.astype(np.float64) for W in self.weights_], X)

    def to_torch(self) -> Any:
        """An nn.Sequential with the same outputs: predictions, or the logits of a classification."""
        return torch_models.to_torch(self._trained(), self.weights_)

    @classmethod
    def from_torch(cls, model: Any, input_shape: Sequence[int] | None = None, **parameters: Any) -> Any:
        """An estimator that predicts as an nn.Sequential, and that ``fit`` trains from its weights.

        ``input_shape``: of a sample, if the first layer takes images. Raises ConfigError for a layer that has
        no counterpart here.
        """
        made = cls(network=model, input_shape=input_shape, **parameters)
        layers = torch_models.layers_of(model)
        features = torch_models.inputs_of(model)
        shape = input_shape or (features and (features,))
        if not shape:
            raise ConfigError("input_shape is missing: the first layer of the model does not say its inputs")
        network = Network(tuple(shape), layers)
        made._set_network(network, torch_models.weights_of(model, network))
        made._set_outputs(network.outputs)
        made.n_features_in_ = prod(shape)
        return made

    # ---- what regression and classification differ in

    _is_numeric = True

    @abstractmethod
    def _targets(self, y: np.ndarray) -> np.ndarray:
        """The network's targets, (rows, 1) float32. A classifier also sets its classes."""

    def _rows_of(self, y: Any, rows: np.ndarray) -> np.ndarray:
        return np.asarray(y).reshape(-1)[rows]

    def _loss(self) -> Loss:
        return LOSSES["mean_squared_error"]

    def _outputs(self) -> int:
        return 1

    def _set_outputs(self, outputs: int) -> None:
        if outputs != self._outputs():
            raise ConfigError(f"the model ends in {outputs} outputs, and a regression needs 1")


class MLPRegressor(RegressorMixin, _Perceptron):
    """Regression of one target by the mean squared error. Neither features nor target are scaled."""

    def _targets(self, y: np.ndarray) -> np.ndarray:
        return np.asarray(y, np.float32)[:, None]

    def predict(self, X: Any) -> np.ndarray:
        """The predictions for X (rows, features), float64 (rows,)."""
        return self._raw(X)[:, 0]


class MLPClassifier(ClassifierMixin, _Perceptron):
    """Classification: two classes by one output and the binary cross-entropy, more by one output for each and
    the cross-entropy. Features are not scaled."""

    _is_numeric = False

    def _targets(self, y: np.ndarray) -> np.ndarray:
        check_classification_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"y has one class, {self.classes_[0]!r}: a classifier needs two or more")
        return labels.astype(np.float32)[:, None]

    def _with(self, settings: Mapping[str, Any]) -> Any:
        made = super()._with(settings)
        if hasattr(self, "classes_"):
            made.classes_ = self.classes_
        return made

    def _loss(self) -> Loss:
        return LOSSES["binary_cross_entropy" if len(self.classes_) == 2 else "cross_entropy"]

    def _outputs(self) -> int:
        return 1 if len(self.classes_) == 2 else len(self.classes_)

    def _set_outputs(self, outputs: int) -> None:
        self.classes_ = np.arange(max(outputs, 2))

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of each class for X (rows, features), (rows, classes)."""
        outputs = self._raw(X)
        if outputs.shape[1] == 1:
            outputs = np.column_stack([np.zeros(len(outputs)), outputs[:, 0]])
        exponentials = np.exp(outputs - outputs.max(axis=1, keepdims=True))
        return exponentials / exponentials.sum(axis=1, keepdims=True)

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class of each row, (rows,)."""
        most_probable = self.predict_proba(X).argmax(axis=1)
        return self.classes_[most_probable]
