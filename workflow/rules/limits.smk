# What the device can do at best, measured once, and the table of it. Like a training, it has the device to itself.


rule measure_limits:
    input:
        code=fingerprint.of_limits(DEVICE.backend),
    output:
        limits=LIMITS,
    # Before any training: a table without its limits would have to wait for them at the end.
    priority: 60
    threads: workflow.cores
    resources:
        device=1,
    params:
        device=vars(DEVICE),
    message:
        "measure limits of {params.device[name]}"
    shell:
        "exec {PYTHON} -m snn.measure_limits {DEVICE.backend} {output.limits:q}"


rule build_device_limits:
    input:
        limits=LIMITS,
        code=code_of(
            "snn.tables.device_limits", "snn.analysis.floors", "snn.report.write"
        ),
        script="workflow/scripts/build_device_limits.py",
    output:
        csv="results/tables/device_limits.csv",
        page=report(
            "results/tables/device_limits.html",
            category=category("Why"),
            caption="../report/device_limits.rst",
            labels={"what": "what the device can do", "form": "table"},
        ),
    params:
        limits_hash=LIMITS_HASH,
    message:
        "build table device_limits"
    script:
        "../scripts/build_device_limits.py"
