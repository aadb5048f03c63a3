# One rule per table with a line in snn/grid/catalogue.py, and one for those of all other sweeps. A table's inputs are the
# records of its own sweep and no others. Its parameters contain the hash of the sources that each record must have, and
# of the code that makes the table: an edit of the code rebuilds it, touching a file does not.

for TABLE in (*OWN_TABLES, catalogue.TIDY):
    ENTRY = catalogue.TABLES.get(TABLE, catalogue.TIDY_TABLE)
    FORM = ENTRY.form or TABLE

    rule:
        name:
            f"build_{TABLE}"
        input:
            lambda wildcards: records_of(wildcards.table),
            paper=[ENTRY.published] if ENTRY.published else [],
            limits=[LIMITS] if ENTRY.with_limits else [],
            verdicts="config/verdicts.yaml",
        output:
            csv="results/tables/{table}.csv",
            page=shown("results/tables/{table}.html", ENTRY, caption=TABLE),
        wildcard_constraints:
            table=TABLE if TABLE in OWN_TABLES else one_of(SWEEP_TABLES),
        params:
            form=FORM,
            axes=lambda wildcards: axes_of(wildcards.table),
            records=lambda wildcards: source_hashes(
                sweeps.cells_of(wildcards.table, SWEEPS)
            ),
            images=lambda wildcards: images_of(wildcards.table),
            limits_hash=LIMITS_HASH if ENTRY.with_limits else None,
            code=code_of("build_table", f"snn.tables.{FORM}"),
        message:
            "build table {wildcards.table}"
        script:
            "../scripts/build_table.py"


rule export_trace:
    input:
        # One trace per cell is enough: all rounds make the same calls.
        records=[RECORDS_OF[name][0] for name in sweeps.cells_of("timeline", SWEEPS)],
    output:
        trace="results/traces/timeline.json",
    params:
        records=lambda wildcards: source_hashes(sweeps.cells_of("timeline", SWEEPS)),
        code=fingerprint.digest(sorted(fingerprint.closure(["snn.perfetto"]))),
    message:
        "export trace timeline"
    shell:
        "exec {PYTHON} -m snn.perfetto {input.records:q} {output.trace:q}"
