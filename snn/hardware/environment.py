"""The environment of the processes that this one starts, without the user's settings of Python and Snakemake.

Settings of the machine (CUDA_VISIBLE_DEVICES, LD_LIBRARY_PATH, SLURM_*), of the language and of other
runtimes (XLA_FLAGS) are left as they are.
"""

import os
import sys
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]

_KEPT = {
    *("PYTHONIOENCODING", "PYTHONUTF8", "PYTHONCOERCECLOCALE"),  # how the terminal's letters are encoded
    *("PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX", "PYTHONUNBUFFERED", "PYTHONFAULTHANDLER"),
    *("PYTHONHASHSEED", "PYTHONNOUSERSITE", "PYTHONUSERBASE"),
}
"""Settings of Python that stay. Of the others PYTHONPATH, PYTHONHOME and PYTHONSAFEPATH change the imports,
PYTHONOPTIMIZE, PYTHONDEVMODE, PYTHONMALLOC and PYTHONTRACEMALLOC change times, PYTHONWARNINGS makes errors of
warnings, and with PYTHONINSPECT a job waits for a user at its end."""


def of_jobs() -> dict[str, str]:
    """The environment of a process that measures or draws: as this one's, with the project's modules first.
    Of PYTHONPATH, folders of installed packages stay, which a cluster's `module load` adds."""
    kept = {name: one for name, one in os.environ.items() if name in _KEPT or not name.startswith("PYTHON")}
    path = os.pathsep.join([str(_ROOT), *filter(_has_packages, _python_path())])
    return kept | {"PYTHONPATH": path, "MPLBACKEND": "Agg"}


def of_workflow() -> dict[str, str]:
    """The environment of a Snakemake that a command starts: also without the user's own profile. What it
    prints is UTF-8, as the command reads it."""
    ours = {name: value for name, value in of_jobs().items() if not name.startswith("SNAKEMAKE_")}
    return ours | {"PYTHONIOENCODING": "utf-8"}


def assign_to_jobs() -> None:
    """Let every process that this one starts have the environment ``of_jobs``."""
    ours = of_jobs()
    for name in set(os.environ) - set(ours):
        del os.environ[name]
    os.environ.update(ours)


def put_packages_first() -> None:
    """Let no module in a folder of PYTHONPATH replace an installed package or one of Python's own."""
    loose = {Path(entry).resolve() for entry in _python_path() if not _has_packages(entry)} - {_ROOT}
    sys.path.sort(key=lambda entry: Path(entry).resolve() in loose)  # stable


def _python_path() -> list[str]:
    return [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]


def _has_packages(entry: str) -> bool:
    """Whether a folder is one that an installer filled, not one of a user's own modules."""
    return any(Path(entry).glob("*.dist-info"))
