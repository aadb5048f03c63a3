"""Devices that are planned by name: which cells there are of each, and what is no name of one."""

import json

import pytest
import yaml
from strangers import CPUS
from test_refusals import cases

from snn.errors import ConfigError
from snn.grid import naming, plans
from snn.hardware.devices import Device

H100, H200 = "NVIDIA H100 80GB HBM3", "NVIDIA H200"
CPU = Device("cpu", "Abacus 9")
HERE = Device("cuda", "NVIDIA L4", "GPU-1", "580.1")


@pytest.fixture
def read(tmp_path, monkeypatch):
    """The plans of a grid, by their folders, on a machine whose GPU and CPU are these."""
    monkeypatch.setattr(plans, "find", {"cpu": CPU, "auto": HERE, "cuda": HERE}.__getitem__)
    monkeypatch.setattr(plans.sweeps, "find", {"cpu": CPU}.__getitem__)
    monkeypatch.setattr(plans, "gpus_here", lambda: [HERE])

    def plans_of(asked=None, **grid):
        path = tmp_path / "grid.yaml"
        path.write_text(yaml.safe_dump(grid, sort_keys=False))
        return {plan.folder: plan for plan in plans.read(path, asked or {})}

    return plans_of


def refused(read, asked=None, **grid):
    with pytest.raises(ConfigError) as caught:
        read(asked, **{"sweeps": {"x": {}}} | grid)
    return str(caught.value)


def strategies(plan, sweep="x"):
    return [cell["strategy"]["name"] for cell in plan.sweeps[sweep].cells]


def test_without_names_there_is_one_plan_for_this_machine_and_no_folder(read):
    for asked, grid, device in (
        ({}, {}, HERE),
        ({}, {"device": "cpu"}, CPU),
        ({"device": "cpu"}, {"devices": [H200]}, CPU),
        ({"device": ""}, {"device": "cpu"}, CPU),
    ):
        found = read(asked, **grid, sweeps={"x": {"strategy": ["reference", "blas"]}})
        assert [plan.device for plan in found.values()] == [device] and list(found) == [""]
        assert strategies(found[""]) == ["reference", "blas"]


def test_tables_of_this_machine_have_the_folder_that_is_asked_for(read):
    assert list(read({"folder": "mine", "device": "cpu"}, sweeps={"x": {}})) == ["mine/"]
    of_named = read({"devices": "cpu"}, sweeps={"x": {}}).values()
    assert {plan.by_name for plan in of_named} == {True}
    assert {plan.by_name for plan in read({"folder": "mine"}, sweeps={"x": {}}).values()} == {False}
    for folder in ("", "a/b", "..", "A", "x" * 65, 3, ["a"]):
        assert refused(read, {"folder": folder}).startswith("--config folder is ")
    said = refused(read, {"folder": "mine"}, sweeps={"x": {"devices": [H200]}, "y": {}})
    assert "--config folder is 'mine'" in said and "nvidia-h200" in said


def test_a_grid_names_devices_and_each_has_cells_of_its_own(read):
    grid = {
        "on_cpu": {"training.epochs": 5},
        "sweeps": {"x": {"training.epochs": 7, "on_cpu": {"training.epochs": 3}}},
    }
    found = read(devices=[H100, H200, "cpu"], **grid)
    assert list(found) == ["nvidia-h100-80gb-hbm3/", "nvidia-h200/", "cpu-abacus-9/"]
    epochs = {folder: plan.sweeps["x"].cells[0]["training"]["epochs"] for folder, plan in found.items()}
    assert list(epochs.values()) == [7, 7, 3]
    for folder, plan in found.items():
        (name,) = plan.cells
        assert naming.record_path(name, 1).startswith(f"results/cells/{folder}")
        assert plan.cells[name]["device"] == {"backend": plan.device.backend, "name": plan.device.name}
        assert plan.device.uuid is None


def test_a_sweep_may_name_its_own_and_the_command_line_comes_first(read):
    grid = {"device": "auto", "sweeps": {"x": {"devices": [H200, "cpu"]}, "y": {}}}
    found = read(**grid)
    assert {folder: list(plan.sweeps) for folder, plan in found.items()} == {
        "": ["y"],
        "nvidia-h200/": ["x"],
        "cpu-abacus-9/": ["x"],
    }
    assert {folder: list(plan.sweeps) for folder, plan in read({"devices": H100}, **grid).items()} == {
        "nvidia-h100-80gb-hbm3/": ["x", "y"]
    }
    assert list(read({"device": "cuda"}, **grid)) == [""]
    only = read(devices=["cpu"], sweeps={"x": {"devices": [H200]}})
    assert list(only) == ["nvidia-h200/"]


