"""What ``snn plan`` says of the kernels that would train on a GPU: those that its CUDA backend would take."""

import json
import re

import pytest

from snn import cli
from snn import plan as command
from snn.backends.launches import DeviceCapability, LaunchConfiguration
from snn.backends.launches.perceptron import PerceptronShape
from snn.config import groups
from snn.errors import DeviceError
from snn.hardware import devices
from snn.planning import gpus

L4, T4, A100 = "NVIDIA L4", "Tesla T4", "NVIDIA A100-SXM4-40GB"


def said(capsys, *arguments):
    status = cli.main(["plan", *arguments])
    printed = capsys.readouterr()
    return status, printed.out, printed.err


def plan_of(tmp_path, *arguments):
    file = tmp_path / "plan.json"
    assert cli.main(["plan", *arguments, "--json", str(file)]) == 0
    return json.loads(file.read_text())["plan"]


@pytest.mark.parametrize("gpu", [L4, "NVIDIA H200"])
def test_a_graph_of_cublas_is_refused_as_by_the_backend(gpu, capsys):
    status, out, error = said(capsys, "strategy=graph", "kernel=cublas", "--device", gpu)
    assert (status, out) == (2, "")
    assert "CuPy's cuBLAS refuses to run while a stream is being captured" in error
    assert said(capsys, "strategy=resident", "kernel=cublas", "--device", gpu)[0] == 0


def test_batches_that_are_unsupported_between_others_hide_none_that_fits(capsys):
    """Some batches of two hidden layers fall back to a graph, which cuBLAS does not have."""
    cell = ["dataset=large", "network=two_hidden", "strategy=persistent", "kernel=cublas", "--device", T4]
    _, out, _ = said(capsys, *cell, "training.batch_size=256")
    largest = re.search(r"largest training\.batch_size that fits: (?:all )?(\d+)", out)
    assert "total: fits" in out and int(largest[1]) >= 256
    assert "no larger one is planned: CuPy" not in out


def test_products_of_another_precision_are_not_planned_in_one_launch(tmp_path):
    tf32 = ["strategy=persistent", "kernel=tensor_core", "precision=tf32", "--device", "NVIDIA H200"]
    assert plan_of(tmp_path, *tf32) == "graph: training in one launch supports precision fp32, not tf32"


@pytest.mark.parametrize(
    ("network", "device", "expected"),
    [
        ("two_hidden", "NVIDIA H200", "16 groups of 8 blocks together; no cluster: 2 hidden layers are"),
        ("two_hidden", L4, "no groups of blocks: 128 blocks would run together, the device has 58 SMs"),
        ("three_hidden", L4, "no groups of blocks: 128 blocks would run together, the device has 58 SMs"),
        ("two_hidden", T4, "no groups of blocks: compute capability 7.5, TF32 needs 8.0"),
        ("two_hidden", A100, "no groups of blocks: 128 blocks would run together, the device has 108 SMs"),
    ],
)
def test_blocks_that_work_together_each_need_an_sm(network, device, expected, tmp_path):
    found = plan_of(
        tmp_path, "dataset=large", f"network={network}", "strategy=persistent", "--device", device
    )
    assert expected in found


def test_a_block_of_more_shared_memory_than_there_is_has_no_plan():
    """Clipped, and of 64 features: no groups, and a tile of every gradient beside the sums."""
    shape = PerceptronShape((32, 256, 1024, 256), 256, True, True)
    has = DeviceCapability(132, 232448, (9, 0))
    needed = next(plan for plan in shape.configurations(has) if isinstance(plan, LaunchConfiguration))
    less = list(shape.configurations(DeviceCapability(132, 101376, (8, 9))))
    assert f"not {needed.words}: a block would need " in (reasons := "; ".join(map(str, less)))
    assert "bytes of shared memory, the device has 101376" in reasons


@pytest.mark.parametrize("strategy", ["persistent", "graph"])
def test_the_plan_is_said_where_a_strategy_has_one(strategy, capsys):
    status, out, _ = said(capsys, "dataset=large", f"strategy={strategy}", "--device", "NVIDIA H200")
    words = "\nplan: one cluster of 16 blocks, 16 hidden neurons in each\n"
    assert (status, words in out) == (0, strategy == "persistent")


def test_of_a_gpu_that_is_not_known_the_plan_says_what_to_do(capsys, monkeypatch):
    def none_here(backend):
        raise DeviceError("none")

    monkeypatch.setattr(command.devices, "find", none_here)
    unknown = "of this GPU the number of SMs and their shared memory are not known: name one with --device"
    status, out, _ = said(capsys, "strategy=persistent", "--free", "12GiB")
    assert status == 0 and f"plan: graph: {unknown}" in out
    status, out, error = said(capsys, "strategy=ensemble", "--free", "12GiB")
    assert (status, out) == (2, "") and unknown in error and "config/gpus.yaml" in error


def test_of_many_networks_the_number_of_blocks_is_left_open(tmp_path):
    many = ["dataset=large", "strategy=ensemble", "strategy.starts=200", "--device", "NVIDIA H200"]
    assert "200 clusters of 16 blocks, 16 hidden neurons in each, or fewer blocks" in plan_of(tmp_path, *many)
    assert gpus.named("NVIDIA H200").capability == DeviceCapability(132, 232448, (9, 0))


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("A100 40GB", "'NVIDIA A100-SXM4-40GB' or 'NVIDIA A100-PCIE-40GB'"),
        ("nvidia-h200", "'NVIDIA H200'"),
        ("RTX3060", "'NVIDIA GeForce RTX 3060'"),
        ("v100 32gb", "'Tesla V100-SXM2-32GB'"),
    ],
)
def test_a_gpu_is_known_by_parts_of_its_name(name, meant, capsys):
    status, _, error = said(capsys, "--device", name)
    assert status == 2 and f"(did you mean {meant}?): add it, give its memory alone with --free SIZE" in error


def test_known_gpus_are_those_that_can_train():
    capabilities = {name: gpus.named(name).capability for name in groups.known_gpus()}
    assert all(one is not None and one.capability >= devices.LEAST for one in capabilities.values())
    assert gpus.named(T4).nbytes < 14.57 * 2**30  # as CUDA reports, not the 15 GiB of the vendor
