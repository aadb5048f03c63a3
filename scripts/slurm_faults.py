"""The faults of scripts/slurm_check, and what must hold after them.

Each fault waits for the moment at which it hurts. Afterwards every cell must have one whole record, which was
never written again, and at most one completed job of Slurm; every other job must be the victim of a fault.
"""

import os
import shutil
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import pandas as pd
import yaml
from one_node_slurm import GPUS, Cluster, ClusterError
from slurm_run import COMMAND, TABLE, Check, WaitedInVainError

from snn.records import store
from snn.workflow import slurm

ROOT = Path(__file__).resolve().parent.parent
CELLS = 6
GRID = {
    "device": "cpu",
    "defaults": {
        "dataset": "small",
        "training.epochs": 40,
        "protocol.runs": 10,
        "protocol.rounds": 1,
        "protocol.warmup_seconds": 0,
        "protocol.max_warmup_seconds": 0,
    },
    "sweeps": {
        "faults": {
            "strategy": ["reference", "combined", "preallocated"],
            "network.hidden": [[64], [128]],
        }
    },
}
IGNORED = shutil.ignore_patterns(
    ".git", ".venv", ".snakemake", "results", "*cache*", "__pycache__", ".hypothesis", ".mutation"
)


def cancel_a_job(check: Check) -> None:
    """scancel, as its owner or an administrator may."""
    number = check.await_("a cell", check.cells).popitem()[0]
    check.victims.add(number)
    check.cluster.ask("scancel", number)
    check.hit("scancel of a job", [number])


def kill_a_cell(check: Check) -> None:
    """kill -9 of the process that measures."""
    number, process = check.await_("a cell", check.cells).popitem()
    check.victims.add(number)
    process.kill()
    check.hit("kill -9 of a cell", [number])


def cancel_a_job_at_its_end(check: Check) -> None:
    """scancel of a job that has written its record, before Snakemake hears of it: the next try keeps it."""
    number, process = check.await_("a cell", check.cells).popitem()
    check.victims.add(number)
    check.kept = check.jobs()[number]
    process.wait(timeout=60)
    check.cluster.ask("scancel", number)
    if check.hit("scancel after the record is written", [number]) != ["CANCELLED"]:
        check.wrong.append(f"job {number} ended before it could be cancelled: try again")


def kill_slurmd(check: Check) -> None:
    """kill -9 of slurmd while a cell is at work, and another one a little later."""
    number = check.await_("a cell", check.cells).popitem()[0]
    check.cluster.kill_slurmd()
    time.sleep(1)
    check.cluster.start_slurmd()
    if check.hit("kill -9 of slurmd, and a new one", [number]) != ["COMPLETED"]:
        check.wrong.append(f"job {number} did not survive the end of slurmd")


def fail_the_node(check: Check) -> None:
    """The node fails under two jobs; Snakemake submits them again, and they wait for it to come back."""
    numbers = check.await_("two jobs side by side", lambda: _some(check.jobs("RUNNING"), 2))
    check.victims |= set(numbers)
    check.cluster.fail_node()
    if set(check.hit("the node fails, and comes back", numbers)) != {"NODE_FAIL"}:
        check.wrong.append("the jobs of a node that failed did not end with NODE_FAIL")


def kill_snakemake(check: Check) -> None:
    """kill -9 of Snakemake while a cell is at work and other jobs wait; then the same command again."""

    def queue() -> list[str] | None:
        """The jobs that wait, when two do whose cells are not measured, and the job of the one that is."""
        pending = check.jobs("PENDING")
        unmeasured = sorted((number for number, what in pending.items() if what != check.kept), key=int)
        submitted = list(check.jobs().values()).count(check.kept) > 1
        return unmeasured if len(unmeasured) > 1 and submitted else None

    held = check.await_("two jobs in the queue", queue)[1:]
    for number in held:
        check.cluster.hold(number)
    check.cluster.resume_node()
    check.await_("a cell", check.cells)
    check.workflow.kill()
    check.workflow.wait()
    running, waiting = (sorted(check.jobs(state), key=int) for state in ("RUNNING", "PENDING"))
    check.start()
    check.victims |= set(waiting)
    states = check.hit("kill -9 of Snakemake, same command", [*running, *waiting])
    ends = dict(zip([*running, *waiting], states, strict=True))
    if {ends[number] for number in running} != {"COMPLETED"} or {ends[number] for number in held} != {
        "CANCELLED"
    }:
        check.wrong.append("the next Snakemake must wait for running jobs and cancel waiting ones")


def terminate_snakemake(check: Check) -> None:
    """SIGTERM, as at the end of a login session: the jobs end with Snakemake; then the same command again."""
    check.await_("a cell", check.cells)
    numbers = sorted(check.jobs("RUNNING", "PENDING"))
    check.victims |= set(numbers)
    check.workflow.terminate()
    status = check.workflow.wait(timeout=30)
    check.hit("SIGTERM to Snakemake, same command", numbers)
    if status != 128 + signal.SIGTERM:
        check.wrong.append(f"Snakemake ended with {status} after SIGTERM")
    check.start()


