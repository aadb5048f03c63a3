#!/usr/bin/env python3
"""Run the CNN report's PyTorch program as it is, on CPU and GPU, next to its published Tables 1 and 2.

    benchmarks/cnn_pytorch.py [--data mnist fashion] [--devices cpu cuda] [--workers 2 4 8] [--cores 4]
                              [--runs 3] [--epochs 5] [--rows 60000] [--path FOLDER] [--json FILE]

What we read in its code (commit 838e681): every generator is seeded with 42, cuDNN is deterministic, weights
are PyTorch's defaults, a DataLoader shuffles 60,000 images in batches of 64, and its processes make each
sample of a PIL image, as torchvision's MNIST with ToTensor does. Memory is pinned with either value of --pin,
copies block, and each step reads the loss. SGD at 0.01; a schedule that first acts after the last epoch. With
tqdm installed, its bar is drawn in each step, as there. --cores limits a run to so many CPU cores, 0 to none;
the report had four. Each run is a separate process. Needs PyTorch and Pillow, and for mnist and fashion their
files (config/dataset/); --data patterns needs none.

Prints a line per run, then the means with their standard deviations, and how many times as long as on the
GPU a run takes on the CPU. Times include what the program times: moving the model, and the first use of each
kernel. A published time is never divided by a measured one.
"""

import argparse
import json
import os
import random
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from importlib import import_module
from itertools import product
from multiprocessing import get_context
from statistics import fmean, stdev
from typing import Any

import numpy as np
from arguments import refused, whole
from steps import ROOT  # it puts snn on the path

from snn.config import groups
from snn.config.yaml_file import read_yaml
from snn.errors import Unsupported
from snn.files import outputs
from snn.hardware.devices import usable_processors
from snn.strategies.base import PEERS, required
from snn.strategies.torch import Images

SEED, BATCH, RATE = 42, 64, 0.01
MODULES = {"mnist": "mnist", "fashion": "fashion_mnist", "patterns": "patterns"}
Run = dict[str, Any]


def data_sets(of: Mapping[str, Any]) -> list[Images]:
    """The training and the test images of a run. Raises SnnError."""
    choice, rows = groups.load("dataset", of["data"]), of["rows"]
    options = {"path": of["path"]} if "path" in choice else {}
    make = import_module(f"snn.datasets.{MODULES[of['data']]}").make
    table = make(rows=rows, test_rows=of["tested"], shape=choice["shape"], **options)
    pixels, labels = table[:, :-1].reshape(len(table), *choice["shape"]), table[:, -1]
    return [Images(pixels[part], labels[part]) for part in (slice(rows), slice(rows, None))]


def model(torch: Any) -> Any:
    """The program's network; the ReLU on the logits is its own."""
    nn = torch.nn
    return nn.Sequential(
        *(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(inplace=True)),
        *(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(inplace=True)),
        *(nn.MaxPool2d(2), nn.Flatten(), nn.Linear(32 * 14 * 14, 10), nn.ReLU()),
    )


def loop(batches: Any, total: float = 0.0) -> Iterator[tuple[Any, Any, Any]]:
    """Each batch, with a function that adds its loss to the bar, if tqdm is installed."""
    try:
        from tqdm import tqdm
    except ImportError:
        yield from ((*batch, lambda loss: None) for batch in batches)
        return
    bar = tqdm(batches)

    def show(loss: float) -> None:
        nonlocal total
        total += loss
        bar.set_postfix(loss=total / (bar.n + 1))

    yield from ((*batch, show) for batch in bar)


def trained(of: Mapping[str, Any]) -> Run:
    """The times, losses and accuracy of one run, in the process that it has to itself."""
    if of["cores"]:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: of["cores"]])
    import torch

    torch.set_num_threads(usable_processors())  # PyTorch's default, which the environment may limit
    device = of["device"]
    torch.manual_seed(SEED)
    torch.cuda.manual_seed_all(SEED)
    np.random.seed(SEED)  # noqa: NPY002 - as the program does
    random.seed(SEED)
    torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = True, False
    train, test = (
        torch.utils.data.DataLoader(
            images, BATCH, shuffle=not i, num_workers=of["workers"], pin_memory=torch.cuda.is_available()
        )
        for i, images in enumerate(data_sets(of))
    )
    net, criterion = model(torch), torch.nn.CrossEntropyLoss()

    def synchronised() -> float:
        if device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()

    def epoch() -> float:
        losses = 0.0
        for image, label, show in loop(train):
            image, label = image.to(device), label.to(device)
            optimiser.zero_grad()
            loss = criterion(net(image), label)
            loss.backward()
            optimiser.step()
            losses += (found := loss.item())
            show(found)
        return losses / len(train)

    started = synchronised()
    net.to(device).train()
    optimiser = torch.optim.SGD(net.parameters(), lr=RATE)
    curve = [epoch() for _ in range(of["epochs"])]
    between = synchronised()
    right, net = 0, net.eval()
    with torch.no_grad():
        for image, label, show in loop(test):
            outputs_, label = net(image.to(device)), label.to(device)
            show(criterion(outputs_, label).item())
            right += int((outputs_.cpu().argmax(1) == label.cpu()).sum())
    ended = synchronised()
    return {
        **of,
        "seconds": between - started,
        "test_seconds": ended - between,
        "losses": curve,
        "accuracy": right / of["tested"],
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "bar": "tqdm" in sys.modules,
        "on": torch.cuda.get_device_name() if device == "cuda" else "CPU",
    }


