"""CSV files: read right or rejected by name, their columns, the file itself, and what is said of a table."""

import csv
import gzip
import hashlib
import io
import os
import re
import shlex
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from csv_tables import LABELS, arguments, of_rows, read, refused, written
from hypothesis import given, settings
from hypothesis import strategies as st

from snn import cli, datasets
from snn.config import compose
from snn.config.compose import composed
from snn.datasets import csv_table
from snn.datasets.csv_table import MOST_COLUMNS, MOST_VALUES
from snn.errors import ConfigError, DataError, SnnError
from snn.files import regular
from snn.grid import sweeps
from snn.hardware.devices import Device
from snn.measurement.passes import job_of


def zipped(name):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr(name, "x,y\n1,2\n")
    return content.getvalue()


FEW = "".join(f"{i % 7}.5,{i % 11},{i % 5}\n" for i in range(40))
"""Rows of numbers below the header a,b,y."""
COMMAS = "".join(f"{i},5;{i % 6 + 1},25;{i % 17},1\n" for i in range(1, 41))
OVENS = "".join(f"{'AB'[i % 2]};2{i % 9},{i % 7};{i}\n" for i in range(40))
KINDS = "".join(f"{'KLM'[i % 3]},0.{500 + i},0.{900 - i},{i % 20}\n" for i in range(40))
ONE_HOT, DROP, ROWS = {"text_columns": "one_hot"}, {"text_columns": "drop"}, {"missing": "drop_rows"}
CLASSES = {"task": "classification"}


def case(text, expected, found=None, /, **keys):
    """A file, its values or what its error names, what its remarks name, and its settings."""
    return text, keys, expected, found


