"""Which files a cell depends on: an edit re-runs the cells that it concerns and no others."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import PEERS, ROOT, STRATEGIES

from snn.config import groups
from snn.config.compose import composed
from snn.grid import fingerprint
from snn.grid.catalogue import MICROBENCHMARKS
from snn.grid.sweeps import Reader
from snn.hardware.devices import Device
from snn.strategies import factory

ALL = [*STRATEGIES, *PEERS]
FAMILIES = {
    **dict.fromkeys(("host_driven", "device_driven", "cpu", "torch", "jax"), ()),
    **dict.fromkeys(("one_launch", "data_parallel"), ("device_driven",)),
}
"""The modules of strategies, and the others of them that each imports."""


def files(strategy, device="cuda", kernel="naive", **settings):
    """The sources of a cell of a grid, which test_grid.py compares with those that Hydra composes."""
    sweep = {"strategy": strategy, "kernel": kernel} | settings
    where = Device(device, "a device")
    found = Reader(Path("grid.yaml"), {"sweeps": {"one": sweep}}).sweeps(["one"], where, where)
    (cell,) = found["one"].cells
    return set(fingerprint.cell_sources(cell))


@pytest.mark.parametrize("name", ALL)
def test_a_strategy_depends_on_the_files_of_its_family_and_on_those_that_they_import(name):
    found = files(name)
    (own,) = {
        family
        for family in FAMILIES
        if factory.class_of(groups.load("strategy", name)).__module__ == f"snn.strategies.{family}"
    }
    families = {family for family in FAMILIES if f"snn/strategies/{family}.py" in found}
    assert families == {own, *FAMILIES[own]}
    assert {
        "snn/measurement/runs.py",
        "snn/strategies/base.py",
        "snn/models/network.py",
        "snn/datasets/quadratic.py",
    } <= found


def test_kernels_concern_the_gpu_only():
    assert "kernels/naive.cu" in files("reference")
    assert "snn/backends/cuda/backend.py" in files("reference")
    assert "kernels/elementwise.cu" not in files("reference")
    assert {"kernels/naive.cu", "kernels/elementwise.cu"} <= files("resident")
    assert "kernels/entry_points.cuh" in files("resident", kernel="tiled_fused")
    assert "kernels/entry_points.cuh" not in files("resident")
    on_cpu = files("reference", "cpu")
    assert "snn/backends/cpu/backend.py" in on_cpu
    assert not any(file.startswith("kernels/") or "/cuda/" in file for file in on_cpu)


def test_image_files_concern_the_data_sets_that_are_read_from_them():
    """How they are downloaded does not: what comes is checked by its digest."""
    for name, is_read in (("small", False), ("patterns", False), ("fashion", True), ("mnist", True)):
        found = set(fingerprint.cell_sources(composed([f"dataset={name}", "device=cpu"])))
        assert ("snn/datasets/idx_images.py" in found) == is_read
        assert "snn/datasets/download.py" not in found
    assert "snn/datasets/fashion_mnist.py" not in found


def of_layers(strategy, kernel="naive"):
    return files(
        strategy, kernel=kernel, network="layers", precision="tf32" if kernel == "tensor_core" else "fp32"
    )


def test_kernels_of_layers_concern_networks_of_layers():
    kernels = {"kernels/layers/im2col.cu", "kernels/convolution/naive.cu", "kernels/convolution/shape.cuh"}
    assert not kernels & files("resident")
    assert kernels <= of_layers("resident")
    assert not kernels & of_layers("reference")


def test_a_kernel_has_the_convolutions_of_its_name():
    fused = {"kernels/convolution/fused.cu", "kernels/convolution/staging.cuh"}
    assert fused <= of_layers("resident", "fused")
    assert fused <= of_layers("resident", "tiled_fused")
    assert not fused & of_layers("resident", "tiled")
    assert not any("/convolution/" in file for file in of_layers("resident", "cublas"))


def test_sums_are_split_by_fused_kernels():
    assert "kernels/split_k.cu" in files("resident", kernel="fused")
    assert "kernels/split_k.cu" not in files("resident") | files("reference", kernel="fused")


def test_every_kernel_is_a_source_of_what_is_measured():
    """Or an edit of it would measure nothing again: each is some choice's, or in the KERNELS of a module."""
    found = set(fingerprint.limits_sources("cuda")).union(
        *(fingerprint.microbenchmark_sources(name, "cuda") for name in MICROBENCHMARKS),
        *(files(name) for name in STRATEGIES),
        *(files("resident", kernel=kernel) for kernel in groups.names("kernel")),
        *(of_layers("resident", kernel) for kernel in groups.names("kernel")),
    )
    kernels = {path.relative_to(ROOT).as_posix() for path in (ROOT / "kernels").rglob("*.cu*")}
    assert {file for file in found if file.startswith("kernels/")} == kernels


