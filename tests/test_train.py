"""``snn train`` and ``snn predict``: a network that is trained once, saved, and used on new rows."""

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from csv_tables import ONCE
from recommend_calls import ask
from records_of import record

from snn import cli, datasets
from snn.config import compose
from snn.config.cell import SECTIONS, Cell
from snn.datasets import csv_table
from snn.files import outputs
from snn.hardware import devices
from snn.models import saved
from snn.recommending import earlier
from snn.records import store

FEW = ["training.epochs=30", "training.batch_size=16", "device=cpu"]


@pytest.fixture
def table(tmp_path, monkeypatch):
    """A table of 100 rows in the current folder: y = 2 a - b + 5 [kind = "x"]."""
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    rows = [(a, b, "xyz"[i % 3]) for i, (a, b) in enumerate(random.normal(size=(100, 2)) * [10, 0.01])]
    lines = [f"{a},{b},{kind},{2 * a - b + 5 * (kind == 'x')}" for a, b, kind in rows]
    Path("t.csv").write_text("\n".join(["a,b,kind,y", *lines]) + "\n")
    return rows


def trained(*arguments, save="m.npz", more=("--overwrite",)):
    few = [one for one in FEW if not any(other.startswith(one.partition("=")[0]) for other in arguments)]
    return cli.main(["train", "--csv", "t.csv", "--save", save, *few, *arguments, *more])


def predictions(file, capsys, model="m.npz"):
    capsys.readouterr()
    assert cli.main(["predict", model, file]) == 0
    name, *lines = capsys.readouterr().out.splitlines()
    return name, lines


def test_predictions_are_in_the_units_of_the_target_and_in_the_order_of_the_rows(table, capsys):
    assert (
        trained("--target", "y", "--hidden", "8", "dataset.text_columns=one_hot", "training.epochs=200") == 0
    )
    assert "R²" in capsys.readouterr().out
    new = ["unused,kind,b,a", *(f"0,{kind},{b},{a}" for a, b, kind in reversed(table))]
    Path("new.csv").write_text("\n".join(new))
    name, lines = predictions("new.csv", capsys)
    right = [2 * a - b + 5 * (kind == "x") for a, b, kind in reversed(table)]
    assert name == "y" and np.corrcoef(np.array(lines, float), right)[0, 1] > 0.98


def test_a_class_is_predicted_by_its_name(table, capsys):
    Path("two.csv").write_text("".join(f"{a},{b},{'high' if a > 0 else 'low'}\n" for a, b, _ in table))
    chosen = ["--target", "2", "--classify", "dataset.header=false", "training.epochs=100"]
    Path("two.csv").rename("t.csv")
    assert trained(*chosen) == 0
    Path("new.csv").write_text("".join(f"{a},{b}\n" for a, b, _ in table))
    name, lines = predictions("new.csv", capsys)
    right = [line == ("high" if a > 0 else "low") for (a, *_), line in zip(table, lines, strict=True)]
    assert name == "2" and np.mean(right) > 0.95


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("a\n1\n", "'b'"),
        ("a,b,b\n1,2,3\n", "'b'"),
        ("a,b\n1,2\n3,x\n4,5\n", "line 3"),
        ("a,b\n1,2\n3,\n", "line 3"),
        ("1,2\n3,4\n", "header"),
    ],
)
def test_a_file_that_lacks_a_column_or_a_number_is_an_error(table, capsys, text, named):
    Path("n.csv").write_text("a,b,y\n" + "".join(f"{a},{b},{a - b}\n" for a, b, _ in table))
    assert cli.main(["train", "--csv", "n.csv", "--target", "y", "--save", "m.npz", "training.epochs=1"]) == 0
    Path("new.csv").write_text(text)
    capsys.readouterr()
    assert cli.main(["predict", "m.npz", "new.csv"]) == 2
    out, err = capsys.readouterr()
    assert named in err and "new.csv" in err and not out


