"""What `snn merge` makes of folders, in a test."""

import pandas as pd

from snn import merge

FILES = {f"devices.{ending}" for ending in ("csv", "html", "svg", "png")}


def merged(tmp_path, *folders):
    printed = merge.run(folders, tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").iterdir()} == FILES
    assert {path.name for path in tmp_path.iterdir() if path.name.startswith(".")} == set()
    table = pd.read_csv(tmp_path / "out/devices.csv", keep_default_na=False, na_values=[""])
    return table.set_index("strategy"), printed
