"""Names of cells, records and data sets: from what is chosen, and the digest of all of it."""

import hashlib
import json

import pytest
from test_grid import sweeps_of

from snn.config import groups
from snn.config.cell import Cell
from snn.errors import ConfigError
from snn.grid import fingerprint, naming

CELL = Cell(
    {
        "device": {"backend": "cuda", "name": "NVIDIA H200"},
        "dataset": {"name": "small"},
        "network": {"hidden": [8, 4]},
        "strategy": {"name": "pinned", "_target_": "snn.strategies.pinned.Pinned"},
        "kernel": {"name": "tiled"},
        "protocol": {"rounds": 3},
    }
)


def test_a_cell_is_named_by_its_choices_and_the_digest_of_all_of_it():
    text = json.dumps(CELL, sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    assert naming.digest(CELL) == naming.digest(dict(reversed(CELL.items()))) == digest
    name = f"nvidia-h200/small/8-4/pinned-tiled-{digest}"
    moved = {"name": "pinned", "_target_": "snn.strategies.elsewhere.Pinned"}
    assert CELL.name == (CELL | {"strategy": moved}).name == name
    paths = [f"results/cells/{name}-round{number}.json" for number in (1, 2, 3, 4)]
    assert naming.record_paths(CELL) == naming.record_paths(CELL, name, 2) == paths[:3]
    assert naming.record_paths(CELL, rounds=4) == paths
    assert naming.record_paths(CELL, "x") == [f"results/cells/x-round{number}.json" for number in (1, 2, 3)]
    assert list(CELL.rounds) == [1, 2, 3]


def test_an_output_is_the_path_of_the_cell_that_runs(tmp_path):
    (cell,) = sweeps_of(tmp_path, {"x": {"protocol.rounds": 2}})["x"].cells
    first, second = naming.record_paths(cell)
    settings = cell | {"round": 1, "output": f"/somewhere/{first}"}
    naming.check_planned(settings)
    naming.check_planned(settings | {"round": 2, "output": second})
    for other in (second, first.replace("-round1", "0-round1"), "results/cells/x.json"):
        with pytest.raises(ConfigError) as caught:
            naming.check_planned(settings | {"output": other})
        assert str(caught.value) == f"output is {other!r}, but this cell and round belong to {first}"
    naming.check_planned(settings | {"output": "elsewhere.json"})
    naming.check_planned(settings | {"output": second, "device": cell["device"] | {"name": None}})
    whole = cell | {"protocol": cell["protocol"] | {"rounds": 1}}
    naming.check_planned(settings | {"round": None, "output": naming.record_paths(whole)[0]})
    with pytest.raises(ConfigError, match="belong to"):
        naming.check_planned(settings | {"round": None, "output": first})


FEWER, LEFT_OUT = "has fewer rounds than planned: ", "is left out: "


@pytest.mark.parametrize(
    ("there", "kept", "said"),
    [
        ("123", True, ""),
        ("12", True, f"{FEWER}1 of its 3 records are missing"),
        ("", False, f"{LEFT_OUT}3 of its 3 records are missing"),
        ("13", True, f"{FEWER}1 of its 3 records are missing, 1 after a missing round is not used"),
        ("13", False, f"{LEFT_OUT}1 of its 3 records are missing"),
        ("23", True, f"{FEWER}1 of its 3 records are missing, 2 after a missing round are not used"),
    ],
)
def test_missing_records_are_counted(there, kept, said):
    paths = [naming.record_path("x", int(number)) for number in there]
    assert naming.said_of_missing(paths, {"x": CELL}, kept) == said
    others = naming.record_paths(CELL, "y")
    assert naming.said_of_missing([*paths, *others], {"x": CELL, "y": CELL}, kept) == said.replace(
        "its 3", "its 6"
    )


def test_a_data_set_is_named_by_its_keys_and_its_code(monkeypatch):
    cell = Cell({"dataset": groups.load("dataset", "small")})
    path = naming.dataset_path(cell)
    made_of = {"dataset": cell["dataset"], "code": fingerprint.dataset_digest(cell["dataset"])}
    assert path == f"results/datasets/small-{naming.digest(made_of)}.npy"
    assert naming.dataset_path(cell.replace(dataset={"seed": 99})) != path
    monkeypatch.setattr(fingerprint, "dataset_digest", lambda dataset: "other")
    assert naming.dataset_path(cell) != path
