# What the report contains besides the tables and figures of sweeps: the recommendation in words, the device, the data
# sets, the configuration and the provenance.


rule build_overview:
    input:
        records=all_records,
        verdicts="config/verdicts.yaml",
    output:
        recommended="results/tables/recommendation.csv",
        why=page("recommendation"),
        csv="results/tables/overview.csv",
        page=page("overview", caption="overview_table"),
        origins="results/tables/provenance.csv",
        origins_page=page("provenance"),
        # workflow/report/overview.rst shows it.
        opening="results/tables/opening.html",
    params:
        records=lambda wildcards: source_hashes(CELLS),
        code=code_of("build_overview"),
    message:
        "build tables recommendation, overview and provenance"
    script:
        "../scripts/build_overview.py"


rule build_gpu:
    input:
        paper="config/paper/gpu.yaml",
    output:
        csv="results/tables/gpu.csv",
        page=page("gpu"),
    params:
        device=vars(DEVICE),
        code=code_of("build_gpu"),
    message:
        "build table gpu"
    script:
        "../scripts/build_gpu.py"


rule build_datasets:
    input:
        tables=list(DATASETS),
        paper="config/paper/datasets.yaml",
    output:
        csv="results/tables/datasets.csv",
        page=page("datasets"),
    params:
        cells=as_text(list(DATASETS.values())),
        device=vars(DEVICE),
        code=code_of("build_datasets"),
    message:
        "build table datasets"
    script:
        "../scripts/build_datasets.py"


rule build_configuration:
    input:
        verdicts="config/verdicts.yaml",
    output:
        csv="results/tables/configuration.csv",
        page=page("configuration"),
    params:
        sweeps=as_text(
            [
                {"name": sweep.name, "axes": sweep.axes, "cells": sweep.cells}
                for sweep in SWEEPS.values()
            ]
        ),
        device=vars(DEVICE),
        code=code_of("build_configuration"),
    message:
        "build table configuration"
    script:
        "../scripts/build_configuration.py"
