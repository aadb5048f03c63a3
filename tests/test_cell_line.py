"""The line at the end of a cell: its mean, interval, verdict and loss; and the status that goes with it."""

import errno
import json
import math
import os
from unittest import mock

import pytest
from records_of import THRESHOLDS, record

from snn import cli
from snn.analysis.cell_line import line
from snn.analysis.intervals import mean_interval
from snn.config.compose import composed
from snn.grid.naming import SECTIONS
from snn.measurement import cell
from snn.records import store


def cell_of(*settings):
    found = composed(["device=cuda", "device.name='NVIDIA H200'", *settings])
    return {section: found[section] for section in SECTIONS}


def said(seconds, *settings, **given):
    return line(record(cell_of(*settings), seconds, **given), THRESHOLDS)


def test_a_line_says_time_interval_and_loss():
    seconds = [0.0122, 0.0123, 0.0124]
    low, high = (1e3 * end for end in mean_interval([seconds]))
    assert said(seconds, "strategy=combined", mse=41.25) == (
        "small 256: combined with naive: ok, machine quiet, "
        f"12.3 ms per run (95% CI {low:.4g} to {high:.4g} ms, 3 runs), final loss 41.25"
    )
    for name in ("blas", "torch_graph"):  # none of our kernels
        assert said([1.0], f"strategy={name}").startswith(f"small 256: {name}: ok")
    made = record(cell_of("strategy=persistent"), [1.0], mse=0.5) | {"launch": {"kernel": "one_layer"}}
    for r2, shown in ((0.98765, ", R² on test rows 0.9877"), (None, "")):
        made["summary"]["mean_test_r2"] = r2
        found = line(made, THRESHOLDS)
        assert found.startswith("small 256: persistent with one_layer: ok")
        assert found.endswith(f"final loss 0.5{shown}")


@pytest.mark.parametrize(
    ("seconds", "settings", "given", "shown"),
    [
        *(
            ([time], [], {}, f", {shown} in one run, which has no interval")
            for time, shown in ((2.5, "2.5 s"), (1.0, "1 s"), (2.5e-3, "2.5 ms"), (2.5e-5, "25 µs"))
        ),
        ([1.0, 2.0, 3.0], [], {}, "ok, machine noisy, "),
        ([1.0, 1.0], [], {"mse": math.nan}, "naive: diverged, machine quiet, "),
        ([1.0, 1.0], [], {"mse": math.nan}, "final loss not finite"),
        ([1.0, 1.0], [], {"mse": 5e29, "untrained": 100.0}, "naive: diverged, machine quiet, "),
        ([1.0, 1.0], [], {"mse": 5e29, "untrained": 100.0}, ": the loss is up to "),
        ([], [], {"ended": ("unsupported", "no;\ninstall")}, r"naive: unsupported, no time: no;\ninstall"),
        ([], [], {"ended": ("out_of_memory", "x")}, "out_of_memory, machine quiet, no time: x"),
        ([1.0], ["kernel=tensor_core", "precision=bf16"], {}, "with tensor_core in bf16: "),
        ([1.0, 1.1], ["strategy=ensemble"], {}, "2 networks in each, final loss"),
        ([1.0], ["dataset=patterns", "network=cnn"], {"accuracies": [0.9125]}, "test accuracy 91.25%"),
    ],
)
def test_outcomes_and_what_is_particular_to_a_cell_are_said(seconds, settings, given, shown):
    assert shown in said(seconds, *settings, **given)


# ---- at the end of a command


@pytest.fixture
def measured(monkeypatch):
    def give(*settings, **given):
        made = record(cell_of(*settings), given.pop("seconds", [1.0, 1.1]), **given)
        monkeypatch.setattr(cell, "record_and_network", lambda config: (made, None))
        return made

    return give


@pytest.mark.parametrize(
    ("given", "status"),
    [
        ({}, 0),
        ({"mse": math.inf}, 3),
        ({"seconds": [], "ended": ("unsupported", "no such memory")}, 3),
        ({"seconds": [], "ended": ("out_of_memory", "it is full")}, 3),
    ],
)
def test_outcomes_without_a_result_have_a_status_where_that_is_asked_for(
    measured, capsys, tmp_path, given, status
):
    measured(**given)
    output = tmp_path / "r.json"
    assert cli.main(["run", "device=cpu", f"output={output}", "--strict"]) == status
    assert output.exists()
    assert cli.main(["run", "--strict", "device=cpu"]) == status
    assert cli.main(["run", "device=cpu"]) == 0


def test_an_output_is_checked_before_anything_is_measured(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(cell, "record_and_network", lambda config: pytest.fail("it was measured"))
    assert cli.main(["run", "device=cpu", f"output={tmp_path}"]) == 2
    assert "output is" in capsys.readouterr().err


def test_the_line_is_beside_the_record_also_where_that_cannot_be_written(
    measured, monkeypatch, capsys, tmp_path
):
    made, arguments = measured(), ["run", "device=cpu"]
    assert cli.main(arguments) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out) == made
    assert printed.err == f"{line(made, THRESHOLDS)}\n"
    arguments.append(f"output={tmp_path}/r.json")
    assert cli.main(arguments) == 0
    assert capsys.readouterr().out == f"{line(made, THRESHOLDS)}\n"
    for number in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
        monkeypatch.setattr(store, "write", mock.Mock(side_effect=OSError(number, os.strerror(number))))
        assert cli.main(arguments) == 2
        printed = capsys.readouterr()
        assert printed.out == f"{line(made, THRESHOLDS)}\n"
        assert f"{tmp_path}/r.json" in printed.err and os.strerror(number) in printed.err
