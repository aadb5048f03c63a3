"""What a user's environment may hold that must not reach the processes which a command starts."""

SHADOWED = ("matplotlib", "numpy", "pandas", "random", "threadpoolctl", "yaml")
"""Modules of Python and of packages; threadpoolctl is imported only by cells."""


def hostile_environment(folder, shadowed=SHADOWED):
    """Variables: a profile for Slurm, an unknown backend of Matplotlib, and modules that replace others."""
    (folder / "profile").mkdir()
    (folder / "profile/config.yaml").write_text("executor: slurm\njobs: 10\n")
    (folder / "modules").mkdir()
    for name in shadowed:
        (folder / f"modules/{name}.py").write_text("raise ImportError(f'a module of the user: {__file__}')")
    return {
        "SNAKEMAKE_PROFILE": str(folder / "profile"),
        "PYTHONPATH": str(folder / "modules"),
        "MPLBACKEND": "nonsense",
    }
