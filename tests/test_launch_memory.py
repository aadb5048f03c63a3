"""The shared memory that a plan counts with is what its kernel declares."""

import cuda_on_cpu
import pytest
from kernel_builds import Training, trainings

from snn.backends import launch_memory

TRAININGS = {
    f"{build}-{architecture}": (build, int(architecture.removeprefix("sm_")))
    for build, architecture in trainings()
    if build.source.name != "convolution.cu"
}


@pytest.mark.skipif(cuda_on_cpu.MISSING, reason="no g++ on this machine")
@pytest.mark.parametrize("name", TRAININGS)
def test_a_plan_knows_the_shared_memory_of_its_blocks(name):
    build, architecture = TRAININGS[name]
    assert isinstance(build, Training)
    defines = {**build.defines, "__CUDA_ARCH__": 10 * architecture}
    declared = cuda_on_cpu.load(build.source, **defines)["shared_bytes"]
    capability = divmod(architecture, 10)
    assert launch_memory.shared_bytes(build.source.name, build.defines, capability) == declared
