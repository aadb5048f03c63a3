# One round of one cell = one job = one record. Timed jobs never share the device or the cores: each takes all
# of snakemake's cores, one unit of `device`, and, whoever starts it, a lock on the device itself.
#
# A rule a round, the first with the highest priority: every cell's first round is made before any second one,
# so that the rounds of a cell lie as far apart as the workflow is long.


def cell_of(wildcards):
    return CELLS[wildcards.cell]


for ROUND in ROUNDS:

    rule:
        name:
            f"train_round_{ROUND}"
        input:
            # Exactly the files that decide what this cell measures: an edit re-runs the cells it concerns.
            code=lambda wildcards: fingerprint.of_cell(cell_of(wildcards)),
            # Made before, but never a reason to train again: its path says what is in it.
            data=lambda wildcards: ancient(sweeps.dataset_path(cell_of(wildcards))),
        output:
            record="results/cells/{cell}-round{round}.json",
        wildcard_constraints:
            round=str(ROUND),
        priority: 50 - ROUND
        threads: workflow.cores
        resources:
            device=1,
        params:
            cell=cell_of,
            overrides=lambda wildcards: sweeps.overrides(cell_of(wildcards)),
        message:
            "train {wildcards.cell}, round {wildcards.round}"
        shell:
            "exec {PYTHON} -m snn {params.overrides:q} round={wildcards.round} "
            "data={input.data:q} output={output.record:q}"
