"""Grid files that are none, hostile or of any content: refused soon, in one line, with file and place."""

import os

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from test_grid import CPU

from snn.config import groups
from snn.config.groups import CONFIG, read_yaml
from snn.errors import ConfigError, SnnError
from snn.grid import plans
from snn.grid import sweeps as grid

SWEEP = "sweeps:\n  x:\n    "
BOMB = "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(
    f"a{i + 1}: &a{i + 1} [{', '.join([f'*a{i}'] * 9)}]\n" for i in range(20)
)
DEEP = "a0: &a0 [[[[[[[[[[1]]]]]]]]]]\n" + "".join(
    f"a{i + 1}: &a{i + 1} [[[[[[[[[[*a{i}]]]]]]]]]]\n" for i in range(200)
)


def refusal(path):
    """What a grid file is refused with after its path, in one short line."""
    with pytest.raises(ConfigError) as caught:
        grid.read(path, CPU)
    said = str(caught.value)
    assert said.startswith(str(path))
    assert len(said.splitlines()) == 1
    assert len(said) < 2000
    return said.removeprefix(str(path))


def written(folder, content):
    path = folder / "grid.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", ": None is not right: it must be the keys device or devices, defaults, on_cpu, sweeps"),
        ("# nothing\n", ": None is not right"),
        ("a text", "'a text' is not right: it must be the keys"),
        ("[1, 2]", "[1, 2] is not right: it must be the keys"),
        ("17", ": 17 is not right"),
        ("sweeps: {}", "sweeps: {} is not right: it must be one or more sweeps"),
        ("sweeps: null", "sweeps: None is not right: it must be one or more sweeps"),
        ("sweeps: [a]", "sweeps: ['a'] is not right"),
        (
            "sweeps: {x: {}}\ncolour: red",
            "'colour' is not a key here: one of device, devices, defaults, on_cpu, sweeps",
        ),
        ("sweeps: {x: {}}\ndefaults:", "defaults: None is not right: it must be settings"),
        ("sweeps: {x: {}}\non_cpu: null", "on_cpu: None is not right: it must be settings"),
        ("sweeps: {x: {}}\ndevice: 7", "device: 7 is not right: it must be one of auto, cpu, cuda"),
        ("sweeps: {x: {}}\ndevice: [cpu]", "device: ['cpu'] is not right: it must be one of auto, cpu, cuda"),
        ("sweeps: {x: {}}\ndevice:", "device: None is not right: it must be one of auto, cpu, cuda"),
        (
            "sweeps: {x: {dataset: null}}",
            "sweeps.x.dataset: None is not right: it must be one of csv, fashion, idx, large, medium, mnist",
        ),
        ("1: 2", ", line 1: the key 1 is not text: write it in quotes"),
        ("sweeps:\n  true: {}", ", line 2: sweeps: the key true is not text"),
        ("sweeps:\n  null: {}", ", line 2: sweeps: the key null is not text"),
        ("sweeps:\n  ~: {}", "the key ~ is not text"),
        ("sweeps:\n  1.5: {}", "the key 1.5 is not text"),
        ("sweeps:\n  2020-01-01: {}", "2020-01-01 is not right: a value is true, false, a number"),
        ("sweeps:\n  on: {}", "on is not right"),
        ("? [a, b]\n: 1", ", line 1: a key must be text, not a list"),
        ("? {a: b}\n: 1", ", line 1: a key must be text, not a list, a mapping"),
        ("a: &a x\n*a : 1", "a key must be text, not a list, a mapping or an alias"),
        (f"{SWEEP}<<: {{dataset: small}}", ", line 3: sweeps.x: the merge key << is not read"),
        (f"{SWEEP}dataset: small\n    dataset: large", ", line 4: sweeps.x: the key 'dataset' appears twice"),
        ("a: &a [*a]", ", line 1: a.0: *a stands before the end of its anchor"),
        ("sweeps: &s\n  x: *s", ", line 2: sweeps.x: *s stands before the end of its anchor"),
        ("a: *b", "*b stands before the end of its anchor, or has none"),
        (BOMB, "there are more than 250000 keys and values"),
        (DEEP, "there are more than 24 levels"),
        ("[" * 400, "there are more than 24 levels"),
        ("{a: " * 400, "there are more than 24 levels"),
        ("- " * 400, "there are more than 24 levels"),
        ("[" * 200_000, "there are more than 24 levels"),
        (
            f"{SWEEP}training.epochs: !!python/object/apply:os.system [touch /tmp/x]",
            "the tag 'tag:yaml.org,2002:pyth",
        ),
        (f"{SWEEP}training.epochs: !!int '3'", "the tag 'tag:yaml.org,2002:int' is not read"),
        (f"{SWEEP}network.seed: [{', '.join(['!!set {}'] * 3)}]", "is not read: leave it out"),
        (
            f"{SWEEP}training.epochs: yes",
            ", line 3: sweeps.x.training.epochs: yes is not right: a value is true",
        ),
        (f"{SWEEP}training.epochs: Off", "Off is not right"),
        (f"{SWEEP}training.epochs: 1:30", "sweeps.x.training.epochs: 1:30 is not right"),
        (f"{SWEEP}training.epochs: 017", "017 is not right"),
        (f"{SWEEP}training.epochs: 0o17", "0o17 is not right"),
        (f"{SWEEP}training.epochs: 0x1F", "0x1F is not right"),
        (f"{SWEEP}training.epochs: 0b11", "0b11 is not right"),
        (f"{SWEEP}training.epochs: 1_000", "1_000 is not right"),
        (f"{SWEEP}training.epochs: 2020-01-01", "2020-01-01 is not right"),
        (f"{SWEEP}training.epochs: 2020-01-01 10:00:00", "2020-01-01 10:00:00 is not right"),
        (f"{SWEEP}training.epochs: {'9' * 5000}", "... (5000 characters) is not right"),
        (f"{SWEEP}training.learning_rate: .nan", ".nan is not right"),
        (f"{SWEEP}training.learning_rate: -.inf", "-.inf is not right"),
        (f"{SWEEP}training.learning_rate: 1.0e+400", "1.0e+400 is not finite"),
        (f"{SWEEP}dataset.noise: -0.0", "-0.0 is not finite, or a 0 with a sign"),
        (
            f"{SWEEP}training.learning_rate: 1e-3",
            "'1e-3' is not right: it must be a number above 0 (write 1.0e-3",
        ),
        ("sweeps:\n\tx: {}", ", line 2: '\\tx: {}': there is a tab: lines are indented with spaces"),
        ("sweeps: {x: {}}\n---\nsweeps: {y: {}}", ", line 2: a second document begins"),
        ("sweeps: {x: {}", ", line 1: 'sweeps: {x: {}': the braces are not closed with }"),
        ("sweeps: {caf\u00e9: {}}".encode("latin-1"), ", line 1: not text in UTF-8: save the file as UTF-8"),
        ("sweeps: {x: {}}".encode("utf-16"), ", line 1: not text in UTF-8"),
        ("sweeps: {x: {}}".encode("utf-16-le"), "control characters are not allowed"),
        (b"\x7fELF\x02\x01\x01\x00\x00\x00\xff\xfe", "not text in UTF-8"),
        (b"sweeps: {x\x00: {}}", "control characters are not allowed"),
        (b"\x00" * 1000, "control characters are not allowed"),
        (b"#" * (1 << 20) + b"\n", ": cannot be read: it has more than 1048576 bytes"),
    ],
)
def test_a_file_that_is_no_grid(tmp_path, content, said):
    assert said in refusal(written(tmp_path, content))


