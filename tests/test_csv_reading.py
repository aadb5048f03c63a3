"""How CSV files are read: one table of cases, each with its values, or with what its error must name."""

import csv
import gzip
import io
import re
import shlex
import zipfile

import numpy as np
import pandas as pd
import pytest
from csv_tables import read
from hypothesis import given, settings
from hypothesis import strategies as st

from snn.config.compose import composed
from snn.datasets import csv_table
from snn.datasets.csv_table import MOST_COLUMNS
from snn.errors import DataError, SnnError
from snn.recommending.settings import _setting


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

READ = {
    # ---- what separates columns
    "commas": ("x,y\n1,2\n", {}, [[1, 2]], None),
    "semicolons": ("x;y\n1;2\n", {}, [[1, 2]], "semicolons"),
    "semicolons and a decimal comma": (
        "a, unit;y, unit\n1,5;2\n",
        {"target": "y, unit"},
        [[1.5, 2]],
        "decimal commas",
    ),
    "a comma in the other columns' texts": (
        "a;b;y\nx, z;u, v;1\nz, x;v, u;2\n",
        {**DROP, "target": "y"},
        "no column but the target",
        None,
    ),
    "tabs": ("x\ty\n1\t2\n", {}, [[1, 2]], "tabs"),
    "tabs and texts with blanks": (
        "name\tx\ty\nNew York\t1\t2\nOslo\t3\t4\n",
        DROP,
        [[1, 2], [3, 4]],
        "tabs",
    ),
    "tabs and blanks between thousands": (
        "0.5\t1 000.5\tred\n",
        {**ONE_HOT, "target": 1},
        [[0.5, 1, 1000.5]],
        "tabs",
    ),
    "blanks, and a tab in each line": ("7 2\t3\n4 5\t6\n", {"target": -1}, [[7, 2, 3], [4, 5, 6]], "blanks"),
    "bars": ("x|y\n1|2\n", {}, [[1, 2]], "bars"),
    "blanks": (
        " 0.01  18.00  2 24.0\n 12.5   0.00  7 21.6\n",
        {"target": -1},
        [[0.01, 18, 2, 24], [12.5, 0, 7, 21.6]],
        "blanks, no header",
    ),
    "blanks as one is given": (
        " 0.01  18.00\n 12.5   0.00\n",
        {"target": -1, "delimiter": " ", "header": False},
        [[0.01, 18], [12.5, 0]],
        None,
    ),
    "blanks, a tab, quotes": ('x "the y"\n1 \t 2  \n3  4\n', {"target": "the y"}, [[1, 2], [3, 4]], "blanks"),
    "a colon": ("x:y\n1:2\n", {"delimiter": ":"}, [[1, 2]], None),
    "for Excel": ("sep=;\nx;y\n1;2\n", {}, [[1, 2]], "semicolons, header in line 2"),
    "for Excel, with a mark": ('\ufeff"SEP=;"\r\nx;y\r\n1;2\r\n', {}, [[1, 2]], "semicolons"),
    "lines that end in CR": ("x,y\r1,2\r3,4\r", {}, [[1, 2], [3, 4]], None),
    "blank lines": ("\n\nx,y\n\n1,2\n  \n3,4\n\n", {}, [[1, 2], [3, 4]], "header in line 3"),
    "blanks around cells": ('x, y\n 1 , 2\n"3" ,4\n'.replace('"3" ', "3"), {}, [[1, 2], [3, 4]], None),
    "one column": ("x\n1\n", {}, "line 1 dataset.delimiter", None),
    "another delimiter": ("x,y\n1,2\n", {"delimiter": ";"}, "dataset.delimiter=null", None),
    "another delimiter within quotes": ('"x";"y"\n1;2\n', {"delimiter": ","}, "dataset.delimiter=null", None),
    # ---- numbers
    "decimal commas": ("x;y\n1,5;2\n3;4,25\n", {}, [[1.5, 2], [3, 4.25]], "semicolons, decimal commas"),
    "decimal commas in quotes": ('x,y\n"1,5",2\n"3,25",4\n', {}, [[1.5, 2], [3.25, 4]], "decimal commas"),
    "points between thousands": (
        "x;y\n1.234,5;2\n1.234.567;4\n",
        {},
        [[1234.5, 2], [1234567, 4]],
        "'.' between thousands",
    ),
    "points in another column": (
        "a;b;y\n67.177;15,8;1,5\n80.557;16,1;2,5\n",
        {},
        [[67177, 15.8, 1.5], [80557, 16.1, 2.5]],
        "'.' between",
    ),
    "points of both kinds": (
        "a;b;y\n0.177;15,8;1\n8.5;16,1;2\n4;17,1;3\n",
        {},
        "line 2 column 'a' '0.177' dataset.na_values",
        None,
    ),
    "commas between thousands": (
        'x,y\n"1,234",2.5\n"12,345",4\n',
        {},
        [[1234, 2.5], [12345, 4]],
        "',' between thousands",
    ),
    "commas of two millions": (
        'x,y\n"1,234,567",2\n9,4\n',
        {},
        [[1234567, 2], [9, 4]],
        "',' between thousands",
    ),
    "commas in doubt": ("x;y\n1,100;2\n", {}, "line 2 column 'x' dataset.decimal dataset.thousands", None),
    "commas as decimals": ("x;y\n1,100;2\n", {"decimal": ","}, [[1.1, 2]], "semicolons"),
    "commas as thousands": ("x;y\n1,100;2\n", {"thousands": ","}, [[1100, 2]], "semicolons"),
    "blanks between thousands": (
        "x;y\n1 234,5;2\n12\u00a0345;3\n",
        {},
        [[1234.5, 2], [12345, 3]],
        "between thousands",
    ),
    "apostrophes": ("x,y\n1'234.5,2\n12’345,3\n", {}, [[1234.5, 2], [12345, 3]], "between thousands"),
    "points as thousands": ("x,y\n1.234,2\n", {"thousands": "."}, [[1234, 2]], "decimal commas"),
    "points, which may be between thousands": ("x,y\n1.234,2\n", {}, [[1.234, 2]], "dataset.thousands"),
    "points, which are decimals": ("x,y\n1.234,2\n0.123,3\n", {}, [[1.234, 2], [0.123, 3]], None),
    "points, and others in texts": (
        "firm;x;y\nSmith Co.;1.234;2\nSmith Co.;5.678;3\n",
        DROP,
        [[1.234, 2], [5.678, 3]],
        "dataset.thousands",
    ),
    "points, and others in missing values": (
        "x;y\n1.234;2\nn.a.;3\n",
        {**ROWS, "na_values": ["n.a."]},
        [[1.234, 2]],
        "dataset.thousands",
    ),
    "a point before an exponent": (
        "a;x;y\n1,5;2.345e-05;1\n2,5;3.456e-05;2\n3,5;3.456e-05;2\n",
        {"decimal": ","},
        "line 2 column 'x' '2.345e-05'",
        None,
    ),
    "one mark for both": (
        "x,y\n1.5,2\n",
        {"thousands": ".", "decimal": "."},
        "dataset.thousands dataset.decimal",
        None,
    ),
    "percent": ("x,y\n12%,2\n3.5 %,4\n", {}, [[12, 2], [3.5, 4]], "% in 'x'"),
    "currency": ("x;y\n$5;2\n-$1,000.5;4\n", {}, [[5, 2], [-1000.5, 4]], "$ in 'x'"),
    "euros": ("x;y\n€ 5,00;2\n7,5\u00a0€;4\n", {}, [[5, 2], [7.5, 4]], "€ in 'x'"),
    "two currencies": ("x,y\n€3,1\n$4,2\n€5,3\n", {}, "line 3 column 'x' '$4' dataset.na_values", None),
    "a number without the unit": (
        "x,y\n1%,1\n2%,2\n0.02,3\n",
        {},
        "line 4 column 'x' '0.02' dataset.na_values",
        None,
    ),
    "two units at a number": ("x,y\n1,1\n$1%,2\n2,2\n", {}, "line 3 column 'x' '$1%'", None),
    "numbers in quotes": ('"x","y"\n"1.5","2"\n', {}, [[1.5, 2]], None),
    "exponents and signs": ("x,y\n+1e+2,-.5\n1E-1,5.\n", {}, [[100, -0.5], [0.1, 5]], None),
    "infinite": ("x,y\n1,2\n-inf,2\n", {}, "line 3 column 'x' '-inf' dataset.na_values", None),
    "beyond float32": ("x,y\n1,2\n1e39,2\n", {}, "line 3 column 'x' '1e39' dataset.na_values", None),
    "beyond float64": ("x,y\n1,2\n3,1e400\n", {}, "line 3 column 'y' '1e400' dataset.na_values", None),
    "hexadecimal": ("x,y\n1,2\n0x10,4\n", {}, "line 3 column 'x' '0x10' dataset.na_values", None),
    "two signs": ("x,y\n1,2\n0E+-0,4\n", {}, "line 3 column 'x' '0E+-0' dataset.na_values", None),
    "underscores": ("x,y\n1,2\n1_0,4\n", {}, "line 3 column 'x' '1_0' dataset.na_values", None),
    "Arabic digits": ("x,y\n1,2\n٣,4\n", {}, "line 3 column 'x' '٣' dataset.na_values", None),
    "a control character": ("x,y\n1,2\n1\x0b,4\n", {}, "line 3 column 'x' '1\\x0b'", None),
    "a mark within": ("x,y\n1,2\n\ufeff1,4\n", {}, "line 3 column 'x' '\\ufeff1'", None),
    "dates": ("x,y\n2020-01-01,2\n2020-01-02,4\n", {}, "line 2 column 'x' '2020-01-01'", None),
    "dates as a target": ("x,y\n1,2020-01-01\n2,2020-01-02\n", {}, "line 2 column 'y' cross_entropy", None),
    # ---- stray markers among numbers
    "a division by zero": (
        f"a;b;y\n{COMMAS}#DIV/0!;1,25;#DIV/0!\n",
        {},
        "line 42 column 'a' 'y' '#DIV/0!' dataset.na_values",
        None,
    ),
    "a division by zero that is missing": (
        "a;b;y\n1,5;1,25;3,1\n#DIV/0!;1,25;#DIV/0!\n",
        {**ROWS, "na_values": ["#DIV/0!"]},
        [[1.5, 1.25, 3.1]],
        "decimal commas",
    ),
    **{
        f"{marker} {list(keys.values())}": (
            f"a,b,y\n{FEW}{marker},1,2\n",
            keys,
            "line 42 column 'a' dataset.na_values",
            None,
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
    "a marker in a target of classes": (
        f"a,b,y\n{FEW}1,1,x\n",
        {**CLASSES},
        "line 42 column 'y' 'x' dataset.na_values",
        None,
    ),
    "many markers": (
        "a,b,y\n" + "1,2,3\nx,2,3\n" * 9,
        ONE_HOT,
        "line 3 column 'a' 'x' dataset.na_values",
        None,
    ),
    "numbers as missing values": (
        "x,y\n1,2\n-999,3\n-999.0,3\n",
        {**ROWS, "na_values": [-999]},
        [[1, 2]],
        None,
    ),
    "a quote that is closed rows later": (
        'a,note,y\n1,"u,2\n3,v,4\n5,w",6\n7,u,8\n',
        DROP,
        [[1, 6], [7, 8]],
        "rows over several lines (1, the first in line 2)",
    ),
    "a second header": ("a,b,y\n1,2,3\na,b,y\n4,5,6\n", {}, [[1, 2, 3], [4, 5, 6]], "1 repeated header"),
    "a second header of texts": (
        "a,y\nu,1\na,y\nv,2\n",
        ONE_HOT,
        [[1, 0, 1], [0, 1, 2]],
        "1 repeated header",
    ),
    "zeros before numbers": ("zip,y\n98101,1\n01234,2\n", {}, [[98101, 1], [1234, 2]], "'01234' in 'zip'"),
    "a line of units": (
        "a,b,y\n[m],[s],[-]\n1,2,3\n4,5,6\n",
        {},
        "line 2 column 'a' '[m]' dataset.na_values",
        None,
    ),
    "decimal commas as texts": (
        f"oven;temp;y\n{OVENS}",
        {**ONE_HOT, "delimiter": ";"},
        (40, 4),
        "decimal commas",
    ),
    "a comment behind a number": (
        "x,y\n1,2\n3,4 # sic\n5,6\n",
        {},
        "line 3 column 'y' dataset.comment",
        None,
    ),
    # ---- comments, other lines, headers
    "comments": (
        "# made by an archive\n# COLUMN y: mass\na,b,y\n1,2,3\n",
        {},
        [[1, 2, 3]],
        "2 comment lines skipped, header in line 3",
    ),
    "comments within": (
        "a,b,y\n1,2,3\n# a note\n4,5,6\n% a note\n",
        {},
        [[1, 2, 3], [4, 5, 6]],
        "2 comment lines skipped",
    ),
    "comments as wide as the table": (
        "# a, b, c\na,b,y\n1,2,3\n4,5,6\n",
        {},
        [[1, 2, 3], [4, 5, 6]],
        "1 comment line skipped",
    ),
    "a header behind a comment's mark": (
        "# a,b,y\n1,2,3\n4,5,6\n",
        {"target": "y"},
        [[1, 2, 3], [4, 5, 6]],
        None,
    ),
    "a comment's mark": (
        'x,y ! why\n1,2\n! no\n3,"4"!5\n',
        {"comment": "!"},
        [[1, 2], [3, 4]],
        "1 comment line skipped",
    ),
    "the end of a DOS file": ("x,y\n1,2\n\x1a", {}, "line 3 columns", None),
    "another comment": ("x,y\n1,2\n! no\n3,4\n", {}, "line 3 dataset.comment", None),
    "lines before": (
        "Station: Oslo\nExported 2024\n\na;b;y\n1;2;3\n",
        {},
        [[1, 2, 3]],
        "2 other lines skipped, header in line 4",
    ),
    "empty cells before": (
        "Report,,\n,,\na,b,y\n1,2,3\n4,5,6\n",
        {},
        [[1, 2, 3], [4, 5, 6]],
        "2 other lines skipped, header in line 3",
    ),
    "empty cells before a header": (
        "Report,,\n,,\na,b,y\n1,2,3\n",
        {"header": 3},
        [[1, 2, 3]],
        "header in line 3",
    ),
    "a line of texts and numbers before": (
        "2,u,v\n1,2,3,4,5,7\n2,2,3,4,5,9\n",
        {"target": -1},
        [[1, 2, 3, 4, 5, 7], [2, 2, 3, 4, 5, 9]],
        "1 other line skipped, no header, data from line 2",
    ),
    "values before a header": (
        "Device,XY12\nRate,10\na,b,y\n1,2,3\n4,5,6\n",
        {},
        "line 1 dataset.header=3",
        None,
    ),
    "values as wide before a header": (
        "Device,XY12,u\nRate,10,v\na,b,y\n1,2,3\n4,5,6\n",
        {},
        "dataset.target 'y' dataset.header=3",
        None,
    ),
    "a header without a name for row names": (
        'a b y\n"1" 2 3 4\n"2" 5 6 7\n',
        {},
        "line 1 columns header",
        None,
    ),
    "delimiters at the end of lines": (
        "a,y,\n1,2,\n3,4,\n",
        {"target": -1},
        [[1, 2], [3, 4]],
        "1 nameless empty column skipped",
    ),
    "bars around lines": ("|a|y|\n|1|2|\n", {}, [[1, 2]], "2 nameless empty columns skipped"),
    "a header's line": ("u,v,w\na,b,y\n1,2,3\n", {"header": 2}, [[1, 2, 3]], "header in line 2"),
    "no such header": ("a,b,y\n1,2,3\n", {"header": 7}, "dataset.header", None),
    "a short row": ("x,y\n1,2\n3\n", {}, "line 3 columns", None),
    "a long row": ("x,y\n1,2\n3,4,5\n", {}, "line 3 columns", None),
    "a short header": ("a,b\n1,2,3\n1,2,3\n", {"target": "b"}, "line 1 columns", None),
    "a short first row of numbers": ("1,2\n1,2,3,4\n1,2,3,4\n", {"target": 0}, "line 1 columns", None),
    "a first row of data": (KINDS, {**ONE_HOT, "target": -1}, (40, 6), "no header, data from line 1"),
    "a first row of numbers": ("1.5,2\n3,4\n", {"target": 1}, [[1.5, 2], [3, 4]], "no header"),
    "a first row of data with a marker": (
        "K,n.a.,0.802,5\nL,0.118,0.761,18\nM,0.38,0.21,1\n",
        {**ONE_HOT, "target": -1},
        "line 1 dataset.header=true dataset.header=false",
        None,
    ),
    "a first row of consecutive numbers": (
        "1,2,3\n3,4,7\n",
        {"target": 0},
        "line 1 dataset.header=true dataset.header=false",
        None,
    ),
    "texts without a header": (
        "u,v\nv,u\nu,u\nv,v\n",
        {**ONE_HOT, **CLASSES, "target": 1},
        [[1, 0, 1], [0, 1, 0], [1, 0, 0], [0, 1, 1]],
        "no header",
    ),
    "texts with a header": ("a,y\nv,u\nu,u\n", {**ONE_HOT, **CLASSES}, [[0, 1, 0], [1, 0, 0]], None),
    "years as names": (
        "gdp,2019,2020\n1.5,2,3\n2.5,3,4\n",
        {"target": 2020},
        [[1.5, 2, 3], [2.5, 3, 4]],
        None,
    ),
    "a header that is data": (
        "x,y\n1,2\n3,4\n",
        {"header": False, "target": 1},
        "line 1 column '0' 'x' dataset.header=true",
        None,
    ),
    "a header of numbers": ("1,2\n3,4\n", {"header": True, "target": 1}, [[4, 3]], None),
    "a target by name without a header": (
        "1,2\n3,4.5\n",
        {"header": False},
        "dataset.target 'y' dataset.header=true",
        None,
    ),
    "another name": ("x,price\n1,2\n", {"target": "prize"}, "dataset.target 'prize' 'price'", None),
    "another case": ("x,y\n1,2\n", {"target": "Y"}, "dataset.target 'Y' 'y'", None),
    "a number too far": ("x,y\n1,2\n", {"target": 2}, "dataset.target 2 -2 1", None),
    "names twice": ("x,x,y\n1,2,3\n", {}, [[1, 2, 3]], None),
    "the target twice": ("y,y\n1,2\n", {}, "dataset.target 'y' rename", None),
    "a number that is a name twice": (
        "0,0,y\n1,2,3\n",
        {"header": 1, "target": 0},
        "dataset.target 0 rename",
        None,
    ),
    "names that are empty": (",x,y\n0.5,1,2\n", {}, [[0.5, 1, 2]], None),
    "a name with a control character": ("x\x1b[2J,y\n1,2\n", {}, "line 1 'x\\x1b[2J'", None),
    **{
        f"the target {wrong!r}": ("x,y\n1,2\n", {"target": wrong}, f"dataset.target {wrong!r}", None)
        for wrong in (True, 1.0, None, ["y"])
    },
    # ---- texts and missing values
    "missing": (
        "a,b,y\n1,2,3\n,NA,4\n5,?,6\n7,8,nan\n",
        {},
        "line 3 column 'a' 'b' 'y' dataset.missing=drop_rows",
        None,
    ),
    "missing, left out": ("a,b,y\n1,2,3\n,NA,4\n5,?,6\n7,8,nan\n", ROWS, [[1, 2, 3]], None),
    "none is left": ("a,b,y\n,5,\n2,6,\n,7,8\n", ROWS, "'a' 'y'", None),
    "no value in a column": ("a,b,y\n1,,2\n2,NA,3\n", ROWS, "'b'", None),
    "no value in the target": ("a,y\n1,\n2,\n", ROWS, "'y' target", None),
    "texts": (
        "a,c,y\n1,red,2\n2,blue,4\n",
        {},
        "line 2 column 'c' 'red' dataset.text_columns=one_hot dataset.text_columns=drop",
        None,
    ),
    "texts as columns": ("a,c,y\n1,red,2\n2,blue,4\n", ONE_HOT, [[1, 0, 1, 2], [2, 1, 0, 4]], None),
    "texts, left out": ("a,c,y\n1,red,2\n2,,4\n", DROP, [[1, 2], [2, 4]], None),
    "only texts": ("c,y\nred,2\nblue,4\n", DROP, "'y'", None),
    "classes named None": (
        "a,y\n1,None\n2,NA\n3,yes\n4,null\n",
        CLASSES,
        [[1, 1], [2, 0], [3, 3], [4, 2]],
        "dataset.na_values",
    ),
    "no class but None": (
        "a,y\n1,None\n2,NA\n3,None\n",
        CLASSES,
        [[1, 1], [2, 0], [3, 1]],
        "dataset.na_values",
    ),
    "a class that is missing": (
        "a,y\n1,None\n2,no\n3,yes\n4,\n",
        {**CLASSES, **ROWS, "na_values": ["None"]},
        [[2, 0], [3, 1]],
        None,
    ),
    "classes that float64 rounds": (
        "a,y\n1,12345678901234560\n2,12345678901234561\n",
        CLASSES,
        "line 2 column 'y' 12345678901234560",
        None,
    ),
    "a class that is not whole": ("a,y\n1,0\n2,1.5\n", CLASSES, "line 3 column 'y' 1.5", None),
    "a text that is too long": (f"a,c,y\n1,red,2\n2,{'x' * 201},4\n", ONE_HOT, "line 3 column 'c'", None),
    "a text with a line break": ('a,c,y\n1,"one\ntwo",2\n2,red,4\n', ONE_HOT, "line 2 column 'c'", None),
    "a line break, left out": ('a,c,y\n1,"one\ntwo",2\n2,red,4\n', DROP, [[1, 2], [2, 4]], "over several"),
    "a line behind a line break": (
        'a,c,y\n1,"one\ntwo",2\n2,red,x\n3,red,4\n4,red,4\n',
        DROP,
        "line 4 column 'y' 'x'",
        None,
    ),
    # ---- files
    "an empty file": ("", {}, "", None),
    "a header only": ("x,y\n", {}, "rows", None),
    "a quote without end": ('x,y\n1,2\n"1,3\n4,5\n', {}, "line 3", None),
    "letters behind a quote": ('x,y\n"1"2,3\n', {}, "line 2", None),
    "a huge cell": ("x,y\n" + "1" * 200_000 + ",2\n", {}, "line 2", None),
    "NUL bytes": ("x,y\n1,2\n1\0,4\n", {}, "NUL", None),
    "a NUL byte far behind": (
        "x,y\n" + "1,2\n" * 2000 + "1\0,4\n",
        {},
        "line 2002 column 'x' '1\\x00'",
        None,
    ),
    "a byte order mark": ("\ufeffx,y\n1,2\n", {"target": "x"}, [[2, 1]], None),
    "UTF-16": ("x;y\n1;2\n".encode("utf-16"), {}, [[1, 2]], "utf-16"),
    "UTF-16 without a mark": ("x,y\n1,2\n".encode("utf-16-le"), {}, "UTF-16 dataset.encoding", None),
    "UTF-16 that is given": ("x,y\n1,2\n".encode("utf-16-le"), {"encoding": "utf-16-le"}, [[1, 2]], None),
    "Windows": ("Größe;y\n1;2\n".encode("cp1252"), {"target": "Größe"}, [[2, 1]], "cp1252"),
    "the euro of Windows": ("€,y\n1,2\n".encode("cp1252"), {"target": "€"}, [[2, 1]], "cp1252"),
    "Latin-1": ("°;y\n1;2\n".encode("latin1"), {"target": "°"}, [[2, 1]], "cp1252"),
    "Central Europe": ("Łódź;żółw;y\n1;2;3\n".encode("cp1250"), {"target": "Łódź"}, [[2, 3, 1]], "cp1250"),
    "Cyrillic": ("рост;Масса тела;y\n1;2;3\n".encode("cp1251"), {"target": "рост"}, [[2, 3, 1]], "cp1251"),
    "a byte that Windows has not": (
        b"a,name,y\n1,x\x81y,3\n2,z,4\n",
        ONE_HOT,
        [[1, 1, 0, 3], [2, 0, 1, 4]],
        "cp850",
    ),
    "damaged UTF-8": (
        "name,y\nMüller,1\nJäger,2\nSchäfer,3\n".encode().replace("Jä".encode(), b"J\xe4"),
        ONE_HOT,
        "line 3 0xe4 utf-8 dataset.encoding",
        None,
    ),
    "damaged UTF-8 with a mark": (b"\xef\xbb\xbfname,y\n1,2\n3,4\xe4\n", {}, "line 3 0xe4 utf-8", None),
    "files in two encodings": (
        "name,y\nMüller,1\n".encode() + "Jäger,2\n".encode("cp1252"),
        ONE_HOT,
        "line 3 0xe4 utf-8 dataset.encoding",
        None,
    ),
    "half a letter of UTF-16": ("x;y\n1;2\n".encode("utf-16")[:-1], {}, "0x0a utf-16", None),
    "Chinese": ("名字,身高,y\n张三,1,2\n李四,3,4\n".encode("gb18030"), DROP, [[1, 2], [3, 4]], "gb18030"),
    "Japanese": ("名前,身長,y\n田中,1,2\n鈴木,3,4\n".encode("cp932"), DROP, [[1, 2], [3, 4]], "cp932"),
    "another encoding": (
        "Größe,y\n1,2\n".encode("cp1252"),
        {"encoding": "utf-8"},
        "line 1 0xf6 dataset.encoding",
        None,
    ),
    "gzip": (gzip.compress(b"x,y\n1,2\n", mtime=0), {}, "gzip", None),
    "zip": (zipped("t.csv"), {}, "zip", None),
    "Excel": (zipped("xl/workbook.xml"), {}, "Excel", None),
    "Parquet": (b"PAR1\x15\x04", {}, "Parquet", None),
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
            in_recommend = _setting(word, {"dataset": "csv"})[1]
            assert (in_recommend[0] if isinstance(in_recommend, list) else in_recommend) == more[key]
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

WIDTH = 40_000
"""What looked at each of them for each of them would take minutes."""


@pytest.mark.parametrize(
    ("cells", "keys", "expected"),
    [
        (("1", "2"), {}, WIDTH + 1),
        (("x", "x"), ONE_HOT, WIDTH + 1),
        (("", ""), {}, "'a5' and 39,994 more"),
        (("x", "inf"), {}, "'a5' and 39,994 more"),
        (("x", "y"), DROP, "no column but the target 'y'"),
    ],
)
def test_a_wide_table_takes_one_pass_over_its_columns(tmp_path, cells, keys, expected):
    rows = [[cell] * WIDTH + [str(number)] for number, cell in enumerate(cells)]
    text = "".join(",".join(row) + "\n" for row in [[*(f"a{i}" for i in range(WIDTH)), "y"], *rows])
    if isinstance(expected, int):
        assert read(tmp_path, text, target="y", **keys).values.shape == (2, expected)
        return
    with pytest.raises(DataError, match=expected):
        read(tmp_path, text, target="y", **keys)


def test_a_table_has_at_most_so_many_columns(tmp_path):
    text = ",".join(["1"] * (MOST_COLUMNS + 1)) + "\n"
    with pytest.raises(DataError, match="line 1: 100,001 columns"):
        read(tmp_path, text * 2, target=-1, header=False)
