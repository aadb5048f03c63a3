"""Estimators with scikit-learn's interface, without it and, if it is installed, with it."""

import pickle
import sys

import numpy as np
import pandas as pd
import pytest

from snn.errors import ConfigError, Unsupported
from snn.estimators import MLPClassifier, MLPRegressor
from snn.strategies.base import Watched
from snn.training import fit as training

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(120, 4))
Y = X @ [1.0, -2.0, 0.0, 0.5] + 3
LABELS = np.array(["low", "middle", "high"])[np.digitize(Y, [2.0, 4.0])]
SMALL = {"hidden_layer_sizes": (8,), "random_state": 1, "batch_size": 20}


def relu_network(estimator, X):
    (W, V), (b, c) = estimator.coefs_, estimator.intercepts_
    return np.maximum(X @ W + b, 0) @ V + c


def test_a_regression_is_learned_and_predicted_by_its_weights():
    made = MLPRegressor(**SMALL, max_iter=100).fit(X, Y)
    assert made.score(X, Y) > 0.9 and made.n_iter_ == len(made.loss_curve_) == 100
    assert made.loss_curve_[-1] < made.loss_curve_[0]
    assert [W.shape for W in made.coefs_] == [(4, 8), (8, 1)]
    np.testing.assert_allclose(made.predict(X), relu_network(made, X)[:, 0], rtol=1e-6)
    again = pickle.loads(pickle.dumps(made))
    assert np.array_equal(again.predict(X), MLPRegressor(**made.get_params()).fit(X, Y).predict(X))


@pytest.mark.parametrize("labels", [LABELS, LABELS == "high"])
def test_classes_are_predicted_by_their_labels(labels):
    made = MLPClassifier(**SMALL, max_iter=100, learning_rate_init=0.01).fit(X, labels)
    assert made.score(X, labels) > 0.9 and list(made.classes_) == sorted(set(labels))
    probabilities = made.predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    assert np.array_equal(made.predict(X), made.classes_[probabilities.argmax(axis=1)])


def test_gradient_descent_takes_scikit_learns_steps():
    """Of half the squared error, with the penalty alpha / 2 |W|^2 per row."""
    rate, alpha, rows = 0.1, 0.3, len(X)
    one = {"solver": "sgd", "momentum": 0, "hidden_layer_sizes": (), "batch_size": rows, "random_state": 1}
    start = MLPRegressor(**one, max_iter=1, learning_rate_init=1e-30, alpha=alpha).fit(X, Y)
    stepped = MLPRegressor(**one, max_iter=1, learning_rate_init=rate, alpha=alpha).fit(X, Y)
    W, errors = start.coefs_[0], start.predict(X) - Y
    gradient = X.T @ errors[:, None] / rows + alpha / rows * W
    np.testing.assert_allclose(stepped.coefs_[0], W - rate * gradient, rtol=1e-4, atol=1e-6)


def test_early_stopping_ends_training_and_keeps_the_best_weights():
    noise = RANDOM.normal(size=len(X))
    stops = {"early_stopping": True, "validation_fraction": 0.3, "n_iter_no_change": 3}
    made = MLPRegressor(**SMALL, max_iter=200, learning_rate_init=0.03, **stops).fit(X, noise)
    losses = made.validation_losses_
    assert made.n_iter_ == len(losses) == 1 + int(np.argmin(losses)) + 3


