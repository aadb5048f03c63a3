# One prepared table per data set of the grid. Its path contains a digest of what it is made from (for a CSV file, the
# content) and of the code that makes it: a change of these makes a new table, and touching a file does not.


def preparation_of(wildcards):
    """The keys of the data set, and the largest batch size among its cells."""
    wanted = DATASETS[f"results/datasets/{wildcards.table}.npy"]
    batches = [
        cell.batch_size
        for cell in CELLS.values()
        if cell["dataset"] == wanted["dataset"]
    ]
    keys = [key for key in sweeps.overrides(wanted) if key.startswith("dataset")]
    return shlex.join([*keys, f"training.batch_size={max(batches)}"])


rule prepare_dataset:
    output:
        table="results/datasets/{table}.npy",
    # Before any training, so that a fault in a user's file is found first.
    priority: 100
    localrule: True
    params:
        dataset=preparation_of,
    message:
        "prepare data set {wildcards.table}"
    shell:
        "exec {PYTHON} -m snn prepare {params.dataset} output={output.table:q}"
