"""A launch of a whole training, run on the CPU."""

import cuda_on_cpu
from conftest import ROOT

from snn.backends import kernel_source


def faulty(source, line, instead, folder):
    """A copy of a source, with its headers, in which one place is another."""
    text = kernel_source.text(ROOT / source)
    assert text.count(line) == 1
    copy = folder / "faulty.cu"
    copy.write_text(text.replace(line, instead))
    return copy


def launched(launch, buffers, steps, source=None, **further):
    """Train steps in these buffers as one launch does; ``further`` defines are added to its own."""
    kernels = cuda_on_cpu.load(source or ROOT / launch.source, **dict(launch.defines), **further)
    assert kernels["workspace_floats"] <= buffers[-1].size
    numbers = steps[3:5]
    if launch.kernel in ("layers", "convolution"):
        further = steps.epoch, steps.seed, *(*steps.numbers, *4 * [0.0])[:4], *steps.schedule
        numbers = steps.rate, *further, steps.max_norm
    kernels["train_persistent"](
        (launch.blocks,),
        (launch.threads,),
        (*buffers, *steps[:3], *numbers),
        dynamic_shared=kernels["shared_bytes"],
        cooperative=not launch.cluster,
        cluster=launch.cluster or 1,
    )
