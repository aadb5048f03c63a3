"""The door for records: all that a cell writes passes, its numbers agree, and no edited record passes."""

import json
import math
from dataclasses import replace
from unittest.mock import Mock

import jsonschema
import pytest
from failing_backend import FailingBackend
from hypothesis import given, settings
from hypothesis import strategies as st
from published_tables import records_in
from real_records import at, disagreements, edited, forged, leaves, measured, old, reference, refusal, without
from records_of import DATA, MEMBER, PROVENANCE, QUIET

from snn.config.settings import RANGES
from snn.errors import RecordError, Unsupported
from snn.files.published_sets import PUBLISHED, name_of
from snn.measurement import cell
from snn.measurement.accuracy import Errors
from snn.measurement.cell import build_record
from snn.measurement.runs import Epoch, Measurement, Run, WarmUp
from snn.records import store, untrusted

# ---- what cells write


@pytest.mark.parametrize(
    "chosen",
    [
        ["strategy=combined"],
        ["strategy=persistent"],
        ["strategy=blas"],
        ["strategy=graph"],  # unsupported on a CPU
        ["strategy=torch_eager"],  # unsupported, or a peer, which has no ledger
        ["training.learning_rate=1e30"],  # diverges
        ["protocol.runs=1"],
        ["protocol.runs=7", "protocol.rounds=2", "round=2"],
        ["protocol.runs=9", "protocol.max_seconds=0.001"],
        ["protocol.runs=9", "protocol.relative_error=1.0"],
        ["strategy=ensemble", "strategy.starts=1"],
        [
            "strategy=ensemble",
            "strategy.starts=2",
            "strategy.learning_rates=[0.002,9.0]",
            "training.epochs=30",
        ],
        ["network=layers", "network.layers=[linear 4,relu,linear 1]"],
    ],
    ids=lambda chosen: chosen[0],
)
def test_what_a_cell_writes_is_read(tmp_path, chosen):
    record = measured(*chosen)
    store.write(tmp_path / "r.json", record)
    assert store.read(tmp_path / "r.json") == record
    assert not disagreements(record)


@pytest.mark.parametrize("fail_at", [1, 90, 200, 250, 500])
def test_so_is_a_cell_that_runs_out_of_memory_anywhere(fail_at):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cell.backends, "make", lambda *arguments: FailingBackend(fail_at))
        record = measured("strategy=pinned", "network.hidden=[4]", "training.epochs=1")
    assert store.checked(record, "it") == record
    assert not disagreements(record)


def test_so_is_one_whose_device_lacks_what_the_backend_needs(monkeypatch):
    monkeypatch.setattr(cell.backends, "make", Mock(side_effect=Unsupported("no BF16 here")))
    record = measured()
    assert store.checked(record, "it")["status"] == "unsupported"


def test_so_is_one_without_readings_of_the_machine_and_with_further_provenance():
    record = reference()
    nothing = dict.fromkeys(("other_cores", "stolen_cores"))
    changes = [(("machine", "host", key), None) for key in record["machine"]["host"]]
    changes += [(("provenance", "threads"), {"blas": 1})]
    for readings in ([{"seconds": 0.1, **nothing}], []):
        store.checked(forged(record, *changes, (("machine", "readings"), readings)), "it")


# ---- edits


