"""Every source in kernels/ compiles for each GPU generation, without spilling registers; no GPU is needed."""

import itertools
import os
import re
from functools import cache
from importlib.metadata import distributions
from pathlib import Path

import compiled
import pytest
from kernel_builds import (
    ACCESS,
    LAYERS,
    LIMITS,
    SOURCES,
    Build,
    Convolution,
    Training,
    builds,
    convolutions,
    trainings,
)

from snn.backends import kernel_source
from snn.backends.persistent_plans import DeviceCapability, LaunchPlan, Shape

ARCHITECTURES = ["sm_75", "sm_80", "sm_90", "sm_100", "sm_120"]

try:
    from cuda.bindings import nvrtc

    nvrtc.nvrtcVersion()
    missing = None
except (ImportError, RuntimeError) as error:  # RuntimeError: the bindings without the compiler
    missing = f"no NVRTC: {error}"

# Where tests run unattended, a skip would go unseen: there they fail.
pytestmark = pytest.mark.skipif(missing is not None and not os.environ.get("CI"), reason=str(missing))


def log_of(build: Build | Training | Convolution, architecture: str) -> str:
    """The log of the compiler and assembler, with the use of registers; fails where there are errors."""
    assert missing is None, missing
    source = kernel_source.text(build.source)
    options = ["-std=c++17", "-ftz=true", f"--gpu-architecture={architecture}", "--ptxas-options=-v"]
    options += [f"-D{name}={value}" for name, value in build.defines.items()]

    def compile_to(log: Path) -> None:
        log.write_text(compiled_now(source, build.source.name, options))

    decided_by = (_compiler(), source, options)
    return compiled.kept(f"{build.source.stem}.log", decided_by, compile_to).read_text()


@cache
def _compiler() -> tuple[object, ...]:
    installed = {(one.name, one.version) for one in distributions() if "nvrtc" in one.name}
    return nvrtc.nvrtcVersion(), sorted(installed)


def compiled_now(source: str, name: str, options: list[str]) -> str:
    done, program = nvrtc.nvrtcCreateProgram(source.encode(), name.encode(), 0, None, None)
    assert done == nvrtc.nvrtcResult.NVRTC_SUCCESS
    try:
        (done,) = nvrtc.nvrtcCompileProgram(program, len(options), [option.encode() for option in options])
        log = bytes(nvrtc.nvrtcGetProgramLogSize(program)[1])
        nvrtc.nvrtcGetProgramLog(program, log)
    finally:
        nvrtc.nvrtcDestroyProgram(program)
    text = log.rstrip(b"\0").decode()
    assert done == nvrtc.nvrtcResult.NVRTC_SUCCESS, text
    return text


def cases(source: Path) -> list[tuple[Build, str]]:
    """A build for each architecture, where there are so many: all pairs would take a minute.

    Those beyond have odd blocks, which need no more registers, and run in test_kernels_on_cpu.py.
    """
    return list(zip(itertools.cycle(builds(source)), ARCHITECTURES))


def of_networks(build: Convolution) -> bool:
    """Whether a shape is one of the network cnn, or uneven; test_convolutions_on_cpu.py has the others."""
    return build.shape in ("first", "second", "uneven") and not build.architecture


def generations(source: Path) -> list[str]:
    """Those for which a source may differ: where it never asks which one it is, the oldest and the newest."""
    asks = "__CUDA_ARCH__" in kernel_source.text(source)
    return ARCHITECTURES if asks else [ARCHITECTURES[0], ARCHITECTURES[-1]]


@pytest.mark.parametrize(
    ("build", "architecture"),
    [
        *(case for source in SOURCES for case in cases(source)),
        *(
            (Build(source, (1, 1), (1, 1)), architecture)
            for source in (*LAYERS, *LIMITS, *ACCESS)
            for architecture in generations(source)
        ),
        *trainings(),
        *zip(filter(of_networks, convolutions()), itertools.cycle(ARCHITECTURES)),
    ],
    ids=str,
)
def test_a_source_compiles_and_keeps_its_variables_in_registers(build, architecture):
    log = log_of(build, architecture)
    sizes = (
        r"Function properties for .*\s.*?(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill"
    )
    found = re.findall(sizes, log)
    assert found
    assert set(found) == {("0", "0", "0")}, log


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
@pytest.mark.parametrize("widths", [(16, 64, 64), (16, 128, 128, 256)])
def test_an_sm_holds_one_block_of_groups_even_of_the_smallest_shape(widths, architecture):
    """A plan counts on it: two would have 128 of an SM's 65,536 registers per thread."""
    plans = Shape(widths, 32, True, False).plans(DeviceCapability(132, 227 * 1024, (8, 0)))
    plan = next(one for one in plans if isinstance(one, LaunchPlan) and "_layers.cu" in one.source)
    build = Training(SOURCES[0].parents[1] / plan.source, dict(plan.defines), (architecture,))
    (registers,) = re.findall(r"Used (\d+) registers", log_of(build, architecture))
    assert int(registers) > 128
