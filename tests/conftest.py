"""Fixtures that several test files share."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from snn import backends, choices, devices  # noqa: E402
from snn.errors import DeviceError  # noqa: E402

STRATEGIES = choices.names("strategy")


def _why_no_gpu() -> str | None:
    try:
        devices.find("cuda")
    except DeviceError as error:
        return str(error)
    return None


def pytest_collection_modifyitems(items):
    reason = _why_no_gpu()
    if reason:
        for item in items:
            if "gpu" in item.keywords:
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)], scope="session")
def backend(request):
    """A backend of each sort that this machine has, with the paper's kernel."""
    return backends.make(request.param, choices.load("kernel", "naive"), ROOT)


@pytest.fixture
def random():
    return np.random.default_rng(20260211)


@pytest.fixture(scope="session")
def cuda_backend():
    return backends.make("cuda", choices.load("kernel", "naive"), ROOT)
