"""Where and when a round was measured, and whether two rounds may be paired in a ratio."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from math import nan
from typing import Any, NamedTuple

from snn.records import store

SAME_PASS_SECONDS = 3600.0
"""Rounds of two runs of the workflow are of one pass if they started within an hour of each other: one of the
runs continued the other. So are rounds of records that do not name their run; an archived pass took 25
minutes at most."""

GPUS, HOSTS, PASSES = "different GPUs", "different hosts", "different passes"


class Origin(NamedTuple):
    """The UUID of a round's GPU (None of a CPU), its host, the run of the workflow, and the start in seconds.
    Whatever is None or NaN is unknown."""

    gpu: str | None = None
    host: tuple[Any, ...] = ()
    run: str | None = None
    started: float = nan

    def apart(self, other: "Origin") -> str:
        """Why the same round of two cells may not be paired; empty if it may."""
        if self.gpu != other.gpu and self.gpu and other.gpu:
            return GPUS
        if any(a != b and None not in (a, b) for a, b in zip(self.host, other.host, strict=False)):
            return HOSTS
        if self.run and self.run == other.run:
            return ""
        return PASSES if abs(self.started - other.started) > SAME_PASS_SECONDS else ""


def origin(provenance: Mapping[str, Any]) -> Origin:
    host = provenance.get("host", {})
    return Origin(
        provenance["device_uuid"],
        (*store.host(provenance), host.get("id"), host.get("boot")),
        (provenance.get("workflow") or {}).get("run"),
        datetime.fromisoformat(provenance["started"]).timestamp(),
    )


def gpus_alone(origins: Iterable[Origin]) -> list[Origin]:
    """The same without host and pass: of results whose comparison is one of different occasions."""
    return [Origin(one.gpu) for one in origins]
