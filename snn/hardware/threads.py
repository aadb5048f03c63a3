"""The threads of a process that measures, and how CUDA numbers the devices that it sees."""

import os

_ENVIRONMENT = {
    # One BLAS thread: products this small gain nothing from more, and lose their repeatability. A strategy
    # that uses several says so in its configuration, and sets them itself.
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "VECLIB_MAXIMUM_THREADS": "1",
    # As NVML numbers them.
    "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
}


def assign() -> None:
    """Set what the libraries read when they load, so call it before NumPy is imported.

    Values in the environment are replaced: Snakemake exports the number of its cores to every job, and what a
    cell measures must not depend on who starts it.
    """
    os.environ.update(_ENVIRONMENT)


def blas_threads() -> int | None:
    """The number of threads that NumPy's BLAS uses now; None where there is no BLAS that can be asked."""
    from threadpoolctl import threadpool_info

    numbers = [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]
    return max(numbers, default=None)
