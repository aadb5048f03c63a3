"""A record of a device itself: what was measured while nothing else used it, and its state then."""

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from snn.files import outputs
from snn.hardware.devices import Device, check_cuda
from snn.hardware.locks import device_lock
from snn.hardware.sampling import gpu_state
from snn.measurement import provenance
from snn.records import store
from snn.records.digest import sealed


def measured(
    device: Device, measure: Callable[[], Mapping[str, Any]], source_hash: Callable[[], str]
) -> dict[str, Any]:
    """What ``measure`` finds, with the device's state before and after, where and when; sealed."""
    with device_lock(device):
        started, clock = datetime.now(UTC).isoformat(timespec="seconds"), time.perf_counter()
        before = gpu_state(device)
        found = measure()
        after = gpu_state(device)
        check_cuda(device)
        elapsed = time.perf_counter() - clock
    described = {"started": started, "elapsed_seconds": elapsed, "source_hash": source_hash()}
    return sealed(
        {
            **found,
            "machine": {"before": before, "after": after},
            "provenance": provenance.describe(device) | described,
        }
    )


def write(output: str, make: Callable[[], dict[str, Any]]) -> None:
    """Write what ``make`` returns, into a file that is checked before. Raises OutputError."""
    path = outputs.checked(output)
    record = make()
    with outputs.reported(path):
        store.write(path, record)
