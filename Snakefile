# Which memory-management strategy trains a network fastest on this device, and why:
# config/grid.yaml -> cells -> records -> tables -> figures -> report.
#
#   snakemake --cores 1                               every table and figure
#   snakemake --cores 1 results/tables/speedup.csv    one table, and the cells it needs
#   snakemake --report report.html                    all of it in one page

from snakemake.utils import min_version

min_version("9.17")


report: "workflow/report/overview.rst"


include: "workflow/rules/common.smk"
include: "workflow/rules/start.smk"
include: "workflow/rules/datasets.smk"
include: "workflow/rules/train.smk"
include: "workflow/rules/limits.smk"
include: "workflow/rules/tables.smk"
include: "workflow/rules/microbenchmarks.smk"
include: "workflow/rules/figures.smk"
include: "workflow/rules/report.smk"


rule all:
    default_target: True
    input:
        deleted_records,
        everything,


onstart:
    hold_workflow_lock()
    lift_job_limit()
    write_progress_plan()


onsuccess:
    slurm.MARK.unlink(missing_ok=True)
