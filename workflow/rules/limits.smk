# What the device can do at best, measured once, and the table of it. Like a training, it has the device to itself.


rule measure_limits:
    output:
        limits=LIMITS,
    # Before any training, so that no table has to wait for the limits at the end.
    priority: 60
    threads: workflow.cores
    resources:
        gpu=int(DEVICE.backend == "cuda"),
    params:
        device=vars(DEVICE),
        source_hash=LIMITS_HASH,
    message:
        "measure limits of {params.device[name]}"
    shell:
        "exec {PYTHON} -m snn.measure_limits {DEVICE.backend} {output.limits:q}"


rule build_device_limits:
    input:
        limits=LIMITS,
    output:
        csv="results/tables/device_limits.csv",
        page=page("device_limits"),
    params:
        limits_hash=LIMITS_HASH,
        code=code_of("build_device_limits"),
    message:
        "build table device_limits"
    script:
        "../scripts/build_device_limits.py"
