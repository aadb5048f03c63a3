"""What a refused CSV file is said to hold, and whether what is said to be right is."""

import re
import shlex
import subprocess

import pytest
from csv_tables import of_rows, refused, written

from snn.datasets import csv_table
from snn.datasets.csv_table import MOST_CLASSES, MOST_VALUES

PLANT = "t [°C];p;y\n75,6;3;12,816\n-8,25;4;9,5\n"


def commanded(said, folder):
    """The file that the command of a message makes."""
    (command,) = re.findall(r"\b((?:sed|iconv) .* > \w+\.csv)", said)
    subprocess.run(command, shell=True, check=True, cwd=folder)
    return str(folder / command.rpartition(" ")[2])


@pytest.mark.parametrize(
    ("text", "named", "right", "values"),
    [
        (PLANT, "decimal commas; they are in 'y', too", "75.6", [[75.6, 3, 12.816], [-8.25, 4, 9.5]]),
        ("x;y\n1;2\n12,816;3\n5,5;4\n", "decimal commas", "12.816", [[1, 2], [12.816, 3], [5.5, 4]]),
        ("x;y\n1,100,000;2\n900;3\n", "commas between thousands", "1100000", [[1100000, 2], [900, 3]]),
        ("x;y\n1,100;2\n12.5;3\n", "commas between thousands", "1100", [[1100, 2], [12.5, 3]]),
        ("x;y\n1,100;2,5\n", "decimal commas; they are in 'y', too", "1.100", [[1.1, 2.5]]),
    ],
)
def test_numbers_with_commas_are_named_with_a_command_that_mends_them(tmp_path, text, named, right, values):
    folder = tmp_path / "my own"
    folder.mkdir()
    said = refused(written(folder, text), delimiter=";")
    assert "is not a number, as -1.5 or 2e-3: this column has " + named + f": write {right} (sed" in said
    assert "one_hot" not in said and "drop" not in said and "cross_entropy" not in said
    made = csv_table.make(commanded(said, folder), "y", delimiter=";").values
    assert made.tolist() == pytest.approx([pytest.approx(row) for row in values])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('x,y\n"12,5",2\n', "this column has decimal commas: write 12.5"),
        ('x,y\n"1,100",2\n', "has decimal commas, or commas between thousands: write 1.100 or 1100"),
        ('x,y\n"1.234,5",2\n', "has decimal commas and points between thousands: write 1234.5"),
        ("x,y\n1.100.000,2\n", "has points between thousands: write 1100000"),
    ],
)
def test_where_no_single_replacement_mends_a_file_none_is_named(tmp_path, text, said):
    assert refused(written(tmp_path, text)).endswith(said)


@pytest.mark.parametrize(
    ("text", "named", "values"),
    [
        ("x,y\n$1,2\n-$3.5,4\n", "$", [[1, 2], [-3.5, 4]]),
        ("x,y\n12%,2\n3 %,4\n", "%", [[12, 2], [3, 4]]),
        ("x,y\n1,2 €\n3,€4\n", "€", [[1, 2], [3, 4]]),
        ("x,z,y\n$1,10%,2\n$3,20%,4\n", "$ and %; they are in 'z', too", [[1, 10, 2], [3, 20, 4]]),
    ],
)
def test_numbers_with_a_sign_are_named_with_a_command_that_leaves_it_out(tmp_path, text, named, values):
    said = refused(written(tmp_path, text))
    assert f"2e-3: this column has numbers with a sign, {named}" in said and "one_hot" not in said
    assert csv_table.make(commanded(said, tmp_path), "y").values.tolist() == values


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("x,y\n€3,1\n$4,2\n", " $ and with €"),
        ("x,y\n1%,1\n0.02,2\n", "out a sign and with %"),
        ("x,z,y\n$1,10%,2\n$3,20,4\n", "out a sign and with %"),
        ("x,z,y\n$1,10%,2\n3,20,4\n", "out a sign and with $; so it is in 'z', too"),
    ],
)
def test_a_column_that_mixes_units_has_no_command(tmp_path, text, named):
    said = refused(written(tmp_path, text))
    assert said.endswith(
        f"this column mixes units, in numbers with{named}: write all in one unit, without a sign"
    )