READ = {
    # ---- what separates columns
    "commas": case("x,y\n1,2\n", [[1, 2]]),
    "semicolons": case("x;y\n1;2\n", [[1, 2]], "semicolons"),
    "semicolons and commas": case("a, unit;y, unit\n1,5;2\n", [[1.5, 2]], "decimal commas", target="y, unit"),
    "a comma in the other columns' texts": case(
        "a;b;y\nx, z;u, v;1\nz, x;v, u;2\n", "no column but the target", **DROP, target="y"
    ),
    "tabs": case("x\ty\n1\t2\n", [[1, 2]], "tabs"),
    "tabs and texts": case("name\tx\ty\nNew York\t1\t2\nOslo\t3\t4\n", [[1, 2], [3, 4]], "tabs", **DROP),
    "tabs, blanks in numbers": case("0.5\t1 000.5\tred\n", [[0.5, 1, 1000.5]], "tabs", **ONE_HOT, target=1),
    "blanks, and a tab in each line": case("7 2\t3\n4 5\t6\n", [[7, 2, 3], [4, 5, 6]], "blanks", target=-1),
    "bars": case("x|y\n1|2\n", [[1, 2]], "bars"),
    "blanks": case(
        " 0.01  18.00  2 24.0\n 12.5   0.00  7 21.6\n",
        [[0.01, 18, 2, 24], [12.5, 0, 7, 21.6]],
        "blanks, no header",
        target=-1,
    ),
    "blanks as one is given": case(
        " 0.01  18.00\n 12.5   0.00\n", [[0.01, 18], [12.5, 0]], target=-1, delimiter=" ", header=False
    ),
    "blanks, a tab, quotes": case('x "the y"\n1 \t 2  \n3  4\n', [[1, 2], [3, 4]], "blanks", target="the y"),
    "a colon": case("x:y\n1:2\n", [[1, 2]], delimiter=":"),
    "for Excel": case("sep=;\nx;y\n1;2\n", [[1, 2]], "semicolons, header in line 2"),
    "for Excel, with a mark": case('\ufeff"SEP=;"\r\nx;y\r\n1;2\r\n', [[1, 2]], "semicolons"),
    "lines that end in CR": case("x,y\r1,2\r3,4\r", [[1, 2], [3, 4]]),
    "blank lines": case("\n\nx,y\n\n1,2\n  \n3,4\n\n", [[1, 2], [3, 4]], "header in line 3"),
    "blanks around cells": case('x, y\n 1 , 2\n"3" ,4\n'.replace('"3" ', "3"), [[1, 2], [3, 4]]),
    "one column": case("x\n1\n", "line 1 dataset.delimiter"),
    "another delimiter": case("x,y\n1,2\n", "dataset.delimiter=null", delimiter=";"),
    "another delimiter within quotes": case('"x";"y"\n1;2\n', "dataset.delimiter=null", delimiter=","),
    # ---- numbers
    "decimal commas": case("x;y\n1,5;2\n3;4,25\n", [[1.5, 2], [3, 4.25]], "semicolons, decimal commas"),
    "decimal commas in quotes": case('x,y\n"1,5",2\n"3,25",4\n', [[1.5, 2], [3.25, 4]], "decimal commas"),
    "1.234,5": case("x;y\n1.234,5;2\n1.234.567;4\n", [[1234.5, 2], [1234567, 4]], "'.' between thousands"),
    "points in another column": case(
        "a;b;y\n67.177;15,8;1,5\n80.557;16,1;2,5\n", [[67177, 15.8, 1.5], [80557, 16.1, 2.5]], "'.' between"
    ),
    "two readings": case(
        "a;b;y\n0.177;15,8;1\n8.5;16,1;2\n4;17,1;3\n", "line 2 column 'a' '0.177' dataset.na_values"
    ),
    "1,234": case('x,y\n"1,234",2.5\n"12,345",4\n', [[1234, 2.5], [12345, 4]], "',' between thousands"),
    "two commas": case('x,y\n"1,234,567",2\n9,4\n', [[1234567, 2], [9, 4]], "',' between thousands"),
    "commas in doubt": case("x;y\n1,100;2\n", "line 2 column 'x' dataset.decimal dataset.thousands"),
    "commas as decimals": case("x;y\n1,100;2\n", [[1.1, 2]], "semicolons", decimal=","),
    "commas as thousands": case("x;y\n1,100;2\n", [[1100, 2]], "semicolons", thousands=","),
    "1 234,5": case("x;y\n1 234,5;2\n12\u00a0345;3\n", [[1234.5, 2], [12345, 3]], "between thousands"),
    "apostrophes": case("x,y\n1'234.5,2\n12’345,3\n", [[1234.5, 2], [12345, 3]], "between thousands"),
    "points as thousands": case("x,y\n1.234,2\n", [[1234, 2]], "decimal commas", thousands="."),
    "points, which may be between thousands": case("x,y\n1.234,2\n", [[1.234, 2]], "dataset.thousands"),
    "points, which are decimals": case("x,y\n1.234,2\n0.123,3\n", [[1.234, 2], [0.123, 3]]),
    "points, and others in texts": case(
        "firm;x;y\nSmith Co.;1.234;2\nSmith Co.;5.678;3\n",
        [[1.234, 2], [5.678, 3]],
        "dataset.thousands",
        **DROP,
    ),
    "points, and others in missing values": case(
        "x;y\n1.234;2\nn.a.;3\n", [[1.234, 2]], "dataset.thousands", **ROWS, na_values=["n.a."]
    ),
    "a point before an exponent": case(
        "a;x;y\n1,5;2.345e-05;1\n2,5;3.456e-05;2\n3,5;3.456e-05;2\n",
        "line 2 column 'x' '2.345e-05'",
        decimal=",",
    ),
    "a mark for both": case("x,y\n1.5,2\n", "dataset.thousands dataset.decimal", thousands=".", decimal="."),
    "percent": case("x,y\n12%,2\n3.5 %,4\n", [[12, 2], [3.5, 4]], "% in 'x'"),
    "currency": case("x;y\n$5;2\n-$1,000.5;4\n", [[5, 2], [-1000.5, 4]], "$ in 'x'"),
    "euros": case("x;y\n€ 5,00;2\n7,5\u00a0€;4\n", [[5, 2], [7.5, 4]], "€ in 'x'"),
    "two currencies": case("x,y\n€3,1\n$4,2\n€5,3\n", "line 3 column 'x' '$4' dataset.na_values"),
    "one without the unit": case("x,y\n1%,1\n2%,2\n0.02,3\n", "line 4 column 'x' '0.02' dataset.na_values"),
    "two units at a number": case("x,y\n1,1\n$1%,2\n2,2\n", "line 3 column 'x' '$1%'"),
    "numbers in quotes": case('"x","y"\n"1.5","2"\n', [[1.5, 2]]),
    "exponents and signs": case("x,y\n+1e+2,-.5\n1E-1,5.\n", [[100, -0.5], [0.1, 5]]),
    **{
        one: case(f"x,y\n1,2\n{one},4\n", f"line 3 column 'x' {one!r} dataset.na_values")
        for one in ("-inf", "1e39", "0x10", "0E+-0", "1_0", "٣")
    },
    "beyond float64": case("x,y\n1,2\n3,1e400\n", "line 3 column 'y' '1e400' dataset.na_values"),
    "a control character": case("x,y\n1,2\n1\x0b,4\n", "line 3 column 'x' '1\\x0b'"),
    "a mark within": case("x,y\n1,2\n\ufeff1,4\n", "line 3 column 'x' '\\ufeff1'"),
    "dates": case("x,y\n2020-01-01,2\n2020-01-02,4\n", "line 2 column 'x' '2020-01-01'"),
    "dates as a target": case("x,y\n1,2020-01-01\n2,2020-01-02\n", "line 2 column 'y' cross_entropy"),
    # ---- stray markers among numbers
    "a division by zero": case(
        f"a;b;y\n{COMMAS}#DIV/0!;1,25;#DIV/0!\n", "line 42 column 'a' 'y' '#DIV/0!' dataset.na_values"
    ),
    "a division by zero that is missing": case(
        "a;b;y\n1,5;1,25;3,1\n#DIV/0!;1,25;#DIV/0!\n",
        [[1.5, 1.25, 3.1]],
        "decimal commas",
        **ROWS,
        na_values=["#DIV/0!"],
    ),
    **{
        f"{marker} {[*keys]}": case(
            f"a,b,y\n{FEW}{marker},1,2\n", "line 42 column 'a' dataset.na_values", **keys
        )
        for marker in (
            "#VALUE!",
            "\\N",
            "5\\",
            "-",
            ".",
            "..",
            "n.a.",
            "<0.5",
            "missing",
            "5°",
            "1,5 kg".replace(",", "."),
        )
        for keys in ({}, ONE_HOT, DROP)
    },
    "marker in classes": case(f"a,b,y\n{FEW}1,1,x\n", "line 42 column 'y' 'x' dataset.na_values", **CLASSES),
    "markers": case("a,b,y\n" + "1,2,3\nx,2,3\n" * 9, "line 3 column 'a' 'x' dataset.na_values", **ONE_HOT),
    "numbers as missing values": case("x,y\n1,2\n-999,3\n-999.0,3\n", [[1, 2]], **ROWS, na_values=[-999]),
    "a quote that is closed rows later": case(
        'a,note,y\n1,"u,2\n3,v,4\n5,w",6\n7,u,8\n',
        [[1, 6], [7, 8]],
        "rows over several lines (1, the first in line 2)",
        **DROP,
    ),
    "a second header": case("a,b,y\n1,2,3\na,b,y\n4,5,6\n", [[1, 2, 3], [4, 5, 6]], "1 repeated header"),
    "two text headers": case("a,y\nu,1\na,y\nv,2\n", [[1, 0, 1], [0, 1, 2]], "1 repeated header", **ONE_HOT),
    "zeros before numbers": case("zip,y\n98101,1\n01234,2\n", [[98101, 1], [1234, 2]], "'01234' in 'zip'"),
    "a units line": case("a,b,y\n[m],[s],[-]\n1,2,3\n4,5,6\n", "line 2 column 'a' '[m]' dataset.na_values"),
    "commas in texts": case(f"oven;temp;y\n{OVENS}", (40, 4), "decimal commas", **ONE_HOT, delimiter=";"),
    "a comment behind a number": case("x,y\n1,2\n3,4 # sic\n5,6\n", "line 3 column 'y' dataset.comment"),
    # ---- comments, other lines, headers
    "comments": case(
        "# made by an archive\n# COLUMN y: mass\na,b,y\n1,2,3\n",
        [[1, 2, 3]],
        "2 comment lines skipped, header in line 3",
    ),
    "#": case("a,b,y\n1,2,3\n# a note\n4,5,6\n% a note\n", [[1, 2, 3], [4, 5, 6]], "2 comment lines skipped"),
    "comments as wide as the table": case(
        "# a, b, c\na,b,y\n1,2,3\n4,5,6\n", [[1, 2, 3], [4, 5, 6]], "1 comment line skipped"
    ),
    "a header behind a comment's mark": case("# a,b,y\n1,2,3\n4,5,6\n", [[1, 2, 3], [4, 5, 6]], target="y"),
    "mark": case('x,y ! why\n1,2\n! no\n3,"4"!5\n', [[1, 2], [3, 4]], "1 comment line skipped", comment="!"),
    "the end of a DOS file": case("x,y\n1,2\n\x1a", "line 3 columns"),
    "another comment": case("x,y\n1,2\n! no\n3,4\n", "line 3 dataset.comment"),
    "lines before": case(
        "Station: Oslo\nExported 2024\n\na;b;y\n1;2;3\n",
        [[1, 2, 3]],
        "2 other lines skipped, header in line 4",
    ),
    "empty cells before": case(
        "Report,,\n,,\na,b,y\n1,2,3\n4,5,6\n",
        [[1, 2, 3], [4, 5, 6]],
        "2 other lines skipped, header in line 3",
    ),
    "empty cells, a header": case("Report,,\n,,\na,b,y\n1,2,3\n", [[1, 2, 3]], "header in line 3", header=3),
    "a line of texts and numbers before": case(
        "2,u,v\n1,2,3,4,5,7\n2,2,3,4,5,9\n",
        [[1, 2, 3, 4, 5, 7], [2, 2, 3, 4, 5, 9]],
        "1 other line skipped, no header, data from line 2",
        target=-1,
    ),
    "values before a header": case("Device,XY12\nRate,10\na,b,y\n1,2,3\n4,5,6\n", "line 1 dataset.header=3"),
    "values as wide before a header": case(
        "Device,XY12,u\nRate,10,v\na,b,y\n1,2,3\n4,5,6\n", "dataset.target 'y' dataset.header=3"
    ),
    "a header without a name for row names": case('a b y\n"1" 2 3 4\n"2" 5 6 7\n', "line 1 columns header"),
    "delimiters at the end of lines": case(
        "a,y,\n1,2,\n3,4,\n", [[1, 2], [3, 4]], "1 nameless empty column skipped", target=-1
    ),
    "bars around lines": case("|a|y|\n|1|2|\n", [[1, 2]], "2 nameless empty columns skipped"),
    "a header's line": case("u,v,w\na,b,y\n1,2,3\n", [[1, 2, 3]], "header in line 2", header=2),
    "no such header": case("a,b,y\n1,2,3\n", "dataset.header", header=7),
    "a short row": case("x,y\n1,2\n3\n", "line 3 columns"),
    "a long row": case("x,y\n1,2\n3,4,5\n", "line 3 columns"),
    "a short header": case("a,b\n1,2,3\n1,2,3\n", "line 1 columns", target="b"),
    "a short first row of numbers": case("1,2\n1,2,3,4\n1,2,3,4\n", "line 1 columns", target=0),
    "a first row of data": case(KINDS, (40, 6), "no header, data from line 1", **ONE_HOT, target=-1),
    "a first row of numbers": case("1.5,2\n3,4\n", [[1.5, 2], [3, 4]], "no header", target=1),
    "a first row of data with a marker": case(
        "K,n.a.,0.802,5\nL,0.118,0.761,18\nM,0.38,0.21,1\n",
        "line 1 dataset.header=true dataset.header=false",
        **ONE_HOT,
        target=-1,
    ),
    "consecutive": case("1,2,3\n3,4,7\n", "line 1 dataset.header=true dataset.header=false", target=0),
    "texts without a header": case(
        "u,v\nv,u\nu,u\nv,v\n",
        [[1, 0, 1], [0, 1, 0], [1, 0, 0], [0, 1, 1]],
        "no header",
        **ONE_HOT,
        **CLASSES,
        target=1,
    ),
    "texts with a header": case("a,y\nv,u\nu,u\n", [[0, 1, 0], [1, 0, 0]], **ONE_HOT, **CLASSES),
    "years as names": case("gdp,2019,2020\n1.5,2,3\n2.5,3,4\n", [[1.5, 2, 3], [2.5, 3, 4]], target=2020),
    "no header": case("x,y\n1,2\n3,4\n", "line 1 column '0' 'x' dataset.header=true", header=False, target=1),
    "a header of numbers": case("1,2\n3,4\n", [[4, 3]], header=True, target=1),
    "a name without a header": case("1,2\n3,4.5\n", "dataset.target 'y' dataset.header=true", header=False),
    "another name": case("x,price\n1,2\n", "dataset.target 'prize' 'price'", target="prize"),
    "another case": case("x,y\n1,2\n", "dataset.target 'Y' 'y'", target="Y"),
    "a number too far": case("x,y\n1,2\n", "dataset.target 2 -2 1", target=2),
    "names twice": case("x,x,y\n1,2,3\n", [[1, 2, 3]]),
    "the target twice": case("y,y\n1,2\n", "dataset.target 'y' rename"),
    "a number that is a name twice": case("0,0,y\n1,2,3\n", "dataset.target 0 rename", header=1, target=0),
    "names that are empty": case(",x,y\n0.5,1,2\n", [[0.5, 1, 2]]),
    "a name with a control character": case("x\x1b[2J,y\n1,2\n", "line 1 'x\\x1b[2J'"),
    **{
        f"the target {wrong!r}": case("x,y\n1,2\n", f"dataset.target {wrong!r}", target=wrong)
        for wrong in (True, 1.0, None, ["y"])
    },
    "constant columns": case("x,y\n5,5\n5,5", [[5, 5], [5, 5]]),
    # ---- texts and missing values
    "NA": case("a,b,y\n1,2,3\n,NA,4\n5,?,6\n7,8,nan\n", "line 3 'a' 'b' 'y' dataset.missing=drop_rows"),
    "missing, left out": case("a,b,y\n1,2,3\n,NA,4\n5,?,6\n7,8,nan\n", [[1, 2, 3]], **ROWS),
    "none is left": case("a,b,y\n,5,\n2,6,\n,7,8\n", "'a' 'y'", **ROWS),
    "no value in a column": case("a,b,y\n1,,2\n2,NA,3\n", "'b'", **ROWS),
    "no value in the target": case("a,y\n1,\n2,\n", "'y' target", **ROWS),
    "texts": case(
        "a,c,y\n1,red,2\n2,blue,4\n",
        "line 2 column 'c' 'red' dataset.text_columns=one_hot dataset.text_columns=drop",
    ),
    "texts as columns": case("a,c,y\n1,red,2\n2,blue,4\n", [[1, 0, 1, 2], [2, 1, 0, 4]], **ONE_HOT),
    "texts, left out": case("a,c,y\n1,red,2\n2,,4\n", [[1, 2], [2, 4]], **DROP),
    "only texts": case("c,y\nred,2\nblue,4\n", "'y'", **DROP),
    "classes named None": case(
        "a,y\n1,None\n2,NA\n3,yes\n4,null\n", [[1, 1], [2, 0], [3, 3], [4, 2]], "dataset.na_values", **CLASSES
    ),
    "None": case("a,y\n1,None\n2,NA\n3,None\n", [[1, 1], [2, 0], [3, 1]], "dataset.na_values", **CLASSES),
    "no class": case(
        "a,y\n1,None\n2,no\n3,yes\n4,\n", [[2, 0], [3, 1]], **CLASSES, **ROWS, na_values=["None"]
    ),
    "classes that float64 rounds": case(
        "a,y\n1,12345678901234560\n2,12345678901234561\n", "line 2 column 'y' 12345678901234560", **CLASSES
    ),
    "a class that is not whole": case("a,y\n1,0\n2,1.5\n", "line 3 column 'y' 1.5", **CLASSES),
    "a text that is too long": case(f"a,c,y\n1,red,2\n2,{'x' * 201},4\n", "line 3 column 'c'", **ONE_HOT),
    "a text with a line break": case('a,c,y\n1,"one\ntwo",2\n2,red,4\n', "line 2 column 'c'", **ONE_HOT),
    "a break, left out": case('a,c,y\n1,"one\ntwo",2\n2,red,4\n', [[1, 2], [2, 4]], "over several", **DROP),
    "behind a break": case(
        'a,c,y\n1,"one\ntwo",2\n2,red,x\n3,red,4\n4,red,4\n', "line 4 column 'y' 'x'", **DROP
    ),
    "a constant target": case(
        "x,y\n" + "".join(f"{i},5\n" for i in range(10)), "column 'y' 5 8", standardise=True, held_out=0.2
    ),
    "a single class": case("x,y\n1,a\n2,a\n", "column 'y' a 2", **CLASSES, standardise=True),
    "too far": case("x,y\n0,1\n1e-30,2\n0,3\n1e30,4\n", "column 'x' 1e+30", standardise=True, held_out=0.25),
    "1001 classes": case("x,y\n" + "".join(f"{i},{i}\n" for i in range(1001)), "1001 1000 'y'", **CLASSES),
    **{
        f"{share} of {n}": case("x,y\n" + "1,2\n" * n, f"held_out {share} {held} {n}", held_out=share)
        for n, share, held in ((2, 0.2, 0), (5, 0.05, 0), (4, 0.9, 4), (1, 0.9, 1))
    },
    # ---- files
    "an empty file": case("", ""),
    "a header only": case("x,y\n", "rows"),
    "a quote without end": case('x,y\n1,2\n"1,3\n4,5\n', "line 3"),
    "letters behind a quote": case('x,y\n"1"2,3\n', "line 2"),
    "a huge cell": case("x,y\n" + "1" * 200_000 + ",2\n", "line 2"),
    "NUL bytes": case("x,y\n1,2\n1\0,4\n", "NUL"),
    "a NUL byte far behind": case("x,y\n" + "1,2\n" * 2000 + "1\0,4\n", "line 2002 column 'x' '1\\x00'"),
    "a byte order mark": case("\ufeffx,y\n1,2\n", [[2, 1]], target="x"),
    "UTF-16": case("x;y\n1;2\n".encode("utf-16"), [[1, 2]], "utf-16"),
    "UTF-16 without a mark": case("x,y\n1,2\n".encode("utf-16-le"), "UTF-16 dataset.encoding"),
    "UTF-16 that is given": case("x,y\n1,2\n".encode("utf-16-le"), [[1, 2]], encoding="utf-16-le"),
    "Windows": case("Größe;y\n1;2\n".encode("cp1252"), [[2, 1]], "cp1252", target="Größe"),
    "the euro of Windows": case("€,y\n1,2\n".encode("cp1252"), [[2, 1]], "cp1252", target="€"),
    "Latin-1": case("°;y\n1;2\n".encode("latin1"), [[2, 1]], "cp1252", target="°"),
    "Central Europe": case("Łódź;żółw;y\n1;2;3\n".encode("cp1250"), [[2, 3, 1]], "cp1250", target="Łódź"),
    "Cyrillic": case("рост;Масса тела;y\n1;2;3\n".encode("cp1251"), [[2, 3, 1]], "cp1251", target="рост"),
    "not cp1252": case(b"a,name,y\n1,x\x81y,3\n2,z,4\n", [[1, 1, 0, 3], [2, 0, 1, 4]], "cp850", **ONE_HOT),
    "damaged UTF-8": case(
        "name,y\nMüller,1\nJäger,2\nSchäfer,3\n".encode().replace("Jä".encode(), b"J\xe4"),
        "line 3 0xe4 utf-8 dataset.encoding",
        **ONE_HOT,
    ),
    "damaged UTF-8 with a mark": case(b"\xef\xbb\xbfname,y\n1,2\n3,4\xe4\n", "line 3 0xe4 utf-8"),
    "files in two encodings": case(
        "name,y\nMüller,1\n".encode() + "Jäger,2\n".encode("cp1252"),
        "line 3 0xe4 utf-8 dataset.encoding",
        **ONE_HOT,
    ),
    "half a letter of UTF-16": case("x;y\n1;2\n".encode("utf-16")[:-1], "0x0a utf-16"),
    "Chinese": case(
        "名字,身高,y\n张三,1,2\n李四,3,4\n".encode("gb18030"), [[1, 2], [3, 4]], "gb18030", **DROP
    ),
    "Japanese": case("名前,身長,y\n田中,1,2\n鈴木,3,4\n".encode("cp932"), [[1, 2], [3, 4]], "cp932", **DROP),
    "not UTF-8": case("Größe,y\n1,2\n".encode("cp1252"), "line 1 0xf6 dataset.encoding", encoding="utf-8"),
    "gzip": case(gzip.compress(b"x,y\n1,2\n", mtime=0), "gzip"),
    "zip": case(zipped("t.csv"), "zip"),
    "Excel": case(zipped("xl/workbook.xml"), "Excel"),
    "Parquet": case(b"PAR1\x15\x04", "Parquet"),
}


