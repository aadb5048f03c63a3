"""Figures: a declaration, or a function, for each form, which makes a Matplotlib figure of a table."""

import os
from typing import Any

os.environ["MPLBACKEND"] = "Agg"  # before Matplotlib is imported, which rejects a name that it does not know


def draw(form: str, table: Any, paper_device: str = "", trained: str = "") -> Any:
    """The figure of a table, in a form of the catalogue: ``ranking``.

    ``paper_device`` is the device of the paper's values, and ``trained`` says what was trained.
    """
    from snn.figures import breakdown, curves, microbenchmarks, strategies  # what a plan does not need

    forms = strategies.FORMS | curves.FORMS | microbenchmarks.FORMS | breakdown.FORMS
    return forms[form](table, paper_device, trained)