def test_many_settings_are_scored_and_stopped_on_rows_that_none_is_trained_on(monkeypatch):
    jobs = []

    def seen(job, *arguments, **keys):
        jobs.append(job)
        return training.fit(job, *arguments, **keys)

    monkeypatch.setattr("snn.estimators.fit", seen)
    noise = RANDOM.normal(size=len(X))
    stops = {"early_stopping": True, "validation_fraction": 0.2, "n_iter_no_change": 3}
    some = MLPRegressor(**SMALL, max_iter=40, **stops)
    made, scores = some.fit_many(X, noise, {"learning_rate_init": [0.001, 0.03], "random_state": [1, 2]})
    (job,), share = jobs, round(0.2 * len(X))
    rows = {tuple(row): i for i, row in enumerate(X.astype(np.float32))}
    trained, stopped = ([rows[tuple(row)] for row in of] for of in (job.X, job.validation[0]))
    scored = [*{*range(len(X))} - {*trained} - {*stopped}]
    assert any(min(one.validation_losses_) < one.validation_losses_[-1] for one in made)
    assert len(trained) == len(X) - 2 * share and len({*stopped} - {*trained}) == len(scored) == share
    for one, score in zip(made, scores, strict=True):
        assert score == pytest.approx(one.score(X[scored], noise[scored]))
        loss = np.mean((one.predict(X[stopped]) - noise[stopped]) ** 2)
        assert loss == pytest.approx(min(one.validation_losses_), rel=1e-4)


def test_a_network_without_a_best_epoch_has_its_last_weights():
    def watched(best):
        return Watched(*(np.ones(2),) * 4, best)

    last, best = [np.full(1, i) for i in range(6)], [np.full(1, 7.0), np.full(1, 8.0)]
    found = training.best_of([watched(best), watched(None), watched(best)], lambda: last)
    assert [int(W[0]) for W in found] == [7, 8, 2, 3, 7, 8]


def test_a_setting_that_diverges_is_named():
    settings = {"learning_rate_init": [0.001, 1e30]}
    with pytest.raises(ValueError, match=r"settings: with learning_rate_init=1e\+30, the loss is"):
        MLPRegressor(**SMALL, max_iter=5, solver="sgd").fit_many(X, Y, settings)


@pytest.mark.parametrize("stops", [{}, {"early_stopping": True, "n_iter_no_change": 2, "max_iter": 60}])
def test_many_settings_give_the_estimators_that_each_gives_alone(stops, monkeypatch):
    settings = {"random_state": [1, 2], "learning_rate_init": [0.001, 0.01], "alpha": [0.0, 1.0]}
    some = MLPClassifier(**SMALL | {"max_iter": 5} | stops)
    together, scores = some.fit_many(X, LABELS, settings)
    assert not hasattr(some, "classes_")
    assert {one.strategy_ for one in together} == {"ensemble"} and len(scores) == 8

    def unsupported(job, *arguments, **keys):
        if job.strategy.get("name") == "ensemble":
            raise Unsupported("no kernel")
        return training.fit(job, *arguments, **keys)

    monkeypatch.setattr("snn.estimators.fit", unsupported)
    alone, same = some.fit_many(X, LABELS, settings)
    assert {one.strategy_ for one in alone} == {"resident"}
    for a, b in zip(together, alone, strict=True):
        assert a.get_params() == b.get_params() and a.n_iter_ == b.n_iter_
        assert a.validation_losses_ == pytest.approx(b.validation_losses_, rel=1e-3)
        np.testing.assert_allclose(a.predict_proba(X), b.predict_proba(X), rtol=1e-3)
    assert scores == pytest.approx(same) and together[0].learning_rate_init == 0.001
    if stops:
        assert len({one.n_iter_ for one in together}) > 2
        assert all(len(one.validation_losses_) == one.n_iter_ for one in together)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"activation": "rellu"}, "relu"),
        ({"solver": "lbfgs"}, "solver"),
        ({"hidden_layer_sizes": (0,)}, "hidden_layer_sizes"),
        ({"max_iter": 0}, "max_iter"),
        ({"alpha": -1}, "alpha"),
        ({"learning_rate_init": 1e30}, "learning_rate_init"),
        ({"strategy": "no_such"}, "no_such"),
        ({"strategy": "ensemble"}, "fit_many"),
        ({"network": ["linear 2"]}, "2 outputs"),
        ({"network": ["linear 2", "no_such"]}, "no_such"),
        ({"input_shape": (1, 2, 3)}, "input_shape"),
        ({"early_stopping": True, "validation_fraction": 1}, "validation_fraction"),
    ],
)
def test_a_wrong_parameter_is_an_error(wrong, error):
    with pytest.raises((ValueError, ConfigError), match=error):
        MLPRegressor(**{**SMALL, "max_iter": 2, "solver": "sgd", **wrong}).fit(X, Y)


