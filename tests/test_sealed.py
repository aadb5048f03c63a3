"""Pages and figures that prove that they, and the files beside them, are whole."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snn.files import sealed


def written(folder, content=b"<p>page</p>"):
    path, table = folder / "page.html", folder / "table.csv"
    sealed.write(path, content, {table: b"a,b\n1,2\n"})
    return path, table


def test_what_was_written_is_whole(tmp_path):
    path, table = written(tmp_path)
    assert sealed.is_whole(path)
    assert path.read_bytes().startswith(b"<p>page</p>\n<!-- sha256 ")
    assert table.read_bytes() == b"a,b\n1,2\n"
    assert {each.name for each in tmp_path.iterdir()} == {"page.html", "table.csv"}


@settings(max_examples=40)
@given(content=st.binary(max_size=200), data=st.data())
def test_any_changed_byte_and_any_missing_end_are_noticed(content, data, tmp_path_factory):
    path, table = written(tmp_path_factory.mktemp("sealed"), content)
    assert sealed.is_whole(path)
    damaged = data.draw(st.sampled_from((path, table)))
    whole = damaged.read_bytes()
    at = data.draw(st.integers(0, len(whole) - 1))
    changed = bytes([whole[at] ^ data.draw(st.integers(1, 255))])
    damaged.write_bytes(whole[:at] + data.draw(st.sampled_from((b"", changed + whole[at + 1 :]))))
    assert not sealed.is_whole(path)


@pytest.mark.parametrize(
    "beside",
    [b" \xf4 %064d" % 0, b" a\0b %064d" % 0, b" none.csv %064d" % 0, b" table.csv", b" table.csv 00"],
)
def test_names_in_a_seal_that_no_file_can_have_are_noticed(tmp_path, beside):
    path, _ = written(tmp_path, b"<p>page</p>")
    start = path.read_bytes().rpartition(b" table.csv")[0]
    path.write_bytes(start + beside + b" -->\n")
    assert not sealed.is_whole(path)


@pytest.mark.parametrize("content", [b"", b"<html></html>\n", b"<!-- sha256 00 -->\n"])
def test_a_file_without_a_seal_is_not_whole(tmp_path, content):
    (tmp_path / "page.html").write_bytes(content)
    assert not sealed.is_whole(tmp_path / "page.html")


def test_a_missing_file_is_not_whole(tmp_path):
    path, table = written(tmp_path)
    table.unlink()
    assert not sealed.is_whole(path)
    assert not sealed.is_whole(tmp_path / "none.html")
