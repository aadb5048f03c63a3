"""Table VII: reference and combined by the number of hidden layers."""

from functools import partial

from snn.tables import pairs

TITLE = "Number of hidden layers (Table VII)"
build = partial(pairs.build, key="network")
