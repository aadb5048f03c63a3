"""Why a winner is faster, in sentences: its kernel, and the parts of its time."""

import pandas as pd
import pytest

from snn.tables.attribution import PART, reason


@pytest.mark.parametrize(
    ("kernel", "said"), [("one_layer", "It uses the kernel one_layer instead of naive."), ("", "Neither ")]
)
def test_the_reason_names_the_kernel_that_did_the_arithmetic_if_it_is_one_of_ours(kernel, said):
    reference = pd.Series({"strategy": "reference", "kernel": "naive", "mean_s": 2.0})
    winner = pd.Series({"strategy": "another", "kernel": kernel, "mean_s": 1.0})
    assert reason(winner, reference).startswith(said)


@pytest.mark.parametrize(("kernels", "said"), [(1.5, "It spends about 1 s less on dev"), (3.0, "Neither ")])
def test_passes_that_were_longer_explain_no_shorter_run(kernels, said):
    """Of another moment of the machine: what is less in them and what is more add up to the other sign."""
    reference = pd.Series({"strategy": "reference", "kernel": "naive", "mean_s": 4.0})
    winner = pd.Series({"strategy": "another", "kernel": "naive", "mean_s": 2.0})
    for row, allocation, waits in ((reference, 3.0, 1.0), (winner, 2.0, kernels)):
        row[f"{PART}allocation"], row[f"{PART}kernels"] = allocation, waits
    assert reason(winner, reference).startswith(said)


@pytest.mark.parametrize(("runs", "says_so"), [(3.0, False), (2.3, True)])
def test_passes_that_differ_by_more_than_the_runs_are_said_to(runs, says_so):
    """The allocations of a pass cost 1 s less; between the runs there are 1 s, or only 0.3."""
    reference = pd.Series({"strategy": "reference", "kernel": "naive", "mean_s": runs})
    winner = pd.Series({"strategy": "another", "kernel": "naive", "mean_s": 2.0})
    reference[f"{PART}allocation"], winner[f"{PART}allocation"] = 3.0, 2.0
    found = reason(winner, reference)
    assert found.startswith("It spends about 1 s less on device allocation and free")
    assert found.endswith(", by instrumented passes, which differ by more than the runs.") == says_so
