"""What may stand in one table: records of one device, one data set, each at its own path."""

import math

import pytest
from records_of import PROVENANCE, THRESHOLDS, record, source_hash
from test_frame import CELL, GRID, changed

from snn.analysis import frame
from snn.analysis.speedups import reason, speedup
from snn.analysis.verdicts import NOT_COMPARABLE
from snn.errors import RecordError
from snn.grid import naming
from snn.records import store


def two(**provenance):
    return {"a": record(CELL, [1.0]), "b": record(CELL, [1.0], number=2, **provenance)}


OTHER_CPU = PROVENANCE["host"] | {"cpu": "another"}


@pytest.mark.parametrize(
    ("provenance", "device"),
    [
        ({"device": "Tesla T4"}, "Tesla T4 GPU-1"),
        ({"device": "Tesla T4", "device_uuid": "GPU-2"}, "Tesla T4 GPU-2"),
        ({"device_uuid": "GPU-2", "host": OTHER_CPU}, "NVIDIA H200 GPU-2"),
        ({"device_uuid": None}, "NVIDIA H200"),
    ],
)
def test_times_of_two_devices_do_not_go_into_one_table(provenance, device):
    with pytest.raises(RecordError) as refused:
        frame.tabulate(two(**provenance), THRESHOLDS)
    said = f"b was measured on {device}, but a on NVIDIA H200 GPU-1: times of two devices do not go into one"
    assert str(refused.value).startswith(said)


def test_equal_gpus_stand_together_and_times_are_divided_within_each():
    other = changed(CELL, ("network/seed", 99))
    gpus = {"a": ["GPU-1", "GPU-2", "GPU-1"], "b": ["GPU-1", "GPU-1", "GPU-1"]}
    seconds = {"a": [1.0, 9.0, 1.0], "b": [2.0, 1.0, 2.0]}

    def rows():
        records = {
            f"{name}{number}": record(cell, [seconds[name][number - 1]] * 2, number=number, device_uuid=gpu)
            for name, cell in (("a", CELL), ("b", other))
            for number, gpu in enumerate(gpus[name], 1)
        }
        return frame.tabulate(records, THRESHOLDS)

    assert rows()["device_uuid"].tolist() == ["GPU-1, GPU-2", "GPU-1"]
    assert not reason(*rows().to_dict("records"), THRESHOLDS)
    (found,) = speedup(rows()[:1], rows()[1:], THRESHOLDS).to_dict("records")
    assert found["speedup"] == pytest.approx(0.5)  # without the second round
    gpus["a"] = ["GPU-2"] * 3
    (found,) = speedup(rows()[:1], rows()[1:], THRESHOLDS).to_dict("records")
    assert (found["verdict"], found["note"]) == (NOT_COMPARABLE, "different devices: GPU-2 and GPU-1")
    assert math.isnan(found["speedup"])


@pytest.mark.parametrize("key", ["system", "cpu", "cpus"])
def test_a_gpu_stands_beside_its_own_host_alone(key):
    on_host = next(one for one in GRID["cpu"].cells if one["strategy"]["name"] == "sequential")
    records = {"a": record(CELL, [1.0]), "b": record(on_host, [1.0])}
    assert len(frame.tabulate(records, THRESHOLDS)) == 2
    other = PROVENANCE["host"] | {key: "another"}
    records["b"] = record(on_host, [1.0], host=other)
    with pytest.raises(
        RecordError, match=r"^a was measured on NVIDIA H200 GPU-1, but b on AMD EPYC of another"
    ):
        frame.tabulate(records, THRESHOLDS)


def test_one_data_set_has_one_content():
    records = two()
    records["b"] = changed(records["b"], ("data/sha256", "1" * 64))
    with pytest.raises(
        RecordError, match=f"^b was trained on other data than a, .*{'1' * 64} and {'0' * 64}; run"
    ):
        frame.tabulate(records, THRESHOLDS)
    shuffled = dict(reversed(records["b"]["cell"]["dataset"].items()))
    with pytest.raises(RecordError, match="other data"):
        frame.tabulate(records | {"b": changed(records["b"], ("cell/dataset", shuffled))}, THRESHOLDS)
    del records["b"]["data"]
    frame.tabulate(records, THRESHOLDS)


def test_a_record_stands_at_the_path_of_its_cell_and_round(tmp_path):
    one, wanted = record(CELL, [1.0]), source_hash(CELL)
    path = tmp_path / naming.record_path(CELL.name, 1)
    store.write(path, one)
    assert frame.checked({str(path): wanted}) == {str(path): one}
    assert frame.tabulate(frame.checked({str(path): wanted}), THRESHOLDS)["mean_s"].tolist() == [1.0]
    with pytest.raises(RecordError, match=rf"measured with other sources \({wanted}\) than the current ones"):
        frame.checked({str(path): "other"})
    second = tmp_path / naming.record_path(CELL.name, 2)
    store.write(second, one)
    with pytest.raises(RecordError) as refused:
        frame.checked({str(second): wanted})
    name = naming.record_path(CELL.name, 1)
    assert str(refused.value) == f"{second}: the record of another cell or round, {name}{store.again(second)}"
    store.write(second, record(CELL, [1.0], number=2, driver="2", blas_threads=9))
    with pytest.raises(RecordError, match="different BLAS threads"):
        frame.checked({str(path): wanted, str(second): wanted})
