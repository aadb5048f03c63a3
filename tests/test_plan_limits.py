"""What ``snn plan`` says where it is not the budget that ends it: this machine, the kernels, or the rows."""

import json
from math import prod

import pytest
import yaml

from snn import cli
from snn import plan as command
from snn.planning import plan as plans
from snn.profiling.calls import NullBackend

MIB = 1 << 20
WIDE = ("dataset=large", "dataset.rows=4096", "network.hidden=[4096]")  # 64 MiB with all rows in a batch
ALL_ROWS = "training.batch_size=4096"


@pytest.fixture
def has_mib(monkeypatch):
    """A machine that grants no larger blocks of host memory than so many MiB."""

    def grants(mib):
        grant = NullBackend.host_alloc

        def host_alloc(self, shape, *arguments):
            if 4 * prod(shape) > mib * MIB:
                raise MemoryError(f"Unable to allocate {4 * prod(shape)} bytes")
            return grant(self, shape, *arguments)

        monkeypatch.setattr(NullBackend, "host_alloc", host_alloc)

    return grants


def plan_of(tmp_path, *arguments, free="4GiB"):
    file = tmp_path / "plan.json"
    assert cli.main(["plan", *arguments, "--free", free, "--json", str(file)]) == 0
    return json.loads(file.read_text())


def test_strategies_that_this_machine_cannot_hold_are_no_remedies(has_mib, tmp_path, capsys):
    def remedies():
        found = plan_of(tmp_path, *WIDE, ALL_ROWS, "strategy=resident")
        return {one["setting"] for one in found["remedies"] if one["setting"].startswith("strategy=")}

    all_of_them = remedies()
    assert {"strategy=workspace", "strategy=reference"} <= all_of_them
    has_mib(100)  # not for the two matrices of this size in one block
    assert "strategy=reference" in remedies() and "strategy=workspace" not in remedies()


def test_such_a_strategy_is_refused_with_the_reason_and_unknown_in_a_sweep(has_mib, tmp_path, capsys):
    has_mib(100)
    assert cli.main(["plan", *WIDE, ALL_ROWS, "strategy=workspace", "--free", "4GiB"]) == 2
    said = capsys.readouterr()
    assert not said.out and said.err.count("\n") == 1
    assert "a plan for strategy=workspace and training.batch_size=4096 asks for more memory than" in said.err
    assert "(Unable to allocate " in said.err and "plan a smaller batch" in said.err
    grid = tmp_path / "grid.yaml"
    settings = (f"    {setting.replace('=', ': ')}\n" for setting in (*WIDE, ALL_ROWS))
    grid.write_text(f"sweeps:\n  mine:\n    strategy: [workspace, graph]\n{''.join(settings)}")
    found = plan_of(tmp_path, "sweep=mine", f"grid={grid}")
    assert [one.get("fits") for one in found.values()] == [None, True]


@pytest.mark.parametrize("strategy", ["reference", "workspace"])
def test_the_largest_batch_is_one_that_this_machine_can_plan(strategy, has_mib, tmp_path, capsys):
    has_mib(32)
    found = plan_of(tmp_path, *WIDE, f"strategy={strategy}")
    batch = found["largest_batch"]
    assert (
        f"largest training.batch_size that fits: {batch}; no larger one is planned: "
        in capsys.readouterr().out
    )
    assert f"a plan for strategy={strategy} and training.batch_size=" in found["limit"]
    again = plan_of(tmp_path, *WIDE, f"strategy={strategy}", f"training.batch_size={batch}")
    assert again["fits"] and again["largest_batch"] == batch
    assert cli.main(
        ["plan", *WIDE, f"strategy={strategy}", f"training.batch_size={1.01 * batch:.0f}", "--free", "4GiB"]
    )


def test_the_largest_batch_is_one_that_kernels_can_count(tmp_path, capsys):
    found = plan_of(
        tmp_path,
        "dataset=large",
        "dataset.rows=40000",
        "network.hidden=[65536]",
        "strategy=graph",
        free="99GiB",
    )
    assert 0.99 * 2**15 < found["largest_batch"] < 2**15
    assert "kernels count in 32 bits" in found["limit"]