def preempt(check: Check) -> None:
    """A job of higher priority takes the node; Snakemake submits the preempted jobs again."""
    check.await_("a cell", check.cells)
    numbers = sorted(check.jobs("RUNNING"), key=int)
    other = check.cluster.take_node()
    check.victims |= {*numbers, other}
    if set(check.hit("a job of higher priority takes the node", numbers)) != {"PREEMPTED"}:
        check.wrong.append("jobs ended before they could be preempted: try again")
    check.cluster.ask("scancel", other)


def finish(check: Check) -> None:
    """The last workflow ends by itself."""
    status = check.await_("the end of the workflow", lambda: _known(check.workflow.poll()))[0]
    if status:
        check.wrong.append(f"Snakemake ended with {status}; its log ends with\n{check.log()[-3000:]}")


FAULTS = (
    cancel_a_job,
    kill_a_cell,
    cancel_a_job_at_its_end,
    kill_slurmd,
    fail_the_node,
    kill_snakemake,
    terminate_snakemake,
    preempt,
    finish,
)


def _some(jobs: dict[str, str], least: int) -> list[str]:
    return sorted(jobs, key=int) if len(jobs) >= least else []


def _known(status: int | None) -> tuple[int] | None:
    return None if status is None else (status,)


# ---- what must hold


def verify(check: Check) -> None:
    """Every record is there once and whole, the table was made, and no job was done twice or is left."""
    wrong, project = check.wrong, check.project
    made = [path for path in (project / "results/cells").rglob("*") if path.is_file()]
    records = [path for path in made if path.suffix == ".json" and not path.name.startswith(".")]
    whole = [store.read(path) for path in records]
    if len(whole) != CELLS or len(made) != CELLS or any(record["status"] != "ok" for record in whole):
        wrong.append(f"there are {len(whole)} records in {len(made)} files, not {CELLS}")
    table = pd.read_csv(project / TABLE)
    if len(table) != CELLS:
        wrong.append(f"{TABLE} has {len(table)} rows, not {CELLS}")
    jobs, ended = check.jobs(), check.states()
    done = Counter(jobs[number] for number, state in ended.items() if state == "COMPLETED")
    wrong += [f"{what} was done {times} times" for what, times in done.items() if times > 1]
    if len(set(jobs.values())) != CELLS + 1:
        wrong.append(f"{len(set(jobs.values()))} different jobs, not those of {CELLS} cells and the limits")
    unexplained = {number for number, state in ended.items() if state != "COMPLETED"} - check.victims
    wrong += [f"job {number} was no victim, but ended {ended[number]}" for number in unexplained]
    wrong += [f"job {number} has not ended" for number in sorted(set(jobs) - set(ended))]
    if (project / slurm.MARK).exists():
        wrong.append(f"{slurm.MARK} is there, though all jobs have ended")
    if "planned for the device of this machine" not in check.log():
        wrong.append("it was not said that the workflow is planned for this machine")
    submitted = {what.partition("_wildcards_")[0] for what in jobs.values()}
    if submitted != {"rule_train", "rule_measure_limits"}:
        wrong.append(f"jobs were submitted of {', '.join(sorted(submitted))}: only timed jobs may be")
    if check.gpus != {str(number) for number in range(len(GPUS))}:
        wrong.append(f"cells saw the GPUs {sorted(check.gpus)}, each must see one of {len(GPUS)}")
    again = subprocess.run(COMMAND, cwd=project, env=check.environment, capture_output=True, text=True)
    if again.returncode or "Nothing to be done" not in again.stdout + again.stderr:
        wrong.append("the same command once more found something to do:\n" + again.stderr[-2000:])
    print(check.table(), end="\n\n")
    print(
        f"{len(whole)} records of {CELLS} cells, {len(table)} rows in the table; {len(ended)} jobs: "
        f"{sum(done.values())} completed, {len(ended) - sum(done.values())} ended by faults; "
        f"measured twice or removed: {sum('measured again' in what or 'removed' in what for what in wrong)}",
        flush=True,
    )


def check(cluster: Cluster, folder: Path) -> list[str]:
    """Do all of it in a copy of the project in a folder; return the errors."""
    project = folder / "project"
    shutil.copytree(ROOT, project, ignore=IGNORED)
    (project / "config/grid.yaml").write_text(yaml.safe_dump(GRID))
    # Its own folder for temporary files: the cells need not wait for measurements of others on this machine.
    one = Check(cluster, project, {**cluster.environment, "TMPDIR": str(folder / "tmp")})
    one.start()
    try:
        for fault in FAULTS:
            fault(one)
        verify(one)
    except (ClusterError, WaitedInVainError, subprocess.TimeoutExpired) as error:
        one.wrong.append(f"{one.table()}\n{error}; the workflow's log ends with\n{one.log()[-3000:]}")
    finally:
        if one.workflow.poll() is None:
            os.killpg(one.workflow.pid, signal.SIGKILL)
            one.workflow.wait()
    return one.wrong
