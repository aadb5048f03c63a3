# One rule a table. A table's input names the records of its own sweep and no others, its script and the
# code that the script imports; its parameters say what each record must hold to be the one asked for.

TABLE_CODE = ("snn.analysis.frame", "snn.analysis.floors", "snn.report.write")


rule build_gpu:
    input:
        paper="config/paper/gpu.yaml",
        code=code_of("snn.tables.gpu", "snn.report.write"),
        script="workflow/scripts/build_gpu.py",
    output:
        csv="results/tables/gpu.csv",
        page=report(
            "results/tables/gpu.html",
            category=category("The paper's tables"),
            caption="../report/gpu.rst",
            labels={"table": "I the device"},
        ),
    params:
        device=vars(DEVICE),
    message:
        "build table gpu"
    script:
        "../scripts/build_gpu.py"


rule build_datasets:
    input:
        tables=ancient(list(DATASETS)),
        paper="config/paper/datasets.yaml",
        code=code_of("snn.tables.datasets", "snn.report.write"),
        script="workflow/scripts/build_datasets.py",
    output:
        csv="results/tables/datasets.csv",
        page=report(
            "results/tables/datasets.html",
            category=category("The paper's tables"),
            caption="../report/datasets.rst",
            labels={"table": "II data sets"},
        ),
    params:
        cells=list(DATASETS.values()),
        device=vars(DEVICE),
    message:
        "build table datasets"
    script:
        "../scripts/build_datasets.py"


rule build_correctness:
    input:
        records=records_of("correctness"),
        paper="config/paper/correctness.yaml",
        verdicts="config/verdicts.yaml",
        code=code_of("snn.tables.correctness", *TABLE_CODE),
        script="workflow/scripts/build_table.py",
    output:
        csv="results/tables/correctness.csv",
        page=report(
            "results/tables/correctness.html",
            category=category("The paper's tables"),
            caption="../report/correctness.rst",
            labels={"table": "III correctness"},
        ),
    params:
        table="correctness",
        records=lambda wildcards: expected("correctness"),
    message:
        "build table correctness"
    script:
        "../scripts/build_table.py"


rule build_training_time:
    input:
        records=records_of("training_time"),
        paper="config/paper/training_time.yaml",
        verdicts="config/verdicts.yaml",
        code=code_of("snn.tables.training_time", *TABLE_CODE),
        script="workflow/scripts/build_table.py",
    output:
        csv="results/tables/training_time.csv",
        page=report(
            "results/tables/training_time.html",
            category=category("The paper's tables"),
            caption="../report/training_time.rst",
            labels={"table": "IV training time"},
        ),
    params:
        table="training_time",
        records=lambda wildcards: expected("training_time"),
    message:
        "build table training_time"
    script:
        "../scripts/build_table.py"


rule build_speedup:
    input:
        records=records_of("speedup"),
        paper="config/paper/speedup.yaml",
        verdicts="config/verdicts.yaml",
        code=code_of("snn.tables.speedup", *TABLE_CODE),
        script="workflow/scripts/build_table.py",
    output:
        csv="results/tables/speedup.csv",
        page=report(
            "results/tables/speedup.html",
            category=category("The paper's tables"),
            caption="../report/speedup.rst",
            labels={"table": "V speedup"},
        ),
    params:
        table="speedup",
        records=lambda wildcards: expected("speedup"),
    message:
        "build table speedup"
    script:
        "../scripts/build_table.py"


rule build_neurons:
    input:
        records=records_of("neurons"),
        paper="config/paper/neurons.yaml",
        verdicts="config/verdicts.yaml",
        code=code_of("snn.tables.neurons", *TABLE_CODE),
        script="workflow/scripts/build_table.py",
    output:
        csv="results/tables/neurons.csv",
        page=report(
            "results/tables/neurons.html",
            category=category("The paper's tables"),
            caption="../report/neurons.rst",
            labels={"table": "VI neurons"},
        ),
    params:
        table="neurons",
        records=lambda wildcards: expected("neurons"),
    message:
        "build table neurons"
    script:
        "../scripts/build_table.py"


rule build_depth:
    input:
        records=records_of("depth"),
        paper="config/paper/depth.yaml",
        verdicts="config/verdicts.yaml",
        code=code_of("snn.tables.depth", *TABLE_CODE),
        script="workflow/scripts/build_table.py",
    output:
        csv="results/tables/depth.csv",
        page=report(
            "results/tables/depth.html",
            category=category("The paper's tables"),
            caption="../report/depth.rst",
            labels={"table": "VII depth"},
        ),
    params:
        table="depth",
        records=lambda wildcards: expected("depth"),
    message:
        "build table depth"
    script:
        "../scripts/build_table.py"


rule build_attribution:
    input:
        records=records_of("attribution"),
        verdicts="config/verdicts.yaml",
        code=code_of("snn.tables.attribution", *TABLE_CODE),
        script="workflow/scripts/build_table.py",
    output:
        csv="results/tables/attribution.csv",
        page=report(
            "results/tables/attribution.html",
            category=category("Why"),
            caption="../report/attribution.rst",
            labels={"what": "where the time goes", "form": "table"},
        ),
    params:
        table="attribution",
        records=lambda wildcards: expected("attribution"),
    message:
        "build table attribution"
    script:
        "../scripts/build_table.py"


