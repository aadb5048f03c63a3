"""Stand-ins for what ``snn.estimators`` uses of scikit-learn, if that is not installed."""

import inspect
import warnings
from typing import Any

import numpy as np


class NotFittedError(ValueError, AttributeError):
    """A prediction by an estimator that is not fitted."""


class BaseEstimator:
    """Parameters by name: those of ``__init__``."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def set_params(self, **params: Any) -> "BaseEstimator":
        if unknown := sorted(params.keys() - self.get_params().keys()):
            raise ValueError(f"{unknown[0]!r} is not a parameter: one of {', '.join(self.get_params())}")
        for name, value in params.items():
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        usual = {name: one.default for name, one in inspect.signature(type(self)).parameters.items()}
        own = {name: value for name, value in self.get_params().items() if value is not usual[name]}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in own.items())})"


class RegressorMixin:
    def score(self, X: Any, y: Any) -> float:
        """R² of the predictions."""
        y = np.asarray(y, float)
        errors = np.square(y - self.predict(X)).sum()  # type: ignore[attr-defined]
        return float(1 - errors / np.square(y - y.mean()).sum())


class ClassifierMixin:
    def score(self, X: Any, y: Any) -> float:
        """The share of right predictions."""
        return float(np.mean(self.predict(X) == np.asarray(y)))  # type: ignore[attr-defined]


def check_is_fitted(estimator: Any) -> None:
    if not hasattr(estimator, "n_features_in_"):
        raise NotFittedError(f"this {type(estimator).__name__} is not fitted: call fit first")


def validate_data(estimator: Any, X: Any, y: Any = None, reset: bool = True, **_: Any) -> Any:
    """X (rows, features), float64, and y (rows,), if it is given. Raises ValueError."""
    _check_names(estimator, X, reset)
    X = np.asarray(X, np.float64)
    if X.ndim != 2 or 0 in X.shape:
        raise ValueError(f"X has the shape {X.shape}: it must be (rows, features)")
    if not np.isfinite(X).all():
        raise ValueError("X contains NaN or infinity")
    if reset:
        estimator.n_features_in_ = X.shape[1]
    elif X.shape[1] != estimator.n_features_in_:
        raise ValueError(f"X has {X.shape[1]} features, but {estimator.n_features_in_} were fitted")
    if y is None:
        return X
    y = column_or_1d(y)
    if len(y) != len(X):
        raise ValueError(f"X has {len(X)} rows, and y has {len(y)}")
    return X, y


def _check_names(estimator: Any, X: Any, reset: bool) -> None:
    """Keep the names of a table's columns, or compare them with those that were fitted.

    Raises ValueError for other names or another order, and TypeError if only some names are texts.
    """
    names = [*getattr(X, "columns", ())]
    are_texts = {isinstance(name, str) for name in names}
    if len(are_texts) > 1:
        raise TypeError("some names of columns are texts, and some are not: make all of them texts")
    names = names if True in are_texts else []
    fitted = [*getattr(estimator, "feature_names_in_", ())]
    if reset:
        vars(estimator).pop("feature_names_in_", None)
        if names:
            estimator.feature_names_in_ = np.array(names, object)
    elif bool(names) != bool(fitted):
        without = (
            "the estimator was fitted without them" if names else "X, which is to be predicted, has none"
        )
        warnings.warn(f"names of features are ignored: {without}", UserWarning, stacklevel=4)
    elif names != fitted:
        are, were = (", ".join(one[:12]) + ", ..." * (len(one) > 12) for one in (names, fitted))
        raise ValueError(f"the columns of X are {are}, but {were} were fitted: give these in this order")


def column_or_1d(y: Any, **_: Any) -> np.ndarray:
    y = np.asarray(y)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1:
        raise ValueError(f"y has the shape {y.shape}: it must be (rows,)")
    return y


def check_random_state(seed: Any) -> np.random.RandomState:
    return seed if isinstance(seed, np.random.RandomState) else np.random.RandomState(seed)


def check_classification_targets(y: Any) -> None:
    if np.asarray(y).dtype.kind == "f" and (np.asarray(y) % 1).any():
        raise ValueError("y holds decimal fractions: these are no classes")
