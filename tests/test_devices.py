"""Which device is found, and why none is: each reason with what to do about it."""

import re
import tempfile
from types import SimpleNamespace

import pynvml
import pytest

from snn.errors import DeviceError
from snn.hardware import devices, driver, limits
from snn.hardware.locks import device_lock


class FakeNvml:
    """A driver of our choosing."""

    def __init__(self, monkeypatch, count=1, cuda=13000, init=0, capabilities=(), cupy=13, failure=""):
        def nvml_init():
            if init:
                raise pynvml.NVMLError(init)

        def capability(handle):
            if not capabilities:
                raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)  # as of a MIG device
            return list(capabilities[handle[0]])

        def version(name):
            if name == f"cupy-cuda{cupy}x":
                return "14.2.0"
            raise devices.metadata.PackageNotFoundError(name)

        answers = {
            "nvmlInit": nvml_init,
            "nvmlDeviceGetCudaComputeCapability": capability,
            "nvmlShutdown": lambda: None,
            "nvmlDeviceGetCount": lambda: count,
            "nvmlDeviceGetHandleByIndex": lambda index: [index],  # as a pointer, it has no hash
            "nvmlDeviceGetHandleByUUID": lambda uuid: [uuid],
            "nvmlDeviceGetName": lambda handle: f"GPU number {handle[0]}",
            "nvmlDeviceGetUUID": lambda handle: f"GPU-{handle[0]}",
            "nvmlSystemGetCudaDriverVersion": lambda: cuda,
            "nvmlSystemGetDriverVersion": lambda: "580.1",
        }
        for name, answer in answers.items():
            monkeypatch.setattr(pynvml, name, answer)
        monkeypatch.setattr(devices, "find_spec", lambda name: cupy)
        monkeypatch.setattr(devices.metadata, "version", version)
        monkeypatch.setattr(devices, "_failure_of_driver", lambda: failure)
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


@pytest.mark.parametrize(
    ("visible", "chosen"), [(None, "0"), ("1,0", "1"), ("GPU-abc", "GPU-abc"), ("0", "0")]
)
def test_cuda_takes_the_first_gpu_that_is_visible(monkeypatch, capsys, visible, chosen):
    FakeNvml(monkeypatch, count=2)
    if visible:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    expected = devices.Device("cuda", f"GPU number {chosen}", f"GPU-{chosen}", "580.1")
    assert devices.find("auto") == devices.find("cuda") == expected
    devices.say_unused_gpu("auto", expected)
    assert capsys.readouterr().err == "" == devices.why_unused()
    assert devices.find("cpu").backend == "cpu" and devices.find("cpu").name


@pytest.mark.parametrize(
    ("fake", "visible", "said"),
    [
        ({"init": pynvml.NVML_ERROR_LIBRARY_NOT_FOUND}, None, "no NVIDIA driver"),
        ({"init": pynvml.NVML_ERROR_DRIVER_NOT_LOADED}, None, "driver does not work (Driver Not Loaded)"),
        ({"count": 0}, None, "finds no GPU"),
        ({"failure": "cuInit: error 803"}, None, "cuInit: error 803"),
        ({"cupy": None}, None, "CuPy is not installed: run `make env`"),
        ({"cuda": 12080}, None, "it supports CUDA 12, and the installed CuPy needs CUDA 13"),
        ({"capabilities": [(7, 0)]}, None, "make a new environment with envs/requirements-cuda12.txt"),
        ({"count": 2, "capabilities": [(6, 1), (7, 0)]}, None, "GPU number 1 has compute capability 7.0"),
        ({"capabilities": [(6, 1)], "cupy": 12}, None, "compute capability 6.1, and the kernels need 7.0"),
        ({}, "", "selects none of the 1 GPUs"),
        ({}, "-1", "selects none of the 1 GPUs"),
        ({}, "3", "selects none of the 1 GPUs"),
    ],
)
def test_cuda_that_is_absent_says_why_and_what_to_do(monkeypatch, capsys, fake, visible, said):
    FakeNvml(monkeypatch, **fake)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    with pytest.raises(DeviceError) as caught:
        devices.find("cuda")
    assert said in str(caught.value)
    assert "device=cpu" in str(caught.value)
    on_cpu = devices.find("auto")
    assert on_cpu.backend == "cpu"
    devices.say_unused_gpu("cpu", on_cpu)
    assert capsys.readouterr() == ("", "")
    devices.say_unused_gpu("auto", on_cpu)
    out, err = capsys.readouterr()
    is_here = not said.startswith(("no NVIDIA", "finds no"))
    assert out == "" and (said in err) == bool(err) == is_here and err.count("\n") == is_here