def test_strategies_of_the_host_are_cells_of_a_planned_cpu_alone(read):
    sweep = {"strategy": ["reference", "sequential", "blas"], "strategy.threads": 2}
    sweep = {"union": [{"strategy": ["reference", "sequential"]}, {"strategy": "blas"}]}
    found = read(devices=[H200, "cpu"], sweeps={"x": sweep})
    assert strategies(found["nvidia-h200/"]) == ["reference"]
    assert strategies(found["cpu-abacus-9/"]) == ["reference", "sequential", "blas"]
    said = refused(read, devices=[H200], sweeps={"x": {"strategy": ["sequential", "blas"]}})
    assert (
        "grid.yaml: sweeps.x: strategy: every strategy runs on a GPU's host, so the sweep has no cell on"
        in said
    )


def test_the_cpu_of_another_machine_has_a_name(read):
    (plan,) = read(devices=["NVIDIA " + "9" * 93], sweeps={"x": {}}).values()
    assert len(plan.device.name) == 100
    (plan,) = read(devices="cpu AMD EPYC 9454", sweeps={"x": {}}).values()
    assert (plan.device, plan.folder) == (Device("cpu", "AMD EPYC 9454"), "cpu-amd-epyc-9454/")
    for name in ("Intel(R) Core(TM)2 Duo CPU     E8400  @ 3.00GHz", *filter(None, CPUS.values())):
        (plan,) = read(devices=f"cpu {name}", sweeps={"x": {}}).values()
        assert plan.device == Device("cpu", name)


RIGHT = (
    "it must be cpu, or a GPU's name as `nvidia-smi --query-gpu=name --format=csv` prints it, such as NVIDIA"
)


NAMES = rf"""
    [] => devices is []: it must be one or more of cpu, or a GPU's name
    [""] => devices: '' is not the name of a device: {RIGHT}
    "H200" => devices: 'H200' is not the name of a device: {RIGHT}
    ["NVIDA H200"] => devices: 'NVIDA H200' is not the name of a device: {RIGHT}
    ["nvidia h200"] => devices: 'nvidia h200' is not the name of a device
    ["NVIDIA  H200"] => devices: 'NVIDIA  H200' is not the name of a device
    ["NVIDIA H200 "] => devices: 'NVIDIA H200 ' is not the name of a device
    ["NVIDIA"] => devices: 'NVIDIA' is not the name of a device
    ["CPU"] => devices: 'CPU' is not the name of a device
    ["NVIDIA \u0007"] => is not the name of a device
    ["NVIDIA {"9" * 94}"] => is not the name of a device
    ["auto"] => 'auto' is not the name of a device (auto is a value of the key device)
    ["cuda"] => 'cuda' is not the name of a device (cuda is a value of the key device)
    ["NVIDIA l4"] => devices: 'NVIDIA l4' is not the name of a device: here it is 'NVIDIA L4'
    ["NVIDIA H200", "NVIDIA H200"] => devices: 'NVIDIA H200' appears twice, as 'NVIDIA H200': name it once
    ["NVIDIA H200", "NVIDIA h200"] => devices: 'NVIDIA h200' appears twice, as 'NVIDIA H200': name it once
    ["cpu", "cpu Abacus 9"] => devices: 'cpu Abacus 9' appears twice, as 'Abacus 9': name it once
"""


@pytest.mark.parametrize(("text", "said"), cases(NAMES))
def test_what_is_no_name_of_a_device_is_refused_wherever_it_stands(read, tmp_path, text, said):
    names = json.loads(text)
    asked = refused(read, {"devices": names})
    assert said in asked and asked.startswith("--config ")
    assert refused(read, devices=names).startswith(f"{tmp_path}/grid.yaml: devices")
    assert said in refused(read, sweeps={"x": {"devices": names}}).replace("sweeps.x.", "")
    assert said in refused(read, devices=names)


@pytest.mark.parametrize("value", [7, [7], None, {"a": 1}])
def test_what_is_no_list_of_names_is_refused(read, value):
    said = f"devices is {value}: it must be the names of one or more devices, such as [NVIDIA H200, cpu]"
    assert said in refused(read, devices=value)
    assert said in refused(read, sweeps={"x": {"devices": value}})
    assert "is not the name of a device" in refused(read, {"devices": value})


def test_a_path_is_made_of_letters_and_digits_alone(read):
    assert list(read(devices=["NVIDIA ../../H"], sweeps={"x": {}})) == ["nvidia-h/"]


def test_devices_beside_device_are_refused(read, tmp_path):
    said = refused(read, device="auto", devices=[H200])
    assert said == (f"{tmp_path}/grid.yaml: devices is ['NVIDIA H200'], but device is 'auto': leave one out")
    assert refused(read, {"device": "cpu", "devices": "cpu"}).startswith(
        "--config devices is 'cpu', but device"
    )


@pytest.mark.parametrize(
    "grid",
    [
        {"defaults": {"devices": [H200]}},
        {"on_cpu": {"devices": [H200]}},
        {"sweeps": {"x": {"union": [{"devices": [H200]}]}}},
        {"sweeps": {"x": {"on_cpu": {"devices": [H200]}}}},
    ],
)
def test_devices_stand_in_a_sweep_or_in_the_grid_alone(read, grid):
    assert "'devices' is not a key here (it belongs in a sweep, " in refused(read, **grid)
