"""What one row of the table of several devices is: the same training, however a record names it."""

import pytest
from machines import CPU
from records_of import record
from test_merge import H200, PAPER, T4, cells_on, records_of

from snn.config import groups
from snn.config.groups import CONFIG, read_yaml
from snn.tables import devices

THRESHOLDS = read_yaml(CONFIG / "verdicts.yaml")


def built(*changes):
    """The table of two GPUs whose cells have these changes: sections for each cell."""
    records = {}
    for (name, uuid), change in zip(((H200, "GPU-1"), (T4, "GPU-2")), changes, strict=True):
        cells = [cell | change(cell) for cell in cells_on("cuda", name)]
        made = records_of(cells, device=name, device_uuid=uuid)
        records[name] = {f"{name} {i}": one for i, one in enumerate(made)}
    return devices.build(records, PAPER, "Tesla T4", THRESHOLDS)


def own_file(path, sha256):
    return lambda cell: {"dataset": cell["dataset"] | {"path": path, "sha256": sha256}}


def test_a_file_is_known_by_its_digest_wherever_it_stands():
    here, there = (own_file(f"/{place}/mine.csv", "ab" * 32) for place in "ab")
    table = built(here, there)
    assert len(table) == 5 and table[[f"speedup {H200}", f"speedup {T4}"]].notna().all(axis=None)
    table = built(here, own_file("/a/mine.csv", "cd" * 32))
    assert len(table) == 10 and table[f"speedup {H200}"].isna().sum() == 5


def test_an_older_record_without_the_work_of_a_thread_is_of_one_output_for_each():
    def older(cell):
        is_old = cell["strategy"]["name"] == "reference"
        return {
            "kernel": {key: value for key, value in cell["kernel"].items() if key != "work" or not is_old}
        }

    table = built(older, lambda cell: {"kernel": cell["kernel"] | {"work": [1, 1]}})
    assert len(table) == 5 and table[[f"speedup {H200}", f"speedup {T4}"]].notna().all(axis=None)


@pytest.mark.parametrize("longer_first", [True, False])
def test_of_two_protocols_with_as_many_runs_the_one_with_the_longer_limit_is_shown(longer_first):
    cells = cells_on("cuda", H200)
    longer = [cell | {"protocol": cell["protocol"] | {"max_seconds": 1e4}} for cell in cells]
    found = [records_of(cells, {"combined": 4.0}), records_of(longer, {"combined": 0.25})]
    made = [one for records in (found[::-1] if longer_first else found) for one in records]
    records = {H200: {str(i): one for i, one in enumerate(made)}}
    table = devices.build(records, PAPER, "Tesla T4", THRESHOLDS).set_index("strategy")
    assert len(table) == 5
    assert table.loc["combined", f"verdict {H200}"] == "faster"


@pytest.mark.parametrize(
    ("rounds", "said"),
    [
        ((2.0, 2.001), "slower than"),
        ((0.5, 0.501), "faster than"),
        ((1.0, 1.001), "same as"),
        ((0.9, 1.1), "not significant against"),
    ],
)
def test_advice_names_a_baseline_that_is_not_the_reference(rounds, said):
    cell, records = cells_on("cpu", "AMD EPYC")[0], {}
    for name, means in (("sequential", (1.0, 1.0)), ("blas", rounds)):
        for number, mean in enumerate(means, 1):
            of_strategy = cell | {"strategy": groups.load("strategy", name)}
            records[f"{name} {number}"] = record(of_strategy, [mean] * 4, number=number)
    table = devices.build({CPU: records}, PAPER, "Tesla T4", THRESHOLDS).set_index("strategy")
    assert table["advice"].to_dict() == {"sequential": "", "blas": f"blas {said} sequential on {CPU}"}
