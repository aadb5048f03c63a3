"""In which settings rows differ."""

import pandas as pd

from snn.analysis.grouping import varied


def test_a_setting_that_one_row_lacks_varies_and_one_of_another_group_does_not():
    rows = pd.DataFrame(
        {
            "dataset": ["small", "small", "large"],
            "lacks": [1.0, None, None],
            "same": [1, 1, 2],
            "differs": [1, 2, 2],
            "empty": [None] * 3,
        }
    )
    assert varied(rows, ["lacks", "same", "differs", "empty"], ["dataset"]) == ["lacks", "differs"]
