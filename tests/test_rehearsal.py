"""A rehearsal is of the memory that a strategy holds, whatever it computes."""

import numpy as np
import pytest
from every_source import Captures

from snn.config import groups
from snn.models.network import mlp
from snn.profiling.rehearsal import rehearse
from snn.strategies.common.job import Job
from snn.strategies.reference import Reference


@pytest.mark.filterwarnings("error")
def test_a_rehearsal_on_data_that_overflows_gives_no_warning():
    data = np.full((8, 4), 1e30, dtype=np.float32)
    job = Job(groups.load("strategy", "blas"), mlp((4, 16, 1)), data, data[:, :1], 1, 1, 4, 0.01)
    assert rehearse(job, len(data), Captures()).nbytes == 0


class Staging(Reference):
    """Holds a block of 1 KiB in its set-up only, and in an epoch 4 bytes per row."""

    def setup(self, network, X, *others):
        self.rows = len(X)
        self.backend.free(self.backend.malloc(1024))

    def load(self, weights):
        """It computes nothing."""

    def epoch(self):
        self.backend.free(self.backend.malloc(4 * self.rows))


def test_what_is_held_in_the_set_up_only_hides_nothing_that_grows_with_the_data():
    data, choice = np.zeros((12, 4), dtype=np.float32), {"_target_": f"{__name__}.Staging", "name": "staging"}
    job = Job(choice, mlp((4, 16, 1)), data, data[:, :1], 1, 1, 4, 0.01)
    assert [rehearse(job, rows, Captures()).nbytes for rows in (16, 4096)] == [1024, 4 * 4096]
