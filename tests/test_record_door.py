"""The door for records: every record that a cell writes passes, and no edited or impossible one."""

import jsonschema
import pytest
from failing_backend import FailingBackend
from hypothesis import given, settings
from hypothesis import strategies as st
from real_records import at, edited, forged, leaves, measured, old, reference, without

from snn.config.ranges import RANGES
from snn.errors import RecordError, Unsupported
from snn.measurement import cell
from snn.records import schema, store
from snn.records.digest import sealed

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


@pytest.mark.parametrize("fail_at", [1, 90, 200, 250, 500])
def test_so_is_a_cell_that_runs_out_of_memory_anywhere(fail_at):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cell.backends, "make", lambda *arguments: FailingBackend(fail_at))
        record = measured("strategy=pinned", "network.hidden=[4]", "training.epochs=1")
    assert store.checked(record, "it") == record


def test_so_is_one_whose_device_lacks_what_the_backend_needs(monkeypatch):
    def refuse(*arguments):
        raise Unsupported("no BF16 here")

    monkeypatch.setattr(cell.backends, "make", refuse)
    record = measured()
    assert store.checked(record, "it")["status"] == "unsupported"


def test_so_is_one_without_readings_of_the_machine():
    record = reference()
    nothing = dict.fromkeys(("other_cores", "stolen_cores"))
    changes = [(("machine", "host", key), None) for key in record["machine"]["host"]]
    changes += [(("machine", "readings"), [{"seconds": 0.1, **nothing}])]
    store.checked(forged(record, *changes), "it")
    store.checked(forged(record, (("machine", "readings"), [])), "it")


def test_so_is_one_with_further_provenance():
    store.checked(forged(reference(), (("provenance", "threads"), {"blas": 1})), "it")


# ---- edits


