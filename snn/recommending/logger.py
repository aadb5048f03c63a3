"""Snakemake with a logger that leaves the word to its jobs: ``python -m snn.recommending.logger OPTIONS``.

Of a job that failed it prints the outputs, since the job itself prints why; of Snakemake's own warnings and
errors all, if no job failed. The status is ``JOBS_FAILED`` if the workflow ended because a job did.
"""

import io
import logging
import sys
from contextlib import redirect_stderr

from snakemake import cli
from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent
from snakemake_interface_logger_plugins.registry import LoggerPluginRegistry

from snn.recommending import JOBS_FAILED

_NAME = "recommend"
_failed: list[str] = []
_warnings: list[str] = []


class LogHandler(LogHandlerBase):
    """Snakemake's logger plugin."""

    writes_to_stream, writes_to_file = True, False
    has_filter = has_formatter = True
    needs_rulegraph = False

    def emit(self, record: logging.LogRecord) -> None:
        if getattr(record, "event", None) == LogEvent.JOB_ERROR:
            _failed.append(", ".join(vars(record).get("output") or [record.getMessage()]))
            print(f"failed: {_failed[-1]}", file=sys.stderr, flush=True)
        elif record.levelno >= logging.WARNING:
            _warnings.append(record.getMessage())


def main(arguments: list[str]) -> int:
    """Run Snakemake; its status, or ``JOBS_FAILED``."""
    LoggerPluginRegistry().register_plugin(_NAME, sys.modules[__name__])
    with redirect_stderr(io.StringIO()):  # which profile is used
        parser, options = cli.parse_args([*arguments, "--logger", _NAME])
    has_ended_well = cli.args_to_api(options, parser)
    if _failed:
        return 0 if has_ended_well else JOBS_FAILED
    print(*_warnings, sep="\n", end="\n" * bool(_warnings), file=sys.stderr, flush=True)
    return 0 if has_ended_well else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