def published(data: str, device: str, workers: int) -> Mapping[str, Any]:
    """The row of the report with these settings, if it has one, and its data set's accuracy."""
    of_data = read_yaml(ROOT / "config/cnn_report/cnn_loader.yaml").get(data, {"rows": []})
    for row in of_data["rows"]:
        if (row["backend"], row["workers"]) == (device, workers) and row["pin_memory"] is not False:
            return {**row, "accuracy": of_data["accuracy"]}
    return {}


def _spread(values: list[float]) -> str:
    return f"{fmean(values):.2f}" + (f" ± {stdev(values):.2f}" if len(values) > 1 else "") + " s"


def summary(runs: list[Run]) -> Iterator[str]:
    """A line per data set, device and number of workers; then the ratios, and whether accuracies agree."""
    groups_: dict[tuple[str, str, int], list[Run]] = {}
    for run in runs:
        groups_.setdefault((run["data"], run["device"], run["workers"]), []).append(run)
    for key, found in groups_.items():
        said = published(*key)
        times = [_spread([run[name] for run in found]) for name in ("seconds", "test_seconds")]
        accuracies = " ".join(dict.fromkeys(f"{run['accuracy']:.2%}" for run in found))
        printed = f"  [{said['seconds']} s, {said['test_seconds']} s, {said['accuracy']:.2%}]" if said else ""
        name = f"{key[0]:9} {key[1]:5} {key[2]} workers"
        yield f"{name}  {times[0]}, testing {times[1]}, {accuracies}{printed}"
    for (data, device, workers), found in groups_.items():
        on_gpu = groups_.get((data, "cuda", workers), [])
        if device == "cpu" and on_gpu:
            ratio = fmean(run["seconds"] for run in found) / fmean(run["seconds"] for run in on_gpu)
            said = [published(data, one, workers) for one in ("cpu", "cuda")]
            printed = f"  [{said[0]['seconds'] / said[1]['seconds']:.1f}]" if all(said) else ""
            yield f"{data:9} {workers} workers: {ratio:.2f} times as long on the CPU as on the GPU{printed}"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--data", nargs="+", choices=MODULES, default=["mnist", "fashion"])
    options.add_argument("--devices", nargs="+", choices=["cpu", "cuda"], default=["cpu", "cuda"])
    options.add_argument("--workers", nargs="+", type=whole(0), default=[2, 4, 8])
    options.add_argument("--cores", type=whole(0), default=4)
    options.add_argument("--runs", type=whole(1), default=3)
    options.add_argument("--epochs", type=whole(1), default=5)
    options.add_argument("--rows", type=whole(1), default=60000, help="training images; a sixth are tested")
    options.add_argument("--path", metavar="FOLDER", help="with the files of the only data set")
    options.add_argument("--json", metavar="FILE")
    given = options.parse_args()
    with refused():
        target = None if given.json is None else outputs.checked(given.json, (), "--json")
        torch = required("torch", PEERS)
        if "cuda" in given.devices and not torch.cuda.is_available():
            raise Unsupported("--devices cuda: PyTorch finds no GPU; say --devices cpu")
        keys = {"rows": given.rows, "tested": max(given.rows // 6, 1), "path": given.path}
        for data in given.data:
            data_sets({"data": data, **keys})  # an error here is one message
    runs: list[Run] = []
    for number, data, device, workers in product(
        range(1, given.runs + 1), given.data, given.devices, given.workers
    ):
        of = {"data": data, "device": device, "workers": workers, "cores": given.cores, "run": number}
        of |= {"epochs": given.epochs, **keys}
        with ProcessPoolExecutor(1, get_context("spawn")) as process:
            runs.append(run := process.submit(trained, of).result())
        curve = " ".join(f"{loss:.4f}" for loss in run["losses"])
        on = f"{device} ({run['on']}, {run['threads']} threads) {workers} workers"
        times = f"{run['seconds']:.2f} s, testing {run['test_seconds']:.2f} s"
        print(f"run {number} {data} {on}: {times}, {run['accuracy']:.2%}, losses {curve}", flush=True)
    print(f"\ntorch {runs[0]['torch']}, {'with' if runs[0]['bar'] else 'without'} tqdm; [as published]")
    print("\n".join(summary(runs)))
    if target is not None:
        with outputs.replaced(target) as file, suppress(BrokenPipeError):
            file.write(json.dumps(runs, indent=1).encode())


if __name__ == "__main__":
    main()
