"""Files that are often taken for CSV, recognised by their first bytes."""

from pathlib import Path

from snn.errors import DataError

_BEGINNINGS = {
    b"\x1f\x8b": ("a gzip file", "unpack it first"),
    b"BZh": ("a bzip2 file", "unpack it first"),
    b"\xfd7zXZ\x00": ("an xz file", "unpack it first"),
    b"\x28\xb5\x2f\xfd": ("a Zstandard file", "unpack it first"),
    b"7z\xbc\xaf\x27\x1c": ("a 7z archive", "unpack it first"),
    b"PK\x03\x04": ("a zip archive", "unpack it first"),
    b"\xd0\xcf\x11\xe0": ("an Excel workbook (.xls)", "save its sheet as CSV in UTF-8"),
    b"PAR1": ("a Parquet file", "write its table as CSV"),
    b"\x89HDF": ("an HDF5 file", "write its table as CSV"),
    b"\x93NUMPY": ("a NumPy file", "write its table as CSV, as with numpy.savetxt"),
    b"SQLite format 3\x00": ("an SQLite database", "write its table as CSV"),
    b"%PDF": ("a PDF document", "save its table as CSV"),
    b"\xff\xfe\x00\x00": ("text in UTF-32", "save it as UTF-8"),
}
_WORKBOOK = ("an Excel workbook (.xlsx)", "save its sheet as CSV in UTF-8")


def check_is_text(file: Path, content: bytes) -> None:
    """Raise DataError, saying what a file looks like and what to do, if it is not text."""
    start = content[:4096]
    looks = next((kind for begin, kind in _BEGINNINGS.items() if start.startswith(begin)), None)
    if start.startswith(b"PK\x03\x04") and (b"xl/" in start or b"[Content_Types].xml" in start):
        looks = _WORKBOOK
    elif looks is None and b"\0" in start and not start.startswith((b"\xff\xfe", b"\xfe\xff")):
        order = "be" if start.startswith(b"\0") else "le"
        looks = (
            "text in UTF-16, or no text, for it holds NUL bytes",
            f"save it as UTF-8, or say dataset.encoding=utf-16-{order}",
        )
    if looks is not None:
        raise DataError(f"{file}: it looks like {looks[0]}: {looks[1]}")
