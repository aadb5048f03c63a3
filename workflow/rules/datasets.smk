# One prepared table for each data set of the grid. Its path carries a digest of what it is made from (for a CSV file,
# of the content) and of the code that makes it, so a change makes a new table and a touched file makes none.


def preparation_of(wildcards):
    """The data set, and the largest batch that a cell will ask of it."""
    wanted = DATASETS[f"results/datasets/{wildcards.table}.npy"]
    batches = [
        cell["training"]["batch_size"]
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
    params:
        dataset=preparation_of,
    message:
        "prepare data set {wildcards.table}"
    shell:
        "exec {PYTHON} -m snn.prepare {params.dataset} output={output.table:q}"
