"""Records as cells leave them, measured on the CPU in a moment, and edits of them."""

import json
from functools import cache

import pytest

from snn.config.compose import composed
from snn.errors import RecordError
from snn.measurement import cell
from snn.records.store import sealed

QUICK = ("device=cpu", "dataset=small", "training.epochs=2", "protocol.runs=2", "protocol.min_runs=1")
QUICK += ("protocol.warmup_seconds=0", "protocol.max_warmup_seconds=0")


def quick(*settings):
    """The settings of a cell that takes a few milliseconds, with these in place of their own."""
    given = dict(setting.split("=", 1) for setting in (*QUICK, *settings))
    return [f"{key}={value}" for key, value in given.items()]


def measured(*settings):
    """The record of such a cell, as JSON holds it."""
    return json.loads(json.dumps(cell.run(composed(quick(*settings)))))


@cache
def reference():
    """The record of the reference on ``small``. Do not change it: make another with ``edited``."""
    return measured("strategy=reference", "network.hidden=[8]")


def leaves(value, way=()):
    """The ways to all values in a record that are no objects or lists of further ones, and to empty ones."""
    if not isinstance(value, (dict, list)) or not value:
        yield way
        return
    for key in value if isinstance(value, dict) else range(len(value)):
        yield from leaves(value[key], (*way, key))


def at(record, way):
    """The value that stands there."""
    for key in way:
        record = record[key]
    return record


def edited(record, way, value):
    """The record with another value there, as someone would edit the file; nothing that it shares changes."""
    if not way:
        return value
    copied = record.copy()
    copied[way[0]] = edited(record[way[0]], way[1:], value) if len(way) > 1 else value
    return copied


def without(record, way):
    """The record without what stands there."""
    container = at(record, way[:-1]).copy()
    del container[way[-1]]
    return edited(record, way[:-1], container)


def forged(record, *changes):
    """The record with these values at these ways, under a digest that fits."""
    for way, value in changes:
        record = edited(record, way, value)
    return sealed(record)


def old(record):
    """The record as the program before wrote it, of version 3: without a digest."""
    return without(record, ("digest",)) | {"schema_version": 3}


def refusal(do, *arguments):
    """What a call says that refuses a record or its file."""
    with pytest.raises(RecordError) as refused:
        do(*arguments)
    return str(refused.value)
