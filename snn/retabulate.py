"""Make tables and figures from published records."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from snn.analysis import frame
from snn.analysis.roofline import fitting_limits, read_limits
from snn.config.cell import Cell
from snn.config.groups import CONFIG, ROOT, default_grid, read_yaml
from snn.errors import ConfigError, RecordError
from snn.figures import draw
from snn.figures import sweep as sweep_figure
from snn.figures.layout import save
from snn.figures.trained import trained
from snn.grid import catalogue, naming
from snn.grid import sweeps as grid
from snn.hardware.devices import Device
from snn.records import microbenchmarks
from snn.records.archive import SWEEPS, Entry, entries, has_cells, read_sweeps
from snn.report.write import write, writing
from snn.tables import overview, recommendation
from snn.tables.table import build, find_table


def retabulate(archive: Path, output: Path, grid_file: Path | None = None) -> None:
    """Write every table and figure whose records the archive holds; print which ones it lacks.

    A table needs a record of each of its cells. If further rounds are missing because a workflow was
    interrupted, the table uses the existing rounds, and this is printed too.

    Raises RecordError if the archive holds no records, something else, or records of two devices for one
    table; OutputError if the output cannot be written.
    """
    with writing(output):
        measured = microbenchmarks.of_devices(archive)
        found = [] if measured and not has_cells(archive) else list(entries(archive).values())
        records = [entry.record for entry in found]
        devices = {record["provenance"]["device"] for record in records}
        if records:
            measured = microbenchmarks.of_devices(archive, devices)
        sweeps = _sweeps(archive, found, grid_file)
        known = {naming.record_path(Cell(record["cell"]).name, record["round"]): record for record in records}
        for folder in ("tables", "figures"):
            (output / folder).mkdir(parents=True, exist_ok=True)
        thresholds, gpus = read_yaml(CONFIG / "verdicts.yaml"), read_yaml(CONFIG / "paper/gpu.yaml")
        limits = _limits(archive, devices or {record["provenance"]["device"] for record in measured.values()})
        if limits:
            _write_own(output, "device_limits", limits[0])
        if of_device := [*limits, *records, *measured.values()]:
            _write_own(output, "gpu", of_device, gpus)
        for name in [*grid.own_tables(sweeps), *catalogue.sweep_tables(sweeps)]:
            cells = grid.cells_of(name, sweeps)
            paths = naming.rounds_in(known, cells)
            kept = all(paths.values())
            if said := naming.said_of_missing(known, cells, kept):
                print(f"{name} {said}")
            if not kept:
                continue
            chosen = {path: known[path] for of_cell in paths.values() for path in of_cell}
            entry, of = catalogue.TABLES.get(name, catalogue.TIDY_TABLE), trained(cells.values())
            axes = [] if name in catalogue.TABLES else sweeps[name].axes
            beside = axes or (read_yaml(ROOT / entry.published) if entry.published else {})
            fitting = fitting_limits(limits, chosen.values()) if entry.with_limits else []
            primary = catalogue.PRIMARY.get(name)
            table, title = build(catalogue.table_form(name), chosen, beside, thresholds, fitting, primary)
            _write(table, title.format(name), output, name)
            if name not in catalogue.TABLES:
                _save(sweep_figure.draw(_written(output, name), axes, name, of), output, name)
            _draw(output, name, gpus["device"], of)
        for name in catalogue.microbenchmark_tables(measured):
            shown = catalogue.MICROBENCHMARK_TABLES[name]
            _write_own(output, name, measured[shown.of or name], *(limits if shown.with_limits else []))
            _draw(output, name, gpus["device"], "")
        paths = naming.rounds_in(known, grid.all_cells(sweeps))
        used = {path: known[path] for of_cell in paths.values() for path in of_cell}
        _write_datasets(list(used.values()), output)
        if used:
            points = overview.points_of(used, thresholds)
            table = overview.build(points, thresholds)
            _write(recommendation.build(points, table), recommendation.TITLE, output, "recommendation")
            _write(recommendation.with_sentences(table), overview.TITLE, output, "overview")
            if any("samples" in record["machine"] for record in used.values()):
                _write_own(output, "warnings", used, thresholds)


def _written(output: Path, name: str) -> pd.DataFrame:
    """A table read from its file, as a workflow reads it to draw figures."""
    return pd.read_csv(output / f"tables/{name}.csv")


def _draw(output: Path, table: str, paper_device: str, said: str) -> None:
    """Draw the catalogue's figures that use this table."""
    for figure, of in catalogue.FIGURES.items():
        if of.table == table:
            _save(draw(of.form or figure, _written(output, table), paper_device, said), output, figure)


