"""Many networks side by side: each member ends as it does alone, with its own rate, decay, rows and order."""

import json
from contextlib import closing
from dataclasses import replace

import jsonschema
import numpy as np
import pytest
from conftest import ROOT
from hypothesis import given
from hypothesis import strategies as st
from records_of import record
from test_ensemble import SMALL, THRESHOLDS, planned, record_of_members
from test_strategies import Device

from snn.analysis import frame
from snn.analysis.cell_line import line
from snn.backends.cpu.backend import CpuBackend
from snn.config import compose, groups
from snn.errors import Unsupported
from snn.measurement import cell
from snn.models.glibc_random import GlibcRandom
from snn.models.layers import LayerNorm, Linear, ReLU
from snn.models.losses import CROSS_ENTROPY, LOSSES
from snn.models.members import Member, on_rows
from snn.models.network import Network, draw_weights, mlp
from snn.models.optimizers import Adam, AdamW, Sgd
from snn.models.schedules import Cosine
from snn.profiling.calls import NullBackend
from snn.profiling.observed import ObservedBackend
from snn.strategies import factory
from snn.tables.sweep import learning_rates, members

NAMES = ("ensemble", "jax_vmap", "torch_bmm")
EPOCHS, ROWS, BATCH = 3, 23, 5
NETWORKS = {
    "plain": mlp((4, 7, 1), init="he_uniform"),
    "momentum": mlp((4, 6, 1), bias=True, activation="silu", init="he_uniform", optimizer=Sgd(0.9, True)),
    "adam": mlp((4, 6, 5, 1), True, "tanh", init="he_uniform", optimizer=Adam(), order_seed=9),
    "schedule": mlp(
        *((4, 6, 1), True, "tanh"),
        init="he_uniform",
        update_order="simultaneous",
        optimizer=Adam(schedule=Cosine(warmup_steps=3), clip_norm=0.5),
        run_steps=EPOCHS * -(-ROWS // BATCH),
    ),
    "adamw": mlp((4, 6, 1), True, "gelu", init="he_uniform", optimizer=AdamW(), order_seed=9),
}
LISTS = {
    "rates": {"seeds": [3, 1], "learning_rates": [0.01, 0.02], "weight_decays": [0.0, 0.1]},
    "folds": {"seeds": [3, 1], "folds": 3},
    "bootstraps": {"bootstraps": 2, "starts": 2},
}


def data_of(network):
    random = np.random.default_rng(1)
    return [random.normal(size=(ROWS, width)).astype(np.float32) for width in (4, network.outputs)]


def made(name, backend=None, **options):
    if name != "ensemble":
        pytest.importorskip(name.partition("_")[0])
    return factory.make(groups.load("strategy", name) | {"starts": 1} | options, backend or CpuBackend())


def ended(strategy, network, X, Y, rate, weights=None):
    with closing(strategy):
        try:
            strategy.check_network(network)
            strategy.setup(network, X, Y, min(BATCH, len(X)), rate)
        except Unsupported as error:
            if strategy.backend.is_processor:
                raise
            pytest.skip(str(error))
        strategy.load(weights or next(strategy.starts(network, 9)))
        strategy.train(EPOCHS)
        return strategy.weights(), strategy.losses(), strategy.members(9)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("network", "lists"), [(a, b) for a in NETWORKS for b in LISTS])
def test_each_member_ends_as_it_does_alone(name, backend, network, lists):
    network, (X, Y) = NETWORKS[network], data_of(NETWORKS[network])
    weights, losses, records = ended(made(name, backend, **LISTS[lists]), network, X, Y, 0.015)
    each = [weights[i : i + len(network.shapes)] for i in range(0, len(weights), len(network.shapes))]
    assert len(each) == len(losses) == len(records)
    for own, loss, one in zip(each, losses, records, strict=True):
        member, random = Member(**one), GlibcRandom(one["seed"])
        start = [draw_weights(network, random) for _ in range(member.start)][-1]
        rows = member.rows(ROWS, 3)
        data = (X, Y) if rows is None else (X[rows], Y[rows])
        alone = factory.make(groups.load("strategy", "resident"), CpuBackend())
        of_member = on_rows(member.network(network), ROWS, len(data[0]), BATCH)
        expected, (expected_loss,), _ = ended(alone, of_member, *data, member.learning_rate, start)
        assert loss == pytest.approx(expected_loss, rel=1e-5, abs=1e-7)
        found, right = (np.concatenate([W.ravel() for W in one]) for one in (own, expected))
        assert np.linalg.norm(found - right) <= 1e-5 * np.linalg.norm(right)


