"""The state of the machine: which word its readings earn."""

import math
import statistics

import pytest
from conftest import ROOT
from records_of import QUIET

from snn.analysis.machine_state import drift, mean_costs, verdict
from snn.config.groups import read_yaml
from snn.hardware.devices import Device

THRESHOLDS = read_yaml(ROOT / "config/verdicts.yaml")
CPU = Device("cpu", "Abacus")


def judged(readings=None, probe_after=None, spread=0.0, more_readings=(), **host):
    """The verdict on a record with these readings."""
    state = {
        "host": QUIET["host"] | host,
        "probe": {"before": {"copy_us": 10.0}, "after": {"copy_us": 10.0} | (probe_after or {})},
        "readings": [QUIET["readings"][0] | one for one in (readings or {}, *more_readings)],
    }
    runs = [{"seconds": 1 - spread / 2**0.5}, {"seconds": 1 + spread / 2**0.5}]
    return verdict([{"round": 1, "machine": state, "runs": runs}], THRESHOLDS)


@pytest.mark.parametrize(
    ("record", "word", "note"),
    [
        ({}, "quiet", ""),
        ({"spread": 0.04}, "quiet", ""),
        ({"spread": 0.06}, "noisy", "coefficient of variation of the runs 6.0%"),
        ({"readings": {"other_cores": 1.5}}, "quiet", ""),
        ({"readings": {"other_cores": 1.7}}, "shared", "other processes used 1.70 of 16 CPUs"),
        ({"readings": {"other_cores": 0.3}, "cpus": 2}, "shared", "0.30 of 2 CPUs"),
        ({"readings": {"other_cores": 0.3}, "cpus": None}, "shared", "0.30 of 1 CPUs"),
        ({"readings": {"stolen_cores": 1.0}}, "shared", "the hypervisor took 1.00 of 16 CPUs"),
        ({"readings": {"other_processes": 2}}, "shared", "2 other processes on the GPU"),
        ({"others_gpu_bytes": 2 << 30}, "shared", "other processes held 2 GiB of GPU memory before"),
        ({"others_gpu_bytes": 5_000_000}, "quiet", ""),
        ({"more_readings": [{"memory_used_bytes": n << 30} for n in (1, 3, 3)]}, "shared", "by 2 GiB"),
        ({"more_readings": [{"memory_used_bytes": n << 20} for n in (1, 9, 9)]}, "quiet", ""),
        ({"more_readings": [{"memory_used_bytes": n << 30} for n in (3, 3, 1)]}, "quiet", ""),
        ({"readings": {"throttled": ["power brake"]}}, "throttled", "power brake"),
        ({"probe_after": {"copy_us": 14.0}}, "quiet", ""),
        ({"probe_after": {"copy_us": 16.0}}, "drifted", "copy cost +60%"),
        ({"probe_after": {"copy_us": 4.0}}, "drifted", "copy cost -60%"),
        ({"readings": {"other_cores": 9.0}, "spread": 0.5}, "shared, noisy", "9.00"),
        ({"readings": {"other_cores": None, "throttled": None}}, "quiet", ""),
        # The worst reading counts, whichever it is.
        ({"readings": {"other_cores": 9.0}, "more_readings": [{}]}, "shared", "used 9.00 of 16"),
        ({"more_readings": [{"other_cores": 9.0}, {}]}, "shared", "used 9.00 of 16"),
        ({"readings": {"other_processes": 2}, "more_readings": [{}]}, "shared", "2 other processes"),
        ({"readings": {"throttled": ["heat"]}, "more_readings": [{}]}, "throttled", "heat"),
    ],
)
def test_verdicts(record, word, note):
    found = judged(**record)
    assert found[0] == word
    assert note in found[1]


@pytest.mark.parametrize(
    ("strategy", "neighbours", "cores", "word"),
    [
        ("reference", [], 0.0, "quiet"),
        ("reference", ["GPU-2"], 0.0, "shared"),
        ("graph", ["GPU-2"], 0.0, "quiet"),
        ("graph", ["GPU-2"], 2.5, "quiet"),  # of 16, one of them the neighbour's
        ("graph", ["GPU-2"], 2.7, "shared"),
        ("graph", [], 2.5, "shared"),
    ],
)
def test_a_neighbour_matters_to_strategies_that_it_slows_down(strategy, neighbours, cores, word):
    state = {
        "host": QUIET["host"],
        "probe": {"before": {}, "after": {}},
        "readings": [QUIET["readings"][0] | {"other_cores": cores}],
        "neighbours": neighbours,
    }
    runs = [{"seconds": 1.0}, {"seconds": 1.0}]
    cell = {"strategy": {"name": strategy}, "protocol": {}}
    found, note = verdict([{"round": 1, "machine": state, "runs": runs, "cell": cell}], THRESHOLDS)
    assert found == word
    assert ("other cells ran on GPU-2" in note) == (strategy == "reference" and bool(neighbours))


def state_of(number=1, readings=(), seconds=(1.0, 1.0), probe=None, **host):
    probe = probe or {"before": {}, "after": {}}
    machine = {"host": {"cpus": 10, **host}, "probe": probe, "readings": list(readings)}
    return {"round": number, "machine": machine, "runs": [{"seconds": one} for one in seconds]}


def reading(**values):
    return {"other_cores": None, "stolen_cores": None} | values


