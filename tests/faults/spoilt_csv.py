"""Files that are no CSV file of numbers in UTF-8: packed, in another encoding, empty, of another kind."""

import bz2
import gzip
import io
import lzma
import zipfile
from functools import cache

import numpy as np


@cache
def spoilt() -> dict[str, bytes]:
    """A good file as something else."""
    columns = 3
    whole = b"c0,c1,c2\n1,2,3\n-4,5.5,6e-1\n"
    text = whole.decode()
    header, _, rest = text.partition("\n")
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        file.writestr("t.csv", whole)
    array = io.BytesIO()
    np.save(array, np.eye(3))
    encodings = {
        f"in {name}": text.encode(name) for name in ("utf-16-le", "utf-16-be", "utf-32", "utf-32-be")
    }
    first = rest.partition("\n")[0]
    return encodings | {
        "gzip": gzip.compress(whole),
        "bzip2": bz2.compress(whole),
        "xz": lzma.compress(whole),
        "zip": packed.getvalue(),
        "NumPy": array.getvalue(),
        "of nothing": b"",
        "of an end of line": b"\n\r\n\n",
        "of spaces": b"   \n  \n",
        "of a mark": b"\xef\xbb\xbf",
        "of a header": header.encode() + b"\n",
        "of one column": "".join(f"{line.split(',')[0]}\n" for line in text.splitlines()).encode(),
        "with a decimal comma": f"{header}\n{first},5\n".encode(),
        "with a NUL at its end": whole + b"\0",
        "with a byte of Latin-1": whole + b"\xe9" + b",1" * (columns - 1) + b"\n",
        "with half a character": whole + b"\xc3",
        "with a surrogate": whole + b"\xed\xa0\x80\n",
        "with a mark within": whole + b"\xef\xbb\xbf1" + b",1" * (columns - 1) + b"\n",
        "with two marks": b"\xef\xbb\xbf\xef\xbb\xbf" + rest.encode(),
        "with an open quote": whole + b'"1' + b",1" * (columns - 1) + b"\n",
        "with a cell of two lines": whole + b'"1\n"' + b",1" * (columns - 1) + b"\n",
        "with a long line": whole + b"1" * (17 << 20) + b",1" * (columns - 1) + b"\n",
        "with an endless row": whole + b",".join([b"1"] * 100_000) + b"\n",
        "with a control character": whole + b"1\x1b" + b",1" * (columns - 1) + b"\n",
        "with a line separator": whole + "1\u2028".encode() + b",1" * (columns - 1) + b"\n",
        "of HTML": b"<!DOCTYPE html><html><body>404, not found</body></html>\n",
        "of JSON": b'{"c0": [1, 2], "c1": [3, 4]}\n',
        "of a pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 3\n",
        "of PNG": b"\x89PNG\r\n\x1a\n" + bytes(100),
    }