def of_other_values(value):
    """What someone may write in place of a value."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    others = [value * 100, -value, 0, value + 1] if number else []
    others += [None, True, False, "x", [], {}, 1, [value]]
    return [other for other in others if (type(other), other) != (type(value), value)]


def test_no_value_can_be_changed_or_deleted_unnoticed():
    record = reference()
    ways = list(leaves(record))
    changed = [way for way in ways if way[:3] != ("explanation", "trace", "events")]
    changed += [way for way in ways if way not in set(changed)][::50]
    assert len(changed) > 200
    for way in changed:
        others = of_other_values(at(record, way))
        several = [edited(record, way, other) for other in others[: 2 if len(way) > 3 else None]]
        for one in (*several, without(record, way)):
            with pytest.raises(
                RecordError, match=r"^it: (it was changed|it has no digest|the schema version)"
            ):
                store.checked(one, "it")


def seconds(value):
    return [(("runs", 0, "seconds"), value)]


IMPOSSIBLE = {
    "seconds times 100": (seconds(123.0), "summary.mean_seconds is"),
    "no seconds": (seconds(0), "runs[0].seconds is 0: it must be a finite number, above 0"),
    "less than none": (seconds(-1.0), "runs[0].seconds is -1.0"),
    "no runs": ([(("runs",), [])], "status is ok, but runs is empty"),
    "no ledger": ([(("ledger",), {})], "ledger is empty"),
    "neither ledger nor memory": (
        [(("ledger",), {}), (("memory",), {}), (("explanation",), None)],
        "ledger is empty, but the strategy ran",
    ),
    "memory of no device": ([(("memory",), {"warnings": []})], "memory lacks device"),
    "part of a call": ([(("ledger", "mallocs"), 1.5)], "ledger.mallocs is 1.5"),
    "fewer calls than none": ([(("ledger", "mallocs"), -1)], "ledger.mallocs is -1"),
    "another mean": ([(("summary", "mean_seconds"), 0.9)], "summary.mean_seconds is 0.9"),
    "another deviation": ([(("summary", "std_seconds"), 0.9)], "summary.std_seconds is 0.9"),
    "no deviation": ([(("summary", "std_seconds"), None)], "summary.std_seconds is None"),
    "more runs in the summary": ([(("summary", "runs"), 3)], "summary.runs is 3, but there are 2"),
    "another mean loss": ([(("summary", "mean_final_loss"), 0.9)], "summary.mean_final_loss is 0.9"),
    "another error than loss": ([(("runs", 1, "final_mse"), 0.9)], "runs[1].final_mse is 0.9"),
    "a loss that is lost": (
        [(("runs", 0, key), None) for key in ("final_loss", "final_mse")],
        "status is ok, but a loss is null",
    ),
    "nothing diverged": ([(("status",), "diverged"), (("reason",), "so")], "but no loss is null"),
    "no reason": ([(("status",), "diverged")], "every status but ok has a reason"),
    "a needless reason": ([(("reason",), "so")], "every status but ok has a reason"),
    "not stopped": ([(("stopped",), None)], "status is ok, but stopped is None"),
    "a rule that is off": ([(("stopped",), "relative_error")], "protocol.relative_error is null"),
    "more runs than the protocol's": ([(("cell", "protocol", "runs"), 1)], "the protocol has 1 in a round"),
    "fewer runs than the protocol's": ([(("cell", "protocol", "runs"), 9)], "the protocol has 9 in a round"),
    "round 0": ([(("round",), 0)], "round is 0"),
    "longer than itself": ([(("provenance", "elapsed_seconds"), 1e-6)], "elapsed_seconds is 1e-06"),
    "another device": ([(("provenance", "device"), "Abacus")], "it was measured on cpu 'Abacus'"),
    "members of one": (
        [(("members",), [{"seed": 1, "init": "x", "learning_rate": 0.1, "start": 1}])],
        "1 members",
    ),
    "a runtime of its own": ([(("traits", "own_runtime"), "torch")], "torch has a runtime of its own"),
    "less memory than none": ([(("memory", "least_free_bytes"), -1)], "memory.least_free_bytes is -1"),
    "more free than there is": ([(("memory", "total_bytes"), 1)], "more than memory.total_bytes"),
    "a probe of nothing": (
        [(("machine", "probe", "before", "copy_us"), 0)],
        "machine.probe.before.copy_us is 0",
    ),
    "warmer than warm": ([(("warmup", "seconds"), -1)], "warmup.seconds is -1"),
    "no epochs": ([(("cell", "training", "epochs"), 0)], "cell.training.epochs is 0"),
    "true is not one": ([(("cell", "training", "epochs"), True)], "cell.training.epochs is True"),
    "no network": (
        [(("cell", "network"), {"clip_norm": None, "init": "x", "seed": 1, "update_order": "x"})],
        "hidden",
    ),
    "too large": ([(("ledger", "mallocs"), 10**30)], "ledger.mallocs is 1000"),
    "more rounds than are planned": (
        [(("cell", "protocol", "rounds"), 10**15)],
        "cell.protocol.rounds is 1000000000000000",
    ),
    "more runs than are read": ([(("cell", "protocol", "runs"), 10**6)], "cell.protocol.runs is 1000000"),
    "no round": ([(("round",), 1001)], "round is 1001"),
    "a place elsewhere": ([(("cell", "dataset", "name"), "../../x")], "cell.dataset.name is '../../x'"),
    "code from elsewhere": (
        [(("cell", "strategy", "_target_"), "antigravity.X")],
        "cell.strategy._target_ is",
    ),
    "an unknown key": ([(("verdict",), "fastest")], "has the unknown key 'verdict'"),
    "an event that ends early": ([(("explanation", "trace", "events", 0, 4), -1e9)], "a call ends before"),
    "an event without a site": ([(("explanation", "trace", "events", 0, 9), 999)], "a site is not one of"),
    "an event of text": ([(("explanation", "trace", "events", 0, 3), "x")], "a value of start_us is not"),
    "a short event": ([(("explanation", "trace", "events", 0), [])], "not every event has a value"),
}


@pytest.mark.parametrize(("changes", "said"), IMPOSSIBLE.values(), ids=list(IMPOSSIBLE))
def test_what_no_cell_leaves_is_refused_even_under_a_digest_that_fits(changes, said):
    """So it is of version 3, which has no digest."""
    one = forged(reference(), *changes)
    for record in (one, old(one)):
        with pytest.raises(RecordError, match=r"^it: ") as refused:
            store.checked(record, "it")
        assert said in str(refused.value)


def test_members_of_a_launch_and_their_mean():
    record = measured("strategy=ensemble", "strategy.starts=2", "network.hidden=[4]")
    for way, value in (
        (("runs", 0, "member_mse", 0), 1e9),
        (("runs", 0, "member_mse"), [1.0]),
        (("summary", "members"), 3),
        (("summary", "mean_seconds_per_member"), 9.0),
        (("members",), []),
    ):
        with pytest.raises(RecordError, match="member"):
            store.checked(forged(record, (way, value)), "it")


@settings(max_examples=60)
@given(data=st.data())
def test_the_schema_is_that_of_json_schema(data):
    """What it refuses, a validator of JSON Schema refuses as well, but for integers beyond 64 bits."""
    record = reference()
    ways = [way for way in leaves(record) if "events" not in way]
    way = data.draw(st.sampled_from(ways))[: data.draw(st.integers(1, 5))]
    value = data.draw(
        st.sampled_from([None, True, 0, -1, 1.5, "x", "../x", [], {}, [None], ["x"], {"x": 1}, 10**15])
    )
    changed = data.draw(st.sampled_from([edited(record, way, value), without(record, way)]))
    validator = jsonschema.Draft202012Validator(schema.load("record"))
    try:
        schema.check("record", changed, "it")
    except RecordError:
        assert not validator.is_valid(changed)
    else:
        assert validator.is_valid(changed)


def test_a_record_has_no_longer_protocol_than_a_cell_may_have():
    """Else a small archive would ask for more rounds than can be counted."""
    protocol = schema.load("record")["properties"]["cell"]["properties"]["protocol"]["properties"]
    for key in ("rounds", "runs", "min_runs"):
        assert protocol[key]["maximum"] == RANGES[f"protocol.{key}"].most
    assert schema.load("record")["properties"]["round"]["maximum"] == RANGES["protocol.rounds"].most


@pytest.mark.parametrize("name", ["=HYPERLINK(1)", "+1", "-1", "@x", " =1", "_", "\u202ex"])
def test_the_name_of_a_device_begins_no_formula(name):
    """A program for spreadsheets computes a cell of a table that begins so."""
    both = ((("cell", "device", "name"), name), (("provenance", "device"), name))
    with pytest.raises(RecordError, match=r"(cell.device.name|provenance.device) is .*: it must match"):
        store.checked(forged(reference(), *both), "it")
    other = "\u663e\u5361 =1"
    store.checked(forged(reference(), *((way, other) for way, _ in both)), "it")
    rules = [schema.load(kind)["$defs"]["device"] for kind in ("record", "limits", "microbenchmark")]
    assert rules == rules[:1] * 3


def test_a_digest_does_not_depend_on_the_layout():
    record = reference()
    assert sealed(dict(reversed(record.items()))) == record
