# One rule per figure with a line in snn/grid/catalogue.py, and one for those of all other sweeps. Colours and fonts are
# those of snn/figures/style.py.

for FIGURE in (*OWN_FIGURES, catalogue.TIDY):
    ENTRY = catalogue.FIGURES.get(FIGURE, catalogue.TIDY_FIGURE)
    FORM = ENTRY.form or FIGURE

    rule:
        name:
            f"plot_{FIGURE}"
        input:
            table=f"results/tables/{ENTRY.table}.csv",
        output:
            svg=shown("results/figures/{figure}.svg", ENTRY, caption=FIGURE),
            png="results/figures/{figure}.png",
        wildcard_constraints:
            figure=FIGURE if FIGURE in OWN_FIGURES else one_of(SWEEP_TABLES),
        params:
            form=FORM,
            axes=lambda wildcards: axes_of(wildcards.figure),
            images=images_of(ENTRY.table),
            paper_device=PAPER_DEVICE,
            code=code_of("plot_figure", f"snn.figures.{FORM}"),
        message:
            "plot figure {wildcards.figure}"
        script:
            "../scripts/plot_figure.py"
