"""Which device is found, and why none is: each reason with what to do about it."""

import re
import tempfile
from types import SimpleNamespace
from typing import NamedTuple

import pynvml
import pytest

from snn.errors import DeviceError
from snn.hardware import devices, driver, limits
from snn.hardware.locks import device_lock


class Gpu(NamedTuple):
    """A GPU of a driver of our choosing; ``parts`` of one in MIG mode are by place."""

    uuid: str
    name: str = "NVIDIA H100"
    capability: tuple | None = None
    parts: tuple | None = None
    gib: int = 80
    is_lost: bool = False


def gpus_of(*capabilities):
    return [Gpu(f"GPU-{i}", f"GPU number {i}", one) for i, one in enumerate(capabilities)]


def divided(*places, named=True):
    """Of two GPUs, the first is in MIG mode, with parts of a seventh and of a half in some places."""
    gib = {"1g": 10, "4g": 40}
    parts = [
        place and Gpu(f"MIG-{place}", "NVIDIA H100" + named * f" MIG {place}.10gb", gib=gib[place])
        for place in places
    ]
    return Gpu("GPU-0", parts=tuple(parts)), Gpu("GPU-1")


PARTS, ONE = (None, "1g", "4g"), (Gpu("GPU-0"),)


def use(monkeypatch, gpus=ONE, init=0, cuda=13000, cupy=13, failure=""):
    """Let there be a driver with these GPUs. A handle is a list: as a pointer, it has no hash."""
    everything = [*gpus, *(part for gpu in gpus for part in gpu.parts or () if part)]

    def unless(code, *found):
        if code:
            raise pynvml.NVMLError(code)
        return found[0] if found else None

    def by_place(handle, place):
        parts = handle[0].parts
        found = parts[place] if place < len(parts) else None
        return unless(0 if found else pynvml.NVML_ERROR_NOT_FOUND, [found])

    def by_uuid(uuid):
        found = [one for one in everything if one.uuid == uuid]
        return unless(0 if found else pynvml.NVML_ERROR_NOT_FOUND, found)

    def version(name):
        if name == f"cupy-cuda{cupy}x":
            return "14.2.0"
        raise devices.metadata.PackageNotFoundError(name)

    answers = {
        "Init": lambda: unless(init),
        "Shutdown": lambda: None,
        "SystemGetCudaDriverVersion": lambda: cuda,
        "SystemGetDriverVersion": lambda: "580.1",
        "DeviceGetCount": lambda: len(gpus),
        "DeviceGetHandleByIndex": lambda i: unless(
            gpus[i].is_lost * pynvml.NVML_ERROR_GPU_IS_LOST, [gpus[i]]
        ),
        "DeviceGetHandleByUUID": by_uuid,
        "DeviceGetName": lambda handle: handle[0].name,
        "DeviceGetUUID": lambda handle: handle[0].uuid,
        "DeviceGetCudaComputeCapability": lambda handle: unless(
            0 if handle[0].capability else pynvml.NVML_ERROR_NOT_SUPPORTED, handle[0].capability
        ),
        "DeviceGetMigMode": lambda handle: unless(
            handle[0].uuid.startswith("MIG") * pynvml.NVML_ERROR_INVALID_ARGUMENT,
            [int(handle[0].parts is not None), 0],
        ),
        "DeviceGetMaxMigDeviceCount": lambda handle: 7,
        "DeviceGetMigDeviceHandleByIndex": by_place,
        "DeviceIsMigDeviceHandle": lambda handle: handle[0].uuid.startswith("MIG"),
        "DeviceGetAttributes": lambda handle: SimpleNamespace(gpuInstanceSliceCount=1, memorySizeMB=9856),
        "DeviceGetMemoryInfo": lambda handle: SimpleNamespace(total=2**30 * handle[0].gib, free=1),
        "DeviceGetNumGpuCores": lambda handle: 16896,
        "DeviceGetMaxClockInfo": lambda handle, which: 2619,
        "DeviceGetMemoryBusWidth": lambda handle: 5120,
        "DeviceGetPciInfo": lambda handle: SimpleNamespace(busId="00000000:17:00.0"),
    }
    for name, answer in answers.items():
        monkeypatch.setattr(pynvml, f"nvml{name}", answer)
    monkeypatch.setattr(limits, "_copy_engines", lambda bus_id: 3)
    monkeypatch.setattr(devices, "find_spec", lambda name: cupy)
    monkeypatch.setattr(devices.metadata, "version", version)
    monkeypatch.setattr(devices, "_failure_of_driver", lambda: failure)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def uuids(found):
    return [gpu.uuid for gpu in found]


