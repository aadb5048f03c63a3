"""The number of threads in a process that measures, and CUDA's order of devices."""

import os

_ENVIRONMENT = {
    # One BLAS thread: products this small gain nothing from more, and their times would vary more. A strategy
    # that uses several has a key for it in its configuration, and sets the number itself.
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "VECLIB_MAXIMUM_THREADS": "1",
    # As NVML numbers them.
    "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
}


def assign() -> None:
    """Set the environment variables that libraries read when they are loaded: call it before importing NumPy.

    Existing values are replaced: Snakemake exports its number of cores to every job, and what a cell measures
    must not depend on who starts it.
    """
    os.environ.update(_ENVIRONMENT)


def blas_threads() -> int | None:
    """The number of threads that NumPy's BLAS uses now; None if no BLAS reports it."""
    from threadpoolctl import threadpool_info

    numbers = [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]
    return max(numbers, default=None)
