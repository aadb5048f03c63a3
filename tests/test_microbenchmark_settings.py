"""The settings of microbenchmarks: in the grid, on a command line, and what is wrong with them."""

import json

import hypothesis
import pytest
from hypothesis import strategies as st
from test_microbenchmarks import CPU, GRID, H200, SMALL
from test_refusals import cases

from snn import cli
from snn.config.groups import CONFIG
from snn.errors import ConfigError
from snn.grid import grid_file, plans
from snn.microbenchmarks.settings import SETTINGS, resolved


def test_the_grid_has_every_microbenchmark_with_smaller_settings_on_a_cpu():
    on_gpu, on_cpu = (plans.microbenchmarks(CONFIG / "grid.yaml", GRID, device) for device in (H200, CPU))
    assert set(on_gpu) == set(on_cpu) == set(SETTINGS)
    asked = resolved("memory_calls", on_gpu["memory_calls"])
    assert (asked["sizes"][0], asked["sizes"][-1]) == (256, 1 << 30)
    assert max(resolved("memory_calls", on_cpu["memory_calls"])["sizes"]) < 1 << 30
    assert resolved("memory_access", on_gpu["memory_access"])["bytes"] == 1 << 30


WRONG = r"""
    memory_calls sizes ["256"] => a list of one or more, none of them twice, each a size from 4B
    memory_calls sizes ["8GiB"] => ['8GiB']: it must be a list
    memory_calls sizes [] => sizes is []: it must be a list of one or more
    memory_calls sizes ["1KiB","1024B"] => sizes is ['1KiB', '1024B']: it must be a list of one or more
    memory_calls streams [0] => streams is [0]: it must be a list
    memory_calls streams [true] => streams is [True]: it must be a list
    memory_calls samples 5 => samples is 5: it must be a whole number from 6 to 1000
    memory_calls seconds -1 => seconds is -1: it must be a number of seconds from 0 to 60
    memory_calls strides [1] => 'strides' is not a key here: one of sizes,
    memory_access fields [3] => each one of 1, 2, 4, 8
    memory_access vectors [true] => vectors is [True]: it must be a list
    memory_access offsets [32] => each a whole number from 0 to 31
    fragmentation traces ["mixed"] => each one of random_lifetimes, growing,
    fragmentation caps [99] => each a whole number from 100 to 1000
    memory_map trace ["growing"] => trace is ['growing']: it must be one of random_lifetimes,
    memory_map calls 10 => calls is 10: it must be a whole number from 100 to 100000
    shapes peers ["fastest"] => each one of async_pool,
    shapes shapes 0 => shapes is 0: it must be a whole number from 1 to 2000
    memory_access bytes 4096 => bytes is 4096: it must be a size from 65536B to 4GiB
"""


@pytest.mark.parametrize(("setting", "said"), cases(WRONG))
def test_wrong_settings_are_refused_by_file_key_and_value(tmp_path, capsys, setting, said):
    name, key, text = setting.split()
    value = json.loads(text)
    with pytest.raises(ConfigError) as error:
        plans.microbenchmarks(
            CONFIG / "grid.yaml", {"microbenchmarks": {name: {**SMALL[name], key: value}}}, H200
        )
    assert f"grid.yaml: microbenchmarks.{name}: " in str(error.value)
    assert said in str(error.value)
    output = tmp_path / "x.json"
    settings = json.dumps({**SMALL[name], key: value})
    assert cli.main(["microbenchmark", name, settings, "cpu", str(output)]) == 2
    assert said in capsys.readouterr().err
    assert not output.exists()


def test_settings_that_replace_others_on_a_cpu_are_checked_for_a_gpu_as_well():
    wrong = {"microbenchmarks": {"memory_calls": {**SMALL["memory_calls"], "on_cpu": {"samples": 1}}}}
    with pytest.raises(ConfigError, match="memory_calls with on_cpu: samples is 1"):
        plans.microbenchmarks(CONFIG / "grid.yaml", wrong, H200)
    missing = {"memory_calls": {"samples": 6}}
    with pytest.raises(ConfigError, match="sizes is missing: the keys are sizes, overlapped"):
        plans.microbenchmarks(CONFIG / "grid.yaml", {"microbenchmarks": missing}, H200)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "SETTINGS auto|cuda|cpu OUTPUT"),
        (["memory_leaks", "{}", "cpu", "x.json"], "'memory_leaks' is not"),
        (["memory_calls", "{", "cpu", "x.json"], "must be a JSON object"),
        (["memory_calls", "[]", "cpu", "x.json"], "must be a JSON object"),
        (["memory_calls", '{"samples": 6, "samples": 7}', "cpu", "x.json"], "'samples' occurs twice"),
        (["memory_calls", '{"seconds": NaN}', "cpu", "x.json"], "NaN is not a number of JSON"),
        (["memory_calls", json.dumps(SMALL["memory_calls"]), "tpu", "x.json"], "device is 'tpu'"),
        (["memory_calls", json.dumps(SMALL["memory_calls"]), "cpu", "x.json", "Z80"], "planned is 'Z80'"),
    ],
)
def test_wrong_command_lines_are_refused(arguments, said, capsys):
    assert cli.main(["microbenchmark", *arguments]) == 2
    assert said.replace("planned is", "device.name is") in capsys.readouterr().err


@hypothesis.given(name=st.sampled_from(list(SMALL)), data=st.data())
def test_whatever_stands_in_a_grid_is_resolved_or_refused(name, data):
    keys = st.sampled_from([*SMALL[name], "on_cpu"])
    sizes = st.sampled_from(["1KiB", "0B", "1kib", "99999999999GiB", "1 MiB", ""])
    leaves = st.none() | st.booleans() | st.integers() | st.floats() | sizes | st.text(max_size=4)
    values = st.recursive(
        leaves, lambda each: st.lists(each, max_size=3) | st.dictionaries(keys, each), max_leaves=5
    )
    given = {**SMALL[name], **data.draw(st.dictionaries(keys, values, max_size=3))}
    grid = {"sweeps": {"one": {"strategy": "reference"}}, "microbenchmarks": {name: given}}
    try:
        grid_file.check(grid)
        found = plans.microbenchmarks(CONFIG / "grid.yaml", grid, H200)
    except ConfigError as error:
        assert name in str(error)
    else:
        assert resolved(name, found[name])
