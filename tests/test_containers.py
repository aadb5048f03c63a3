"""The recipes of the images agree with each other and with the project: base, pins, what is copied.

`scripts/container_check` builds and uses them.
"""

import re
import subprocess
import tomllib

import pytest
import yaml
from conftest import ROOT

RECIPE = (ROOT / "envs/Containerfile").read_text()
DEFINITION = (ROOT / "envs/snn.def").read_text()
INSTALL = (ROOT / "envs/install").read_text()


def section(name):
    """The lines of a section of the Apptainer definition."""
    return re.search(rf"^%{name}\n((?: .*\n|\n)*)", DEFINITION, re.MULTILINE)[1].split("\n")


def steps(lines):
    """The steps of envs/install that some lines call."""
    found = [re.match(r"\s*(?:RUN )?envs/install (.+)", line) for line in lines]
    return [re.sub(r'"?\$DEVICE"?|"\{\{ DEVICE \}\}"', "DEVICE", step[1]) for step in found if step]


def copied_into_the_image():
    """Paths of the project that the Containerfile copies."""
    found = re.findall(r"^COPY (.+) \S+$", RECIPE, re.MULTILINE)
    return [path for paths in found for path in paths.split()]


def test_both_recipes_start_from_the_same_exact_base():
    (base,) = re.findall(r"^FROM (\S+)", RECIPE, re.MULTILINE)
    assert re.fullmatch(r"docker\.io/library/debian:[a-z]+-\d{8}-slim", base)
    assert re.search(r"^Bootstrap: docker\nFrom: (\S+)$", DEFINITION, re.MULTILINE)[1] == base


def test_both_recipes_run_the_same_steps():
    expected = [
        "python",
        "packages requirements.txt",
        "packages requirements-build.txt",
        "device DEVICE",
        "sources",
    ]
    assert steps(RECIPE.splitlines()) == steps(section("post")) == expected


def test_both_recipes_have_the_same_arguments():
    arguments = re.findall(r"^ARG (\S+)$", RECIPE, re.MULTILINE)
    assert arguments == [line.strip() for line in section("arguments") if line.strip()]


def test_what_is_copied_exists_and_is_part_of_the_build():
    allowed = {line[1:] for line in (ROOT / ".containerignore").read_text().split() if line.startswith("!")}
    for path in copied_into_the_image():
        assert (ROOT / path).exists(), path
        assert path.split("/")[0] in allowed, f".containerignore leaves out {path}"


def test_both_recipes_copy_the_same():
    files = [line.split() for line in section("files") if line.strip()]
    assert all(target == f"/snn/{source}" for source, target in files)
    assert {path.split("/")[0] for path in copied_into_the_image()} == {source for source, _ in files}


def test_pins_come_before_sources():
    """An edit of the sources must not install the packages again."""
    order = [
        RECIPE.index(line) for line in ("install packages", 'install device "', "COPY snn", "ARG COMMIT")
    ]
    assert order == sorted(order)


def test_every_pinned_environment_of_a_device_is_a_choice():
    """As in the conda files: cpu, and each CUDA whose pins are in envs/."""
    choices = set(re.findall(r'"device (\w+)"', INSTALL))
    assert choices == {path.stem.removeprefix("conda-") for path in (ROOT / "envs").glob("conda-*.yaml")}
    for choice in choices - {"cpu"}:
        assert f"envs/requirements-{choice}.txt" in copied_into_the_image()
        names = yaml.safe_load((ROOT / f"envs/conda-{choice}.yaml").read_text())["dependencies"][-1]["pip"]
        assert names == ["-r requirements.txt", f"-r requirements-{choice}.txt"]


def test_python_is_one_that_the_project_supports():
    (version,) = set(re.findall(r"python(3\.\d+)", INSTALL))
    oldest = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    assert [int(part) for part in version.split(".")] >= [int(part) for part in oldest[2:].split(".")]


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (["device", "cuda11"], "DEVICE=cuda11: one of cpu, cuda12, cuda13"),
        (["everything"], "not a step"),
        ([], "not a step"),
    ],
)
def test_an_unknown_step_is_refused_by_name(step, message):
    done = subprocess.run(["sh", ROOT / "envs/install", *step], capture_output=True, text=True)
    assert done.returncode == 2
    assert message in done.stderr


def test_results_that_would_be_lost_are_refused(tmp_path):
    """As the image is started without a mounted folder: here the folder is there, but nothing is mounted."""
    (tmp_path / "envs").mkdir()
    (tmp_path / "results").mkdir()
    entrypoint = tmp_path / "envs/entrypoint"
    entrypoint.write_text((ROOT / "envs/entrypoint").read_text())
    refused = subprocess.run(["sh", entrypoint, "snakemake", "-n"], capture_output=True, text=True)
    assert refused.returncode == 2
    assert f"no folder is mounted at {tmp_path}/results" in refused.stderr
    other = subprocess.run(["sh", entrypoint, "pwd"], capture_output=True, text=True)
    assert (other.returncode, other.stdout) == (0, f"{tmp_path}\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["docker"], "docker: one of podman, apptainer"),
        (["--device", "tpu"], "--device tpu: one of cpu, cuda12, cuda13"),
    ],
)
def test_the_check_refuses_what_it_cannot_check(arguments, message):
    done = subprocess.run([ROOT / "scripts/container_check", *arguments], capture_output=True, text=True)
    assert done.returncode == 2
    assert message in done.stderr
