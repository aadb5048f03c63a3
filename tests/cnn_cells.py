"""Cells of the CNN report's training, and frames of records of them, for the tests of its tables and page."""

import yaml
from conftest import ROOT
from records_of import record

from snn.analysis import frame
from snn.config.groups import read_yaml
from snn.grid import sweeps
from snn.hardware.devices import Device

GPU, HOST = Device("cuda", "NVIDIA H200"), Device("cpu", "AMD EPYC")
THRESHOLDS = read_yaml(ROOT / "config/verdicts.yaml")
AS_PUBLISHED = {"training.reduction": "sum", "training.learning_rate": 0.01}
NAIVE = {"strategy": "synchronous", "training.gradient": "published_naive"} | AS_PUBLISHED
OPTIMISED = {"strategy": "pipelined", "kernel": "fused", "training.gradient": "published_optimised"}
OPTIMISED |= AS_PUBLISHED
MEAN = {"training.learning_rate": 0.25}
REPORTS = {"network": "cnn", "training.batch_size": 64, "training.epochs": 5, "training.drop_last": True}


def cells_in(folder, *products, device=GPU, dataset="fashion", **settings):
    """The cells of a sweep with the report's training and these products."""
    path = folder / "grid.yaml"
    sweep = REPORTS | {"dataset": dataset, "protocol.rounds": 1} | settings | {"union": list(products)}
    path.write_text(yaml.safe_dump({"sweeps": {"mine": sweep}}))
    return sweeps.read(path, device, HOST)["mine"].cells


def loaders(cells_of, *options, **settings):
    """Cells of the report's PyTorch program with these numbers of workers, and pinned memory or not."""
    products = [
        {"strategy": "torch_loader", "strategy.workers": workers, "strategy.pin_memory": pinned}
        for workers, pinned in options
    ]
    return cells_of(*products, **({"training.drop_last": False} | settings))


def rows_of(cells, seconds, **changed):
    """The frame of these cells; ``changed`` are arguments of ``record``, one value for each cell."""
    records = {}
    for i, (cell, times) in enumerate(zip(cells, seconds, strict=True)):
        records[str(i)] = record(cell, times, **{key: values[i] for key, values in changed.items()})
    return frame.tabulate(records, THRESHOLDS)


def published_values(name):
    """The report's values beside a table."""
    return read_yaml(ROOT / f"config/cnn_report/{name}.yaml")