def test_rows_that_this_machine_cannot_hold_are_not_planned(monkeypatch, capsys):
    monkeypatch.setattr(plans, "usable_bytes", lambda: 10**5)
    assert cli.main(["plan", "dataset=large", "training.batch_size=4096", "--free", "1GiB"]) == 2
    assert "takes 0.00689 GB of memory here, but this machine has 0.0001 GB" in capsys.readouterr().err


def test_a_batch_of_all_rows_is_said_to_be_one(tmp_path, capsys):
    found = plan_of(tmp_path, "dataset=small")
    assert (found["largest_batch"], found["limit"]) == (256, "rows")
    assert "largest training.batch_size that fits: all 256 rows\n" in capsys.readouterr().out
    found = plan_of(tmp_path, *WIDE, ALL_ROWS, "strategy=resident", free="650MiB")
    assert (0 < found["largest_batch"] < 4096) and not found["limit"]
    assert f"fits: {found['largest_batch']}\n" in capsys.readouterr().out


@pytest.mark.parametrize("outputs", [2, 3])
def test_a_file_of_more_classes_than_outputs_is_refused_as_in_a_run(outputs, tmp_path, capsys):
    file = tmp_path / "iris.csv"
    file.write_text("width,species\n" + "".join(f"{i},{'abc'[i % 3]}\n" for i in range(60)))
    settings = ["dataset=csv", f"dataset.path={file}", "dataset.target=species", "training.batch_size=16"]
    settings += ["network=layers", f"network.layers=[linear {outputs}]", "network.loss=cross_entropy"]
    status = cli.main(["plan", *settings, "--device", "Tesla T4"])
    said, error = capsys.readouterr()
    refused = f"{file} has 3 classes (a, b, c), but network.layers end in 2 outputs: end them in linear 3"
    assert (status, refused in error, "fits" in said) == (
        (2, True, False) if outputs == 2 else (0, False, True)
    )


def test_all_rows_in_micro_batches_are_the_limit_also_where_some_are_left_over(tmp_path, capsys):
    micro = ("training.accumulate=3", "training.batch_size=255", "network.update_order=simultaneous")
    found = plan_of(tmp_path, "dataset=small", "strategy=resident", *micro)
    why = "3 equal micro-batches take no more of the 256 rows"
    assert (found["largest_batch"], found["limit"]) == (255, why)
    assert f"that fits: 255; no larger one is planned: {why}\n" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["mine.csv", "grid.yaml", "config/gpus.yaml"])
def test_a_plan_replaces_none_of_the_files_that_it_is_made_of(name, tmp_path, monkeypatch, capsys):
    table, grid = tmp_path / "mine.csv", tmp_path / "grid.yaml"
    table.write_text("a,b\n" + "".join(f"{i},{2 * i}\n" for i in range(60)))
    settings = {"dataset": "csv", "dataset.path": str(table), "dataset.target": "b", "training.batch_size": 8}
    grid.write_text(yaml.safe_dump({"sweeps": {"mine": settings | {"strategy": ["resident", "graph"]}}}))
    (tmp_path / "config").mkdir()
    (tmp_path / "config/gpus.yaml").write_text("as in the checkout")
    monkeypatch.setattr(command, "CONFIG", tmp_path / "config")
    before = (tmp_path / name).read_text()
    asked = (
        [f"grid={grid}", "sweep=mine"] if name == "grid.yaml" else [f"{k}={v}" for k, v in settings.items()]
    )
    for link in (tmp_path / name, tmp_path / "link"):
        if link != tmp_path / name:
            link.symlink_to(tmp_path / name)
        assert cli.main(["plan", *asked, "--device", "Tesla T4", "--json", str(link)]) == 2
        assert "--json is" in (said := capsys.readouterr().err) and "an input, which would be lost" in said
    assert (tmp_path / name).read_text() == before