@pytest.mark.parametrize(("text", "keys", "expected", "found"), READ.values(), ids=READ)
def test_a_file_is_read_right_or_rejected_by_name(tmp_path, text, keys, expected, found):
    try:
        table = read(tmp_path, text, **{"target": "y", **keys})
    except DataError as error:
        said = str(error).replace(str(tmp_path / "t.csv"), "", 1)
        assert isinstance(expected, str), said
        assert said.isprintable()
        for part in re.findall(r"'[^']*'|line \d+|\S+", expected):
            assert part in said
        return
    if isinstance(expected, tuple):
        assert table.values.shape == expected
    else:
        assert table.values.tolist() == np.array(expected, np.float32).tolist()
    if found is not None:
        assert found in "; ".join(table.remarks)
    else:
        assert "read as" not in "; ".join(table.remarks)


def advised(said):
    """The settings that a message advises, as a shell gives them to a command: each with those next to it."""
    word = r"(?:'dataset\.(?:[^']|'\"'\"')*'|dataset\.\w+=[\w.-]*\w)"
    return [shlex.split(words) for words in re.findall(rf"(?<![\w.']){word}(?: {word})*", said)]


@pytest.mark.parametrize("name", READ)
def test_what_is_advised_helps(tmp_path, name):
    """With the advised setting, as either command reads it, the file is read, or has another complaint."""
    text, keys, *_ = READ[name]
    keys = {"target": "y", **keys}

    def outcome(**more):
        try:
            return "; ".join(read(tmp_path, text, **{**keys, **more}).remarks)
        except SnnError as error:
            return str(error)

    before = outcome()
    for words in advised(before):
        more = {}
        for word in words:
            assert word.isprintable()
            key = word.partition("=")[0].removeprefix("dataset.")
            more[key] = composed(
                ["dataset=csv", "dataset.path=t", *([] if key == "target" else ["dataset.target=y"]), word]
            )["dataset"][key]
        assert outcome(**more) != before, words


