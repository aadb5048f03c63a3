"""What other programs read about the project: its citation, its entry of the catalog, its CI workflow."""

import re
import tomllib
from urllib.parse import unquote

import yaml
from conftest import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def read(name):
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


def test_the_citation_is_of_this_version_and_of_the_paper():
    citation = read("CITATION.cff")
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()
    assert citation["version"] == PROJECT["version"]
    notes = re.findall(r"^## (\d.*) \((.*)\)$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert notes[0] == (PROJECT["version"], str(citation["date-released"]))
    assert citation["license"] == PROJECT["license"]
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    paper = citation["references"][0]
    assert f'"{paper["title"]}"' in readme
    names = [author["family-names"] for author in paper["authors"]]
    assert f"({', '.join(names[:-1])} and {names[-1]}, {paper['year']})" in readme


def test_the_badges_say_what_the_project_needs_and_its_licence():
    found = re.findall(
        r"\[!\[(.+?)\]\(https://img\.shields\.io/badge/([^)]+)-blue\)\]\((.+?)\)",
        (ROOT / "README.md").read_text(encoding="utf-8"),
    )
    oldest = PROJECT["requires-python"].removeprefix(">=")
    snakefile = (ROOT / "Snakefile").read_text(encoding="utf-8")
    snakemake = re.search(r'min_version\("(.+?)"\)', snakefile)[1]
    licence = PROJECT["license"]
    assert [(says, unquote(message), target) for says, message, target in found] == [
        (f"Python {oldest} or newer", f"python-≥{oldest}", "pyproject.toml"),
        (f"Snakemake {snakemake} or newer", f"snakemake-≥{snakemake}", "Snakefile"),
        (f"Licence: {licence}", f"licence-{licence}", "LICENSE"),
    ]
    assert (ROOT / "LICENSE").read_text(encoding="utf-8").startswith(f"{licence} License")


def test_ci_runs_what_a_change_must_pass():
    jobs = read(".github/workflows/ci.yml")["jobs"]
    commands = {step["run"] for job in jobs.values() for step in job["steps"] if "run" in step}
    assert commands == {"make lint", "make docs", ".ci/run"}
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert {"lint", "docs", "linkcheck"} <= targets
    (links,) = read(".github/workflows/links.yml")["jobs"].values()
    assert links["steps"][-1]["run"] == "make linkcheck"
    oldest = PROJECT["requires-python"].removeprefix(">=")
    assert oldest in jobs["test"]["strategy"]["matrix"]["python-version"]


def test_the_catalog_says_what_there_is():
    usage = read(".snakemake-workflow-catalog.yml")["usage"]
    assert usage["report"] is True
    assert not any(usage["software-stack-deployment"].values())
    rules = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "workflow/rules").glob("*.smk"))
    assert not re.search(r"^\s+(conda|container):", rules, re.MULTILINE)
