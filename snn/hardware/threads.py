"""Sets the number of threads of a process that measures, and CUDA's order of devices."""

import os

_ENVIRONMENT = {
    # One BLAS thread: more would not speed up products this small, and their times would vary more. A
    # strategy that uses several sets the number itself, from a key of its configuration.
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "VECLIB_MAXIMUM_THREADS": "1",
    # as NVML does
    "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
}


def assign() -> None:
    """Set the environment variables that libraries read when they load. Call it before importing NumPy.

    Existing values are replaced: Snakemake exports its number of cores to every job, and what a cell measures
    must not depend on who starts it.
    """
    os.environ.update(_ENVIRONMENT)


def blas_threads() -> int | None:
    """The number of threads that NumPy's BLAS uses now; None if no BLAS reports it."""
    from threadpoolctl import threadpool_info

    numbers = [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]
    return max(numbers, default=None)