def test_a_message_is_searched_for_settings():
    said = """say 'dataset.na_values=["a b"]' dataset.missing=drop_rows, or 'dataset.decimal=","'; x"""
    assert advised(said) == [
        ['dataset.na_values=["a b"]', "dataset.missing=drop_rows"],
        ['dataset.decimal=","'],
    ]


# ---- never silently wrong


NUMBERS = (
    st.floats(-1e6, 1e6).map(lambda x: round(x, 3))
    | st.integers(-(10**7), 10**7)
    | st.floats(width=32, allow_nan=False, allow_infinity=False)
)


def grouped(number, decimal, thousands):
    """A number with marks between its thousands."""
    text = f"{number:,}" if abs(number) < 1e15 and "e" not in repr(number) else repr(number)
    return text.translate(str.maketrans({",": thousands, ".": decimal}))


@settings(max_examples=300)
@given(
    data=st.data(),
    rows=st.integers(1, 12),
    delimiter=st.sampled_from([",", ";", "\t", "|", " "]),
    decimal=st.sampled_from(".,"),
    thousands=st.sampled_from(["", "", ".", ",", " ", "'"]),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "cp1252"]),
    header=st.booleans(),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
    given_keys=st.booleans(),
)
def test_what_pandas_writes_is_read_back_or_rejected(
    tmp_path_factory, data, rows, delimiter, decimal, thousands, quoting, encoding, header, end, given_keys
):
    thousands = "" if thousands in (decimal, delimiter) else thousands
    columns = {
        name: data.draw(st.lists(NUMBERS, min_size=rows, max_size=rows)) for name in ("Höhe", "b 2", "y")
    }
    kind = data.draw(st.lists(st.sampled_from(["red", "blue", "light grey"]), min_size=rows, max_size=rows))
    frame = pd.DataFrame({**columns, "kind": kind})
    shown = frame.copy()
    for name in columns:
        shown[name] = [grouped(one, decimal, thousands) for one in columns[name]]
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    shown.to_csv(
        path,
        sep=delimiter,
        quoting=quoting,
        encoding=encoding,
        header=header,
        index=False,
        lineterminator=end,
    )
    keys = {"delimiter": delimiter, "decimal": decimal, "thousands": thousands or None, "header": header}
    try:
        table = csv_table.make(
            str(path), target=2 if not header else "y", text_columns="one_hot", **(keys if given_keys else {})
        )
    except DataError as error:
        assert "dataset." in str(error)
        return
    texts = sorted(set(kind))
    truth = [
        [row[0], row[1], *(float(row[3] == one) for one in texts), row[2]]
        for row in frame.itertuples(index=False)
    ]
    if "if they are between thousands, say 'dataset.thousands" in "".join(table.remarks):
        assert thousands == "." or decimal == "."
        return
    assert np.array_equal(table.values, np.array(truth, np.float64).astype(np.float32))


