"""Every source in kernels/ compiles for each GPU generation, without spilling registers; no GPU is needed.

A build takes a second or two, and is left to `make kernels`; what the language rejects is found here.
"""

import ctypes
import itertools
import os
import re
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution, distributions
from pathlib import Path

import compiled
import pytest
from conftest import ROOT
from kernel_builds import (
    ACCESS,
    LAYERS,
    LIMITS,
    SOURCES,
    Build,
    Convolution,
    Training,
    builds,
    builds_for_training,
    builds_in_16_bits,
    convolutions,
    trainings,
)

from snn.backends import kernel_source
from snn.config import groups
from snn.config.groups import CONFIG, read_yaml
from snn.files.cache import VARIABLE
from snn.hardware import driver

OLDEST = "sm_70"
"""Which only the compiler of CUDA 12 supports."""

OF_CUDA_13 = ["sm_75", "sm_80", "sm_90", "sm_100", "sm_120"]
ARCHITECTURES = [*OF_CUDA_13, OLDEST]

PACKAGES = {13: "nvidia-cuda-nvrtc", 12: "nvidia-cuda-nvrtc-cu12"}
"""Of the compiler for each CUDA. Both are loaded here, which the bindings of one CUDA cannot."""


class Compiler:
    """NVRTC for one CUDA. Raises OSError if it is not installed."""

    def __init__(self, cuda: int) -> None:
        self._library = _loaded(cuda)
        numbers = ctypes.c_int(), ctypes.c_int()
        self._library.nvrtcVersion(*map(ctypes.byref, numbers))
        installed = sorted((one.name, one.version) for one in distributions() if "nvrtc" in one.name)
        self.version = [number.value for number in numbers], installed

    def log(self, source: str, name: str, options: list[str]) -> str:
        """What compiler and assembler print; fails where there are errors."""
        return self._made(source, name, options)[0]

    def ptx(self, source: str, options: list[str]) -> str:
        """The code before the assembler; fails where there are errors."""
        return self._made(source, "kernel.cu", options)[1]

    def _made(self, source: str, name: str, options: list[str]) -> tuple[str, str]:
        program, size = ctypes.c_void_p(), ctypes.c_size_t()
        words = (ctypes.c_char_p * len(options))(*map(str.encode, options))
        created = (source.encode(), name.encode(), 0, None, None)
        assert not self._library.nvrtcCreateProgram(ctypes.byref(program), *created)
        try:
            failed = self._library.nvrtcCompileProgram(program, len(options), words)
            self._library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
            log = ctypes.create_string_buffer(size.value)
            self._library.nvrtcGetProgramLog(program, log)
            self._library.nvrtcGetPTXSize(program, ctypes.byref(size))
            code = ctypes.create_string_buffer(size.value)
            self._library.nvrtcGetPTX(program, code)
        finally:
            self._library.nvrtcDestroyProgram(ctypes.byref(program))
        assert not failed, log.value.decode()
        return log.value.decode(), code.value.decode()


def _loaded(cuda: int) -> ctypes.CDLL:
    """The compiler of the package, or else of the system."""
    name = f"libnvrtc.so.{cuda}"
    with suppress(PackageNotFoundError):
        files = {file.name: str(file.locate()) for file in distribution(PACKAGES[cuda]).files or ()}
        for builtins in filter(re.compile(r"libnvrtc-builtins\.so").match, files):
            ctypes.CDLL(files[builtins])  # which the compiler looks for by its name alone
        return ctypes.CDLL(files[name])
    return ctypes.CDLL(name)


@cache
def compiler(architecture: str) -> Compiler:
    """The newest that supports an architecture. Skips the test without one; fails where tests run unattended,
    since a skip would go unseen there."""
    for cuda in PACKAGES if architecture != OLDEST else [12]:
        with suppress(OSError):
            return Compiler(cuda)
    give_up = pytest.fail if os.environ.get("CI") else pytest.skip
    raise give_up(f"no NVRTC for {architecture}")


def options(build: Build | Training | Convolution, architecture: str) -> list[str]:
    defines = [f"-D{name}={value}" for name, value in build.defines.items()]
    return ["-std=c++17", "-ftz=true", f"--gpu-architecture={architecture}", *defines]


def log_of(build: Build | Training | Convolution, architecture: str, option: str) -> str:
    """The log of the compiler and assembler with one more option; fails if there are errors."""
    by = compiler(architecture)
    source = kernel_source.text(build.source)
    words = [*options(build, architecture), option]

    def compile_to(log: Path) -> None:
        log.write_text(by.log(source, build.source.name, words))

    return compiled.kept(f"{build.source.stem}.log", (by.version, source, words), compile_to).read_text()


def cases(source: Path) -> list[tuple[Build, str]]:
    """A build for each architecture: all pairs would take a minute.

    Those beyond have odd blocks, which need no more registers, and run in test_kernels_on_cpu.py.
    """
    return list(zip(itertools.cycle(builds(source)), ARCHITECTURES))