EDGES = {"noisy": 0.05, "other_cores": 0.1, "stolen_cores": 0.2, "others_gpu_bytes": 1024}
EDGES |= {"drifted": 0.5, "drifted_least_us": 2.0}


@pytest.mark.parametrize(
    ("edge", "beyond", "note"),
    [
        ([reading(other_cores=1.0)], [reading(other_cores=1.25)], "other processes used 1.25 of 10 CPUs"),
        ([reading(stolen_cores=2.0)], [reading(stolen_cores=2.25)], "the hypervisor took 2.25 of 10 CPUs"),
        ([reading(other_processes=0)], [reading(other_processes=1)], "1 other processes on the GPU"),
        (
            [reading(other_processes=None)],
            [reading(other_processes=3), reading(other_processes=2)],
            "3 other pro",
        ),
        (
            [reading(memory_used_bytes=n) for n in (4096, 5120, 5120)],
            [reading(memory_used_bytes=n) for n in (4096, 5121, 4096)],
            "GPU memory of other processes changed by 1.001 KiB",
        ),
        (
            [reading(memory_used_bytes=n) for n in (4096, None, 0, 8192)],
            [reading(memory_used_bytes=n) for n in (8192, 4096, 5000, 0)],
            "GPU memory of other processes changed by 4 KiB",
        ),
    ],
)
def test_a_machine_is_shared_beyond_each_threshold(edge, beyond, note):
    assert verdict([state_of(readings=edge)], EDGES) == ("quiet", "")
    word, said = verdict([state_of(readings=beyond)], EDGES)
    assert word == "shared" and said.startswith(note)


def test_memory_that_others_held_before_counts_beyond_the_threshold():
    assert verdict([state_of(others_gpu_bytes=1024)], EDGES) == ("quiet", "")
    assert verdict([state_of(others_gpu_bytes=None)], EDGES) == ("quiet", "")
    assert verdict([state_of(others_gpu_bytes=2048, cpus=None)], EDGES) == (
        "shared",
        "other processes held 2 KiB of GPU memory before the cell",
    )


def test_several_causes_are_named_gravest_first():
    both = [
        reading(other_cores=2.0, other_processes=1, throttled=["power", "heat"]),
        reading(throttled=["cap"]),
    ]
    assert verdict([state_of(readings=both, seconds=(1.0, 2.0))], EDGES) == (
        "shared, throttled, noisy",
        "other processes used 2.00 of 10 CPUs, 1 other processes on the GPU; cap, heat, power; "
        "coefficient of variation of the runs 47.1%",
    )


def test_each_round_has_its_note_and_its_number():
    loud = [reading(other_processes=1)]
    assert verdict([state_of(1), state_of(2, loud), state_of(3, loud)], EDGES) == (
        "shared",
        "round 2: 1 other processes on the GPU; round 3: 1 other processes on the GPU",
    )


def test_runs_of_all_rounds_vary_together():
    assert verdict([state_of(1, seconds=(1.0,)), state_of(2, seconds=(2.0,))], EDGES)[0] == "noisy"
    assert (
        verdict([state_of(seconds=(1.0,))], EDGES) == verdict([state_of(seconds=())], EDGES) == ("quiet", "")
    )
    edge = EDGES | {"noisy": statistics.stdev((1.0, 2.0)) / 1.5}
    assert verdict([state_of(seconds=(1.0, 2.0))], edge)[0] == "quiet"
    of_two = 0.1 / math.sqrt(2)
    assert verdict([state_of(seconds=(0.95, 1.05))], EDGES | {"noisy": of_two * (1 + 1e-9)})[0] == "quiet"
    assert verdict([state_of(seconds=(0.95, 1.05))], EDGES | {"noisy": of_two * (1 - 1e-9)})[0] == "noisy"


def test_a_cost_drifts_beyond_both_thresholds():
    before = {"copy_us": 10.0, "malloc_us": 2.0, "gone_us": 1.0}
    for after, said in (
        ({"copy_us": 15.0, "malloc_us": 4.0}, ""),
        ({"copy_us": 5.0, "malloc_us": 0.0}, ""),
        ({"copy_us": 15.5, "malloc_us": 4.0}, "copy cost +55%"),
        ({"copy_us": 4.5, "malloc_us": 4.5}, "copy cost -55%, malloc cost +125%"),
    ):
        assert drift(before, after, EDGES) == said
        probes = {"before": before, "after": after}
        assert verdict([state_of(probe=probes)], EDGES) == ("drifted" if said else "quiet", said)


def test_of_costs_that_only_some_probes_found_there_is_no_mean():
    assert mean_costs([{}, {"copy_us": 1.0, "launch_us": 5.0}, {"copy_us": 3.0}]) == {"copy_us": 2.0}
    assert mean_costs([{"copy_us": 3.0}]) == {"copy_us": 3.0}
    assert mean_costs([{}, {}]) == mean_costs([]) == {}


def test_what_was_not_measured_has_no_word():
    unsupported = {"status": "unsupported"}
    assert verdict([unsupported, unsupported], EDGES) == ("", "")
    assert verdict([unsupported, state_of(2)], EDGES) == ("unknown", "the record holds no readings")


def test_a_record_without_readings_is_unknown():
    assert verdict([{}], THRESHOLDS)[0] == "unknown"