@settings(max_examples=100)
@given(
    st.lists(st.floats(width=64, allow_nan=False, allow_infinity=False), min_size=1),
    st.sampled_from([repr, "{:.17e}".format, "{:+.6g}".format]),
)
def test_numbers_are_those_of_python(tmp_path_factory, numbers, shown):
    """However pandas parses them: float64, and float32 after it."""
    numbers = [number for number in numbers if abs(float(shown(number))) < 3e38] or [0.0]
    text = "x,y\n" + "".join(f"{shown(number)},1\n" for number in numbers)
    values = read(tmp_path_factory.mktemp("csv"), text, target="y").values
    assert np.array_equal(
        values[:, 0], np.array([float(shown(number)) for number in numbers]).astype(np.float32)
    )


# ---- very many columns

WIDTH = 10_000
"""What looked at each of them for each of them would take minutes."""


@pytest.mark.parametrize(
    ("cells", "keys", "expected"),
    [
        ("12", {}, WIDTH + 1),
        ("xx", ONE_HOT, WIDTH + 1),
        (("", ""), {}, f"'a5' and {WIDTH - 6:,} more"),
        (("x", "inf"), {}, f"'a5' and {WIDTH - 6:,} more"),
        ("xy", DROP, "no column but the target 'y'"),
    ],
)
def test_a_wide_table_takes_one_pass_over_its_columns(tmp_path, cells, keys, expected):
    rows = [[cell] * WIDTH + [str(number)] for number, cell in enumerate(cells)]
    path = of_rows(tmp_path, rows, [*(f"a{i}" for i in range(WIDTH)), "y"])
    if isinstance(expected, int):
        assert csv_table.make(path, target="y", **keys).values.shape == (2, expected)
    else:
        assert expected in refused(path, **keys)


