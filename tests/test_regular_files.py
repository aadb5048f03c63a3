"""Reading a regular file, and saying what nobody may read: whose error an error is."""

import io

import pytest

from snn.errors import RecordError
from snn.files.outputs import say
from snn.files.regular import opened


def test_an_error_of_what_reads_a_file_is_not_said_to_be_of_the_file(tmp_path):
    (tmp_path / "file").write_text("1")
    with pytest.raises(ValueError, match="mine"), opened(tmp_path / "file", RecordError):
        raise ValueError("mine")
    with pytest.raises(RecordError, match="cannot be read: worn out"), opened(tmp_path / "file", RecordError):
        raise OSError(5, "worn out")
    for path in (tmp_path / "none", tmp_path, tmp_path / "\0"):
        with pytest.raises(RecordError, match="cannot be read"), opened(path, RecordError):
            pass


def test_nothing_is_said_where_a_file_is_closed():
    closed = io.StringIO()
    closed.close()
    say("x", closed)
