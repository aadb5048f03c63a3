"""Table VI: reference and combined by the width of the hidden layer."""

from functools import partial

from snn.tables import reference_vs_combined

TITLE = "Width of the hidden layer (Table VI)"
build = partial(reference_vs_combined.build, key="neurons")
