"""The launch of a plan of stacks of layers, run on the CPU."""

import cuda_on_cpu
import numpy as np


def emulated(plan, buffers, rows, first, steps, rate, source, **further):
    """Train steps in these buffers as one launch does; ``further`` defines are added to the plan's."""
    kernels = cuda_on_cpu.load(source, **dict(plan.defines), **further)
    kernels["train_persistent"](
        (plan.blocks,),
        (plan.threads,),
        (*buffers, rows, first, steps, np.float32(rate)),
        dynamic_shared=kernels["shared_bytes"],
        cooperative=True,
    )
