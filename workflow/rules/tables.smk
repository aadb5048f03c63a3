# One rule per table with a line in snn/grid/catalogue.py, and one for the tables of all other sweeps. A table's inputs
# are the records of its own sweep and no others. Its parameters contain the hash of the sources that each record must
# have, and of the code that makes the table: an edit of the code rebuilds it, touching a file does not.


def limits_input(wildcards):
    """The record of the limits of a table's device."""
    return [limits_of(wildcards.of)]


def limits_hash_of(wildcards):
    """The hash of what they are measured with."""
    return limits_hash(PLANS[wildcards.of].device)


for TABLE in (*OWN_TABLES, catalogue.TIDY):
    ENTRY = catalogue.TABLES.get(TABLE, catalogue.TIDY_TABLE)
    FORM = catalogue.table_form(TABLE)

    rule:
        name:
            f"build_{TABLE}"
        input:
            lambda wildcards: records_of(wildcards.table, wildcards.of),
            paper=of_project(ENTRY.published) if ENTRY.published else [],
            limits=limits_input if ENTRY.with_limits else [],
            verdicts=of_project("config/verdicts.yaml"),
            neighbours=of_project("config/neighbours.yaml"),
        output:
            csv="results/tables/{of}{table}.csv",
            page=shown("results/tables/{of}{table}.html", ENTRY, caption=TABLE),
        wildcard_constraints:
            table=TABLE if TABLE in OWN_TABLES else one_of(SWEEP_TABLES),
        localrule: True
        params:
            form=FORM,
            axes=lambda wildcards: axes_of(wildcards.table, wildcards.of),
            primary=lambda wildcards: catalogue.PRIMARY.get(wildcards.table),
            records=lambda wildcards: source_hashes(
                cells_of(wildcards.table, wildcards.of)
            ),
            images=lambda wildcards: images_of(wildcards.table, wildcards.of),
            limits_hash=limits_hash_of if ENTRY.with_limits else None,
            code=code_of("build_table", f"snn.tables.{FORM.partition('.')[0]}"),
        message:
            "build table {wildcards.of}{wildcards.table}"
        script:
            "../scripts/build_table.py"


rule export_trace:
    input:
        # One trace per cell is enough: all rounds make the same calls.
        records=lambda wildcards: [
            RECORDS_OF[name][0] for name in cells_of("timeline", wildcards.of)
        ],
    output:
        trace="results/traces/{of}timeline.json",
    localrule: True
    params:
        records=lambda wildcards: source_hashes(cells_of("timeline", wildcards.of)),
        code=fingerprint.module_sources("snn.perfetto").digest,
    message:
        "export trace {wildcards.of}timeline"
    shell:
        "exec {PYTHON} -m snn perfetto {input.records:q} {output.trace:q}"
