# One cell = one job = one record. Timed cells never share the device or the cores: a cell takes all of
# snakemake's cores, one unit of `device`, and, whoever starts it, a lock on the device itself.


def cell_of(wildcards):
    return CELLS[f"results/cells/{wildcards.cell}.json"]


rule train_cell:
    input:
        # Exactly the files that decide what this cell measures: an edit re-runs the cells it concerns.
        code=lambda wildcards: sources.of_cell(cell_of(wildcards)),
        # Made before, but never a reason to train again: its path says what is in it.
        data=lambda wildcards: ancient(grid.dataset_path(cell_of(wildcards))),
    output:
        record="results/cells/{cell}.json",
    threads: workflow.cores
    resources:
        device=1,
    params:
        cell=cell_of,
        overrides=lambda wildcards: grid.overrides(cell_of(wildcards)),
    message:
        "train {wildcards.cell}"
    shell:
        "exec {PYTHON} -m snn {params.overrides:q} data={input.data:q} output={output.record:q}"