def _limits(archive: Path, devices: set[str]) -> list[dict[str, Any]]:
    """The measured limits of the archive's GPUs or, if there are none, of its CPU."""
    paths = [*archive.glob("limits.json"), *sorted(archive.glob("limits/*.json"))]
    records = [record for record in map(read_limits, paths) if record["provenance"]["device"] in devices]
    of_gpus = [record for record in records if record["provenance"]["backend"] == "cuda"]
    return of_gpus or records


def _write_datasets(records: Sequence[frame.Record], output: Path) -> None:
    """The table of data sets, from the records that contain their sizes."""
    data = {json.dumps(one["cell"], sort_keys=True): one.get("data", {}) for one in records}
    sized = [
        (cell, {**cell["dataset"], **data[json.dumps(cell, sort_keys=True)]})
        for cell in grid.trainings(one["cell"] for one in records)
    ]
    sized = [(cell, of) for cell, of in sized if of.get("rows") and of.get("features")]
    if sized:
        provenances = [one["provenance"] for one in records]
        where = next((each for each in provenances if each["backend"] == "cuda"), provenances[0])
        paper = read_yaml(CONFIG / "paper/datasets.yaml")
        _write_own(output, "datasets", sized, paper, where["device"], where["backend"])


def _sweeps(archive: Path, found: list[Entry], grid_file: Path | None) -> dict[str, grid.Sweep]:
    """The sweeps of a grid file, or those that were published with the archive.

    Published sweeps consist of the records' cells; the current configuration is not used.
    """
    published = read_sweeps(archive) if grid_file is None else None
    if published is not None:
        return _published(published, archive / SWEEPS, found)
    if not found:
        return {}
    provenances = [entry.record["provenance"] for entry in found]
    where = next((each for each in provenances if each["backend"] == "cuda"), provenances[0])
    host = next((each["device"] for each in provenances if each["backend"] == "cpu"), None)
    device = Device(where["backend"], where["device"], where["device_uuid"], where["driver"])
    return grid.read(grid_file or default_grid(), device, Device("cpu", host) if host else None)


def _published(
    sweeps: Mapping[str, Mapping[str, list[str]]], file: Path, found: list[Entry]
) -> dict[str, grid.Sweep]:
    """The sweeps of an archive's ``file`` whose records it has; print which ones it lacks.

    A sweep's name becomes a file name, so it is checked as in a grid; its axes are checked against the cells.
    """
    # The published names end with a digest of the cell under the keys of that time; in earlier names it was
    # shorter.
    published = {name: [cell.rpartition("-")[2] for cell in of["cells"]] for name, of in sweeps.items()}
    cells = _by_digest(found, {len(digest) for named in published.values() for digest in named}, file)
    read = {}
    for name, of in sweeps.items():
        try:
            catalogue.check_name(name)
        except ConfigError as error:
            raise RecordError(f"{file}: {error}") from error
        missing = sum(digest not in cells for digest in published[name])
        if missing:
            print(f"{name} is left out: {missing} of its {len(of['cells'])} cells are missing")
            continue
        named = {cells[digest].name: cells[digest] for digest in published[name]}
        for axis in of["axes"]:
            section, _, key = axis.partition(".")
            if not any(section in cell and (not key or key in cell[section]) for cell in named.values()):
                raise RecordError(f"{file}: {name}.axes: {axis!r} is not a setting of its cells")
        read[name] = grid.Sweep(name, tuple(of["axes"]), named)
    return read


def _by_digest(found: list[Entry], lengths: set[int], file: Path) -> dict[str, Cell]:
    """The cells by their digests, cut to each of these lengths. Raises RecordError if two are the same."""
    cells: dict[str, Cell] = {}
    for entry in found:
        digest = naming.digest(entry.written["cell"])
        for short in {digest[:length] for length in lengths}:
            if cells.setdefault(short, Cell(entry.record["cell"])) != entry.record["cell"]:
                raise RecordError(f"{file}: two cells of the archive have names that end in {short}")
    return cells


def _write_own(output: Path, name: str, *given: Any) -> None:
    """Write a table that is not a table of cells, built from the given values."""
    form = find_table(catalogue.table_form(name))
    _write(form.build(*given), form.title, output, name)


def _write(table: pd.DataFrame, title: str, output: Path, name: str) -> None:
    write(table, str(output / f"tables/{name}.csv"), str(output / f"tables/{name}.html"), title)


def _save(figure: Any, output: Path, name: str) -> None:
    save(figure, [str(output / f"figures/{name}.{ending}") for ending in ("svg", "png")])