@pytest.mark.parametrize(("visible", "chosen"), [(None, 0), ("1,0", 1), ("GPU-1", 1), ("0", 0)])
def test_cuda_takes_the_first_gpu_that_is_visible(monkeypatch, capsys, visible, chosen):
    use(monkeypatch, gpus_of(None, None))
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
        ({"gpus": ()}, None, "finds no GPU"),
        ({"failure": "cuInit: error 803"}, None, "cuInit: error 803"),
        ({"cupy": None}, None, "CuPy is not installed: run `make env`"),
        ({"cuda": 12080}, None, "it supports CUDA 12, and the installed CuPy needs CUDA 13"),
        ({"gpus": gpus_of((7, 0))}, None, "make a new environment for CUDA 12"),
        ({"gpus": gpus_of((6, 1), (7, 0))}, None, "GPU number 1 has compute capability 7.0"),
        ({"gpus": gpus_of((6, 1)), "cupy": 12}, None, "compute capability 6.1, and the kernels need 7.0"),
        ({}, "", "selects none of the 1 GPUs"),
        ({}, "-1", "selects none of the 1 GPUs"),
        ({}, "3", "selects none of the 1 GPUs"),
    ],
)
def test_cuda_that_is_absent_says_why_and_what_to_do(monkeypatch, capsys, fake, visible, said):
    use(monkeypatch, **fake)
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


@pytest.mark.parametrize(("cupy", "usable"), [(13, ["GPU-2"]), (12, ["GPU-1", "GPU-2"])])
def test_a_gpu_that_is_too_old_is_passed_over(monkeypatch, cupy, usable):
    use(monkeypatch, gpus_of((6, 1), (7, 0), (7, 5)), cupy=cupy)
    assert uuids(devices.gpus_here()) == usable


def test_a_planned_gpu_is_looked_for_among_those_that_may_be_seen(monkeypatch):
    names = ("NVIDIA L4", "NVIDIA H200", "NVIDIA H200")
    use(monkeypatch, [Gpu(f"GPU-{i}", name) for i, name in enumerate(names)])

    def found(backend, name=None):
        return uuids(devices.choices(backend, name))

    assert found("cuda") == found("auto") == found("cuda", "NVIDIA L4") == ["GPU-0"]
    assert found("cuda", "NVIDIA H200") == ["GPU-1", "GPU-2"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,0,7,1")  # CUDA stops at 7
    assert found("cuda", "NVIDIA H200") == found("cuda") == ["GPU-2"]
    assert uuids(devices.gpus_here()) == ["GPU-2", "GPU-0"]
    for planned, here in (("NVIDIA H100", "'NVIDIA H200' and 'NVIDIA L4'"), ("NVIDIA", "'NVIDIA H200' and")):
        with pytest.raises(DeviceError) as caught:
            devices.choices("cuda", planned)
        assert f"device.name is '{planned}', but this machine has {here}" in str(caught.value)


def test_gpus_that_are_chosen_by_uuid_are_seen_in_that_order(monkeypatch, tmp_path):
    use(monkeypatch, [Gpu(uuid) for uuid in ("GPU-a00", "GPU-ab1", "GPU-c22")])
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-c22, GPU-a0,GPU-a,GPU-ab1")  # CUDA stops at GPU-a: two
    seen = devices.choices("cuda")
    assert uuids(seen) == ["GPU-c22", "GPU-a00"]
    with device_lock(*seen) as first:
        assert devices.choices("cuda") == [first] == seen[:1]  # as its process sees it
        with device_lock(*seen) as second:
            assert devices.choices("cuda") == [second] == seen[1:]
    assert devices.choices("cuda") == seen


@pytest.mark.parametrize("visible", [None, "0", "GPU-0", "MIG-1g"])
@pytest.mark.parametrize("named", [True, False])
def test_of_a_divided_gpu_the_part_that_cuda_uses_is_recorded(monkeypatch, visible, named):
    use(monkeypatch, divided(*PARTS, named=named))
    if visible:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    found = devices.find("cuda")
    assert (found.name, found.uuid) == ("NVIDIA H100 MIG 1g.10gb", "MIG-1g")
    properties = limits.properties(found.uuid)
    assert properties["memory_bytes"] == 10 * 2**30
    assert properties["cuda_cores"] is properties["memory_bus_bits"] is properties["copy_engines"] is None
    assert limits.properties("GPU-1")["memory_bus_bits"] == 5120


@pytest.mark.parametrize(
    ("gpus", "visible", "uuid"),
    [
        (divided(*PARTS), "MIG-4g", "MIG-4g"),
        (divided(*PARTS), "1", "GPU-1"),
        (divided(), "0,1", "GPU-1"),
        (divided()[:1], "0", None),
        ([Gpu("GPU-0"), Gpu("GPU-1", is_lost=True), Gpu("GPU-2")], "0,1,2", "GPU-0"),
        ([Gpu("GPU-0"), Gpu("GPU-1", is_lost=True), Gpu("GPU-2")], "1", None),
    ],
)
def test_a_whole_gpu_stays_whole_and_one_that_is_lost_or_has_no_part_cannot_be_used(
    monkeypatch, gpus, visible, uuid
):
    use(monkeypatch, gpus)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert uuids(devices.gpus_here()) == ([uuid] if uuid else [])
    if uuid:
        assert devices.find("cuda").name == "NVIDIA H100" + " MIG 4g.10gb" * uuid.startswith("MIG")
    else:
        with pytest.raises(DeviceError, match=r"MIG mode|does not respond"):
            devices.find("cuda")


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
    use(monkeypatch, divided(*PARTS))
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


def test_an_unknown_device_and_a_planned_gpu_on_a_machine_without_one_are_refused(monkeypatch):
    with pytest.raises(DeviceError, match="one of auto, cuda, cpu"):
        devices.find("tpu")
    use(monkeypatch, init=pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)
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
