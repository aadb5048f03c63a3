# One rule per form of figure, generated from its line in snn/grid/catalogue.py. Colours and fonts are those of
# snn/figures/style.py.

for FORM in (*OWN_FIGURES, catalogue.TIDY):
    ENTRY = catalogue.FIGURES.get(FORM, catalogue.TIDY_FIGURE)

    rule:
        name:
            f"plot_{FORM}"
        input:
            table=f"results/tables/{ENTRY.table}.csv",
        output:
            svg=shown("results/figures/{figure}.svg", ENTRY, caption=FORM),
            png="results/figures/{figure}.png",
        wildcard_constraints:
            figure=FORM if FORM in OWN_FIGURES else one_of(SWEEP_TABLES),
        params:
            form=FORM,
            axes=lambda wildcards: axes_of(wildcards.figure),
            paper_device=PAPER_DEVICE,
            code=code_of("plot_figure", f"snn.figures.{FORM}"),
        message:
            "plot figure {wildcards.figure}"
        script:
            "../scripts/plot_figure.py"
