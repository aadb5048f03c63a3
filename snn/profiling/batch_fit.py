"""The batch size that would fit: what smaller batches hold of the device's memory."""

from dataclasses import replace

from snn.backends.base import Backend
from snn.profiling.memory import size
from snn.profiling.rehearsal import rehearse
from snn.strategies.common.job import Job


def advice(job: Job, free: int, backend: Backend) -> str:
    """The largest batch size, of those got by halving the job's, whose peak is within the free bytes.

    Of a training in micro-batches, these are halved.
    """
    parts, needed = job.network.accumulate, 0
    batch_size = job.batch_size
    while batch_size > parts:
        batch_size = batch_size // parts // 2 * parts
        needed = _needed(job, batch_size, backend)
        if needed <= free:
            return f"training.batch_size={batch_size} would fit: {size(needed)} of {size(free)} free"
    needed = needed or _needed(job, parts, backend)
    row = "one row per batch" if parts == 1 else "one row per micro-batch"
    return f"no batch size would fit: {row} needs {size(needed)}, {size(free)} are free"


def _needed(job: Job, batch_size: int, backend: Backend) -> int:
    return rehearse(replace(job, batch_size=batch_size), len(job.X), backend).nbytes
