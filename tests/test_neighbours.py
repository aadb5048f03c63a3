"""Which strategies a busy GPU beside their own slows down, and what that decides."""

import pytest

from snn.config import groups
from snn.errors import ConfigError
from snn.grid import neighbours
from snn.strategies.common.traits import on_host


def test_host_driven_strategies_are_touched_and_single_launches_are_not():
    touched = {name for name in groups.names("strategy") if neighbours.touches(groups.load("strategy", name))}
    assert {"reference", "combined", "preallocated", "pipelined", "torch_loader"} <= touched
    assert not {"graph", "persistent", "ensemble"} & touched
    assert {name for name in groups.names("strategy") if on_host(groups.load("strategy", name))} <= touched


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("untouched: [grahp]", "untouched: 'grahp' is not a strategy: async_pool, "),
        ("untouched: [[graph]]", "untouched: ['graph'] is not a strategy"),
        ("untouched: graph", "untouched is 'graph': it must be a list of strategies"),
        (
            "untouched: [graph, graph]",
            "untouched is ['graph', 'graph']: it must be a list of strategies, each once",
        ),
        ("touched: [graph]", "it must have the key untouched, and no other"),
        ("untouched: []\nmore: 1", "it must have the key untouched, and no other"),
        ("- graph", "neighbours.yaml"),
    ],
)
def test_a_file_that_names_no_strategies_is_refused(tmp_path, content, said):
    path = tmp_path / "neighbours.yaml"
    path.write_text(content)
    with pytest.raises(ConfigError) as caught:
        neighbours.untouched(path)
    assert said in str(caught.value) and str(path) in str(caught.value)


def test_a_file_may_name_none(tmp_path):
    path = tmp_path / "neighbours.yaml"
    path.write_text("untouched: []")
    assert neighbours.untouched(path) == frozenset()
