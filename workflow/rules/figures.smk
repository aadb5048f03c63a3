# One rule per figure with a line in snn/grid/catalogue.py, and one for the figures of all other sweeps. Colours come
# from snn/figures/style.py, fonts from figures.mplstyle in the same folder.


def table_of(wildcards):
    """The table that a figure is drawn from."""
    entry = catalogue.FIGURES.get(wildcards.figure, catalogue.TIDY_FIGURE)
    return entry.table.format(figure=wildcards.figure)


def images_in_figure(wildcards):
    """The images that the cells of a figure's table are trained on."""
    return images_of(table_of(wildcards), wildcards.of)


def trained_in_figure(wildcards):
    """What they train, in words."""
    return trained(cells_of(table_of(wildcards), wildcards.of).values())


for FIGURE in (*OWN_FIGURES, catalogue.TIDY):
    ENTRY = catalogue.FIGURES.get(FIGURE, catalogue.TIDY_FIGURE)
    FORM = ENTRY.form or FIGURE

    rule:
        name:
            f"plot_{FIGURE}"
        input:
            table=f"results/tables/{{of}}{ENTRY.table}.csv",
        output:
            svg=shown("results/figures/{of}{figure}.svg", ENTRY, caption=FIGURE),
            png="results/figures/{of}{figure}.png",
        wildcard_constraints:
            figure=FIGURE if FIGURE in OWN_FIGURES else one_of(SWEEP_TABLES),
        localrule: True
        params:
            form=FORM,
            axes=lambda wildcards: axes_of(wildcards.figure, wildcards.of),
            images=images_in_figure,
            trained=trained_in_figure,
            paper_device=PAPER_DEVICE,
            code=code_of("plot_figure"),
        message:
            "plot figure {wildcards.of}{wildcards.figure}"
        script:
            "../scripts/plot_figure.py"