def of_networks(build: Convolution) -> bool:
    """Whether a shape is one of the network cnn, or uneven; test_convolutions.py has the others."""
    return build.shape in ("first", "second", "uneven") and not build.architecture


def is_uneven(build: Convolution) -> bool:
    """Whether a shape is the quickest to compile, with the source's first block and precision."""
    precisions = groups.load("kernel", build.source.stem)["precisions"]
    plain = Convolution(build.source, "uneven", precisions[0])
    return build == plain


def generations(source: Path) -> list[str]:
    """Those for which a source may differ: where it never asks which one it is, the oldest and the newest."""
    asks = "__CUDA_ARCH__" in kernel_source.text(source)
    return ARCHITECTURES if asks else [OLDEST, OF_CUDA_13[-1]]


CASES = [
    *zip(builds_for_training(), itertools.cycle(OF_CUDA_13[2:])),
    *zip(builds_in_16_bits(), itertools.cycle(OF_CUDA_13)),
    *(case for source in SOURCES for case in cases(source)),
    *(
        (Build(source, (1, 1), (1, 1)), architecture)
        for source in (*LAYERS, *LIMITS, *ACCESS)
        for architecture in generations(source)
    ),
    *trainings(),
    *zip(filter(of_networks, convolutions()), itertools.cycle(OF_CUDA_13)),
    *((build, OLDEST) for build in convolutions() if is_uneven(build)),
]


@pytest.mark.parametrize(("build", "architecture"), CASES, ids=str)
def test_a_source_is_in_the_language_of_the_compiler(build, architecture):
    """Every template is instantiated, and no code is generated."""
    log_of(build, architecture, "-fdevice-syntax-only")


@pytest.mark.kernels
@pytest.mark.parametrize(("build", "architecture"), CASES, ids=str)
def test_a_source_compiles_and_keeps_its_variables_in_registers(build, architecture):
    log = log_of(build, architecture, "--ptxas-options=-v")
    sizes = (
        r"Function properties for .*\s.*?(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill"
    )
    found = re.findall(sizes, log)
    assert found
    most = 450 if isinstance(build, Training) and build.spills else 0  # bytes
    assert all(int(nbytes) <= most for sizes in found for nbytes in sizes), log


def test_every_compute_capability_that_is_claimed_is_compiled_for():
    compiled_for = [(int(name[3:-1]), int(name[-1])) for name in [OLDEST, *OF_CUDA_13]]
    assert compiled_for[:2] == [driver.LEAST, driver.LEAST_OF_CUDA_13]
    least, of_cuda_13, *_ = numbers = [f"{major}.{minor}" for major, minor in compiled_for]
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert f"from compute capability {least} on with CUDA 12 and from {of_cuda_13} on with CUDA 13" in readme
    limits = (ROOT / "docs/reference/limits.md").read_text(encoding="utf-8")
    assert f"{', '.join(numbers[:-1])} and {numbers[-1]}. " in limits


@pytest.mark.parametrize("row", read_yaml(CONFIG / "cnn_report/compiler.yaml")["rows"], ids=str)
@pytest.mark.parametrize("architecture", ["compute_75", "compute_90"])
def test_the_compiler_makes_the_instructions_that_claims_are_tested_on(row, architecture):
    source = f"""extern "C" __global__
    void kernel(const float* __restrict__ a, const float* __restrict__ b, float* to)
    {{ float sum = 0.0f; for (int i = 0; i < 8; ++i) {row["written"]}; *to = sum; }}"""
    code = compiler("sm_75").ptx(source, [f"--gpu-architecture={architecture}"])
    assert len(re.findall(rf"{row['instruction']}\b", code)) == row["value"]


# ---- what the tests keep of compilers: made once for the same text, again for another, and never in part


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(tmp_path / "kept"))
    return tmp_path / "kept"


def made_of(*texts):
    """What is found of each of these texts, and how often something was made."""
    asked = []

    def make(path):
        asked.append(path)
        path.write_text(str(len(asked)))

    return [compiled.kept("a.so", text, make).read_text() for text in texts], len(asked)


def test_the_same_is_made_once_and_another_by_itself(folder):
    assert made_of(("x", 1), ("x", 1), ("x", 2)) == (["1", "1", "2"], 2)


def test_where_nothing_can_be_kept_everything_is_made(folder):
    folder.write_text("a file in the place of the folder")
    assert made_of("x", "x") == (["1", "2"], 2)


def test_what_fails_is_not_kept(folder):
    def fail(path):
        path.write_text("half")
        raise RuntimeError("no such register")

    for _ in range(2):
        with pytest.raises(RuntimeError, match="no such register"):
            compiled.kept("a.so", "x", fail)
    assert not list(folder.glob("*/*"))