@pytest.mark.parametrize(
    ("data", "target"), [(X, Y[1:]), (X[0], Y), (X * np.nan, Y), (X * 1e300, Y), (X, Y * np.nan)]
)
def test_wrong_data_are_an_error(data, target):
    with pytest.raises(ValueError):
        MLPRegressor(**SMALL, max_iter=1).fit(data, target)


def test_predictions_need_a_fit_and_the_same_features():
    made = MLPClassifier(**SMALL, max_iter=1)
    with pytest.raises(AttributeError):
        made.predict(X)
    with pytest.raises(ValueError, match="3"):
        made.fit(X, LABELS).predict(X[:, :3])
    with pytest.raises(ValueError, match="class"):
        made.fit(X, np.zeros(len(X)))


def test_names_of_features_are_kept_and_compared():
    names = list("abcd")
    made = MLPRegressor(**SMALL, max_iter=1).fit(pd.DataFrame(X, columns=names), Y)
    assert list(made.feature_names_in_) == names
    with pytest.warns(UserWarning, match="names"):
        right = made.predict(X)
    assert np.array_equal(made.predict(pd.DataFrame(X, columns=names)), right)
    with pytest.raises(ValueError):
        made.predict(pd.DataFrame(X, columns=list("abdc")))
    with pytest.raises(TypeError):
        made.fit(pd.DataFrame(X, columns=["a", 1, 2, 3]), Y)
    assert not hasattr(made.fit(X, Y), "feature_names_in_")


def test_a_network_of_layers_is_trained():
    layers = ["conv2d 4 2", "relu", "flatten", "dropout 0.1", "linear 3"]
    some = {**SMALL, "learning_rate_init": 0.01, "max_iter": 40}
    made = MLPClassifier(network=layers, input_shape=(1, 2, 2), **some).fit(X, LABELS)
    assert made.score(X, LABELS) > 0.6


@pytest.mark.parametrize("kind", [{}, {"early_stopping": True}])
def test_without_a_loss_curve_the_network_is_the_same(kind):
    one = MLPRegressor(**SMALL, max_iter=3, **kind).fit(X, Y)
    other = MLPRegressor(**SMALL, max_iter=3, loss_curve=False, **kind).fit(X, Y)
    assert np.array_equal(one.predict(X), other.predict(X)) and bool(other.loss_curve_) == bool(kind)


# ---- on a GPU


@pytest.mark.gpu
@pytest.mark.parametrize("strategy", ["auto", "persistent", "graph", "resident", "pipelined"])
@pytest.mark.parametrize("how", [{}, {"loss_curve": False}, {"early_stopping": True}, {"solver": "sgd"}])
def test_a_gpu_trains_the_network_that_the_cpu_trains(strategy, how):
    for kind, targets in ((MLPRegressor, Y), (MLPClassifier, LABELS)):
        one, other = (
            kind(**SMALL, max_iter=4, device=device, strategy=name, **how).fit(X, targets)
            for device, name in (("cuda", strategy), ("cpu", "auto"))
        )
        np.testing.assert_allclose(one._raw(X), other._raw(X), rtol=1e-3, atol=1e-4)
        assert one.loss_ == pytest.approx(other.loss_, rel=1e-3) and one.n_iter_ == other.n_iter_
        if strategy == "auto":
            assert one.strategy_ == "persistent" and not one.plan_.startswith("graph")


@pytest.mark.gpu
def test_a_gpu_trains_many_settings_in_one_launch():
    settings = {"random_state": [1, 2], "learning_rate_init": [0.001, 0.01], "alpha": [0.0, 1.0]}
    found = {}
    for device in ("cuda", "cpu"):
        found[device], scores = MLPClassifier(**SMALL, max_iter=5, device=device).fit_many(
            X, LABELS, settings
        )
        assert {one.strategy_ for one in found[device]} == {"ensemble"} and len(scores) == 8
    for one, other in zip(*found.values(), strict=True):
        np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X), rtol=1e-2, atol=1e-4)