def test_a_table_has_at_most_so_many_columns(tmp_path):
    text = ",".join(["1"] * (MOST_COLUMNS + 1)) + "\n"
    with pytest.raises(DataError, match="line 1: 100,001 columns"):
        read(tmp_path, text * 2, target=-1, header=False)


# ---- standardised by the rows that are trained on


numbers = st.floats(-(2.0**120), 2.0**120, width=32) | st.floats(-10, 10, width=32) | st.just(5.0)


@settings(max_examples=60)
@given(
    rows=st.lists(st.lists(numbers, min_size=3, max_size=3), min_size=5, max_size=40),
    seed=st.none() | st.integers(0, 2**32 - 1),
    share=st.sampled_from([0.0, 0.2, 0.5]),
)
def test_every_column_has_mean_0_and_variance_1_where_it_is_trained_on(tmp_path_factory, rows, seed, share):
    path = of_rows(tmp_path_factory.mktemp("csv"), rows, "aby")
    values = np.array(rows)
    try:
        made = csv_table.make(path, "y", standardise=True, held_out=share, shuffle_seed=seed)
    except DataError as error:
        assert "there is nothing to predict" in str(error) or "too far from the rows" in str(error)
        return
    order = np.arange(len(rows)) if seed is None else np.random.RandomState(seed).permutation(len(rows))
    training = len(rows) - round(share * len(rows))
    for j in range(3):
        column = values[order, j].astype(np.longdouble)
        of_training = column[:training]
        got = made.values[:, j].astype(np.float64)
        if np.ptp(of_training) == 0:
            assert not got.any()
            continue
        expected = (column - of_training.mean()) / of_training.std()
        np.testing.assert_allclose(got, expected.astype(np.float64), rtol=1e-5, atol=1e-5)
        assert got[:training].mean() == pytest.approx(0, abs=1e-5)
        assert got[:training].std() == pytest.approx(1, rel=1e-4)
    y = values[order[:training], 2]
    assert made.facts["target_mean"] == pytest.approx(y.mean(), rel=1e-9, abs=1e-9 * np.abs(y).max())
    assert made.facts["target_scale"] > 0


def test_held_out_rows_have_no_influence_on_what_is_trained_on(tmp_path):
    rows = np.random.RandomState(2).normal(size=(20, 3))
    keys = {"standardise": True, "held_out": 0.25, "shuffle_seed": 5}
    one = csv_table.make(of_rows(tmp_path, rows.tolist(), "aby"), "y", **keys)
    rows[np.random.RandomState(5).permutation(20)[15:]] *= 1000
    other = csv_table.make(of_rows(tmp_path, rows.tolist(), "aby"), "y", **keys)
    assert np.array_equal(one.values[:15], other.values[:15])
    assert not np.array_equal(one.values[15:], other.values[15:])
    assert one.facts == other.facts


def test_large_whole_numbers_keep_the_digits_in_which_they_differ(tmp_path):
    """Float32 would round time stamps to the nearest 64; their deviations are computed before."""
    stamps = 1_700_000_000 + np.arange(100)
    path = of_rows(tmp_path, [(stamp, i % 7) for i, stamp in enumerate(stamps)], "xy")
    made = csv_table.make(path, "y", standardise=True)
    assert np.allclose(made.values[:, 0], (stamps - stamps.mean()) / stamps.std(), atol=1e-6)
    assert "float32" not in " ".join(made.remarks)
    assert "float32 rounds whole numbers in 1 column(s): 'x'" in csv_table.make(path, "y").remarks[-1]


# ---- rows held out


@settings(max_examples=30)
@given(rows=st.integers(6, 60), share=st.sampled_from([0.2, 0.25, 0.5, 0.9]), seed=st.integers(0, 2**32 - 1))
def test_a_share_of_the_rows_is_held_out_and_every_row_is_there_once(tmp_path_factory, rows, share, seed):
    path = of_rows(tmp_path_factory.mktemp("csv"), [(i, 2 * i) for i in range(rows)], "xy")
    choice = {"name": "csv", "held_out": share}
    table = csv_table.make(path, "y", held_out=share, shuffle_seed=seed).values
    training, test = datasets.parts(table, choice)
    assert len(test) == round(share * rows)
    assert sorted(table[:, 0]) == list(range(rows))
    assert np.array_equal(table[:, 1], 2 * table[:, 0])
    assert np.array_equal(table[:, 0], np.random.RandomState(seed).permutation(rows))
    in_order = csv_table.make(path, "y", held_out=share, shuffle_seed=None).values
    assert np.array_equal(datasets.parts(in_order, choice)[1][:, 0], np.arange(len(training), rows))


# ---- text


COLOURS = [(1, "red", 2), (2, "blue", 4), (3, "red", 6), (4, "Blue", 8), (5, "green", 9)]


def test_one_hot_has_a_column_per_value_in_the_order_of_code_points(tmp_path):
    path = of_rows(tmp_path, COLOURS, ["a", "colour", "y"])
    found = csv_table.make(path, "y", text_columns="one_hot")
    made = found.values
    assert found.facts == {"one_hot_columns": ["colour"]}
    values = ["Blue", "blue", "green", "red"]
    assert made.tolist() == [[a, *(float(colour == one) for one in values), y] for a, colour, y in COLOURS]
    standardised = csv_table.make(path, "y", text_columns="one_hot", standardise=True).values
    assert np.array_equal(standardised[:, 1:5], made[:, 1:5])
    assert standardised[:, 0].mean() == pytest.approx(0, abs=1e-6)


def test_a_column_that_is_dropped_may_hold_anything(tmp_path):
    path = of_rows(tmp_path, [(1, "x", 2), (2, "", 3), (3, "NA", 5)], ["a", "t", "y"])
    made = csv_table.make(path, "y", text_columns="drop")
    assert made.values.tolist() == [[1, 2], [2, 3], [3, 5]]
    assert made.facts == {"left_out_columns": ["t"]}


