"""Train and measure one cell, and write its record: what ``snn run`` does."""

import json
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from snn.hardware import threads

threads.assign()

from snn.errors import ConfigError  # noqa: E402
from snn.hardware.locks import end_with_parent  # noqa: E402

NOT_OK = 3
"""Exit status with ``--strict`` if a cell has no time, or no loss."""


def run_cell(arguments: Sequence[str], strict: bool = False) -> int:
    """Run the cell of these settings; return 0, or 3 if ``strict`` and the cell is not ok."""
    end_with_parent()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a workflow's jobs are started without it
    from snn import datasets
    from snn.analysis import cell_line
    from snn.analysis.machine_state import watched
    from snn.analysis.verdicts import ended
    from snn.config import compose
    from snn.config.groups import CONFIG, read_yaml
    from snn.files import outputs
    from snn.files.outputs import say
    from snn.grid import naming
    from snn.measurement import cell, progress
    from snn.models import saved
    from snn.records import store

    settings = compose.composed(arguments)
    inputs = datasets.inputs(settings["dataset"])
    output = None
    if settings["output"] is None and sys.stdout is None:
        raise ConfigError("output is null, but the standard output is closed: it must name a file")
    if settings["output"] is not None:
        output = outputs.checked(settings["output"], (settings["data"], *inputs))
        store.check_replaced(output, "output")
        naming.check_planned(settings)
    if settings["data"] is not None and not Path(settings["data"]).exists():  # it is made
        outputs.checked(settings["data"], (settings["output"], *inputs), "data")
    if settings["weights"] is not None:
        others = (settings["output"], settings["data"], *inputs)
        settings["weights"] = str(outputs.checked(settings["weights"], others, "weights"))
    record, trained = cell.record_and_network(settings)
    thresholds = read_yaml(CONFIG / "verdicts.yaml")
    for warning in watched(record, thresholds).values():
        say(f"snn: warning: {warning}", sys.stderr)
    # Before the record: its disk may be full.
    say(cell_line.line(record, thresholds), sys.stderr if output is None else sys.stdout)
    if output is None:
        json.dump(record, sys.stdout, indent=1)
        print()
    else:
        with outputs.reported(output):
            store.write(output, record)
        progress.note_done(record["cell"], record["round"], output)
    if trained:
        saved.write(Path(settings["weights"]), trained)  # the last: a full disk does not cost the record
    return NOT_OK if strict and ended(record, thresholds)[0] != "ok" else 0
