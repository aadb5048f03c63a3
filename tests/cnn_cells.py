"""Cells of the CNN report's training, for the tests of its tables and page."""

from records_of import GPU, frame_of_cells, sweep_of

from snn.config.groups import CONFIG, read_yaml

AS_PUBLISHED = {"training.reduction": "sum", "training.learning_rate": 0.01}
NAIVE = {"strategy": "synchronous", "training.gradient": "published_naive"} | AS_PUBLISHED
OPTIMISED = {"strategy": "pipelined", "kernel": "fused", "training.gradient": "published_optimised"}
OPTIMISED |= AS_PUBLISHED
MEAN = {"training.learning_rate": 0.25}
REPORTS = {"network": "cnn", "training.batch_size": 64, "training.epochs": 5, "training.drop_last": True}


def cells_of(*products, device=GPU, dataset="fashion", **settings):
    """The cells of a sweep with the report's training and these products."""
    sweep = REPORTS | {"dataset": dataset} | settings | {"union": list(products)}
    return sweep_of(sweep, device=device).cells


def loaders(*options, **settings):
    """Cells of the report's PyTorch program with these numbers of workers, and pinned memory or not."""
    products = [
        {"strategy": "torch_loader", "strategy.workers": workers, "strategy.pin_memory": pinned}
        for workers, pinned in options
    ]
    return cells_of(*products, **({"training.drop_last": False} | settings))


def rows_of(cells, seconds, **changed):
    return frame_of_cells(cells, [[one] if isinstance(one, float) else one for one in seconds], **changed)


def published_values(name):
    """The report's values beside a table."""
    return read_yaml(CONFIG / f"cnn_report/{name}.yaml")
