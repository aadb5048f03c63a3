"""Which kernel did the arithmetic of a cell: the chosen one, or that of a strategy that brings its own."""

from collections.abc import Mapping
from typing import Any

from snn.strategies.factory import of_record, uses_kernel


def used(record: Mapping[str, Any]) -> str:
    """The name of the kernel: that of its file in ``kernels/``; empty for CPU baselines and peers.

    A training in one launch has a kernel of its own, in ``kernels/persistent/``. Otherwise, and if ``graph``
    or NumPy trains instead, it is the choice of ``config/kernel``.
    """
    if not uses_kernel(of_record(record)):
        return ""
    launch = record.get("launch")
    return str(launch["kernel"] if launch else record["cell"]["kernel"]["name"])