def test_a_file_without_a_header_may_lack_the_target_or_what_was_left_out(table, capsys):
    rows = [f"{a},{kind},{a - b},{b}" for a, b, kind in table]
    Path("t.csv").write_text("\n".join(rows))
    assert trained("--target", "2", "--drop", "1", "dataset.header=false") == 0
    _, right = predictions("t.csv", capsys)
    for columns in ((0, 1, 3), (0, 3)):
        Path("new.csv").write_text("\n".join(",".join(row.split(",")[i] for i in columns) for row in rows))
        assert predictions("new.csv", capsys)[1] == right
    Path("new.csv").write_text("1,2,3,4,5\n")
    assert cli.main(["predict", "m.npz", "new.csv"]) == 2 and "columns" in capsys.readouterr().err


def test_an_existing_file_is_replaced_only_on_request_and_no_folder_is_made(table, capsys):
    chosen = ["--target", "y", "--drop", "kind", "training.epochs=1"]
    assert trained(*chosen) == 0
    content = Path("m.npz").read_bytes()
    for save in ("m.npz", "no/m.npz"):
        assert trained(*chosen, save=save, more=["--hidden", "3"]) == 2
        assert save in capsys.readouterr().err
    assert Path("m.npz").read_bytes() == content and not Path("no").exists()
    assert trained(*chosen, "--hidden", "3") == 0 and Path("m.npz").read_bytes() != content


def test_the_epoch_whose_weights_are_kept_is_named(table, capsys):
    stopping = ["training.validation=0.2", "training.patience=2", "training.epochs=500"]
    assert trained("--target", "y", "dataset.text_columns=drop", *stopping) == 0
    err = capsys.readouterr().err
    last, best = (int(re.search(f"{before} ([0-9]+)", err)[1]) for before in ("epoch", "after epoch"))
    assert best <= last <= 500 and "kept" in err


def test_auto_takes_the_fastest_of_records_of_the_same_steps(table, monkeypatch, capsys):
    monkeypatch.setattr(earlier, "PROJECT", Path())
    device = devices.find("cpu")
    chosen = ["--target", "y", "--drop", "kind", "--hidden", "3", "training.epochs=2"]
    like = {"network.bias": True, "network.init": "he_uniform", "network.update_order": "simultaneous"}
    like |= {"training.optimizer": "adam", "training.shuffle": "epoch", "training.batch_size": 16}
    csv = {"dataset": "csv", "dataset.path": "other.csv", "dataset.target": "y", "network.hidden": [3]}

    def measure(strategy, seconds, features=2, started="2026-03-01T00:00:00+00:00", **more):
        settings = csv | like | {"device": "cpu", "strategy": strategy, "training.epochs": 9} | more
        cell = compose.composed([f"{key}={value}".replace("True", "true") for key, value in settings.items()])
        cell["device"]["name"] = device.name
        of_cell = Cell({section: cell[section] for section in SECTIONS})
        made = record(of_cell, [seconds], device=device.name, started=started)
        made["data"]["features"] = features
        path = Path(
            f"results/cells/{device.slug}/csv/3-bias/{strategy}-{features}-{'-'.join(more)}-round1.json"
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(store.sealed(made)))

    def auto():
        assert trained(*chosen) == 0
        return re.search(r"strategy=auto: (\w+) (?:is|has) the (\w+) ", capsys.readouterr().err).groups()

    assert trained(*chosen) == 0
    command = re.search(r"snn (recommend .*)", capsys.readouterr().err)[1]
    asked = {
        "--target",
        "y",
        "--drop",
        "kind",
        "--hidden",
        "3",
        "training.optimizer=adam",
        "network.bias=true",
    }
    assert asked <= {*shlex.split(command)}
    layers = ["network=layers", "network.layers=[linear 3, relu, linear 1]"]
    assert trained("--target", "y", "--drop", "kind", "training.epochs=2", *layers) == 0
    command = re.search(r"snn (recommend .*)", capsys.readouterr().err)[1]
    assert {*layers, "training.optimizer=adam"} <= {*shlex.split(command)}
    assert "network.bias" not in command, "only a perceptron has it"
    assert auto() == ("resident", "first")
    measure("blas", 0.1)
    assert auto() == ("resident", "first"), "nothing to compare it with"
    measure("resident", 0.2)
    measure("torch_eager", 0.01)
    assert auto() == ("blas", "shortest"), "no peer"
    later = "2026-04-01T00:00:00+00:00"
    for other in (
        {"training.optimizer": "sgd"},
        {"training.batch_size": 8},
        {"training.shuffle": "none"},
        {"network.update_order": "sequential"},
        {"features": 3},
    ):
        for strategy, seconds in (("threads", 0.01), ("sequential", 0.02)):
            measure(strategy, seconds, started=later, **other)
        assert auto() == ("blas", "shortest"), other
    for strategy, seconds in (("threads", 0.01), ("sequential", 0.02)):
        latest = "2026-05-01T00:00:00+00:00"
        measure(strategy, seconds, started=latest, **{"training.learning_rate": 0.1})
    assert auto() == ("threads", "shortest"), "a later job of the same steps"
    read, whole = [], store.read
    monkeypatch.setattr(store, "read", lambda path: read.append(path) or whole(path))
    assert auto() == ("threads", "shortest")
    assert sorted(path.name.partition("-")[0] for path in read) == ["sequential", "threads"]
    assert len({*Path().glob("results/cells/*/*/*/*.json")}) == 15
    Path(read[0].parent / "text-round1.json").write_text("no record")
    changed = next(path for path in read if path.name.startswith("threads"))
    changed.write_text(changed.read_text().replace("0.01", "0.02"))
    assert auto() == ("blas", "shortest"), "of a job with one record that is whole"


