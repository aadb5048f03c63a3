"""Write the published tables of ``snn plan``'s predictions: nothing is measured, and no GPU is needed.

results/published/plan_accuracy.csv: the predicted peak of device memory over what the driver held, of every
published cell whose memory was measured; the lowest and the highest ratio by set and strategy.
results/published/plan_remedies.csv: peaks, on an H200, of memory_remedies in config/open_questions.yaml.
results/published/plan_resnet18.csv: activations of the first convolution and the pooling of ResNet18.
"""

import sys
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import click  # noqa: E402
import pandas as pd  # noqa: E402

from snn import command  # noqa: E402
from snn.arguments import Command, main_of  # noqa: E402
from snn.config.compose import composed  # noqa: E402
from snn.files.outputs import replaced  # noqa: E402
from snn.files.published_sets import PUBLISHED, name_of, sets  # noqa: E402
from snn.grid import sweeps  # noqa: E402
from snn.hardware.devices import Device  # noqa: E402
from snn.planning import gpus  # noqa: E402
from snn.planning.plan import predicted  # noqa: E402
from snn.records.archive import has_cells, read_all  # noqa: E402
from snn.strategies.factory import on_host, own_runtime, several_devices  # noqa: E402

ACCURACY, REMEDIES, RESNET18 = (
    PUBLISHED / f"plan_{name}.csv" for name in ("accuracy", "remedies", "resnet18")
)
SWEEP = "memory_remedies"
LEFT_OUT = {"managed_kept"}
"""Its record has the memory before its first launch, with which the driver takes more for unified memory."""

Record = Mapping[str, Any]


@cache
def measured(folder: Path) -> list[Record]:
    """A record of each cell of a published set whose memory was measured on one GPU.

    With several, NCCL has buffers that are not predicted.
    """
    found = [record for record in read_all(folder).values() if record["round"] == 1 and record["memory"]]
    elsewhere = on_host, own_runtime, several_devices
    return [one for one in found if not any(of(one["cell"]["strategy"]) for of in elsewhere)]


def accuracy(folder: Path) -> Iterator[dict[str, Any]]:
    """A row per strategy of a set: the predicted peak over the driver's figure, lowest and highest."""

    def strategy(record: Record) -> str:
        return str(record["cell"]["strategy"]["name"])

    for name, records in groupby(sorted(measured(folder), key=strategy), strategy):
        if name in LEFT_OUT:
            continue
        own = [*records]
        ratios, device = [*map(ratio, own)], own[0]["cell"]["device"]["name"]
        row = {"set": name_of(folder), "strategy": name, "cells": len(ratios)}
        yield row | {"lowest": min(ratios), "highest": max(ratios), "device": device}


def ratio(record: Record) -> float:
    """The predicted peak of a record's cell over what the driver held."""
    memory, gpu = record["memory"], gpus.named(record["cell"]["device"]["name"])
    held = memory["total_bytes"] - memory["least_free_bytes"]
    return round(sum(predicted(record["cell"], gpu).values()) / held, 4)


def remedies() -> Iterator[dict[str, Any]]:
    """A row per cell of the sweep: its peak, the strategy's part of it, and the fraction that it saves."""
    gpu = gpus.named("NVIDIA H200")
    cells = sweeps.read(ROOT / "config/open_questions.yaml", Device("cuda", gpu.name))[SWEEP].named.values()
    plain = dict[str, int]()
    for cell in cells:
        kinds = predicted(cell, gpu)
        total = sum(kinds.values())
        asked = total - kinds["runtime"] - kinds["rounding"]
        network, training = cell["network"], cell["training"]
        # The first cell of a network has no remedies.
        most = plain.setdefault(str(network["hidden"]), asked)
        yield {
            "hidden_layers": len(network["hidden"]),
            "neurons": network["hidden"][0],
            "batch_size": training["batch_size"],
            "recomputed_layers": len(network["recompute"]),
            "micro_batches": training["accumulate"],
            "total_bytes": total,
            "peak_bytes": asked,
            "saved_fraction": round(1 - asked / most, 4),
            "device": gpu.name,
        }


def resnet18(batch_size: int = 128) -> Iterator[dict[str, Any]]:
    """A row per layer of the beginning of ResNet18: the outputs that are kept, of images of 224 x 224.

    The pooling has windows of 2 x 2 and ResNet18's has 3 x 3; both give 56 x 56 outputs.
    """
    before, layers = 4 * 10 * batch_size, ["conv2d 64 7 3 2", "relu"]  # bytes of the network's ten outputs
    for layer in ("conv2d 64 7 3 2", "maxpool2d 2"):
        layers += [layer] if layer not in layers else []
        settings = ["dataset=patterns", "network=layers", "network.loss=cross_entropy", "strategy=resident"]
        settings += [f"dataset.rows={batch_size}", f"training.batch_size={batch_size}"]
        settings += [f"network.layers=[{', '.join(layers)}, flatten, linear 10]", "kernel=tiled_fused"]
        cell = composed(settings, checks_memory=False).replace(dataset={"shape": [3, 224, 224]})
        kept = predicted(cell, gpus.named("NVIDIA H200"))["activations"]
        yield {"layer": layer, "batch_size": batch_size, "activations_bytes": kept - before}
        before = kept


@click.command("plan_tables", cls=Command, help=__doc__)
def write() -> None:
    folders = [folder for folder in sets(device="nvidia-*") if has_cells(folder)]
    tables = {
        ACCURACY: [row for folder in folders for row in accuracy(folder)],
        REMEDIES: [*remedies()],
        RESNET18: [*resnet18()],
    }
    for path, rows in tables.items():
        with replaced(path) as file:
            file.write(pd.DataFrame(rows).to_csv(index=False).encode())
        print(f"{path.relative_to(ROOT)}: {len(rows)} rows")


main = main_of(write)

if __name__ == "__main__":
    sys.exit(command.run(main))
