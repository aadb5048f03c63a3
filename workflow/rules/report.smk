# What the report contains besides the tables and figures of sweeps: the recommendation in words, the device, the data
# sets, the configuration and the provenance.


from snn.recommending import SWEEP


def is_recommended(folder):
    """Whether snn recommend wrote the grid: its cells are compared as one, and the report opens with their figure."""
    return [*PLANS[folder].sweeps] == [SWEEP]


rule build_overview:
    input:
        records=all_records,
        verdicts=of_project("config/verdicts.yaml"),
        neighbours=of_project("config/neighbours.yaml"),
        figure=lambda wildcards: (
            [f"results/figures/{wildcards.of}{SWEEP}.svg"]
            if is_recommended(wildcards.of)
            else []
        ),
    output:
        recommended="results/tables/{of}recommendation.csv",
        why=page("recommendation"),
        csv="results/tables/{of}overview.csv",
        page=page("overview", caption="overview_table"),
        origins="results/tables/{of}provenance.csv",
        origins_page=page("provenance"),
        warnings="results/tables/{of}warnings.csv",
        warnings_page=page("warnings"),
        # workflow/report/overview.rst shows it.
        opening="results/tables/{of}opening.html",
    localrule: True
    params:
        records=lambda wildcards: source_hashes(PLANS[wildcards.of].cells),
        is_recommended=lambda wildcards: is_recommended(wildcards.of),
        code=code_of("build_overview"),
    message:
        "build tables {wildcards.of}recommendation, overview, warnings and provenance"
    script:
        "../scripts/build_overview.py"


rule build_gpu:
    input:
        limits=limits_input,
        paper=of_project("config/paper/gpu.yaml"),
    output:
        csv="results/tables/{of}gpu.csv",
        page=page("gpu"),
    localrule: True
    params:
        limits_hash=limits_hash_of,
        form="origin.gpu",
        code=code_of("build_page", "snn.tables.origin"),
    message:
        "build table {wildcards.of}gpu"
    script:
        "../scripts/build_page.py"


def trainings_of(folder):
    """One cell per data set, batch size and number of epochs of a device."""
    return sweeps.trainings(PLANS[folder].cells.values())


rule build_datasets:
    input:
        tables=lambda wildcards: [
            naming.dataset_path(cell) for cell in trainings_of(wildcards.of)
        ],
        paper=of_project("config/paper/datasets.yaml"),
    output:
        csv="results/tables/{of}datasets.csv",
        page=page("datasets"),
    localrule: True
    params:
        cells=lambda wildcards: as_text(trainings_of(wildcards.of)),
        device=lambda wildcards: {
            key: vars(PLANS[wildcards.of].device)[of]
            for key, of in (("device", "name"), ("backend", "backend"))
        },
        form="paper.datasets",
        code=code_of("build_page", "snn.tables.paper"),
    message:
        "build table {wildcards.of}datasets"
    script:
        "../scripts/build_page.py"


rule build_configuration:
    input:
        verdicts=of_project("config/verdicts.yaml"),
    output:
        csv="results/tables/{of}configuration.csv",
        page=page("configuration"),
    localrule: True
    params:
        sweeps=lambda wildcards: as_text(
            [
                {"name": sweep.name, "axes": sweep.axes, "cells": sweep.cells}
                for sweep in PLANS[wildcards.of].sweeps.values()
            ]
        ),
        microbenchmarks=lambda wildcards: as_text(PLANS[wildcards.of].microbenchmarks),
        device=device_of,
        form="origin.configuration",
        code=code_of("build_page", "snn.tables.origin"),
    message:
        "build table {wildcards.of}configuration"
    script:
        "../scripts/build_page.py"


if workflow.is_main_process:
    if error := start_checks.error_of_report(
        sys.argv[1:],
        list(PAGES),
        {rule.name for rule in workflow.rules},
        GRID,
    ):
        refuse(error)