def test_two_columns_of_one_name_are_an_error_before_training(table, capsys):
    Path("t.csv").write_text("a,a,y\n" + "".join(f"{a},{b},{a - b}\n" for a, b, _ in table))
    assert trained("--target", "y") == 2
    assert "'a'" in capsys.readouterr().err and not Path("m.npz").exists()


@pytest.mark.parametrize(
    "content",
    [b"", b"PK\x03\x04", b"some text", "weights", "compressed", "shape", {"columns": [{}]}, {"settings": 1}],
)
def test_a_file_that_holds_no_network_is_an_error(table, content, capsys):
    assert trained("--target", "y", "dataset.text_columns=drop", "training.epochs=1") == 0
    arrays = dict(np.load("m.npz"))
    if isinstance(content, bytes):
        Path("m.npz").write_bytes(content)
    elif isinstance(content, dict):
        model = json.loads(str(arrays["model"])) | content
        np.savez("m.npz", **arrays | {"model": np.array(json.dumps(model))})
    elif content == "weights":
        np.savez("m.npz", W0=arrays["W0"])
    else:
        write = np.savez_compressed if content == "compressed" else np.savez
        write("m.npz", **arrays | ({"W0": arrays["W0"][1:]} if content == "shape" else {}))
    assert cli.main(["predict", "m.npz", "t.csv"]) == 2
    assert "m.npz" in capsys.readouterr().err


def test_a_run_s_weights_predict_like_a_trained_network_and_come_after_the_record(table, capsys, monkeypatch):
    cell = ["dataset=csv", "dataset.path=t.csv", "dataset.target=y", "dataset.text_columns=drop", *ONCE]
    cell += ["strategy=resident", "training.epochs=1", "training.batch_size=16", "data=t.npy"]
    for _ in range(2):  # the second from the prepared data
        assert cli.main(["run", *cell, "weights=w.npz", "output=r.json"]) == 0
    name, lines = predictions("t.csv", capsys, "w.npz")
    network = saved.read(Path("w.npz"))
    X = csv_table.features(Path("t.csv"), network.settings["dataset"], network.columns)
    made = datasets.make(network.settings["dataset"])
    assert sorted(map(tuple, X)) == sorted(map(tuple, made.values[:, :-1])), "the rows that it was trained on"
    assert name == "y" and len(lines) == len(X)

    def full(path, saved):
        with outputs.reported(path):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(saved, "write", full)
    assert cli.main(["run", *cell, "weights=w.npz", "output=other.json"]) == 2
    assert "w.npz" in capsys.readouterr().err and json.loads(Path("other.json").read_text())["status"] == "ok"