rule build_memory:
    input:
        records=records_of("memory"),
        verdicts="config/verdicts.yaml",
        code=code_of("snn.tables.memory", *TABLE_CODE),
        script="workflow/scripts/build_table.py",
    output:
        csv="results/tables/memory.csv",
        page=report(
            "results/tables/memory.html",
            category=category("Why"),
            caption="../report/memory.rst",
            labels={"what": "memory by kind", "form": "table"},
        ),
    params:
        table="memory",
        records=lambda wildcards: expected("memory"),
    message:
        "build table memory"
    script:
        "../scripts/build_table.py"


rule build_timeline:
    input:
        records=records_of("timeline"),
        verdicts="config/verdicts.yaml",
        code=code_of("snn.tables.timeline", *TABLE_CODE),
        script="workflow/scripts/build_table.py",
    output:
        csv="results/tables/timeline.csv",
        page=report(
            "results/tables/timeline.html",
            category=category("Why"),
            caption="../report/timeline.rst",
            labels={"what": "call by call", "form": "table"},
        ),
    params:
        table="timeline",
        records=lambda wildcards: expected("timeline"),
    message:
        "build table timeline"
    script:
        "../scripts/build_table.py"


rule build_precision:
    input:
        records=records_of("precision"),
        verdicts="config/verdicts.yaml",
        code=code_of("snn.tables.precision", *TABLE_CODE),
        script="workflow/scripts/build_table.py",
    output:
        csv="results/tables/precision.csv",
        page=report(
            "results/tables/precision.html",
            category=category("Sweeps"),
            caption="../report/precision.rst",
            labels={"sweep": "precision", "form": "table"},
        ),
    params:
        table="precision",
        records=lambda wildcards: expected("precision"),
    message:
        "build table precision"
    script:
        "../scripts/build_table.py"


rule build_cpu:
    input:
        records=records_of("cpu"),
        verdicts="config/verdicts.yaml",
        code=code_of("snn.tables.cpu", *TABLE_CODE),
        script="workflow/scripts/build_table.py",
    output:
        csv="results/tables/cpu.csv",
        page=report(
            "results/tables/cpu.html",
            category=category("Sweeps"),
            caption="../report/cpu.rst",
            labels={"sweep": "cpu", "form": "table"},
        ),
    params:
        table="cpu",
        records=lambda wildcards: expected("cpu"),
    message:
        "build table cpu"
    script:
        "../scripts/build_table.py"


rule build_peers:
    input:
        records=records_of("peers"),
        limits=LIMITS,
        verdicts="config/verdicts.yaml",
        code=code_of("snn.tables.peers", *TABLE_CODE),
        script="workflow/scripts/build_table.py",
    output:
        csv="results/tables/peers.csv",
        page=report(
            "results/tables/peers.html",
            category=category("Sweeps"),
            caption="../report/peers.rst",
            labels={"sweep": "peers", "form": "table"},
        ),
    params:
        table="peers",
        records=lambda wildcards: expected("peers"),
        limits_hash=LIMITS_HASH,
    message:
        "build table peers"
    script:
        "../scripts/build_table.py"


rule build_learning_rates:
    input:
        records=records_of("learning_rates"),
        verdicts="config/verdicts.yaml",
        code=code_of("snn.tables.learning_rates", *TABLE_CODE),
        script="workflow/scripts/build_table.py",
    output:
        csv="results/tables/learning_rates.csv",
        page=report(
            "results/tables/learning_rates.html",
            category=category("Sweeps"),
            caption="../report/learning_rates.rst",
            labels={"sweep": "learning_rates", "form": "table"},
        ),
    params:
        table="learning_rates",
        records=lambda wildcards: expected("learning_rates"),
    message:
        "build table learning_rates"
    script:
        "../scripts/build_table.py"


rule export_trace:
    input:
        # A trace a cell is enough: the rounds do the same.
        records=[
            sweeps.record_paths(cell)[0] for cell in sweeps.cells_of("timeline", SWEEPS)
        ],
        code=code_of("snn.perfetto"),
    output:
        trace="results/traces/timeline.json",
    message:
        "export trace timeline"
    shell:
        "exec {PYTHON} -m snn.perfetto {input.records:q} {output.trace:q}"


rule build_sweep:
    input:
        records=lambda wildcards: records_of(wildcards.sweep),
        limits=LIMITS,
        verdicts="config/verdicts.yaml",
        code=code_of("snn.tables.sweep", *TABLE_CODE),
        script="workflow/scripts/build_sweep.py",
    output:
        csv="results/tables/{sweep}.csv",
        page=report(
            "results/tables/{sweep}.html",
            category=category("Sweeps"),
            caption="../report/sweep.rst",
            labels={"sweep": "{sweep}", "form": "table"},
        ),
    wildcard_constraints:
        sweep=one_of(SWEEP_TABLES),
    params:
        records=lambda wildcards: expected(wildcards.sweep),
        limits_hash=LIMITS_HASH,
        axes=lambda wildcards: list(SWEEPS[wildcards.sweep].axes),
    message:
        "build table {wildcards.sweep}"
    script:
        "../scripts/build_sweep.py"
