# A device's peak rates, measured once, and their table. Like a cell, the measurement has the device to itself.


rule measure_limits:
    output:
        limits="results/limits/{device}.json",
    wildcard_constraints:
        device=one_of(DEVICES),
    # Before any training, so that no table has to wait for the limits at the end.
    priority: 60
    threads: workflow.cores
    resources:
        gpu=lambda wildcards: int(DEVICES[wildcards.device].backend == "cuda"),
    params:
        device=lambda wildcards: vars(DEVICES[wildcards.device]),
        source_hash=lambda wildcards: limits_hash(DEVICES[wildcards.device]),
    message:
        "measure limits of {params.device[name]}"
    shell:
        "exec {PYTHON} -m snn measure-limits {params.device[backend]} {output.limits:q} "
        "{params.device[name]:q}"


rule build_device_limits:
    input:
        limits=lambda wildcards: [limits_of(wildcards.of)],
    output:
        csv="results/tables/{of}device_limits.csv",
        page=page("device_limits"),
    localrule: True
    params:
        limits_hash=lambda wildcards: limits_hash(PLANS[wildcards.of].device),
        form="origin.device_limits",
        code=code_of("build_page", "snn.tables.origin"),
    message:
        "build table {wildcards.of}device_limits"
    script:
        "../scripts/build_page.py"
