"""The shared memory that a launch configuration counts with is what its kernel declares."""

import cuda_on_cpu
import pytest
from kernel_builds import trainings

TRAININGS = {f"{build}-{architecture}": (build, architecture) for build, architecture in trainings()}


@pytest.mark.skipif(cuda_on_cpu.MISSING, reason="no g++ on this machine")
@pytest.mark.parametrize("name", TRAININGS)
def test_a_plan_knows_the_shared_memory_of_its_blocks(name):
    build, architecture = TRAININGS[name]
    defines = {**build.defines, "__CUDA_ARCH__": 10 * int(architecture.removeprefix("sm_"))}
    assert cuda_on_cpu.load(build.source, **defines)["shared_bytes"] == build.shared_bytes
