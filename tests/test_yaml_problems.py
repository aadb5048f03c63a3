"""A file that is not YAML: the line that is probably wrong is shown, with what would be right."""

import pytest
import yaml
from test_refusals import cases

from snn.config.yaml_file import read_text
from snn.errors import ConfigError

SWEEP = "sweeps:\n  x:\n"
PARSER = ("did not find", "found", "expected", "token", "block", "mapping", "flow", "context", "stream")


PROBLEMS = r"""
    strategy: graph|   device: cpu => 4 '   device: cpu': the indentation is that of no line above
    strategy: graph| device: cpu => 4 ' device: cpu': the indentation is that of no line above
    union:|      - a: 1|     - b: 2 => 5 '     - b: 2': the indentation is that of no line above
    strategy: graph|      device: cpu => 4 it is indented more than the key above, which has a value
    strategy graph|    device: cpu => 4 the line above has no colon with a space behind it
    strategy:graph|    device: cpu => 4 the line above has no colon with a space behind it
    device: cpu|    strategy graph => 4 '    strategy graph': a colon, or a dash, is missing
    strategy:|      - graph|      pool|      - a => 5 '      pool': a colon, or a dash, is missing
    union:|      - a: 1|      b: 2 => 5 a list, of which each element begins with a dash
    strategy: - graph => 3 a list behind its key is written in brackets, [a, b]; with dashes, each
    TABstrategy: graph => 3 '\tstrategy: graph': there is a tab: lines are indented with spaces
    strategy: pool|TABkernel: naive => 4 '\tkernel: naive': there is a tab: lines are
    a key: b: c => 3 a value that has a colon and a space is written in quotes
    a : b : c => 3 a value that has a colon and a space is written in quotes
    strategy: [graph, pool|    device: cpu| => 3 pool': the list is not closed with ], or a comma
    strategy: [graph,, pool] => 3 a value or a closing bracket is missing, or there is a comma
    strategy: [graph]] => 3 ']' stands behind the end of a value: quote the whole value if it is
    strategy: 'graph' pool => 3 'pool' stands behind the end of a value
    strategy: 'graph|    device: cpu| => 3 a quote is opened and not closed
    dataset.path: @file => 3 a value that begins with @ is written in quotes
    dataset.path: * => 3 a value that begins with * is written in quotes
    dataset.path: a: b => 3 a value that has a colon and a space is written in quotes
    dataset.path: "C:\qdata" => 3 in double quotes a backslash has a meaning: use single quotes
    {strategy: graph||| => 3 the braces are not closed with }, or a comma is missing
"""


@pytest.mark.parametrize(("text", "place"), cases(PROBLEMS))
def test_the_line_is_shown_with_what_would_be_right(text, place):
    """A bar stands for the end of a line."""
    line, _, said = place.partition(" ")
    text = f"    {text}".replace("|", "\n").replace("    TAB", "\t").replace("TAB", "\t")
    with pytest.raises(ConfigError) as refused:
        read_text(SWEEP + text, "bad.yaml")
    message = str(refused.value)
    assert message.startswith(f"bad.yaml, line {line}: ") and said in message and "\n" not in message
    assert not any(word in message for word in PARSER)
    assert isinstance(refused.value.__cause__, yaml.YAMLError)


def test_what_has_no_words_of_its_own_still_has_its_line():
    with pytest.raises(
        ConfigError, match=r"bad\.yaml, line 1: '%YAML 3\.0': it cannot be read as YAML: found"
    ):
        read_text("%YAML 3.0\n---\na: 1", "bad.yaml")
