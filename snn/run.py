"""``snn run [KEY=VALUE ...] [--strict]``: train and measure one cell, and write its record.

Without output=FILE the record is printed. At its end one line says the mean time of a run with its interval,
how the cell ended, and the loss: on the standard output, or on standard error if the record is there.

  --strict    the exit code is 3 where the cell diverged, was unsupported, or had too little memory: outcomes
              that a record holds like any other, with exit code 0
  --help      print this
  --version   print the version, and the commit of the clone
"""

import json
import signal
import sys
from pathlib import Path

from snn.hardware import threads

threads.assign()

from snn import cli, command  # noqa: E402
from snn.config import groups  # noqa: E402
from snn.errors import ConfigError  # noqa: E402
from snn.files import revision  # noqa: E402
from snn.hardware.locks import end_with_parent  # noqa: E402

NOT_OK = 3
"""The status of a cell that has no time, or no loss, where that is asked for."""

STRICT = "--strict"


@command.entry(
    __doc__,
    codes={0: "done: the record is written", NOT_OK: f"with {STRICT}: written, but the cell is not ok"},
    more=lambda: _choices(),
)
def main(arguments: list[str]) -> int:
    """Run a cell with Hydra overrides as arguments; 0 when its record is written, 2 on a user's error."""
    if arguments == ["--version"]:
        print(revision.said())
        return 0
    if arguments and arguments[0] in cli.known():
        raise ConfigError(f"{arguments[0]!r} is a command of its own: snn {' '.join(arguments)}")
    end_with_parent()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a workflow's jobs are started without it
    status = _run([argument for argument in arguments if argument != STRICT])
    return NOT_OK if STRICT in arguments and status != "ok" else 0


def _run(arguments: list[str]) -> str:
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
    record = cell.run(settings)
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
    return ended(record, thresholds)[0]


def _choices() -> str:
    lines = [
        "choices, of which snn list says more:",
        *(f"  {group}={'|'.join(groups.names(group))}" for group in groups.GROUPS),
        "",
        "keys (and the keys of the files in config/):",
        "  network.hidden=[256] network.init=uniform01",
        "  network=layers 'network.layers=[linear 64, relu, linear 1]' network.loss=mean_squared_error",
        "  training.epochs=100 training.batch_size=256 training.learning_rate=0.002 protocol.runs=10",
        "  output=cell.json (default: print the record)",
        "  profile=none|nvtx (nvtx: three more steps, with NVTX ranges, for nsys profile)",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(command.run(main))
