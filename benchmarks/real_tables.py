"""Reads the tables that ship in some PyPI packages with ``dataset=csv``, and compares them with pandas.

usage: python benchmarks/real_tables.py [FOLDER...]

Without a FOLDER it looks for scikit-learn, statsmodels, seaborn, vega_datasets and pydataset in this
environment, and says which are missing. Prints how many tables are read equal, how many are rejected and
which key their messages name, and each table that is different; exits with 1 if there is one.
"""

import gzip
import io
import re
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd

from snn.datasets import csv_table
from snn.datasets.csv_table import MISSING
from snn.errors import SnnError

PACKAGES = ("sklearn", "statsmodels", "seaborn", "vega_datasets", "pydataset")

BLANKS, NONE = {"sep": r"\s+"}, {"header": None}
HEADERLESS = (
    *(
        "ARMLEConstantPredict",
        "Xi_test_data",
        "bds_data",
        "bootleg",
        "cfa_tvpvar",
        "clark1989",
        "digits",
        "enet_",
    ),
    *("gee_", "igaussident_resids", "lasso_data", "medparlogresids", "nbinom_resids", "predict_prob_poisson"),
    *("results_wpi1_", "yhat_poisson"),
)
SETTINGS: dict[str, dict[str, object]] = {
    **dict.fromkeys(["anes96", "linnerud_", "scotvote", "spector"], BLANKS),
    **dict.fromkeys(
        ("AROLS", "E6_jmulti", "_mnlogit", "diabetes_data_raw", "survival_data", "test_coint"), BLANKS | NONE
    ),
    **dict.fromkeys(["breast_cancer", "wine_data"], NONE | {"skiprows": 1}),
    **dict.fromkeys(HEADERLESS, NONE),
    "modechoice": {"sep": ";"},
}
"""How pandas reads the files whose names contain a text, if not with its defaults."""


def main(arguments: list[str]) -> int:
    """Compare each table of some folders, or of the packages."""
    results, keys, different = Counter[str](), Counter[str](), []
    for name, content in tables(arguments):
        result = compared(name, content)
        kind, _, why = result.partition(": ")
        results[kind] += 1
        if kind == "rejected":
            named = sorted(set(re.findall(r"dataset\.\w+", why)))
            keys[" ".join(named) or why[:110]] += 1
        elif kind != "equal":
            different.append(f"{name}: {result}")
    for kind, count in results.most_common():
        print(f"{count:5} {kind}")
    print("rejected, by the keys that the messages name:")
    for key, count in keys.most_common():
        print(f"{count:5} {key}")
    print(*different, sep="\n")
    return 1 if results["different"] else 0


def tables(folders: list[str]) -> Iterator[tuple[str, bytes]]:
    """The name and the content of each CSV file, also in archives."""
    for folder in map(Path, folders) if folders else found():
        for path in sorted(folder.rglob("*")):
            if path.suffix == ".csv":
                yield str(path.relative_to(folder.parent)), path.read_bytes()
            elif path.name.endswith(".csv.gz"):
                yield str(path.relative_to(folder.parent)), gzip.decompress(path.read_bytes())
            elif path.name.endswith(".tar.gz"):
                with tarfile.open(path) as archive:
                    for member in archive:
                        is_table = member.name.endswith(".csv") and not Path(member.name).name.startswith(".")
                        if is_table and (file := archive.extractfile(member)):
                            yield f"{folder.name}/{member.name}", file.read()


def found() -> Iterator[Path]:
    """The folders of the packages that are there."""
    for package in PACKAGES:
        spec = find_spec(package)
        if spec is None or spec.origin is None:
            print(f"{package} is missing", file=sys.stderr)
        else:
            yield Path(spec.origin).parent


def compared(name: str, content: bytes) -> str:
    """``equal``, ``rejected: why``, or ``different: where``."""
    how = {"keep_default_na": False, "na_values": sorted(MISSING), "skipinitialspace": True}
    how |= next((more for part, more in SETTINGS.items() if part in Path(name).name), {})
    try:
        frame = pd.read_csv(io.BytesIO(content), **how)  # type: ignore[call-overload]
        texts = pd.read_csv(io.BytesIO(content), **{**how, "dtype": str})  # type: ignore[call-overload]
    except (ValueError, pd.errors.ParserError) as error:
        return f"not read by pandas: {error}"
    numbers = [
        i for i, kind in enumerate(frame.dtypes) if kind.kind in "iuf" and frame.iloc[:, i].notna().any()
    ]
    if len(frame.columns) < 2 or not numbers:
        return "without a number to predict"
    target = numbers[-1]
    keys = {"text_columns": "one_hot", "missing": "drop_rows"}
    others = [i for i in range(len(frame.columns)) if i not in numbers]
    if any(texts.iloc[:, i].nunique() > csv_table.MOST_VALUES for i in others):
        keys["text_columns"], others = "drop", []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.csv"
        path.write_bytes(content)
        try:
            table = csv_table.make(str(path), target=target - len(frame.columns), **keys)  # type: ignore[arg-type]
        except SnnError as error:
            return f"rejected: {str(error).replace(str(path), '')}"
    used = sorted([*numbers, *others])
    kept = frame.iloc[:, used].notna().all(axis=1).to_numpy()
    parts = []
    for i in [*(i for i in used if i != target), target]:
        cells = frame.iloc[kept, i] if i in numbers else texts.iloc[kept, i].str.strip()
        values = sorted(cells.unique()) if i not in numbers else []
        parts += [(cells == value).to_numpy() for value in values] or [cells.to_numpy(np.float64)]
    expected = np.stack(parts, axis=1).astype(np.float32)
    if table.values.shape != expected.shape:
        return f"different: {table.values.shape}, and pandas has {expected.shape}; {table.remarks[:1]}"
    if not np.array_equal(table.values, expected):
        row, at = np.argwhere(table.values != expected)[0]
        return (
            f"different: row {row}, column {at} is {table.values[row, at]}, and in pandas {expected[row, at]}"
        )
    return "equal"


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
