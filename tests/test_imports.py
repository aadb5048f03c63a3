"""What a command does not import, and so does not wait for."""

import json
import subprocess
import sys

import pytest
from conftest import ROOT


@pytest.mark.parametrize(
    "arguments", [["--version"], ["--help"], ["list", "strategies"], ["completion", "words", "run", "str"]]
)
def test_what_only_says_something_starts_without_large_packages(arguments):
    large = ("numpy", "cupy", "pandas", "hydra", "omegaconf", "matplotlib", "jsonschema", "argparse")
    code = (
        "import json, sys; from snn import cli; cli.main(json.loads(sys.argv[1])); "
        f"print(json.dumps([name for name in {large} if name in sys.modules]), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps(arguments)], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0 and done.stdout
    assert json.loads(done.stderr) == []


@pytest.mark.parametrize(
    "arguments",
    [
        "run device=cpu training.epochs=1 protocol=glance output={}/record.json",
        "prepare dataset=small output={}/small.npy",
        "plan dataset=small --device NVIDIA-H200",
    ],
)
def test_what_works_on_one_cell_does_without_tables_and_figures(tmp_path, arguments):
    """A workflow starts a process for each round of each cell."""
    words = [word.format(tmp_path).replace("NVIDIA-", "NVIDIA ") for word in arguments.split()]
    code = (
        "import sys; from snn import cli; status = cli.main(sys.argv[1:]); "
        "print(status, sum(name in sys.modules for name in ('pandas', 'matplotlib')), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *words], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stderr.splitlines()[-1] == "0 0"
