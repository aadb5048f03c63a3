# One rule a figure, each from one table. Colours and fonts are those of snn/figures/style.py.


rule plot_speedup_vs_neurons:
    input:
        table="results/tables/neurons.csv",
        code=code_of("snn.figures.speedup_vs_neurons"),
        script="workflow/scripts/plot_figure.py",
    output:
        svg=report(
            "results/figures/speedup_vs_neurons.svg",
            category=category("The paper's figures"),
            caption="../report/speedup_vs_neurons.rst",
            labels={"figure": "1 speedup by neurons"},
        ),
        png="results/figures/speedup_vs_neurons.png",
    params:
        figure="speedup_vs_neurons",
        paper_device=PAPER_DEVICE,
    message:
        "plot figure speedup_vs_neurons"
    script:
        "../scripts/plot_figure.py"


rule plot_time_by_depth:
    input:
        table="results/tables/depth.csv",
        code=code_of("snn.figures.time_by_depth"),
        script="workflow/scripts/plot_figure.py",
    output:
        svg=report(
            "results/figures/time_by_depth.svg",
            category=category("The paper's figures"),
            caption="../report/time_by_depth.rst",
            labels={"figure": "2 time by depth"},
        ),
        png="results/figures/time_by_depth.png",
    params:
        figure="time_by_depth",
        paper_device=PAPER_DEVICE,
    message:
        "plot figure time_by_depth"
    script:
        "../scripts/plot_figure.py"


rule plot_attribution:
    input:
        table="results/tables/attribution.csv",
        code=code_of("snn.figures.attribution"),
        script="workflow/scripts/plot_figure.py",
    output:
        svg=report(
            "results/figures/attribution.svg",
            category=category("Why"),
            caption="../report/attribution.rst",
            labels={"what": "where the time goes", "form": "figure"},
        ),
        png="results/figures/attribution.png",
    params:
        figure="attribution",
        paper_device=PAPER_DEVICE,
    message:
        "plot figure attribution"
    script:
        "../scripts/plot_figure.py"


rule plot_timeline:
    input:
        table="results/tables/timeline.csv",
        code=code_of("snn.figures.timeline"),
        script="workflow/scripts/plot_figure.py",
    output:
        svg=report(
            "results/figures/timeline.svg",
            category=category("Why"),
            caption="../report/timeline.rst",
            labels={"what": "call by call", "form": "figure"},
        ),
        png="results/figures/timeline.png",
    params:
        figure="timeline",
        paper_device=PAPER_DEVICE,
    message:
        "plot figure timeline"
    script:
        "../scripts/plot_figure.py"


rule plot_ranking:
    input:
        table="results/tables/strategies.csv",
        code=code_of("snn.figures.ranking"),
        script="workflow/scripts/plot_figure.py",
    output:
        svg=report(
            "results/figures/ranking.svg",
            category=category("Overview"),
            caption="../report/ranking.rst",
            labels={"table": "3 strategies ranked"},
        ),
        png="results/figures/ranking.png",
    params:
        figure="ranking",
        paper_device=PAPER_DEVICE,
    message:
        "plot figure ranking"
    script:
        "../scripts/plot_figure.py"


rule plot_precision:
    input:
        table="results/tables/precision.csv",
        code=code_of("snn.figures.precision"),
        script="workflow/scripts/plot_figure.py",
    output:
        svg=report(
            "results/figures/precision.svg",
            category=category("Sweeps"),
            caption="../report/precision.rst",
            labels={"sweep": "precision", "form": "figure"},
        ),
        png="results/figures/precision.png",
    params:
        figure="precision",
        paper_device=PAPER_DEVICE,
    message:
        "plot figure precision"
    script:
        "../scripts/plot_figure.py"


rule plot_cpu:
    input:
        table="results/tables/cpu.csv",
        code=code_of("snn.figures.cpu"),
        script="workflow/scripts/plot_figure.py",
    output:
        svg=report(
            "results/figures/cpu.svg",
            category=category("Sweeps"),
            caption="../report/cpu.rst",
            labels={"sweep": "cpu", "form": "figure"},
        ),
        png="results/figures/cpu.png",
    params:
        figure="cpu",
        paper_device=PAPER_DEVICE,
    message:
        "plot figure cpu"
    script:
        "../scripts/plot_figure.py"


rule plot_peers:
    input:
        table="results/tables/peers.csv",
        code=code_of("snn.figures.peers"),
        script="workflow/scripts/plot_figure.py",
    output:
        svg=report(
            "results/figures/peers.svg",
            category=category("Sweeps"),
            caption="../report/peers.rst",
            labels={"sweep": "peers", "form": "figure"},
        ),
        png="results/figures/peers.png",
    params:
        figure="peers",
        paper_device=PAPER_DEVICE,
    message:
        "plot figure peers"
    script:
        "../scripts/plot_figure.py"


rule plot_sweep:
    input:
        table="results/tables/{sweep}.csv",
        code=code_of("snn.figures.sweep"),
        script="workflow/scripts/plot_sweep.py",
    output:
        svg=report(
            "results/figures/{sweep}.svg",
            category=category("Sweeps"),
            caption="../report/sweep.rst",
            labels={"sweep": "{sweep}", "form": "figure"},
        ),
        png="results/figures/{sweep}.png",
    wildcard_constraints:
        sweep=one_of(SWEEP_TABLES),
    params:
        axes=lambda wildcards: list(SWEEPS[wildcards.sweep].axes),
    message:
        "plot figure {wildcards.sweep}"
    script:
        "../scripts/plot_sweep.py"