@pytest.mark.parametrize("drop", [["t"], [1], [-2]])
def test_columns_are_left_out_by_name_or_number(tmp_path, drop):
    path = of_rows(tmp_path, [(1, "x", 2), (2, "", 3), (3, "4", 5)], ["a", "t", "y"])
    made = csv_table.make(path, "y", drop=drop)
    assert made.values.tolist() == [[1, 2], [2, 3], [3, 5]]
    assert made.facts == {"left_out_columns": ["t"]}
    assert "drop" not in composed([*arguments(path, "y"), "dataset.drop=[]"])["dataset"], "no cell moves"
    for wrong in (["y"], ["tt"], [3]):
        assert "dataset.drop" in refused(path, drop=wrong)


def test_more_values_than_are_encoded_are_refused(tmp_path):
    rows = [(i % 5, f"n{i % (MOST_VALUES + 1)}", i) for i in range(300)]
    said = refused(of_rows(tmp_path, rows, ["a", "name", "y"]), text_columns="one_hot")
    assert f"column 'name': {MOST_VALUES + 1} different values, and at most {MOST_VALUES}" in said
    most = [(a, name, y) for a, name, y in rows if name != f"n{MOST_VALUES}"]
    table = csv_table.make(of_rows(tmp_path, most, ["a", "name", "y"]), "y", text_columns="one_hot")
    assert table.values.shape[1] == 1 + MOST_VALUES + 1


# ---- classification


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (["no", "yes", "no", "Maybe"], ["Maybe", "no", "yes"]),
        ([8, 3, 5, 3], ["3", "5", "8"]),
        (["10", "9", "-1.0", "9"], ["-1", "9", "10"]),
        (["10", "x", "x", "u", "9"], ["10", "9", "u", "x"]),
    ],
)
def test_labels_are_numbered_in_a_stable_order(tmp_path, labels, classes):
    path = of_rows(tmp_path, enumerate(labels), "xy")
    made = csv_table.make(path, "y", task="classification", standardise=True)
    assert made.facts["classes"] == classes
    named = [classes[int(number)] for number in made.values[:, 1]]
    assert named == [str(label).removesuffix(".0") for label in labels]
    assert "target_scale" not in made.facts


def test_a_network_needs_an_output_for_each_class(tmp_path):
    few = of_rows(tmp_path, [(i, i % 3) for i in range(20)], "xy")
    settings = composed(arguments(few, "y", *LABELS, "network.layers=[linear 2]", "training.batch_size=4"))
    with pytest.raises(
        ConfigError, match=r"3 classes \(0, 1, 2\), .* end in 2 outputs: end them in linear 3"
    ):
        job_of(settings, datasets.make(settings["dataset"]))


def digest(path):
    return csv_table.digest({"path": str(path)})


def test_only_regular_files_are_read(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "dangling.csv").symlink_to(tmp_path / "none.csv")
    names = ("none.csv", "", "fifo", "dangling.csv", "a\0b", "n" * 300)
    for path in (Path("/dev/zero"), *(tmp_path / name for name in names)):
        for use in (lambda path: csv_table.make(str(path), target="y"), digest):
            with pytest.raises(DataError, match=re.escape(f"{path}: cannot be read: ")):
                use(path)


