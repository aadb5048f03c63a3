"""``python -m snn [KEY=VALUE ...]``: train and measure one cell, and write its record."""

import json
import signal
import sys
from pathlib import Path

from snn.hardware import threads

threads.assign()

from snn import command  # noqa: E402
from snn.config import groups  # noqa: E402
from snn.errors import ConfigError, SnnError  # noqa: E402
from snn.hardware.locks import end_with_parent  # noqa: E402


def main(arguments: list[str]) -> int:
    """Run a cell with Hydra overrides as arguments; 0 when its record is written, 2 on a user's error."""
    if {"-h", "--help"} & set(arguments):
        print(_help())
        return 0
    end_with_parent()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a workflow's jobs are started without it
    try:
        return _run(arguments)
    except SnnError as error:
        print(f"snn: {error}", file=sys.stderr)
        return 2


def _run(arguments: list[str]) -> int:
    from snn import datasets
    from snn.analysis.watching import watched
    from snn.config import compose
    from snn.config.groups import CONFIG, read_yaml
    from snn.files import outputs
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
        naming.check_planned(settings)
    if settings["data"] is not None and not Path(settings["data"]).exists():  # it is made
        outputs.checked(settings["data"], (settings["output"], *inputs), "data")
    record = cell.run(settings)
    if output is None:
        json.dump(record, sys.stdout, indent=1)
        print()
    else:
        with outputs.reported(output):
            store.write(output, record)
        progress.note_done(record["cell"], record["round"], output)
    for warning in watched(record, read_yaml(CONFIG / "verdicts.yaml")).values():
        print(f"snn: warning: {warning}", file=sys.stderr)
    if record["status"] != "ok":
        print(f"snn: {record['status']}: {record['reason']}", file=sys.stderr)
    return 0


def _help() -> str:
    lines = [
        "python -m snn [KEY=VALUE ...]   train and measure one cell",
        "",
        "choices:",
        *(f"  {group}={'|'.join(groups.names(group))}" for group in groups.GROUPS),
        "",
        "keys (and the keys of the files in config/): network.hidden=[256] network.init=uniform01",
        "  network=layers 'network.layers=[linear 64, relu, linear 1]' network.loss=mean_squared_error",
        "  training.epochs=100 training.batch_size=256 training.learning_rate=0.002 protocol.runs=10",
        "  output=cell.json (default: print the record)",
        "  profile=none|nvtx (nvtx: three more steps, with NVTX ranges, for nsys profile)",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(command.run(main))
