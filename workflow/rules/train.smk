# One round of one cell is one job and leaves one record. A cell of a GPU takes one unit of the resource `gpu`, and a lock
# on the GPU itself. Timed jobs never share a device, nor the cores, because each takes all of Snakemake's; only cells
# that a busy neighbour does not slow down (config/neighbours.yaml) run side by side on several GPUs, unless they choose
# their own neighbour (protocol.neighbour).
#
# A cell's source files are not inputs: thirty files per job took most of the time of building the DAG. Their hash is
# a parameter, so that an edit re-runs the cells it concerns and no others.
#
# Earlier rounds have higher priority: every cell's first round is made before any second one, so that the rounds of a
# cell are as far apart in time as the workflow allows. Within a round the priority of a cell follows from a random order,
# which the next round reverses (snn/grid/order.py).


@quick
def dataset_of(wildcards):
    """The data set of a cell that has no record yet; preparing it again is no reason to train again.

    A record has no edge to its data set: if the data set had to be prepared again, Snakemake would train all of its
    cells again, and with `ancient` none of them, not even those without a record. A cell that is trained again for
    another reason makes a missing data set itself.
    """
    record = naming.record_path(wildcards.cell, wildcards.round)
    return [] if Path(record).exists() else DATASET_OF[wildcards.cell]


@quick
def training_of(wildcards):
    """How a cell is started, and the hash of the files that decide what it measures.

    The path of its record identifies the cell, so nothing else decides whether it is measured again.
    """
    end_if_made(naming.record_path(wildcards.cell, wildcards.round))
    return start_of(wildcards.cell)


@cache
def start_of(name):
    """The same by the name of the cell, for all of its rounds."""
    return {
        "overrides": shlex.join(
            [*sweeps.overrides(CELLS[name]), f"data={DATASET_OF[name]}"]
        ),
        "source_hash": SOURCE_HASHES[name],
    }


@cache
def gpus_of_machine(name):
    """The number of GPUs of this name that a job can see: on a cluster those that it asks for, the fewest."""
    here = devices.gpus_here() if workflow.local_exec else []
    return max(2, sum(gpu.name == name for gpu in here))


def gpus_of(wildcards):
    """The number of GPUs that a cell takes: 0 on the CPU, else one or several, and one for its neighbour."""
    cell = CELLS[wildcards.cell]
    if cell.device.backend == "cpu":
        return 0
    if several_devices(cell["strategy"]):
        return cell["strategy"].get("devices") or gpus_of_machine(
            cell["device"]["name"]
        )
    return 2 if cell.strategy_beside else 1


def its_gpu(number):
    """Input function: 1 for a cell in whose round it is this GPU's turn (snn.hardware.locks.in_turn), else 0.

    On a cluster, the scheduler chooses the GPU.
    """

    def taken(wildcards):
        has_turn = (int(wildcards.round) - 1) % GPUS == number
        return min(gpus_of(wildcards), 1) if has_turn and workflow.local_exec else 0

    return taken


def threads_of(wildcards):
    """All cores, or of several GPUs each its share, where a busy neighbour does not change a cell's times."""
    cell = CELLS[wildcards.cell]
    touched = cell.neighbour != ANY or groups.touches(cell["strategy"])
    alone = not gpus_of(wildcards) or touched
    return workflow.cores if alone else max(1, workflow.cores // GPUS)


@cache
def positions_in(number):
    """The positions of all cells in a round."""
    return order.positions(CELLS, number)


@quick
def priority_of(wildcards):
    """Earlier rounds first, and the cells of one in its order."""
    number = int(wildcards.round)
    return 50 - number - positions_in(number)[wildcards.cell] / (1 + len(CELLS))


class Position:
    """Formats a cell and a round as the cell's position: shell commands have no functions, and parameters are compared."""

    def __format__(self, cell_and_round):
        cell, number = cell_and_round.split()
        return str(positions_in(int(number))[cell])


POSITION = Position()


rule train:
    input:
        dataset_of,
    output:
        record="results/cells/{cell}-round{round}.json",
    wildcard_constraints:
        round=one_of(map(str, ROUNDS)),
    priority: priority_of
    threads: threads_of
    resources:
        **(
            {f"gpu_{number}": its_gpu(number) for number in range(GPUS)}
            if GPUS > 1
            else {}
        ),
        gpu=gpus_of,
    params:
        cell=training_of,
    message:
        "train {wildcards.cell}, round {wildcards.round}"
    shell:
        "{order.POSITION}={POSITION:{wildcards.cell} {wildcards.round}} "
        "exec {PYTHON} -m snn {params.cell[overrides]} round={wildcards.round} "
        "output={output.record:q}"