@pytest.mark.parametrize(
    ("text", "pointed"),
    [
        ("a;b;y\n67.177;15,8;1,5\n80.557;16,1;2,5\n401;3,5;3,25\n", "'a'"),
        ("a;b;y\n67.177;15,8;1.000\n1.080.557;16,1;2\n401;3,5;\n", None),
        ("a;b;y\n67.177;15,8;1.000\n;16,1;2\n401;3,5;\n", "'a', 'y'"),
        ("a;b;y\n0.177;15,8;1\n80.557;16,1;2\n", None),
        ("a;b;y\n67.17;15,8;1\n80.557;16,1;2\n", None),
    ],
)
def test_points_between_thousands_beside_decimal_commas_are_named_without_a_command(tmp_path, text, pointed):
    said = refused(written(tmp_path, text), delimiter=";").split("; and ")[0]
    assert (f"points between thousands are in {pointed}: write 15.8, and 1234 for 1.234" in said) == bool(
        pointed
    )
    assert not (pointed and "sed" in said)


def test_there_is_no_command_for_commas_of_two_kinds(tmp_path):
    """Without the commas, as is right for the first column, 15,8 would be 158."""
    said = refused(written(tmp_path, "a;b;y\n1,234,567;15,8;1\n"), delimiter=";")
    assert "column 'a': '1,234,567' is not a number" in said and "sed" not in said


@pytest.mark.parametrize("cells", [("1,234.5", "1.234,5"), ("1\u00a0", "2")])
def test_numbers_of_no_one_notation_and_without_a_sign_are_text(tmp_path, cells):
    said = refused(written(tmp_path, "x;y\n" + "".join(f"{cell};1\n" for cell in cells)), delimiter=";")
    assert "this column has text in " in said and "this column has numbers" not in said


def slipped(folder, slips, names="a,b,y"):
    """A file of 1,599 rows of numbers, with lines in place of some, by their number."""
    rows = {line: f"{line % 7}.5,{line % 11},{line % 5}" for line in range(2, 1601)} | slips
    return written(folder, "\n".join([names, *rows.values()]) + "\n")


@pytest.mark.parametrize(
    ("slips", "said"),
    [
        ({7: "x,3,4"}, "column 'a': 'x' is not a number, as -1.5 or 2e-3; all but 1 of 1,599 cells of this "),
        ({7: "x,3,4"}, "column are numbers: correct or remove line 7"),
        ({7: "1,2,n.b."}, "all but 1 of 1,599 cells of this column are numbers: correct or remove line 7"),
        ({2: "g/l,mg,points"}, "column are numbers; so it is in 'b', 'y': correct or remove line 2"),
        (
            {1600: "Total,,"},
            "all but 1 of 1,599 cells of this column are numbers: correct or remove line 1600",
        ),
        (dict.fromkeys(range(2, 9), "x,1,2"), "correct or remove lines 2, 3, 4, 5, 6 and 2 more"),
        ({9: "1\x0b,1,2"}, "all but 1 of 1,599 cells of this column are numbers: correct or remove line 9"),
        ({9: "5%,1,2"}, "all but 1 of 1,599 cells of this column are numbers: correct or remove line 9"),
    ],
)
def test_a_few_texts_in_a_column_of_numbers_are_slips(tmp_path, slips, said):
    found = refused(slipped(tmp_path, slips))
    assert said in found
    assert "one_hot" not in found and "cross_entropy" not in found and "sed" not in found


def test_more_texts_in_a_column_of_numbers_are_values(tmp_path):
    assert "one_hot" in refused(slipped(tmp_path, dict.fromkeys(range(2, 12), "x,1,2")))
    assert "one_hot" in refused(of_rows(tmp_path, [("x" if i == 5 else i, i) for i in range(99)], "ay"))


def test_there_is_no_command_for_signs_beside_a_slip(tmp_path):
    signed = {line: f"$1,{line},{'3%' if line == 5 else line}" for line in range(2, 1601)}
    assert "write them without it" in (said := refused(slipped(tmp_path, signed))) and "sed" not in said


@pytest.mark.parametrize("cell", ["$", "%", "$1$", "$a", "#1", "5°", "$-"])
def test_text_with_a_sign_is_no_number(tmp_path, cell):
    said = refused(written(tmp_path, f"x,z,y\n$1,1,1\n{cell},1,2\n"))
    assert "with a sign" not in said and "dataset.text_columns=one_hot replaces" in said