def test_a_loss_that_is_not_finite_saves_nothing(table, capsys):
    chosen = [
        "--target",
        "y",
        "dataset.text_columns=drop",
        "training.optimizer=sgd",
        "training.learning_rate=1e9",
    ]
    assert trained(*chosen) == 3
    assert "training.learning_rate" in capsys.readouterr().err and not Path("m.npz").exists()


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        (["--save", "t.csv"], "--save"),
        (["--hidden", "8", "--layers", "linear 1"], "--layers"),
        (["--model", "no_such_module:make"], "--model"),
        (["--model", "net:make", "network.init=he_uniform"], "network.init=he_uniform"),
        (["strategy=no_such"], "no_such"),
        (["strategy=ensemble"], "ensemble"),
        (["kernel=tiled"], "kernel"),
        (["protocol.runs=3"], "protocol"),
        ([], "--save"),
    ],
)
def test_a_command_that_cannot_train_says_why(table, wrong, named, capsys):
    save = [] if "--save" in wrong or not wrong else ["--save", "m.npz"]
    assert (
        cli.main(["train", "--csv", "t.csv", "--target", "y", "dataset.text_columns=drop", *save, *wrong])
        == 2
    )
    assert named in capsys.readouterr().err


def test_a_model_of_pytorch_is_trained_from_its_weights_and_recommended_for(table, monkeypatch, capsys):
    torch = pytest.importorskip("torch")
    factories = {
        "make": "nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))",
        "large": "nn.Sequential(nn.Linear(9, 1))",
        "wrong": "nn.Sequential(nn.Softmax(1))",
        "bare": "nn.Sequential(nn.Linear(2, 3, False), nn.Tanh(), nn.Linear(3, 1, False))",
        "mixed": "nn.Sequential(nn.Linear(2, 3, False), nn.Tanh(), nn.Linear(3, 1))",
    }
    lines = [f"def {name}():\n    return {model}" for name, model in factories.items()]
    Path("my_net.py").write_text("\n".join(["from torch import nn", *lines]))
    monkeypatch.syspath_prepend(".")
    torch.manual_seed(1)
    chosen = [
        "--target",
        "y",
        "dataset.text_columns=drop",
        "training.learning_rate=1e-30",
        "training.optimizer=sgd",
    ]
    assert trained(*chosen, "--model", "my_net:make") == 0
    network = saved.read(Path("m.npz"))
    torch.manual_seed(1)
    weights = [one.detach().numpy() for one in torch.nn.Linear(2, 3).parameters()]
    assert np.array_equal(network.weights[0].T, weights[0]) and np.array_equal(network.weights[1], weights[1])
    for wrong, named in {
        "my_net:large": "shapes",
        "my_net:mixed": "bias",
        "my_net:wrong": "Softmax",
        "my_net": "--model",
    }.items():
        assert trained(*chosen, "--model", wrong) == 2
        assert named in capsys.readouterr().err
    assert trained(*chosen, "--model", "my_net:bare") == 0
    assert [W.shape for W in saved.read(Path("m.npz")).weights] == [(2, 3), (3, 1)]
    asked = ask(["--csv", "t.csv", *chosen[:3], "--model", "my_net:make"])
    assert asked.sweep["network.layers"] == [["linear 3", "tanh", "linear 1"]]
    assert asked.cell["network"]["init"] == "pytorch"


def test_a_chosen_strategy_that_cannot_train_is_named(table, capsys):
    assert trained("--target", "y", "dataset.text_columns=drop", "strategy=graph") == 2
    assert "strategy=graph cannot train this: CUDA graphs need a CUDA device" in capsys.readouterr().err
    assert not Path("m.npz").exists()
