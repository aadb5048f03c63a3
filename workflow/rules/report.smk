# What the report needs beside tables and figures: the answer in words, the configuration, the provenance. The
# pages are of the cells of all sweeps.


rule build_overview:
    input:
        records=RECORDS,
        verdicts="config/verdicts.yaml",
        code=code_of(
            "snn.tables.overview",
            "snn.tables.recommendation",
            "snn.report.summary",
            "snn.tables.provenance",
            "snn.report.write",
        ),
        script="workflow/scripts/build_overview.py",
    output:
        recommended="results/tables/recommendation.csv",
        why=report(
            "results/tables/recommendation.html",
            category=category("Overview"),
            caption="../report/recommendation.rst",
            labels={"table": "1 what to use, and why"},
        ),
        csv="results/tables/overview.csv",
        page=report(
            "results/tables/overview.html",
            category=category("Overview"),
            caption="../report/overview_table.rst",
            labels={"table": "2 which strategy is fastest"},
        ),
        # workflow/report/overview.rst shows it.
        opening="results/tables/opening.html",
    params:
        records=lambda wildcards: expected("overview"),
    message:
        "build tables recommendation and overview"
    script:
        "../scripts/build_overview.py"


rule build_configuration:
    input:
        verdicts="config/verdicts.yaml",
        code=code_of("snn.tables.configuration", "snn.report.write"),
        script="workflow/scripts/build_configuration.py",
    output:
        csv="results/tables/configuration.csv",
        page=report(
            "results/tables/configuration.html",
            category=category("Configuration and provenance"),
            caption="../report/configuration.rst",
            labels={"table": "1 configuration"},
        ),
    params:
        sweeps=[vars(sweep) for sweep in SWEEPS.values()],
        device=vars(DEVICE),
    message:
        "build table configuration"
    script:
        "../scripts/build_configuration.py"


rule build_provenance:
    input:
        records=RECORDS,
        code=code_of("snn.tables.provenance", "snn.report.write"),
        script="workflow/scripts/build_provenance.py",
    output:
        csv="results/tables/provenance.csv",
        page=report(
            "results/tables/provenance.html",
            category=category("Configuration and provenance"),
            caption="../report/provenance.rst",
            labels={"table": "2 provenance"},
        ),
    message:
        "build table provenance"
    script:
        "../scripts/build_provenance.py"
