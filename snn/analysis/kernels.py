"""Which kernel did the arithmetic of a cell: the chosen one, or that of a strategy that brings its own."""

from collections.abc import Mapping
from typing import Any

from snn.models.gradients import EXACT
from snn.strategies.common.traits import of_record, uses_kernel

_LAYERS = {2: "two_layers", 3: "three_layers"}
"""The kernels of groups of blocks, by the number of hidden layers."""


def used(record: Mapping[str, Any]) -> str:
    """The name of the kernel: that of its file in ``kernels/``; empty for CPU baselines and peers.

    A plan for a whole training in one launch has a kernel of its own, in ``kernels/persistent/``. Without a
    plan, and where ``graph`` trains or NumPy takes the place of every kernel, it is the choice of
    ``config/kernel``.
    """
    plan = record.get("plan")
    if not uses_kernel(of_record(record)):
        return ""
    if not plan or plan.startswith(("graph:", "NumPy")):
        return str(record["cell"]["kernel"]["name"])
    return _of_plan(plan, record["cell"])


def _of_plan(plan: str, cell: Mapping[str, Any]) -> str:
    """The kernel that a plan in words launches: its first clause says how, the others why not otherwise."""
    words, _, reasons = plan.partition(";")
    if "cluster" in words:
        return "one_layer"
    if "groups of" in words:
        return _LAYERS[len(cell["network"]["hidden"])]
    if "image" in words:
        return "convolution"
    training = cell["training"]
    is_mlp = "hidden" in cell["network"]
    is_plain = training["reduction"] == "mean" and training["gradient"] == EXACT.name
    return "grid" if is_mlp and is_plain and "no grid:" not in reasons else "layers"
