"""Figures: a declaration, or a function, for each form, which makes a Matplotlib figure of a table."""

import os
from typing import Any

os.environ["MPLBACKEND"] = "Agg"  # before importing Matplotlib, which rejects unknown names


def draw(form: str, table: Any, paper_device: str = "", trained: str = "") -> Any:
    """Draw a table in a form of the catalogue, such as ``ranking``.

    ``paper_device`` is the device of the paper's values, and ``trained`` describes the cells.
    """
    from snn.figures import breakdown, curves, microbenchmarks, strategies  # planning does not need it

    forms = strategies.FORMS | curves.FORMS | microbenchmarks.FORMS | breakdown.FORMS
    return forms[form](table, paper_device, trained)