def test_a_gpu_that_is_too_old_is_passed_over(monkeypatch):
    FakeNvml(monkeypatch, count=3, capabilities=[(6, 1), (7, 0), (7, 5)])
    assert [gpu.uuid for gpu in devices.gpus_here()] == ["GPU-2"]
    FakeNvml(monkeypatch, count=3, capabilities=[(6, 1), (7, 0), (7, 5)], cupy=12)
    assert [gpu.uuid for gpu in devices.gpus_here()] == ["GPU-1", "GPU-2"]


def test_a_planned_gpu_is_looked_for_among_those_that_may_be_seen(monkeypatch):
    names = ["NVIDIA L4", "NVIDIA H200", "NVIDIA H200"]
    FakeNvml(monkeypatch, count=3)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetName", lambda handle: names[handle[0]])

    def found(backend, name=None):
        return [device.uuid for device in devices.choices(backend, name)]

    assert found("cuda") == found("auto") == found("cuda", "NVIDIA L4") == ["GPU-0"]
    assert found("cuda", "NVIDIA H200") == ["GPU-1", "GPU-2"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,0,7,1")  # CUDA stops at 7
    assert found("cuda", "NVIDIA H200") == found("cuda") == ["GPU-2"]
    assert [gpu.uuid for gpu in devices.gpus_here()] == ["GPU-2", "GPU-0"]
    for planned, here in (("NVIDIA H100", "'NVIDIA H200' and 'NVIDIA L4'"), ("NVIDIA", "'NVIDIA H200' and")):
        with pytest.raises(DeviceError) as caught:
            devices.choices("cuda", planned)
        assert f"device.name is '{planned}', but this machine has {here}" in str(caught.value)


def test_gpus_that_are_chosen_by_uuid_are_seen_in_that_order(monkeypatch, tmp_path):
    def by_uuid(uuid):
        if uuid not in uuids:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return [uuids[uuid]]

    uuids = {"GPU-a00": 0, "GPU-ab1": 1, "GPU-c22": 2}
    FakeNvml(monkeypatch, count=3)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByUUID", by_uuid)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetUUID", lambda handle: list(uuids)[handle[0]])
    monkeypatch.setattr(pynvml, "nvmlDeviceGetName", lambda handle: "NVIDIA H200")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-c22, GPU-a0,GPU-a,GPU-ab1")  # CUDA stops at GPU-a: two
    seen = devices.choices("cuda")
    assert [gpu.uuid for gpu in seen] == ["GPU-c22", "GPU-a00"]
    with device_lock(*seen) as first:
        assert devices.choices("cuda") == [first] == seen[:1]  # as its process sees it
        with device_lock(*seen) as second:
            assert devices.choices("cuda") == [second] == seen[1:]
    assert devices.choices("cuda") == seen


class Divided(FakeNvml):
    """Two GPUs, of which the first is in MIG mode, with parts of a seventh and of a half in some places."""

    def __init__(self, monkeypatch, parts=(None, "1g", "4g"), named=True, count=2):
        super().__init__(monkeypatch, count=count)
        self.parts = [part for part in parts if part]
        numbers = {"GPU-0": 0, "GPU-1": 1} | {f"MIG-{part}": part for part in self.parts}
        slices = {"1g": SimpleNamespace(gpuInstanceSliceCount=1, memorySizeMB=9856)}

        def name(handle):
            profile = f" MIG {handle[0]}.10gb" if handle[0] in self.parts and named else ""
            return f"NVIDIA H100{profile}"

        def of_place(handle, place):
            if place >= len(parts) or parts[place] is None:
                raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
            return [parts[place]]

        def mode(handle):
            if handle[0] in self.parts:
                raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
            return [int(handle[0] == 0), 0]

        def memory(handle, version=None):
            shares = {"1g": 10, "4g": 40}
            return SimpleNamespace(total=2**30 * shares.get(handle[0], 80), free=1)

        answers = {
            "nvmlDeviceGetHandleByUUID": lambda uuid: [numbers[uuid]],
            "nvmlDeviceGetUUID": lambda handle: f"{'MIG' if handle[0] in self.parts else 'GPU'}-{handle[0]}",
            "nvmlDeviceGetName": name,
            "nvmlDeviceGetMigMode": mode,
            "nvmlDeviceGetMaxMigDeviceCount": lambda handle: 7,
            "nvmlDeviceGetMigDeviceHandleByIndex": of_place,
            "nvmlDeviceIsMigDeviceHandle": lambda handle: handle[0] in self.parts,
            "nvmlDeviceGetAttributes": lambda handle: slices[handle[0]],
            "nvmlDeviceGetMemoryInfo": memory,
            "nvmlDeviceGetNumGpuCores": lambda handle: 16896,
            "nvmlDeviceGetMaxClockInfo": lambda handle, which: 2619,
            "nvmlDeviceGetMemoryBusWidth": lambda handle: 5120,
            "nvmlDeviceGetPciInfo": lambda handle: SimpleNamespace(busId="00000000:17:00.0"),
        }
        for one, answer in answers.items():
            monkeypatch.setattr(pynvml, one, answer)
        monkeypatch.setattr(limits, "_copy_engines", lambda bus_id: 3)


