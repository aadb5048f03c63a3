# One prepared table for each data set of the grid. Its path carries a digest of what it is made from
# (for a CSV file, of the content), so a change makes a new table and a touched file makes none.


def dataset_of(wildcards):
    return DATASETS[f"results/datasets/{wildcards.table}.npy"]


def dataset_overrides(wildcards):
    """The data set, and the largest batch that a cell will ask of it."""
    wanted = dataset_of(wildcards)
    batches = [
        cell["training"]["batch_size"]
        for cell in CELLS.values()
        if cell["dataset"] == wanted["dataset"]
    ]
    chosen = [one for one in sweeps.overrides(wanted) if one.startswith("dataset")]
    return [*chosen, f"training.batch_size={max(batches)}"]


rule prepare_dataset:
    input:
        code=lambda wildcards: code_of(
            *fingerprint.of_dataset_modules(dataset_of(wildcards)["dataset"])
        ),
    output:
        table="results/datasets/{table}.npy",
    # Before any training, so that a fault in a user's file is found first.
    priority: 100
    params:
        overrides=dataset_overrides,
    message:
        "prepare data set {wildcards.table}"
    shell:
        "exec {PYTHON} -m snn.prepare {params.overrides:q} output={output.table:q}"
