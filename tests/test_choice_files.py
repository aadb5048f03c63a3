"""What is said to the author of a new choice whose file in config/ lacks something, or is not there."""

import pytest
import yaml

from snn.config import groups
from snn.config.compose import composed
from snn.errors import ConfigError
from snn.grid import sweeps
from snn.hardware.devices import Device


@pytest.mark.parametrize(
    ("name", "said"),
    [({"name": "reference"}, "is 'reference'"), ({"name": "pinedd"}, "is 'pinedd'"), ({}, "is missing")],
)
def test_a_file_that_does_not_give_its_own_name_is_named(tmp_path, monkeypatch, name, said):
    """As a new choice's file does that was copied from another's."""
    of_pinned = {key: value for key, value in groups.load("strategy", "pinned").items() if key != "name"}
    read = groups.load
    monkeypatch.setattr(
        groups,
        "load",
        lambda group, choice: of_pinned | name if choice == "pinned" else read(group, choice),
    )
    message = f"config/strategy/pinned.yaml: name {said}: it must be pinned, the name of the file"
    with pytest.raises(ConfigError) as refused:
        composed(["strategy=pinned"])
    assert str(refused.value) == message
    grid = tmp_path / "grid.yaml"
    grid.write_text(yaml.safe_dump({"sweeps": {"mine": {"strategy": ["reference", "pinned"]}}}))
    with pytest.raises(ConfigError) as refused:
        sweeps.read(grid, Device("cpu", "a CPU"))
    assert message in str(refused.value)


KERNEL_KEYS = "name, source, block, work, fused, pretransposed, precisions"


@pytest.mark.parametrize(
    ("group", "choice", "changed", "said"),
    [
        (
            "strategy",
            "pinned",
            {"_target_": None},
            "_target_ is missing: it must name the strategy's class, ",
        ),
        ("strategy", "pinned", {"_target_": "Pinned"}, "_target_ is 'Pinned': it must name the strategy's "),
        (
            "strategy",
            "pinned",
            {"_target_": "snn.strategies.pined.Pinned"},
            "_target_ is 'snn.strategies.pined.Pinned', but there is no file snn/strategies/pined.py",
        ),
        (
            "strategy",
            "pinned",
            {"_target_": "snn.strategies.pinned.Pined"},
            "but snn/strategies/pinned.py has no Pined (did you mean snn.strategies.pinned.Pinned?)",
        ),
        (
            "dataset",
            "small",
            {"_target_": None},
            "it must name the function that makes the data, as snn.data",
        ),
        (
            "kernel",
            "tiled",
            {"work": None, "fused": None},
            f"work, fused are missing: a kernel has {KERNEL_KEYS}",
        ),
        (
            "kernel",
            "tiled",
            {"sorce": 1},
            "'sorce' is not a key of a kernel (did you mean source?): one of name, ",
        ),
        (
            "kernel",
            "tiled",
            {"source": "kernels/tild.cu"},
            "source is 'kernels/tild.cu': it must be a file, as ",
        ),
        ("kernel", "tiled", {"fused": "no"}, "fused is 'no': it must be true or false"),
        (
            "kernel",
            "tiled",
            {"precisions": ["fp64"]},
            "precisions is ['fp64']: it must be a list of one or more ",
        ),
        (
            "protocol",
            "brief",
            {"round": 1},
            "'round' is not a key of a protocol (did you mean rounds?): one of rounds, runs, min_runs",
        ),
        ("protocol", "brief", {"runs": None}, "runs is missing: a protocol has rounds, runs, min_runs"),
        ("precision", "bf16", {"bits": 16}, "'bits' is not a key of a precision: one of name"),
        ("network", "mlp", {"init": None}, "init is missing: a network has hidden, init, update_order"),
        ("network", "cnn", {"loss": None}, "loss is missing: a network has layers, loss, init, update_order"),
    ],
)
def test_what_is_wrong_in_a_choices_file_is_named(tmp_path, monkeypatch, group, choice, changed, said):
    """Of a new choice of which its author forgot something; None stands for a key that is not there."""
    read = groups.load
    content = {
        key: one for key, one in (read(group, choice) | changed).items() if changed.get(key, 1) is not None
    }
    monkeypatch.setattr(
        groups, "load", lambda g, name: dict(content) if (g, name) == (group, choice) else read(g, name)
    )
    grid = tmp_path / "grid.yaml"
    grid.write_text(yaml.safe_dump({"sweeps": {"mine": {group: choice}}}))
    for refuse in (
        lambda: composed([f"{group}={choice}", "device=cpu"]),
        lambda: sweeps.read(grid, Device("cpu", "a CPU")),
    ):
        with pytest.raises(ConfigError) as refused:
            refuse()
        assert f"config/{group}/{choice}.yaml: " in str(refused.value)
        assert said in str(refused.value)


@pytest.mark.parametrize(("text", "given"), [("", "empty"), ("- a", "['a']"), ("a", "'a'")])
def test_a_choices_file_without_keys_is_named(tmp_path, monkeypatch, text, given):
    (tmp_path / "dataset").mkdir()
    (tmp_path / "dataset/mine.yaml").write_text(text)
    monkeypatch.setattr(groups, "CONFIG", tmp_path)
    with pytest.raises(ConfigError, match="must be keys with values, as KEY: VALUE") as refused:
        groups._file.__wrapped__("dataset", "mine")
    assert str(refused.value).startswith(f"config/dataset/mine.yaml is {given}: ")


def test_code_without_a_choices_file_is_named(tmp_path, monkeypatch):
    (tmp_path / "snn/strategies").mkdir(parents=True)
    (tmp_path / "snn/strategies/mine.py").touch()
    monkeypatch.setattr(groups, "ROOT", tmp_path)
    right = "snn/strategies/mine.py is there, but a choice is a file, config/strategy/mine.yaml"
    with pytest.raises(ConfigError, match=right):
        composed(["strategy=mine"])
    with pytest.raises(ConfigError, match="did you mean reference"):
        composed(["strategy=refrence"])
    grid = tmp_path / "grid.yaml"
    grid.write_text(yaml.safe_dump({"sweeps": {"mine": {"strategy": ["reference", "mine"]}}}))
    with pytest.raises(ConfigError, match=right):
        sweeps.read(grid, Device("cpu", "a CPU"))
