# One round of one cell = one job = one record. Timed jobs never share the device or the cores: each takes all
# of snakemake's cores, one unit of `device`, and, whoever starts it, a lock on the device itself.
#
# A cell's source files are not inputs: thirty files per job took most of the time of building the DAG. Their hash is
# a parameter, so that an edit re-runs the cells it concerns and no others.
#
# One rule per round, the first with the highest priority: every cell's first round is made before any second one,
# so that the rounds of a cell lie as far apart as the workflow is long.


@quick
def dataset_of(wildcards):
    """The data set, made before the first training of a cell, and never a reason to train again.

    Where there is a record, there is no edge to what it was trained on: Snakemake would train every cell of a data
    set again that it has to prepare, and with `ancient` it would train none, not even those without a record. A cell
    that is trained again for another reason makes the data set itself if it is not there.
    """
    record = naming.record_path(wildcards.cell, wildcards.round)
    return [] if Path(record).exists() else DATASET_OF[wildcards.cell]


@quick
def training_of(wildcards):
    """How a cell is started, and the hash of the files that decide what it measures.

    The name of its record says which cell it is, so this is all that decides whether it is measured again.
    """
    return start_of(wildcards.cell)


@cache
def start_of(name):
    """The same, of the cell of this name: each of its rounds starts alike."""
    return {
        "overrides": shlex.join(
            [*sweeps.overrides(CELLS[name]), f"data={DATASET_OF[name]}"]
        ),
        "source_hash": SOURCE_HASHES[name],
    }


for ROUND in ROUNDS:

    rule:
        name:
            f"train_round_{ROUND}"
        input:
            dataset_of,
        output:
            record="results/cells/{cell}-round{round}.json",
        wildcard_constraints:
            round=str(ROUND),
        priority: 50 - ROUND
        threads: workflow.cores
        resources:
            device=1,
        params:
            cell=training_of,
        message:
            "train {wildcards.cell}, round {wildcards.round}"
        shell:
            "exec {PYTHON} -m snn {params.cell[overrides]} round={wildcards.round} "
            "output={output.record:q}"