@pytest.mark.parametrize("visible", [None, "0", "GPU-0", "MIG-1g"])
@pytest.mark.parametrize("named", [True, False])
def test_of_a_divided_gpu_the_part_that_cuda_uses_is_recorded(monkeypatch, visible, named):
    Divided(monkeypatch, named=named)
    if visible:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    found = devices.find("cuda")
    assert (found.name, found.uuid) == ("NVIDIA H100 MIG 1g.10gb", "MIG-1g")
    properties = limits.properties(found.uuid)
    assert properties["memory_bytes"] == 10 * 2**30
    assert properties["cuda_cores"] is properties["memory_bus_bits"] is properties["copy_engines"] is None
    assert limits.properties("GPU-1")["memory_bus_bits"] == 5120


def test_a_whole_gpu_stays_whole_and_one_without_parts_cannot_be_used(monkeypatch):
    Divided(monkeypatch)
    for visible, found in (
        ("MIG-4g", ("NVIDIA H100 MIG 4g.10gb", "MIG-4g")),
        ("1", ("NVIDIA H100", "GPU-1")),
    ):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        assert devices.find("cuda") == devices.Device("cuda", *found, "580.1")
    Divided(monkeypatch, parts=(), count=1)
    with pytest.raises(DeviceError, match="MIG mode"):
        devices.find("cuda")
    Divided(monkeypatch, parts=())
    assert devices.find("cuda").uuid == "GPU-1"


@pytest.mark.parametrize(
    ("recorded", "uuid", "gib", "named"),
    [
        ("GPU-1", "1", 79, ()),
        ("GPU-1", "4g", 39.5, ("GPU-1", "4g")),  # a part, under the UUID of the whole in older drivers:
        ("GPU-1", "1", 39.5, ("GPU-1", str(80 * 2**30))),
        ("MIG-1g", "1g", 9.6, ()),
        ("MIG-1g", "4g", 39, ("MIG-1g", "4g")),
    ],
)
def test_a_record_is_of_the_device_that_cuda_uses(monkeypatch, recorded, uuid, gib, named):
    Divided(monkeypatch)
    monkeypatch.setattr(driver, "first_device", lambda: driver.Seen(uuid, int(gib * 2**30)))
    device = devices.Device("cuda", "NVIDIA H100", recorded, "580.1")
    if not named:
        devices.check_cuda(device)
        return
    with pytest.raises(DeviceError) as refused:
        devices.check_cuda(device)
    assert all(word in str(refused.value) for word in (*named, "CUDA_VISIBLE_DEVICES"))


@pytest.mark.gpu
def test_cuda_and_nvml_describe_the_same_gpu():
    with device_lock(*devices.choices("cuda")) as device:
        devices.check_cuda(device)
        assert f"GPU-{driver.first_device().uuid}" == device.uuid or device.uuid.startswith("MIG-")


def test_a_lost_gpu_hides_those_behind_it_alone(monkeypatch):
    def lost(index):
        if index == 1:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)
        return [index]

    FakeNvml(monkeypatch, count=3)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByIndex", lost)
    assert [gpu.uuid for gpu in devices.gpus_here()] == ["GPU-0"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert devices.gpus_here() == []


def test_an_unknown_device_and_a_planned_gpu_on_a_machine_without_one_are_refused(monkeypatch):
    with pytest.raises(DeviceError, match="one of auto, cuda, cpu"):
        devices.find("tpu")
    FakeNvml(monkeypatch, init=pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)
    with pytest.raises(DeviceError) as caught:
        devices.choices("cuda", "NVIDIA H200")
    cpu = devices.find("cpu").name
    assert f"device.name is 'NVIDIA H200', but this machine has {cpu!r}: run this job on" in str(caught.value)
    assert "no NVIDIA driver" in str(caught.value)


def test_names_that_differ_in_letters_of_another_script_have_slugs_of_their_own():
    """Else they would share folders; an empty slug is no folder's name."""
    names = ["GPU", "GPU 显卡", "GPU 显示", "显卡", "显示", "!"]
    for backend, start in (("cuda", ""), ("cpu", "cpu-")):
        slugs = [devices.Device(backend, name).slug for name in names]
        assert len(set(slugs)) == len(names)
        assert all(re.fullmatch(rf"{start}[a-z0-9]+(-[a-z0-9]+)*", slug) for slug in slugs)
    assert devices.Device("cuda", "GPU 显卡").slug.startswith("gpu-")
    assert devices.Device("cuda", "GPU (1)").slug == "gpu-1"
    assert devices.Device("cpu", "AMD EPYC (x)").slug == "cpu-amd-epyc-x"
