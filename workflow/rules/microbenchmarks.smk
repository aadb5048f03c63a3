# Costs of memory on a device, without training: a record of each microbenchmark, and its table. Like a cell, a
# microbenchmark has the device to itself. The settings and sources that its record must have are its parameters.


def measured_with(name, plan):
    """The settings and the source hash that the record of a microbenchmark must contain."""
    return {
        "settings": plan.microbenchmarks[name],
        "source_hash": fingerprint.microbenchmark_sources(
            name, plan.device.backend
        ).digest,
    }


rule measure_microbenchmark:
    output:
        record="results/microbenchmarks/{device}/{microbenchmark}.json",
    wildcard_constraints:
        device=one_of(DEVICES),
        microbenchmark=one_of(MICROBENCHMARKS),
    priority: 55
    threads: workflow.cores
    resources:
        gpu=lambda wildcards: int(DEVICES[wildcards.device].backend == "cuda"),
    params:
        device=lambda wildcards: vars(DEVICES[wildcards.device]),
        wanted=lambda wildcards: measured_with(
            wildcards.microbenchmark, PLAN_OF[wildcards.device]
        ),
        settings=lambda wildcards: json.dumps(
            PLAN_OF[wildcards.device].microbenchmarks[wildcards.microbenchmark]
        ),
    message:
        "measure {wildcards.microbenchmark} of {params.device[name]}"
    shell:
        "exec {PYTHON} -m snn microbenchmark {wildcards.microbenchmark} {params.settings:q} "
        "{params.device[backend]} {output.record:q} {params.device[name]:q}"


def measured_for(table):
    """The microbenchmark whose record a table is built from."""
    return catalogue.MICROBENCHMARK_TABLES[table].of or table


for NAME in catalogue.microbenchmark_tables(MICROBENCHMARKS):
    ENTRY = catalogue.MICROBENCHMARK_TABLES[NAME]

    rule:
        name:
            f"build_{NAME}"
        input:
            record=lambda wildcards: naming.microbenchmark_path(
                measured_for(wildcards.microbenchmark), PLANS[wildcards.of].device
            ),
            limits=limits_input if ENTRY.with_limits else [],
        output:
            csv="results/tables/{of}{microbenchmark}.csv",
            page=shown("results/tables/{of}{microbenchmark}.html", ENTRY, caption=NAME),
        wildcard_constraints:
            microbenchmark=NAME,
        localrule: True
        params:
            wanted=lambda wildcards: measured_with(
                measured_for(wildcards.microbenchmark), PLANS[wildcards.of]
            ),
            limits_hash=limits_hash_of if ENTRY.with_limits else None,
            form=catalogue.table_form(NAME),
            code=code_of("build_page", f"snn.tables.{ENTRY.form}"),
        message:
            "build table {wildcards.of}{wildcards.microbenchmark}"
        script:
            "../scripts/build_page.py"
