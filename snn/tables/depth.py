"""Table VII: reference and combined by the number of hidden layers."""

from functools import partial

from snn.tables import reference_vs_combined

TITLE = "Number of hidden layers (Table VII)"
build = partial(reference_vs_combined.build, key="network")