@pytest.mark.parametrize("cell", ["1,5 kg", "10,2,3", "1,10,000", "a,b", ",", "1,5E", "E,5", "1.5,3.5"])
def test_text_with_commas_is_no_number(tmp_path, cell):
    said = refused(written(tmp_path, f"x;y\n1,5;1\n{cell};2\n"), delimiter=";")
    assert "commas" not in said and "dataset.text_columns=one_hot replaces" in said


def test_numbers_with_commas_and_text_are_told_apart(tmp_path):
    said = refused(written(tmp_path, "a;b;y\n1,5;red;2\n2,5;blue;\n"), delimiter=";")
    commas, text, missing = said.split("; and ")
    assert "column 'a': '1,5'" in commas and commas.endswith("points.csv)")
    assert "column 'b': 'red'" in text and "text is in" not in text
    assert "1 in 'y'" in missing


def test_what_would_be_refused_next_is_not_advised(tmp_path):
    """A text column has at most so many values, and a target so many classes; one feature has to be left."""
    few, many = (
        refused(of_rows(tmp_path, [(i, f"n{i}", f"m{i % 3}", i) for i in range(count)], "abcy"))
        for count in (MOST_VALUES, MOST_VALUES + 1)
    )
    assert "one_hot replaces" in few
    assert "is for at most 100 values of a column: for it, group those of 'b', or remove it" in many
    assert few.endswith(drop := "dataset.text_columns=drop leaves it out") and many.endswith(drop)
    assert "drop" not in refused(of_rows(tmp_path, [("red", 1), ("blue", 2)], "ay"))
    for count in (MOST_CLASSES, MOST_CLASSES + 1):
        said = refused(of_rows(tmp_path, [(i, f"n{i}") for i in range(count)], "ay"))
        assert ("to tell these apart" in said) == (count == MOST_CLASSES)
        assert ("at most 1000 apart, so name another target" in said) == (count > MOST_CLASSES)


def test_numbers_with_commas_that_are_taken_for_text_are_named_where_they_are_too_many(tmp_path):
    rows = "".join(f"{i},5;{i}\n" for i in range(MOST_VALUES + 1))
    said = refused(written(tmp_path, f"x;y\n{rows}"), delimiter=";", text_columns="one_hot")
    assert said.endswith("they look like numbers with decimal commas: write them as 1234.5")


@pytest.mark.parametrize(
    ("text", "keys", "said"),
    [
        ("a, unit;y, unit\n1;2\n", {}, "have 3; its first line seems to be separated by semicolons: say"),
        (
            "a;y\n1,5;2,5\n",
            {"target": 1},
            "only one column ('a;y'), but a feature and a target are needed; its ",
        ),
        ("a,y\n1\n", {}, ", line 2: 1 columns, but the lines before have 2; is dataset.delimiter right?"),
        ("1,2\n1\n", {"header": False, "target": 0}, ", line 2: 1 columns, but the lines before have 2; is "),
    ],
)
def test_lines_of_unequal_length_from_the_start_may_have_another_delimiter(tmp_path, text, keys, said):
    assert said in refused(written(tmp_path, text), **keys)
    assert refused(written(tmp_path, "a,y\n1,2\n3\n")).endswith(
        "line 3: 1 columns, but the lines before have 2"
    )


@pytest.mark.parametrize("line", ["sep=;", '"sep=;"', "\ufeffSEP=;\r"])
def test_the_line_for_excel_is_named_with_a_command_that_removes_it(tmp_path, line):
    path = written(tmp_path, f"{line}\na;y\n1;2\n")
    for keys in ({}, {"delimiter": ";"}, {"header": False, "target": 0}):
        assert "is for Excel alone: remove this line" in (said := refused(path, **keys))
    assert csv_table.make(commanded(said, tmp_path), "y", delimiter=";").values.tolist() == [[1, 2]]


def test_a_cell_with_a_line_break_is_told_to_be_on_one_line(tmp_path):
    said = refused(written(tmp_path, 'a,y\n"one\ntwo",2\n'))
    assert said.startswith(
        ', line 2: a quote (") has no second one in this line: each row must be on one line'
    )


def test_a_file_in_latin_1_is_read_after_the_command_of_its_refusal(tmp_path):
    (tmp_path / "t.csv").write_bytes("°;y\n1;2\n".encode("latin1"))
    said = refused(str(tmp_path / "t.csv"), delimiter=";")
    assert shlex.quote(str(tmp_path / "t.csv")) in said
    assert csv_table.make(commanded(said, tmp_path), "y", delimiter=";").values.tolist() == [[1, 2]]