# ---- with other packages


def torch_models():
    nn = pytest.importorskip("torch").nn
    return {
        "perceptron": (nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)), None),
        "norms": (
            nn.Sequential(
                *(nn.Linear(4, 8), nn.LayerNorm(8), nn.GELU(), nn.Dropout(0.2)),
                *(nn.Linear(8, 6), nn.BatchNorm1d(6), nn.SiLU(), nn.Linear(6, 1)),
            ),
            None,
        ),
        "images": (
            nn.Sequential(
                *(nn.Conv2d(1, 4, 2, padding=1), nn.BatchNorm2d(4), nn.LeakyReLU(), nn.MaxPool2d(2)),
                nn.Sequential(nn.Flatten(), nn.Linear(4, 5, bias=False), nn.ELU()),
                nn.Linear(5, 4),
            ),
            (1, 2, 2),
        ),
    }


@pytest.mark.parametrize("name", ["perceptron", "norms", "images"])
def test_a_model_of_pytorch_gives_equal_outputs_there_and_back(name):
    torch = pytest.importorskip("torch")
    model, shape = torch_models()[name]
    outputs = len([*model.parameters()][-1])
    labels = np.arange(len(X)) % max(outputs, 2)
    images = torch.tensor(X, dtype=torch.float32).reshape(-1, *(shape or (4,)))
    made = MLPClassifier.from_torch(model, shape, max_iter=2, random_state=1)
    for _ in range(2):  # the second time after training
        back = made.to_torch()
        logits = back(images).detach().numpy()
        np.testing.assert_allclose(logits, made._raw(X), atol=1e-6, rtol=1e-6)
        if made.network is model and not hasattr(made, "loss_"):
            np.testing.assert_allclose(logits, model.eval()(images).detach().numpy(), atol=1e-6)
        made.fit(X, labels)


def test_training_starts_from_the_models_weights():
    torch = pytest.importorskip("torch")
    model = torch.nn.Sequential(torch.nn.Linear(4, 1))
    made = MLPRegressor.from_torch(model, max_iter=1, solver="sgd", learning_rate_init=1e-30).fit(X, Y)
    np.testing.assert_array_equal(made.coefs_[0], model[0].weight.detach().numpy().T)


def test_a_model_that_has_no_counterpart_is_an_error_that_names_the_layer():
    nn = pytest.importorskip("torch").nn
    last = nn.Linear(4, 1)
    wrong = {
        "Softmax": nn.Sequential(nn.Linear(4, 4), nn.Softmax(1), last),
        "Linear": nn.Linear(4, 1),
        "GELU": nn.Sequential(nn.Linear(4, 4), nn.GELU(approximate="tanh"), last),
        "Conv2d": nn.Sequential(nn.Conv2d(1, 1, (1, 2)), nn.Flatten(), last),
        "MaxPool2d": nn.Sequential(nn.MaxPool2d(2, 1), nn.Flatten(), last),
        "outputs": nn.Sequential(nn.Linear(4, 2)),
        "input_shape": nn.Sequential(nn.Conv2d(1, 1, 2), nn.Flatten(), last),
        "shapes": nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(3, 1)),
    }
    for named, model in wrong.items():
        with pytest.raises(ConfigError, match=named):
            MLPRegressor.from_torch(model)


def test_without_pytorch_the_error_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    made = MLPRegressor(**SMALL, max_iter=1).fit(X, Y)
    with pytest.raises(ConfigError, match="pip install"):
        made.to_torch()


@pytest.mark.parametrize("kind", [MLPRegressor, MLPClassifier])
def test_scikit_learn_accepts_the_estimator(kind):
    checks = pytest.importorskip("sklearn.utils.estimator_checks")
    checks.check_estimator(kind())
