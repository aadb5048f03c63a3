"""What is said to the author of a new choice whose file in config/ lacks something, or is not there."""

import pytest
from test_grid import sweeps_of
from test_refusals import cases

from snn.config import choices, groups
from snn.config.compose import composed
from snn.errors import ConfigError

CHANGED = r"""
    strategy/pinned _target_= => _target_ is missing: it must name the strategy's class,
    strategy/pinned _target_=Pinned => _target_ is 'Pinned': it must name the strategy's
    strategy/pinned _target_=snn.strategies.pined.Pinned => there is no file snn/strategies/pined.py
    strategy/pinned _target_=snn.strategies.cpu.Blass => snn/strategies/cpu.py has no Blass (did you
    strategy/pinned name=reference => name is 'reference': it must be pinned, the name of the file
    strategy/pinned name=pinedd => name is 'pinedd': it must be pinned, the name of the file
    strategy/pinned name= => name is missing: it must be pinned, the name of the file
    dataset/small _target_= => it must name the function that makes the data, as snn.data
    kernel/tiled work= => work is missing: a kernel has name, source, block, work, fused, pretransposed, prec
    kernel/tiled sorce=1 => 'sorce' is not a key of a kernel (did you mean source?): one of name,
    kernel/tiled source=kernels/tild.cu => source is 'kernels/tild.cu': it must be a file, as
    kernel/tiled fused=no => fused is 'no': it must be true or false
    kernel/tiled precisions=fp64 => precisions is 'fp64': it must be a list of one or more
    protocol/brief round=1 => 'round' is not a key of a protocol (did you mean rounds?): one of rounds, runs
    protocol/brief runs= => runs is missing: a protocol has rounds, runs, min_runs
    precision/bf16 bits=16 => 'bits' is not a key of a precision: one of name
    network/mlp init= => init is missing: a network has hidden, init, update_order
    network/cnn loss= => loss is missing: a network has layers, loss, init, update_order
"""


@pytest.mark.parametrize(("changed", "said"), cases(CHANGED))
def test_what_is_wrong_in_a_choices_file_is_named(tmp_path, monkeypatch, changed, said):
    """Its author forgot something, or copied another's file. A key without a value is left out."""
    (group, choice), (key, value) = (
        part.split(sign) for part, sign in zip(changed.split(), "/=", strict=True)
    )
    read = groups.load
    content = {k: v for k, v in (read(group, choice) | {key: value}).items() if k != key or value}
    monkeypatch.setattr(
        groups, "load", lambda g, name: dict(content) if (g, name) == (group, choice) else read(g, name)
    )
    for refuse in (
        lambda: composed([f"{group}={choice}", "device=cpu"]),
        lambda: sweeps_of(tmp_path, {"mine": {group: choice}}),
    ):
        with pytest.raises(ConfigError) as refused:
            refuse()
        assert f"config/{group}/{choice}.yaml: " in str(refused.value)
        assert said in str(refused.value)


def test_a_choices_file_that_lacks_two_keys_is_told_both():
    content = {key: 1 for key in groups.load("protocol", "paper") if key not in ("runs", "rounds")}
    with pytest.raises(ConfigError, match="rounds, runs are missing: a protocol has rounds, runs, min_runs"):
        choices.check_file("protocol", "paper", content)


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
    with pytest.raises(ConfigError, match=right):
        sweeps_of(tmp_path, {"mine": {"strategy": ["reference", "mine"]}})
