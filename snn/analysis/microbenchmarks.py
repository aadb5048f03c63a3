"""Records of microbenchmarks for their tables."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from snn.analysis.floors import device_of, named
from snn.errors import RecordError
from snn.hardware.limits import Measured
from snn.records import microbenchmarks


def read(path: Path, settings: Mapping[str, Any], source_hash: str) -> dict[str, Any]:
    """A record of a microbenchmark, as ``snn.records.microbenchmarks.read`` checks it.

    Raises RecordError where it is none, or was measured with other settings or sources.
    """
    record = microbenchmarks.read(path)
    recorded = record["provenance"]["source_hash"]
    if record["settings"] != settings:
        raise RecordError(
            f"{path}: measured with other settings than the grid's: measure it again: "
            f"snakemake --cores 1 --force {path}"
        )
    if recorded != source_hash:
        raise RecordError(
            f"{path}: measured with other sources ({recorded}) than the current ones ({source_hash}): "
            f"measure it again: snakemake --cores 1 --force {path}"
        )
    return record


def limit_of(record: Mapping[str, Any], limits: Sequence[Mapping[str, Any]], what: str) -> float | None:
    """One of the limits of a microbenchmark's device; None where it has none, or there is no record of any.

    Raises RecordError where all of the limits are of other devices.
    """
    if not limits:
        return None
    known = {device_of(one): one for one in limits}
    if (its := device_of(record)) not in known:
        raise RecordError(
            f"the limits are of {' and '.join(map(named, known))}, {record['name']} of {named(its)}: "
            "measure one of them again"
        )
    return next((one.value for one in Measured.of(known[its]).limits if one.what == what), None)
