# Before the workflow runs: what an ended one left behind is put right, targets are checked, and the folder is locked, so
# that no other workflow works in it meanwhile.

from snakemake.exceptions import WorkflowError

from snn import datasets
from snn.files import sealed
from snn.grid import grid_file
from snn.hardware.devices import say_unused_gpu
from snn.hardware.locks import folder_lock
from snn.records import store
from snn.workflow import leftovers, slurm, start_checks
from snn.workflow.signals import kill_jobs


def is_whole(path):
    """Whether a file that a killed workflow left behind is complete and undamaged."""
    try:
        if path in PAGES:
            return sealed.is_whole(Path(path))
        if path in DATASETS:
            return datasets.intact(Path(path), DATASETS[path]["dataset"])
        return path in SOURCE_HASH_AT and bool(store.read(Path(path)))
    except SnnError:
        return False


def end_if_made(record):
    """End the process of a job on a cluster if an earlier try of the job has left its record.

    That try was ended after it had written the record, and before Snakemake heard of it.
    """
    if not workflow.remote_exec or workflow.attempt == 1:
        return
    from snn.measurement import progress

    path = Path(record)
    if (
        progress.made_since_start(path)
        and leftovers.source_hash_of(path) == SOURCE_HASH_AT[record]
        and is_whole(record)
    ):
        print(f"{record}: an earlier try has made it", file=sys.stderr, flush=True)
        os._exit(0)


def data_to_train_on():
    """The data sets of the cells whose records are not all there."""
    return {
        DATASET_OF[name]
        for name, paths in RECORDS_OF.items()
        if not all(Path(path).exists() for path in paths)
    }


GRID = f"{GRID_FILE} on {' and '.join(plan.device.name for plan in PLANS.values())}"


def check_targets():
    """Reject targets that are not a record, table or figure of this grid, before Snakemake looks for them."""
    made = {*PAGES, *PAGES.values()}
    for target in sys.argv[1:]:  # Snakemake's own settings do not have them yet
        if target.startswith("results/cells/") and target not in SOURCE_HASH_AT:
            refuse(
                f"{target}: not a record of {GRID}: give the same "
                "--config grid=... and device=... or devices=... as when it was measured"
            )
        if error := start_checks.error_of_target(target, made, GRID):
            refuse(error)


def jobs_left():
    """Whether Slurm still has jobs of an earlier workflow in this folder, or does not say."""
    try:
        return bool(slurm.jobs_of(Path.cwd()))
    except SnnError:
        return True


def start_again():
    """Become the same command once more, which makes what is missing."""
    os.execv(sys.executable, sys.orig_argv)


def submit_again(jobs):
    """Start again, since Snakemake would wait for preempted jobs for ever."""
    numbers = " ".join(jobs)
    print(
        f"Slurm preempted jobs and does not start them again ({numbers}): starting again, to resubmit them",
        file=sys.stderr,
        flush=True,
    )
    kill_jobs()
    start_again()


def hold_workflow_lock():
    """Exit if another snakemake runs in this folder; the system releases the lock when this process ends.

    If jobs of an ended workflow were running during planning, everything is planned again when they have ended.
    """
    global WORKFLOW_LOCK
    # Again, since Snakemake has set its own handler meanwhile.
    end_at_once(lambda: slurm.cancel_all(Path.cwd()))
    try:
        WORKFLOW_LOCK = folder_lock(Path(".snakemake"), PLANNED_AFTER)
        if JOBS_LEFT:
            slurm.await_end(Path.cwd())
            start_again()
        slurm.MARK.unlink(missing_ok=True)
        if workflow.executor_plugin.executor.__module__.startswith(slurm.EXECUTOR):
            if "" in PLANS:
                said = (
                    f"planned for the device of this machine, {PLANS[''].device.name}"
                )
                print(
                    f"{said}: --config 'devices=[NAME]' plans for others",
                    file=sys.stderr,
                )
            slurm.MARK.touch()
            seconds = workflow.remote_execution_settings.seconds_between_status_checks
            slurm.watch_for_preemption(Path.cwd(), seconds, submit_again)
    except SnnError as error:
        raise WorkflowError(str(error)) from None


# The source hash that a record must contain, by its path.
SOURCE_HASH_AT = source_hashes(CELLS)

if workflow.is_main_process:
    check_targets()
    grid_file.tell_notes(GRID_FILE)
    for PLAN in PLANS.values():
        say_unused_gpu(PLAN.backend, PLAN.device)
    for WARNING in start_checks.warn_of_large_cells(PLANS.values()):
        print(f"snn: warning: {GRID_FILE}: {WARNING}", file=sys.stderr)
    JOBS_LEFT = jobs_left()
    if PLANNED_AFTER is not None:
        # Of a job that failed in the queue Snakemake notes the parameters, but an older record is still there.
        leftovers.correct_marks(
            is_whole,
            SOURCE_HASH_AT,
            DATASETS,
            data_to_train_on(),
            PAGES,
            all_records=slurm.MARK.exists(),
        )


def lift_job_limit():
    """Let Snakemake start any number of jobs at a time, if it runs them on this machine.

    With a limit, the scheduler chooses jobs again every second, and once more per second after each job: in a long
    workflow that would keep a core busy while cells are measured.
    """
    if workflow.local_exec:
        workflow.scheduler.job_rate_limiter = None


def write_progress_plan():
    """Write down which records will be made, so that the processes of cells can print how much is left."""
    from snn.measurement import progress

    progress.write_plan(
        (CELLS[job.wildcards.cell], int(job.wildcards.round))
        for job in workflow.dag.needrun_jobs()
        if job.rule.name == "train"
    )
