"""A GPU that is there and not used: every command that chooses the device gives the reason, once.

The driver is two small libraries, compiled here, which a new process finds before the machine's own.
"""

import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec

import pytest
from conftest import ROOT
from project import NOT_OF_WORKFLOW, copied

from snn import cli
from snn.errors import DeviceError
from snn.hardware import devices, driver

pytestmark = pytest.mark.skipif(not shutil.which("gcc"), reason="no gcc on this machine")

NVML = """
#include <string.h>
typedef void* D;
int nvmlInitWithFlags(unsigned f) { return 0; }
int nvmlInit_v2() { return 0; }
int nvmlShutdown() { return 0; }
int nvmlDeviceGetCount_v2(unsigned* c) { *c = 1; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, D* d) { *d = (D)16; return i ? 6 : 0; }
int nvmlSystemGetDriverVersion(char* b, unsigned n) { strcpy(b, "550.54"); return 0; }
int nvmlSystemGetCudaDriverVersion(int* v) { *v = 12040; return 0; }
int nvmlSystemGetCudaDriverVersion_v2(int* v) { *v = 12040; return 0; }
int nvmlDeviceGetName(D d, char* b, unsigned n) { strcpy(b, "NVIDIA A100-SXM4-40GB"); return 0; }
int nvmlDeviceGetUUID(D d, char* b, unsigned n) { strcpy(b, "GPU-1"); return 0; }
int nvmlDeviceGetCudaComputeCapability(D d, int* a, int* b) { *a = 8; *b = 0; return 0; }
"""
CUDA = """
#include <stdlib.h>
int cuInit(unsigned flags) {
    int answer = atoi(getenv("STUB_CUINIT"));
    if (answer < 0) abort();
    return answer;
}
int cuDriverGetVersion(int* v) { *v = 12040; return 0; }
int cuDeviceGetCount(int* c) { *c = 0; return 0; }
int cuGetErrorName(int error, const char** name) { *name = error == 77 ? "CUDA_ERROR_OF_STUB" : 0; return 0; }
"""
NOTE = "snn: note: the GPU is not used: "
REASON = "error 803" if find_spec("cupy") else "CuPy is not installed"


@pytest.fixture(scope="module")
def stubs(tmp_path_factory):
    """A folder with a driver that knows an A100, and whose CUDA answers what STUB_CUINIT says."""
    folder = tmp_path_factory.mktemp("driver")
    for name, source in (("libnvidia-ml.so.1", NVML), ("libcuda.so.1", CUDA)):
        compiled = ["gcc", "-shared", "-fPIC", "-w", "-x", "c", "-", "-o", str(folder / name)]
        subprocess.run(compiled, input=source, text=True, check=True)
    return folder


@pytest.fixture
def broken(stubs):
    """An environment in which the driver is the broken one."""
    here = {name: value for name, value in os.environ.items() if name != devices.VISIBLE}
    return here | {"LD_LIBRARY_PATH": str(stubs), "STUB_CUINIT": "803"}


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (0, ""),
        (803, "error 803 (CUDA_ERROR_SYSTEM_DRIVER_MISMATCH): "),
        (999, "error 999 (CUDA_ERROR_UNKNOWN): "),
        (77, "error 77 (CUDA_ERROR_OF_STUB)"),
        (78, "error 78 (CUDA has no name for it)"),
        (-1, "with status -6"),
    ],
)
def test_a_driver_that_does_not_start_has_a_reason(stubs, monkeypatch, answer, expected):
    monkeypatch.setenv("LD_LIBRARY_PATH", str(stubs))
    monkeypatch.setenv("STUB_CUINIT", str(answer))
    failure = devices._failure_of_driver.__wrapped__()
    assert expected in failure and bool(failure) == bool(answer)


def test_a_driver_that_does_not_answer_has_a_reason(monkeypatch):
    monkeypatch.setattr(devices, "_DRIVER_SECONDS", 0.001)
    assert "does not answer" in devices._failure_of_driver.__wrapped__()


def test_every_error_of_the_driver_that_has_a_meaning_has_its_number_in_cuda():
    cuda = pytest.importorskip("cuda.bindings.driver", reason="no bindings of CUDA", exc_type=ImportError)
    names = {number: f"CUDA_ERROR_{name}" for number, (name, _) in driver._ERRORS.items()}
    assert names == {number: cuda.CUresult(number).name for number in names}


def test_a_plan_for_the_gpu_of_this_machine_says_why_it_is_not_used(monkeypatch, capsys):
    def find(backend):
        raise DeviceError("device=cuda, but it is broken")

    monkeypatch.setattr(devices, "find", find)
    for reason, expected in (("it is broken", "the GPU here is not used: it is broken"), ("", "no GPU here")):
        monkeypatch.setattr(devices, "why_unused", lambda reason=reason: reason)
        assert cli.main(["plan", "dataset=small"]) == 2
        said = capsys.readouterr().err
        assert expected in said and "--device" in said


def test_a_cell_runs_on_the_cpu_and_says_why(broken):
    settings = ["training.epochs=1", "network.hidden=[4]", "protocol.runs=1", "protocol=glance"]
    command = [sys.executable, "-m", "snn", *settings]
    done = subprocess.run(command, cwd=ROOT, env=broken, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count(NOTE) == done.stderr.count(REASON) == 1
    assert json.loads(done.stdout)["provenance"]["backend"] == "cpu"


def test_a_workflow_says_it_once(broken, tmp_path):
    project = copied(ROOT, tmp_path / "project", NOT_OF_WORKFLOW)
    project.write_grid({"sweeps": {"mine": {"strategy": ["reference", "combined"]}}})
    command = project.command("--dry-run", cores=1)
    done = subprocess.run(command, cwd=project.folder, env=broken, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count(NOTE) == done.stderr.count(REASON) == 1 and NOTE not in done.stdout
