"""Cost of the rules while Snakemake plans: python benchmarks/dag.py [--cells N] [--times N] [CHECKOUT ...]

Times two commands on each CHECKOUT (this one, unless others are given), in a copy of it in a temporary
folder, for the CPU, with config/grid.yaml or, with --cells, a grid of that many cells in two rounds:

  dry run   ``snakemake -n`` when nothing has been made
  no-op     ``snakemake`` when everything has been made: records, tables, figures

It also times Snakemake alone, with the same profile, on as many jobs with one input and one output each.
Nothing is trained for the no-op: every output is an empty file (pages and figures have their seals), and
``snakemake --touch`` notes it as made.
The commands are run in turn. Ratios compare the shortest times and the least processor time, which other
programs on the machine disturb less.
"""

import argparse
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from snn.files import sealed  # noqa: E402

IGNORED = shutil.ignore_patterns(".git", ".venv", ".snakemake", "results", ".*_cache", "__pycache__", "docs")
SNAKEMAKE = [sys.executable, "-m", "snakemake", "--cores", "1"]
OF_CHECKOUT = ("--config", "device=cpu")
TRIVIAL = """
rule all:
    input: expand("out/{{number}}", number=range({jobs})),
    default_target: True

rule job:
    input: "in/{{number}}"
    output: "out/{{number}}"
    shell: "touch {{output}}"
"""
# Snakemake waits 0.1 s before it touches the outputs of a job, which nothing here needs.
TOUCH = """
import sys
from snakemake import cli
from snakemake.executors.touch import Executor
Executor.SLEEPING_TIME = 0
sys.argv[0] = "snakemake"
cli.main()
"""


def grid_of(cells: int) -> dict:
    """A grid of one sweep with this many cells, in two rounds."""
    return {
        "defaults": {"protocol.runs": 2, "protocol.rounds": 2},
        "sweeps": {
            "many": {
                "strategy": ["reference", "streams", "pinned", "combined"],
                "network.seed": list(range(1, cells // 4 + 1)),
            }
        },
    }


def copy_of(checkout: Path, folder: Path, cells: int | None) -> Path:
    """A copy of a checkout, with a generated grid if its number of cells is given."""
    shutil.copytree(checkout, folder, ignore=IGNORED)
    if cells:
        (folder / "config/grid.yaml").write_text(yaml.safe_dump(grid_of(cells)), encoding="utf-8")
    return folder


def trivial(profile: Path, folder: Path, jobs: int) -> Path:
    """A workflow of jobs with one input and one output each, with the same profile."""
    (folder / "in").mkdir(parents=True)
    for number in range(jobs):
        (folder / f"in/{number}").touch()
    (folder / "Snakefile").write_text(TRIVIAL.format(jobs=jobs), encoding="utf-8")
    shutil.copytree(profile, folder / "profiles/default")
    return folder


def jobs_of(folder: Path) -> int:
    """The workflow's number of jobs, without ``all``."""
    printed = run([*SNAKEMAKE, "-n", "--quiet", "rules", *OF_CHECKOUT], folder)
    total = re.search(r"^total +(\d+)", printed, re.MULTILINE)
    if total is None:
        sys.exit(f"no job was counted:\n{printed}")
    return int(total[1]) - 1


def make_stubs(folder: Path, options: tuple[str, ...]) -> None:
    """Let every output be an empty file, sealed if it may be, that Snakemake knows as made."""
    summary = run([*SNAKEMAKE, "--summary", *options], folder)
    for line in summary.splitlines():
        path = folder / line.partition("\t")[0]
        if "\t" in line and line.partition("\t")[0] != "output_file":
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.suffix in (".html", ".svg"):  # unsealed, it would be made again
                sealed.write(path, b"")
            else:
                path.touch()
    touch = ("--touch", "--forceall", "--quiet", "all")
    run([sys.executable, "-c", TOUCH, *SNAKEMAKE[3:], *touch, *options], folder)
    printed = run([*SNAKEMAKE, *options], folder)
    if "Nothing to be done" not in printed:
        sys.exit(f"{folder}: there is something left to be done:\n{printed[-2000:]}")


def run(command: list[str], folder: Path) -> str:
    """Output of a command; its failure ends this program."""
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed in {folder}:\n{done.stdout[-2000:]}")
    return done.stdout


def in_turn(commands: dict[str, tuple[list[str], Path]], times: int) -> dict[str, list[tuple[float, float]]]:
    """Wall-clock and processor seconds of each command, run in turn after one run that is not counted."""
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    for turn in range(times + 1):
        for name, (command, folder) in commands.items():
            started, before = time.perf_counter(), processor_seconds()
            run(command, folder)
            if turn > 0:
                seconds[name].append((time.perf_counter() - started, processor_seconds() - before))
    return seconds


def processor_seconds() -> float:
    """Processor time of all finished commands."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def show(what: str, jobs: int, seconds: dict[str, list[tuple[float, float]]]) -> None:
    """A line for each command; the last one is Snakemake alone."""
    (alone, alone_cpu) = map(min, zip(*list(seconds.values())[-1], strict=True))
    for name, values in seconds.items():
        walls, cpus = zip(*values, strict=True)
        wall, cpu = min(walls), min(cpus)
        columns = (f"{wall:9.2f} {statistics.median(walls):8.2f} {wall / alone:6.2f}", f"{cpu:10.2f}")
        print(f"{what:8} {jobs:5} jobs", *columns, f"{cpu / alone_cpu:6.2f}  {name}", flush=True)


def main(checkouts: list[Path], cells: int | None, times: int) -> None:
    """Print the seconds of both commands on each checkout and on Snakemake alone."""
    print("                     shortest   median  ratio  processor  ratio")
    with tempfile.TemporaryDirectory() as scratch:
        folders = {
            str(checkout): copy_of(checkout, Path(scratch) / f"checkout{number}", cells)
            for number, checkout in enumerate(checkouts)
        }
        jobs = jobs_of(next(iter(folders.values())))
        alone = trivial(checkouts[0] / "profiles/default", Path(scratch) / "alone", jobs)
        workflows = {name: (folder, OF_CHECKOUT) for name, folder in folders.items()}
        workflows["Snakemake alone"] = (alone, ())
        dry = {name: ([*SNAKEMAKE, "-n", *options], folder) for name, (folder, options) in workflows.items()}
        show("dry run", jobs, in_turn(dry, times))
        for folder, options in workflows.values():
            make_stubs(folder, options)
        no_op = {name: ([*SNAKEMAKE, *options], folder) for name, (folder, options) in workflows.items()}
        show("no-op", jobs, in_turn(no_op, times))


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("checkouts", nargs="*", type=Path, default=[ROOT], metavar="CHECKOUT")
    options.add_argument("--cells", type=int, help="use a generated grid with this many cells")
    options.add_argument("--times", type=int, default=5, help="time each command this often (default 5)")
    given = options.parse_args()
    main([path.resolve() for path in given.checkouts], given.cells, given.times)