def test_planning_refuses_a_pipe_without_waiting_for_it(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    sweep = {"dataset": "csv", "dataset.path": str(tmp_path / "fifo"), "dataset.target": "y"}
    (tmp_path / "grid.yaml").write_text(yaml.safe_dump({"sweeps": {"mine": sweep}}))
    with pytest.raises(DataError, match=r"sweeps\.mine: .*fifo: cannot be read: it is a pipe"):
        sweeps.read(tmp_path / "grid.yaml", Device("cpu", "Abacus"))


def test_a_file_that_has_more_in_it_than_its_size_is_refused():
    path = Path("/proc/self/status")
    if not path.exists():
        pytest.skip("there is no /proc")
    with pytest.raises(DataError, match="is it being written"):
        csv_table.make(str(path), target="y")


def test_a_file_that_is_too_large_is_refused_before_it_is_read(tmp_path, monkeypatch):
    path = Path(written(tmp_path, "x,y\n1,2\n"))
    monkeypatch.setattr(regular, "_free_memory", lambda: 10)
    for use in (lambda path: csv_table.make(str(path), target="y"), digest):
        with pytest.raises(DataError, match=r"about 8 times as much memory, but only 10 bytes are free"):
            use(path)
    os.truncate(path, csv_table.LARGEST_FILE + 1)  # sparse: it takes no space on the disk
    with pytest.raises(DataError, match=r"it has 2147483649 bytes, more than the 2147483648"):
        csv_table.make(str(path), target="y")


def test_the_digest_follows_the_content_which_may_not_change(tmp_path):
    path = written(tmp_path, "x,y\n1,2\n")
    first = digest(path)
    assert digest(path) == first == hashlib.sha256(Path(path).read_bytes()).hexdigest()
    assert len(csv_table.make(path, target="y", sha256=first).values) == 1
    written(tmp_path, "x,y\n1,2\n3,4\n")
    assert digest(path) == hashlib.sha256(Path(path).read_bytes()).hexdigest() != first
    assert "has changed" in refused(path, sha256=first)


def test_the_home_folder_may_be_written_as_a_tilde(tmp_path, monkeypatch):
    written(tmp_path, "x,y\n1,2\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert csv_table.make("~/t.csv", "y").values.tolist() == [[1, 2]]
    assert csv_table.inputs({"path": "~/t.csv"}) == [tmp_path / "t.csv"]
    assert csv_table.digest({"path": "~/t.csv"}) == digest(tmp_path / "t.csv")
    with pytest.raises(DataError, match=r"~nobody-of-this-name/t\.csv: cannot be read"):
        csv_table.make("~nobody-of-this-name/t.csv", "y")


def test_a_tilde_needs_no_quotes(monkeypatch):
    monkeypatch.setenv("HOME", "/my home")
    given = ["dataset=csv", "dataset.path=~/t.csv", "dataset.target=y", "output=~/r.json", "data=~/d.npy"]
    cell = compose.composed(given)
    assert cell["dataset"]["path"] == "~/t.csv"  # as in the record, whoever reads it
    assert (cell["output"], cell["data"]) == ("/my home/r.json", "/my home/d.npy")


COUNT = 12
FEATURE = np.array([3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8])
TARGET = 2 * FEATURE % 7 + 0.5
WORDS = ["no", "yes", "yes", "no"] * 3
A_FEATURE = "is that meant to be a feature? "
AS_NUMBER = "and is predicted as a number"
ALONE = "of 12 rows are the only one of their class"


def doubted(what):
    return f"{what}: {A_FEATURE}"


@pytest.mark.parametrize("standardise", [True, False])
@pytest.mark.parametrize(
    ("columns", "target", "keys", "said"),
    [
        # ---- features that are perhaps not meant to be some
        ([range(COUNT)], TARGET, {}, doubted("'b' numbers the rows")),
        ([range(100, 100 + COUNT)], TARGET, {}, doubted("'b' numbers the rows")),
        ([np.random.default_rng(1).permutation(COUNT)], TARGET, {}, doubted("'b' numbers the rows")),
        ([[7] * COUNT], TARGET, {}, doubted("'b' is the same in all rows")),
        ([["red"] * COUNT], TARGET, ONE_HOT, doubted("'b' is the same in all rows")),
        ([TARGET], TARGET, {}, doubted("'b' equals the target")),
        ([WORDS], WORDS, ONE_HOT | CLASSES, doubted("'b' equals the target")),
        ([[3] * COUNT] * 8, TARGET, {}, doubted("'f' is the same in all rows and 3 more")),
        ([2 * np.arange(COUNT)], TARGET, {}, None),
        ([np.arange(COUNT) + 0.5], TARGET, {}, None),
        ([[*range(COUNT - 1), 0]], TARGET, {}, None),
        ([[1, 2, 3]], [5, 3, 8], {}, None),  # of few rows any numbers may be consecutive
        # ---- a target that may be classes, and classes of one row each
        ([], [0, 1] * 6, {}, f"the target 'y' holds the whole numbers 0 to 1, {AS_NUMBER}"),
        ([], [1, 2, 3] * 4, {}, f"the target 'y' holds the whole numbers 1 to 3, {AS_NUMBER}"),
        ([], [1, 2, 3] * 4, CLASSES, None),
        *(
            ([], target, {}, None)
            for target in ([3, 4, 5] * 4, [0, 2] * 6, [0.0, 0.5, 1.0] * 4, range(12), [0] * 12)
        ),
        ([], 7 * np.arange(COUNT), CLASSES, f"12 {ALONE}"),
        ([], [*"abcdefgh", *"hhhh"], CLASSES, f"7 {ALONE}"),
        ([], [*"abcdefg", *"ggggg"], CLASSES, None),
    ],
)
def test_what_is_perhaps_not_meant_is_named(tmp_path, columns, target, keys, said, standardise):
    rows = list(zip(FEATURE, *columns, target, strict=False))
    path = of_rows(tmp_path, rows, [*"abcdefghi"[: len(columns) + 1], "y"])
    standardise = standardise and len({*target}) > 1
    remarks = csv_table.make(path, "y", standardise=standardise, **keys).remarks
    remarks = [one for one in remarks if "texts are replaced" not in one]
    assert len(remarks) == bool(said)
    assert not said or (remarks[0].startswith(f"{path}: ") and said in remarks[0])


@pytest.mark.parametrize("last", [0, 1])
def test_a_row_of_totals_is_named(tmp_path, last):
    totals = ("total", FEATURE.sum() + last, TARGET.sum())
    path = of_rows(tmp_path, [*zip("uvw" * 4, FEATURE, TARGET, strict=True), totals], "aby")
    said = "".join(csv_table.make(path, "y", text_columns="drop").remarks)
    assert ("row of totals" in said) == (not last)


@given(shift=st.integers(-5, 5), drop=st.integers(0, COUNT - 1))
def test_what_is_said_changes_no_value(tmp_path_factory, shift, drop):
    ids = np.delete(np.arange(COUNT + 1), drop) + shift
    rows = list(zip(ids, TARGET, strict=True))
    made = csv_table.make(of_rows(tmp_path_factory.mktemp("csv"), rows, "xy"), "y")
    assert np.array_equal(made.values, np.array(rows, np.float32))
    assert bool(made.remarks) == (drop in (0, COUNT))


def test_they_are_printed_where_a_table_is_made(tmp_path, capsys):
    path = of_rows(tmp_path, list(zip(range(COUNT), FEATURE, TARGET, strict=True)), "aby")
    keys = ["dataset=csv", f"dataset.path={path}", "dataset.target=y", "training.batch_size=4"]
    assert cli.main(["prepare", *keys, f"output={tmp_path / 'made.npy'}"]) == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"snn: note: {path}: 'a' numbers the rows: is that")
    datasets.say_remarks(datasets.Table(np.zeros((2, 2), np.float32), remarks=("a\nb.csv: two lines",)))
    assert capsys.readouterr().err == "snn: note: a\\nb.csv: two lines\n"


@pytest.mark.parametrize(
    ("given", "named"), [("2", "2"), (2, "2"), (0, "0"), (-1, "2"), (-2, "1"), ("1", "1")]
)
def test_a_number_that_is_a_name_in_the_header_is_that_name(tmp_path, given, named):
    """As of years; the columns are named by what they do not stand at."""
    header, rows = ["id", "0", "1", "2"], [(5, 6, 7, 8), (1, 2, 3, 4)]
    path = of_rows(tmp_path, rows, header)
    made = csv_table.make(path, given)
    assert made.values[:, -1].tolist() == [row[header.index(named)] for row in rows]
    notes = [line for line in made.remarks if "the target, given as" in line]
    assert notes == (
        [f"{path}: the target, given as {given}, is the column {named!r}"] if given != named else []
    )


def test_a_number_that_is_no_column_is_refused_with_the_header(tmp_path):
    path = of_rows(tmp_path, [(5, 6), (1, 2)], ["gdp", "2019"])
    with pytest.raises(DataError, match="it must be between -2 and 1, or a name in the header: gdp, 2019"):
        csv_table.make(path, 2021)


def test_what_is_left_out_is_said(tmp_path):
    rows = [(i, "" if i < 3 else i % 7, f"n{i}", i * i % 11) for i in range(5, -9, -1)]
    path = of_rows(tmp_path, rows, "abcy")
    rows, columns = csv_table.make(path, "y", text_columns="drop", missing="drop_rows").remarks
    assert "left out: 11 of 14 rows" in rows
    assert "11 in 'b'" in rows
    assert columns == f"{path}: left out: column 'c'"
