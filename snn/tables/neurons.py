"""Table VI: reference and combined by the width of the hidden layer."""

from functools import partial

from snn.tables import pairs

TITLE = "Width of the hidden layer (Table VI)"
build = partial(pairs.build, key="neurons")