def test_a_grid_that_is_no_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/zero")
    assert "it is a folder, not a file" in refusal(tmp_path)
    assert "it is a pipe, not a file" in refusal(tmp_path / "pipe")
    assert "it is a device, not a file" in refusal(tmp_path / "link")
    assert "No such file" in refusal(tmp_path / "none")
    for place in ("", "."):
        with pytest.raises(ConfigError, match="grid is empty: it must be the path of a grid file"):
            grid.read(type(tmp_path)(place), CPU)
    with pytest.raises(ConfigError, match=r"grid\.yaml: device: 7 is not right"):
        plans.read(written(tmp_path, "sweeps: {x: {}}\ndevice: 7"), {})


def test_a_file_with_a_byte_order_mark_is_read(tmp_path):
    path = written(tmp_path, "\ufeffsweeps: {x: {}}")
    assert list(grid.read(path, CPU)) == ["x"]


def test_the_choices_files_are_read_as_any_reader_of_yaml_reads_them():
    files = [*CONFIG.rglob("*.yaml")]
    assert len(files) > 30
    for path in files:
        assert read_yaml(path) == yaml.safe_load(path.read_text(encoding="utf-8")), path


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
)
KEYS = st.sampled_from(
    [
        *groups.GROUPS[:-1],
        "union",
        "devices",
        "strategy.seeds",
        "dataset.path",
        "network.layers",
        "network.loss",
    ]
    + [f"{part}.{key}" for part in ("dataset", "network", "kernel") for key in groups.options(part, None)]
)


@settings(max_examples=150)
@given(
    content=st.fixed_dictionaries(
        {
            "sweeps": st.dictionaries(
                st.sampled_from("xy"), st.dictionaries(KEYS, VALUES, max_size=3), max_size=2
            )
        },
        optional={"defaults": VALUES, "on_cpu": VALUES, "device": SCALARS, "devices": VALUES},
    )
)
def test_any_content_is_a_grid_or_refused(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("g") / "grid.yaml"
    path.write_text(yaml.safe_dump(content, allow_unicode=True), encoding="utf-8")
    try:
        for cell in grid.all_cells(grid.read(path, CPU)).values():
            assert grid.overrides(cell)
        assert plans.read(path, {})
    except SnnError as error:
        assert str(path) in str(error)


@settings(max_examples=200)
@given(st.binary(max_size=60) | st.text("[]{}:,&*!|>-?#'\"%@ \n\tab1.0<~", max_size=60).map(str.encode))
def test_any_bytes_are_a_grid_or_refused(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("g") / "grid.yaml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"grid\.yaml"):
        grid.read(path, CPU)
