"""The loss before any training: what a final loss is held against."""

import numpy as np

from snn.measurement.accuracy import predicted
from snn.models.glibc_random import GlibcRandom
from snn.models.network import draw_weights
from snn.strategies.common.job import Job

_ROWS = 256
"""So many of the last rows are enough for the order of magnitude."""


def untrained_loss(job: Job) -> float:
    """The loss of a job's network with the first draw of its seed's initial weights, on its last rows."""
    X, Y = job.X[-_ROWS:], job.Y[-_ROWS:].astype(np.float64)
    outputs = predicted(job.network, draw_weights(job.network, GlibcRandom(job.seed)), X).astype(np.float64)
    with np.errstate(all="ignore"):
        if not job.is_classification:
            return float(np.mean(np.square(outputs - Y)))
        return float(np.mean(np.logaddexp.reduce(outputs, axis=1) - (outputs * Y).sum(axis=1)))