@pytest.mark.parametrize("name", NAMES)
def test_runs_are_alike_and_epochs_add_up_to_a_run(name):
    network = NETWORKS["adam"]
    with closing(made(name, seeds=[3, 1])) as strategy:
        strategy.setup(network, *data_of(network), BATCH, 0.01)
        weights, found = next(strategy.starts(network, 9)), []
        for by in (lambda: strategy.train(2), lambda: [strategy.epoch() for _ in range(2)]):
            strategy.load(weights)
            assert np.isnan(strategy.losses()).all()
            by()
            found.append(strategy.weights())
        assert all(np.array_equal(a, b) for a, b in zip(*found, strict=True))
        with pytest.raises(Unsupported):
            strategy.predict(np.zeros((1, 4), np.float32))
    strategy.close()


@pytest.mark.parametrize("name", NAMES)
def test_a_classification_has_the_members_mean_loss_of_each_batch(name):
    network = Network((4,), (Linear(6), ReLU(), Linear(3)), CROSS_ENTROPY, init="he_uniform")
    X, Y = data_of(network)
    Y = np.eye(3, dtype=np.float32)[Y.argmax(axis=1)]
    found = []
    for options in ({"seeds": [3, 1]}, {"seeds": [3]}, {"seeds": [1]}):
        strategy = made(name, **options)
        strategy.keeps_losses = True
        with closing(strategy):
            strategy.setup(network, X, Y, BATCH, 0.1)
            strategy.load(next(strategy.starts(network, 9)))
            strategy.epoch()
            found.append(strategy.epoch_losses())
    assert len(found[0]) == -(-ROWS // BATCH)
    assert found[0] == pytest.approx((found[1] + found[2]) / 2, rel=1e-5)


@pytest.mark.parametrize("loss", ["huber", "binary_cross_entropy"])
@pytest.mark.parametrize(
    "changed", [{"clip_norm": 0.05}, {"update_order": "simultaneous", "reduction": "sum"}]
)
def test_pytorchs_members_end_as_those_of_ensemble_with_other_losses_and_clipping(loss, changed):
    layers = Linear(6, True), ReLU(), Linear(1, True)
    network = Network((4,), layers, LOSSES[loss], init="he_uniform", **changed)
    X, Y = data_of(network)
    options = {"seeds": [3, 1], "learning_rates": [0.01, 0.02]}
    (own, losses, _), (expected, others, _) = (
        ended(made(name, **options), network, X, (Y > 0).astype(np.float32), 0.01)
        for name in ("torch_bmm", "ensemble")
    )
    assert losses == pytest.approx(others, rel=1e-5)
    assert all(np.allclose(a, b, rtol=1e-5, atol=1e-6) for a, b in zip(own, expected, strict=True))


def test_pytorchs_members_have_linear_layers_and_activations():
    layers = Linear(6), LayerNorm(), Linear(1)
    with pytest.raises(Unsupported, match="layernorm"):
        made("torch_bmm").check_network(Network((4,), layers, LOSSES["huber"]))


@given(rows=st.integers(2, 200), folds=st.integers(2, 10))
def test_folds_have_one_size_and_no_row_in_common(rows, folds):
    kept = [Member(1, "", 1.0, 1, fold=i + 1).rows(rows, folds) for i in range(folds)]
    left = [np.setdiff1d(np.arange(rows), one) for one in kept]
    assert {len(one) for one in left} == {rows // folds}
    assert len(np.unique(np.concatenate(left))) == rows // folds * folds


@given(rows=st.integers(1, 200), number=st.integers(1, 1000))
def test_a_bootstrap_sample_has_as_many_rows_and_is_the_same_every_time(rows, number):
    first, again = (Member(1, "", 1.0, 1, bootstrap=number).rows(rows, 0) for _ in range(2))
    assert np.array_equal(first, again)
    assert len(first) == rows and set(first) <= set(range(rows))


def test_bootstrap_samples_leave_out_a_share_of_1_over_e():
    shares = [
        len(set(Member(1, "", 1.0, 1, bootstrap=i + 1).rows(1000, 0).tolist())) / 1000 for i in range(50)
    ]
    assert np.mean(shares) == pytest.approx(1 - np.exp(-1), abs=0.005)


@pytest.mark.parametrize(
    ("options", "key"), [({"weight_decays": [0.1]}, "weight_decays"), ({"folds": 2}, "folds")]
)
def test_on_a_device_members_with_decays_or_rows_of_their_own_are_held_whole(options, key):
    network = NETWORKS["plain"]
    with closing(made("ensemble", ObservedBackend(NullBackend(Device())), **options)) as strategy:
        strategy.setup(network, *data_of(network), BATCH, 0.01)
        assert f"no perceptron in one launch: strategy.{key}" in strategy.plan


def test_a_cell_names_what_differs_from_before_there_was_a_choice():
    usual = compose.composed(["strategy=ensemble", "strategy.weight_decays=[]", "strategy.folds=0"])
    assert not usual["strategy"].keys() & {"weight_decays", "folds", "bootstraps"}
    other = compose.composed(["strategy=ensemble", "strategy.weight_decays=[0,1]"])
    assert other["strategy"]["weight_decays"] == [0.0, 1.0]


SHORT = ["device=cpu", "network.hidden=[8]", "network.init=he_uniform", "training.epochs=2"]
SHORT += ["protocol.runs=1", "protocol.warmup_seconds=0", "protocol.max_warmup_seconds=0"]


def recorded(*arguments):
    found = json.loads(json.dumps(cell.run(compose.composed([*SHORT, *arguments]))))
    jsonschema.validate(found, json.loads((ROOT / "snn/records/record.schema.json").read_text()))
    return found


def test_a_record_has_each_members_settings_and_its_score_on_its_fold(tmp_path):
    lists = ["strategy.starts=1", "strategy.weight_decays=[0,0.1]", "strategy.folds=2"]
    lists.append("training.batch_size=128")
    found = recorded("strategy=ensemble", *lists, f"weights={tmp_path}/best.npz")
    assert [(one["weight_decay"], one["fold"]) for one in found["members"]] == [
        *((0.0, 1), (0.0, 2)),
        *((0.1, 1), (0.1, 2)),
    ]
    scores = [one["score"] for one in found["members"]]
    assert found["best_member"] == 1 + scores.index(max(scores))
    X, Y = SMALL
    network, best = mlp((32, 8, 1)), found["members"][found["best_member"] - 1]
    left = Member(**{key: value for key, value in best.items() if key != "score"}).left_out(len(X), 2)
    with np.load(tmp_path / "best.npz") as weights:
        assert [weights[one.name].shape for one in network.parameters] == network.shapes
        outputs = np.maximum(X[left] @ weights["W0"], 0) @ weights["W2"]
    assert f"member {found['best_member']} is the best with score {max(scores):.4g}" in line(
        found, THRESHOLDS
    )
    errors = np.square(outputs - Y[left]).sum() / np.square(Y[left] - Y[left].mean()).sum()
    assert max(scores) == pytest.approx(1 - errors, rel=1e-4)


def test_a_table_has_the_mean_score_of_each_rate_and_decay_over_the_folds(tmp_path):
    lists = {"learning_rates": [0.001, 0.01], "weight_decays": [0.0, 0.1], "folds": 3}
    of_strategy = {f"strategy.{key}": value for key, value in lists.items()}
    settings = {"strategy": "ensemble", "strategy.starts": 1, "training.batch_size": 128, **of_strategy}
    (one,) = planned(tmp_path, settings)
    where = record(one, [1.0])["provenance"]
    found = record_of_members(one, [0.001] * 12, 1, (2.0,) * 12, 3, where)
    with closing(made("ensemble", **lists)) as strategy:
        strategy.setup(NETWORKS["plain"], *data_of(NETWORKS["plain"]), BATCH, 0.01)
        found["members"] = [member | {"score": i / 12} for i, member in enumerate(strategy.members(1))]
    table = learning_rates.build(frame.tabulate({"a": found}, THRESHOLDS), {}, THRESHOLDS)
    assert table["trainings"].tolist() == [3] * 4
    assert table["weight_decay"].tolist() == [0.0, 0.1] * 2
    assert table["score"].tolist() == pytest.approx([1 / 12, 4 / 12, 7 / 12, 10 / 12])


def test_one_member_of_a_classification_has_its_accuracy_as_its_score():
    layers = ["dataset=patterns", "dataset.rows=64", "dataset.test_rows=32", "network=layers"]
    layers += [
        "network.layers=[linear 4,relu,linear 10]",
        "network.loss=cross_entropy",
        "training.batch_size=32",
    ]
    short = [one for one in SHORT if not one.startswith("network.hidden")]
    found = cell.run(compose.composed([*short, *layers, "strategy=ensemble", "strategy.starts=1"]))
    assert found["status"] == "ok" and "test_accuracy" not in found["runs"][0]
    assert 0 <= found["members"][0]["score"] <= 1


def test_without_test_rows_the_best_member_has_the_smallest_loss():
    found = recorded("strategy=ensemble", "strategy.starts=1", "strategy.learning_rates=[1e10,0.001,1e-9]")
    assert found["runs"][0]["member_mse"][0] is None
    assert found["best_member"] == 2 and not any("score" in one for one in found["members"])


def test_without_a_finite_score_the_best_member_has_the_smallest_loss(tmp_path):
    few = ["dataset.rows=5", "training.batch_size=4", f"weights={tmp_path}/best.npz"]
    found = recorded("strategy=ensemble", "strategy.starts=1", "strategy.folds=5", *few)
    losses = found["runs"][0]["member_mse"]
    assert [one["score"] for one in found["members"]] == [None] * 5, "R^2 on a single row"
    assert found["best_member"] == 1 + losses.index(min(losses)) and (tmp_path / "best.npz").exists()


def test_weights_that_are_not_written_are_mentioned(tmp_path, capsys):
    rate, file = "strategy.learning_rates=[1e30]", tmp_path / "best.npz"
    found = recorded("strategy=ensemble", "strategy.starts=1", rate, f"weights={file}")
    assert found["status"] == "diverged" and not file.exists()
    assert f"weights={file}" in capsys.readouterr().err


def test_the_weights_of_one_network_are_those_of_the_last_run(tmp_path):
    assert "best_member" not in recorded("strategy=resident", f"weights={tmp_path}/some.npz")
    with np.load(tmp_path / "some.npz") as weights:
        shapes = {name: weights[name].shape for name in weights if name != "model"}
    assert shapes == {"W0": (32, 8), "W2": (8, 1)}


def test_the_table_of_members_compares_with_the_best_peer_of_the_same_members(tmp_path):
    cells = planned(tmp_path, {"strategy": ["ensemble", "jax_vmap"], "strategy.starts": [1, 4]})
    where = record(cells[0], [1.0])["provenance"]
    records = {}
    for one in cells:
        starts = one["strategy"]["starts"]
        records[one.name] = record_of_members(one, [0.002], starts, (41.0,) * starts, 3, where)
        records[one.name]["runs"] = [
            run | {"seconds": 8.0 if one.strategy == "jax_vmap" else 2.0 * starts}
            for run in records[one.name]["runs"]
        ]
    table = members.build(frame.tabulate(records, THRESHOLDS), {}, THRESHOLDS)
    table = table.set_index(["strategy", "members"])
    assert table["speedup_over_best_peer"].to_dict() == pytest.approx(
        {("ensemble", 1): 4.0, ("ensemble", 4): 1.0, ("jax_vmap", 1): 1.0, ("jax_vmap", 4): 1.0}
    )
    assert set(table["best_peer"]) == {"jax_vmap"}


def test_members_rows_may_be_fewer_than_a_batch():
    network = replace(NETWORKS["plain"], order_seed=2)
    (X, Y), lists = data_of(network), {"folds": 2}
    with closing(made("ensemble", **lists)) as strategy:
        strategy.setup(network, X, Y, ROWS, 0.01)
        strategy.load(next(strategy.starts(network, 1)))
        strategy.train(1)
        assert np.isfinite(strategy.losses()).all()
