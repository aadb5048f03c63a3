"""Environment variables of child processes, without the user's settings of Python and Snakemake.

Settings of the machine (CUDA_VISIBLE_DEVICES, LD_LIBRARY_PATH, SLURM_*), of the language and of other
runtimes (XLA_FLAGS) are left as they are.
"""

import os
import sys
from pathlib import Path

from snn.files.project import IS_INSTALLED, PACKAGES

_KEPT = {
    *("PYTHONIOENCODING", "PYTHONUTF8", "PYTHONCOERCECLOCALE"),  # the terminal's encoding
    *("PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX", "PYTHONUNBUFFERED", "PYTHONFAULTHANDLER"),
    *("PYTHONHASHSEED", "PYTHONNOUSERSITE", "PYTHONUSERBASE"),
}
"""Settings of Python that stay. Among the others, PYTHONPATH, PYTHONHOME and PYTHONSAFEPATH change the
imports, PYTHONOPTIMIZE, PYTHONDEVMODE, PYTHONMALLOC and PYTHONTRACEMALLOC change times, PYTHONWARNINGS makes
errors of warnings, and with PYTHONINSPECT a job waits for a user at its end."""


def of_jobs() -> dict[str, str]:
    """The environment of a process that measures or draws: this one's, with the project's modules first.
    PYTHONPATH keeps folders of installed packages, which a cluster's `module load` adds. An installed package
    is found without it, and works in a user's folder, whose modules must not replace others."""
    kept = {name: one for name, one in os.environ.items() if name in _KEPT or not name.startswith("PYTHON")}
    first = {"PYTHONSAFEPATH": "1"} if IS_INSTALLED else {}
    own = [] if IS_INSTALLED else [str(PACKAGES)]
    path = os.pathsep.join([*own, *filter(_has_packages, _python_path())])
    return kept | first | {"PYTHONPATH": path, "MPLBACKEND": "Agg"}


def of_workflow() -> dict[str, str]:
    """The environment of a Snakemake that a command starts: also without the user's profile. Its output is
    UTF-8, as the command expects."""
    ours = {name: value for name, value in of_jobs().items() if not name.startswith("SNAKEMAKE_")}
    return ours | {"PYTHONIOENCODING": "utf-8"}


def assign_to_jobs() -> None:
    """Give every process that this one starts the environment ``of_jobs``."""
    ours = of_jobs()
    for name in set(os.environ) - set(ours):
        del os.environ[name]
    os.environ.update(ours)


def put_packages_first() -> None:
    """Prevent modules in PYTHONPATH from replacing installed packages or Python's own."""
    loose = {Path(entry).resolve() for entry in _python_path() if not _has_packages(entry)} - {PACKAGES}
    sys.path.sort(key=lambda entry: Path(entry).resolve() in loose)  # stable


def _python_path() -> list[str]:
    return [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]


def _has_packages(entry: str) -> bool:
    """Whether an installer filled a folder, so that it does not hold a user's own modules."""
    return any(Path(entry).glob("*.dist-info"))
