"""The numbers of a record agree with each other in whatever is written, and in what is published."""

import math
from dataclasses import replace
from functools import cache

import pytest
from conftest import ROOT
from hypothesis import given
from hypothesis import strategies as st
from real_records import edited, forged, measured, reference
from record_rules import disagreements
from records_of import DATA, PROVENANCE, QUIET

from snn.measurement.accuracy import Errors
from snn.measurement.cell import build_record
from snn.measurement.runs import Epoch, Measurement, Run, WarmUp
from snn.records import archive, store

seconds = st.floats(1e-6, 1e3)
losses = st.floats(-1e38, 1e38) | st.sampled_from([math.nan, math.inf, -math.inf])
errors = st.builds(Errors, st.floats(0, 1e38), st.floats(0, 1e38), st.none() | st.floats(-1e38, 1))


@st.composite
def measurements(draw):
    """What a cell may have measured: any number of runs, of several members or one, with test rows or not."""
    members = draw(st.sampled_from([0, 0, 1, 3]))
    kind = draw(st.sampled_from(["loss", "classification", "regression"])) if not members else "loss"
    runs = []
    for _ in range(draw(st.integers(0, 6))):
        run = Run(draw(seconds), draw(losses))
        if members:
            some = draw(st.lists(st.floats(-1e38, 1e38), min_size=members, max_size=members))
            run = replace(run, losses=tuple(some), final_loss=math.fsum(some) / members)
        if kind == "classification":
            epochs = tuple(Epoch(run.seconds / 2, draw(losses)) for _ in range(2))
            run = replace(run, epochs=epochs, test_accuracy=draw(st.floats(0, 1)), test_seconds=draw(seconds))
        if kind == "regression":
            run = replace(run, test_errors=draw(errors))
        runs.append(run)
    found = Measurement(runs=runs, members=[{"seed": i} for i in range(members)])
    if runs:
        found.stopped, found.setup_seconds = "runs", draw(seconds)
        found.warmup = WarmUp(draw(seconds), 9, True)
    return found


OF_RUNS = {"summary", "loss of members", "epochs", "errors of test rows"}


@cache
def cell():
    return reference()["cell"]


@given(measurement=measurements(), squared=st.booleans())
def test_a_summary_follows_from_its_runs_whatever_was_measured(measurement, squared):
    network = cell()["network"] | ({} if squared else {"loss": "cross_entropy"})
    where = PROVENANCE | {"elapsed_seconds": 1e9}
    record = build_record(
        cell() | {"network": network}, 1, measurement, None, QUIET, where | {"source_hash": "0" * 16}, DATA
    )
    assert not OF_RUNS & set(disagreements(record))


@pytest.mark.parametrize("folder", sorted(path.parent for path in ROOT.glob("results/published/*/*/*.gz")))
def test_published_records_obey_every_rule(folder):
    for place, entry in archive.unchecked(folder).items():
        assert not disagreements(entry.record), place


BROKEN = {
    "seconds times 100": ([("runs.0.seconds", 123.0)], "summary"),
    "another deviation": ([("summary.std_seconds", 0.9)], "summary"),
    "more runs in the summary": ([("summary.runs", 3)], "summary"),
    "another mean loss": ([("summary.mean_final_loss", 0.9)], "summary"),
    "nothing diverged": ([("status", "diverged"), ("reason", "so")], "lost loss"),
    "another error": ([("runs.1.final_mse", 0.9)], "loss of members"),
    "too many runs": ([("cell.protocol.runs", 1)], "share of runs"),
    "too few runs": ([("cell.protocol.runs", 9)], "share of runs"),
    "a rule that is off": ([("stopped", "relative_error")], "share of runs"),
    "longer than itself": ([("provenance.elapsed_seconds", 1e-6)], "elapsed"),
    "no warm-up": ([("warmup", None)], "elapsed"),
    "no ledger": ([("ledger", {})], "passes"),
    "its own runtime": ([("traits.own_runtime", "torch")], "passes"),
    "more free than there is": ([("memory.total_bytes", 1)], "passes"),
    "side by side": ([("traits.side_by_side", True)], "members"),
    "another device": ([("provenance.device", "Abacus")], "device"),
    "no neighbour": ([("cell.protocol.neighbour", "graph")], "neighbour"),
    "an early end": ([("explanation.trace.events.0.4", -1e9)], "trace"),
}


@pytest.mark.parametrize(("changes", "rule"), BROKEN.values(), ids=list(BROKEN))
def test_each_rule_notices_what_breaks_it(changes, rule):
    record = reference()
    for way, value in changes:
        way = tuple(int(key) if key.isdecimal() else key for key in way.split("."))
        record = edited(record, way, value)
    assert rule in disagreements(record)
    assert store.checked(forged(record), "it")  # a reader relies on the digest


def test_so_do_those_of_members_epochs_test_rows_and_samples():
    launch, run = (
        measured("strategy=ensemble", "strategy.starts=2", "network.hidden=[4]"),
        reference()["runs"][0],
    )
    samples = {"taken": 2, "samples_per_row": 1, "columns": {"t_s": [1.0, 0.0]}}
    for record, way, value, rule in (
        (launch, ("runs", 0, "member_mse", 0), 1e9, "loss of members"),
        (launch, ("summary", "members"), 3, "summary"),
        (reference(), ("runs", 0), run | {"epochs": [{"seconds": run["seconds"] * 2}]}, "epochs"),
        (reference(), ("runs", 0), run | {"test_r2": 0.5}, "errors of test rows"),
        (reference(), ("machine", "samples"), samples, "samples"),
    ):
        assert rule in disagreements(edited(record, way, value))