def of_other_values(value):
    """What someone may write in place of a value."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    others = [value * 100, -value, 0, value + 1] if number else []
    others += [None, True, False, "x", [], {}, 1, [value]]
    return [other for other in others if (type(other), other) != (type(value), value)]


NOTICED = tuple(f"it: {said}" for said in ("it was changed", "it has no digest", "the schema version"))


def test_no_value_can_be_changed_or_deleted_unnoticed():
    record = reference()
    ways = list(leaves(record))
    changed = [way for way in ways if way[:3] != ("explanation", "trace", "events")]
    changed += [way for way in ways if way not in set(changed)][::50]
    assert len(changed) > 200
    for way in changed:
        others = of_other_values(at(record, way))
        several = [edited(record, way, other) for other in others[:2]]
        for one in (*several, without(record, way)):
            assert refusal(store.checked, one, "it").startswith(NOTICED)


def read(record):
    """The record as a file holds it, through the door."""
    return store.checked(untrusted.parse(json.dumps(record), "it"), "it")


IMPOSSIBLE = {
    "no seconds": ([(("runs", 0, "seconds"), 0)], "runs[0].seconds is 0: it must be bigger than 0"),
    "less than none": ([(("runs", 0, "seconds"), -1.0)], "runs[0].seconds is -1.0"),
    "no runs": ([(("runs",), [])], "status is ok, but runs is empty"),
    "memory of no device": ([(("memory",), {"warnings": []})], "memory lacks device"),
    "part of a call": ([(("ledger", "mallocs"), 1.5)], "ledger.mallocs is 1.5: it must be integer"),
    "a float of calls": ([(("ledger", "mallocs"), 1.0)], "ledger.mallocs is 1.0: it must be integer"),
    "fewer calls than none": ([(("ledger", "mallocs"), -1)], "ledger.mallocs is -1"),
    "too many calls": ([(("ledger", "mallocs"), 10**30)], "000000 has more than 64 bits"),
    "a lost loss": ([(("runs", 0, "final_loss"), None)], "status is ok, but a loss of runs[0] is null"),
    "no reason": ([(("status",), "diverged")], "status is diverged, but reason is None"),
    "a needless reason": ([(("reason",), "so")], "status is ok, but reason is 'so'"),
    "not stopped": ([(("stopped",), None)], "status is ok, but stopped is None"),
    "round 0": ([(("round",), 0)], "round is 0"),
    "no round": ([(("round",), 1001)], "round is 1001"),
    "an accuracy of one run": ([(("runs", 1, "test_accuracy"), 0.5)], "some runs have test_accuracy"),
    "members of one": ([(("members",), [MEMBER | {"start": 1}])], "runs[0].member_mse"),
    "less memory than none": ([(("memory", "least_free_bytes"), -1)], "memory.least_free_bytes is -1"),
    "a probe of nothing": ([(("machine", "probe", "before", "copy_us"), 0)], "probe.before.copy_us is 0"),
    "colder than cold": ([(("warmup", "seconds"), -1)], "warmup.seconds is -1"),
    "no epochs": ([(("cell", "training", "epochs"), 0)], "cell.training.epochs is 0"),
    "true is not one": ([(("cell", "training", "epochs"), True)], "cell.training.epochs is True"),
    "no network": (
        [(("cell", "network"), {"clip_norm": None, "init": "x", "seed": 1, "update_order": "x"})],
        "cell.network must have hidden, or layers and a loss",
    ),
    "two networks": ([(("cell", "network", "layers"), ["x"])], "cell.network must have hidden, or layers"),
    "too many rounds": ([(("cell", "protocol", "rounds"), 10**15)], "cell.protocol.rounds is 1000000"),
    "too many runs": ([(("cell", "protocol", "runs"), 10**6)], "cell.protocol.runs is 1000000"),
    "a place elsewhere": ([(("cell", "dataset", "name"), "../../x")], "cell.dataset.name is '../../x'"),
    "code from elsewhere": ([(("cell", "strategy", "_target_"), "antigravity.X")], "strategy._target_ is"),
    "an unknown key": ([(("verdict",), "fastest")], "it has the unknown key 'verdict'"),
    "an unknown status": ([(("status",), "fine")], "status is 'fine': it must be one of ['ok', 'diverged'"),
    "a long text": ([(("cell", "strategy", "name"), "x" * 101)], "must be shorter than or equal to 100 char"),
    "a loss of text": ([(("runs", 0, "final_loss"), "x")], "runs[0].final_loss is 'x': it must be number or"),
    "an event without a site": ([(("explanation", "trace", "events", 0, 9), 999)], "a site is not one of"),
    "an event of text": ([(("explanation", "trace", "events", 0, 3), "x")], "a value of start_us is not"),
    "a true stream": ([(("explanation", "trace", "events", 0, 2), True)], "a value of stream is not"),
    "a size of text": ([(("explanation", "trace", "events", 0, 1), ["x"])], "a size is not a number"),
    "half of the device": ([(("explanation", "trace", "events", 0, 5), 0.5)], "only one of its two times"),
    "a short event": ([(("explanation", "trace", "events", 0), [])], "not every event has a value"),
    "no event": ([(("explanation", "trace", "events", 0), "x" * 10)], "not every event has a value"),
    "samples of no time": ([(("machine", "samples", "columns", "timed"), [])], "columns.timed has 0 values"),
    "another column": ([(("explanation", "trace", "columns", 0), "x")], "the columns are ['x', 'size'"),
}


@pytest.mark.parametrize(("changes", "said"), IMPOSSIBLE.values(), ids=list(IMPOSSIBLE))
def test_what_no_table_can_use_is_refused_even_under_a_digest_that_fits(changes, said):
    """So it is of version 3, which has no digest."""
    one = forged(reference(), *changes)
    for record in (one, old(one)):
        found = refusal(read, record)
        assert found.startswith("it: ") and said in found


def test_every_run_of_a_launch_has_a_loss_of_every_member():
    record = measured("strategy=ensemble", "strategy.starts=2", "network.hidden=[4]")
    for way, value in ((("runs", 0, "member_mse"), [1.0]), (("members",), [])):
        with pytest.raises(RecordError, match=r"runs\[0\].member_mse"):
            read(forged(record, (way, value)))


def test_what_schemas_say_names_key_and_value(monkeypatch):
    whole = {"$schema": "http://json-schema.org/draft-04/schema#", "type": "object"}
    whole |= {"dependencies": {"a": ["b", "c"]}, "additionalProperties": {"type": "array", "minItems": 1}}
    monkeypatch.setattr(untrusted, "load_schema", lambda name: whole)
    untrusted._validator.cache_clear()
    for value, said in (
        ([], "it is []: it must be object"),
        ({"a": [1], "c": [None]}, "it lacks b"),
        ({"x": []}, "x is []: it must contain at least 1 items"),
        ({"\x1b": 1}, "'\\x1b' is 1: it must be array"),
        ({"x": "y" * 99}, f"x is {'y' * 99!r}: it must be array"),
    ):
        assert refusal(untrusted.check_schema, "some", value, "it") == f"it: {said}"
    untrusted.check_schema("some", {"x": [1, None]}, "it")
    untrusted._validator.cache_clear()


WRONG = [None, True, 0, -1, 1.5, "x", "../x", [], {}, [None], ["x"], {"x": 1}, 10**15]


@settings(max_examples=60)
@given(data=st.data())
def test_the_schema_is_that_of_json_schema(data):
    """What it refuses, a validator of JSON Schema refuses as well."""
    record = reference()
    ways = [way for way in leaves(record) if "events" not in way]
    way = data.draw(st.sampled_from(ways))[: data.draw(st.integers(1, 5))]
    value = data.draw(st.sampled_from(WRONG))
    changed = data.draw(st.sampled_from([edited(record, way, value), without(record, way)]))
    validator = jsonschema.Draft4Validator(untrusted.load_schema("record"))
    try:
        untrusted.check_schema("record", changed, "it")
    except RecordError:
        assert not validator.is_valid(changed)
    else:
        assert validator.is_valid(changed)


def test_a_record_has_no_longer_protocol_than_a_cell_may_have():
    """Else a small archive would ask for more rounds than can be counted."""
    protocol = untrusted.load_schema("record")["properties"]["cell"]["properties"]["protocol"]["properties"]
    for key in ("rounds", "runs", "min_runs"):
        assert protocol[key]["maximum"] == RANGES[f"protocol.{key}"].most
    assert untrusted.load_schema("record")["properties"]["round"]["maximum"] == RANGES["protocol.rounds"].most


@pytest.mark.parametrize("name", ["=HYPERLINK(1)", "+1", "-1", "@x", " =1", "_", "\u202ex"])
def test_the_name_of_a_device_begins_no_formula(name):
    """A program for spreadsheets computes a cell of a table that begins so."""
    both = ((("cell", "device", "name"), name), (("provenance", "device"), name))
    with pytest.raises(RecordError, match=r"(cell.device.name|provenance.device) is .*: it must match"):
        store.checked(forged(reference(), *both), "it")
    other = "\u663e\u5361 =1"
    store.checked(forged(reference(), *((way, other) for way, _ in both)), "it")
    kinds = ("record", "limits", "microbenchmark")
    assert len({str(untrusted.load_schema(kind)["$defs"]["device"]) for kind in kinds}) == 1


# ---- the numbers of a record agree with each other in whatever is written, and in what is published


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


@given(measurement=measurements(), squared=st.booleans())
def test_a_summary_follows_from_its_runs_whatever_was_measured(measurement, squared):
    network = reference()["cell"]["network"] | ({} if squared else {"loss": "cross_entropy"})
    where = PROVENANCE | {"elapsed_seconds": 1e9}
    record = build_record(
        reference()["cell"] | {"network": network},
        1,
        measurement,
        None,
        QUIET,
        where | {"source_hash": "0" * 16},
        DATA,
    )
    assert not OF_RUNS & set(disagreements(record))


@pytest.mark.parametrize("folder", sorted(path.parent for path in PUBLISHED.glob("*/*/*.gz")), ids=name_of)
def test_published_records_obey_every_rule(folder):
    for record in records_in(folder):
        assert not disagreements(record), record["cell"]


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