SAYS_WHAT_WAS_MEASURED = {
    "snn/command.py": "ends the command line",
    "snn/__main__.py": "as snn/run.py",
    "snn/analysis/cell_line.py": "says how the cell went, after it",
    "snn/analysis/intervals.py": "as above",
    "snn/analysis/machine_state.py": "as above",
    "snn/cli.py": "knows the names of commands",
    "snn/run.py": "reads the command line, writes the record",
    "snn/analysis/verdicts.py": "says how the cell ended, after it",
    "snn/backends/kernel_source.py": "finds the files of a kernel for the digest; on a GPU it is a source",
    "snn/config/compose.py": "composes the cell, which the record holds",
    "snn/config/choices.py": "checks choices and their files",
    "snn/config/cell.py": "names the cell; of a cell that asks for a neighbour it is a source",
    "snn/config/overrides.py": "checks the command line",
    "snn/config/suggestions.py": "words of messages",
    "snn/config/settings.py": "checks the cell, and completes it",
    "snn/config/sizes.py": "checks the cell",
    "snn/datasets/csv_table.py": "checks the keys of a CSV file; of a cell that has one it is a source",
    "snn/grid/fingerprint.py": "this very digest",
    "snn/files/revision.py": "tells the record the commit",
    "snn/grid/naming.py": "names the cell",
    "snn/grid/order.py": "tells the record its run of the workflow",
    "snn/hardware/environment.py": "is of the processes that a command starts",
    "snn/hardware/host.py": "tells the record the host",
    "snn/hardware/locks.py": "waits for the device",
    "snn/models/saved.py": "writes trained weights, after the measurement",
    "snn/models/members.py": "checks keys of many networks; of a cell that has them it is a source",
    "snn/measurement/busy_neighbour.py": "of a cell that asks for a neighbour it is a source",
    "snn/measurement/cell.py": "joins the parts below to a record",
    "snn/measurement/progress.py": "prints between runs",
    "snn/measurement/provenance.py": "describes the machine",
    "snn/profiling/nvtx.py": "annotates steps after the runs",
    "snn/records/store.py": "writes the record",
    "snn/records/untrusted.py": "reads a record",
    "snn/strategies/__init__.py": "a docstring",
}
"""What a cell's process runs that is no source of it, and why: an edit of it changes no time."""


def test_what_a_cells_process_runs_is_a_source_or_only_says_what_was_measured():
    warmups = ["protocol.warmup_seconds=0", "protocol.max_warmup_seconds=0"]
    run = [
        "import json, sys",
        "from snn.__main__ import main",
        f"main({['device=cpu', 'training.epochs=1', 'protocol.runs=1', *warmups]})",
        "loaded = [module.__file__ for name, module in sys.modules.items() if name.startswith('snn.')]",
        "print(json.dumps([name for name in loaded if name]), file=sys.stderr)",
    ]
    command = [sys.executable, "-c", "\n".join(run)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = {Path(name).relative_to(ROOT).as_posix() for name in json.loads(done.stderr.splitlines()[-1])}
    code = {name for name in loaded if (ROOT / name).stat().st_size}
    assert code - files("reference", "cpu") <= SAYS_WHAT_WAS_MEASURED.keys()


def test_what_sets_the_threads_or_reads_the_machine_is_a_source():
    for name in ALL:
        measures = ("hardware/threads", "hardware/sampling", "measurement/passes")
        assert {f"snn/{module}.py" for module in measures} <= files(name)
    assert "snn/hardware/threads.py" in fingerprint.limits_sources("cpu")


def test_what_only_shows_or_stores_results_is_no_source():
    for name in ALL:
        shown = ("snn/records", "snn/tables", "snn/figures", "snn/report", "snn/config/compose")
        assert not any(file.startswith(shown) for file in files(name))
        assert not {"snn/measurement/progress.py", "snn/measurement/provenance.py"} & files(name)


def test_an_upgraded_package_measures_nothing_again():
    """Files of our own decide what is measured again, and no list of packages is among them."""
    for name in ALL:
        assert {file.split("/")[0] for file in files(name)} <= {"snn", "kernels"}
