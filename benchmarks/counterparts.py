#!/usr/bin/env python3
"""Times of the functions that docs/howto/from_the_answer_to_your_code.md shows, as a table for a page.

    benchmarks/counterparts.py [--rows 1280] [--features 11] [--epochs 20] [--batch 64] [--rounds 5]

A time covers a whole call, in which data are copied and graphs captured; a call before the first round
loads libraries and compiles. Each round calls all functions in random order. Prints Markdown: the mean time
with its 95% confidence interval, and how many times as fast as the first function.
"""

import argparse
import random
import re
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from arguments import whole  # noqa: E402

from snn.analysis.intervals import mean_interval, mean_of, ratio  # noqa: E402
from snn.recommending.counterparts import PAGE  # noqa: E402

RUNS = 2


def functions() -> dict[str, object]:
    """The names that the page's code defines."""
    names: dict[str, object] = {}
    for code in re.findall(r"^```python\n(.*?)^```$", (ROOT / PAGE).read_text(encoding="utf-8"), re.M | re.S):
        exec(code, names)
    return names


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    for name, usual in (("rows", 1280), ("features", 11), ("epochs", 20), ("batch", 64), ("rounds", 5)):
        options.add_argument(f"--{name}", type=whole(1), default=usual)
    given = options.parse_args()
    page = functions()
    torch, device = page["torch"], page["device"]
    X = torch.rand(given.rows, given.features)
    Y = X.sum(1, keepdim=True)
    train = {name.removeprefix("train_"): one for name, one in page.items() if name.startswith("train_")}

    def call(name: str) -> float:
        torch.manual_seed(1)
        model = page["make_network"](given.features).to(device)
        arguments = (X, Y, given.epochs, given.batch)
        wait = torch.cuda.synchronize if device == "cuda" else lambda: None
        threads = torch.get_num_threads()
        wait()
        started = time.perf_counter()
        train[name](*arguments) if name == "persistent" else train[name](model, *arguments)
        wait()
        seconds = time.perf_counter() - started
        torch.set_num_threads(threads)
        return seconds

    failed: dict[str, str] = {}
    seconds: dict[str, list[list[float]]] = {name: [] for name in train}
    for name in train:
        try:
            print(f"{name}: {call(name):.3g} s with loading and compiling", file=sys.stderr)
        except Exception as error:  # such as no GPU, or no compiler
            failed[name] = str(error).strip().splitlines()[0][:80]
    for _ in range(given.rounds):
        names = [name for name in train if name not in failed]
        for name in random.sample(names, len(names)):
            seconds[name].append([call(name) for _ in range(RUNS)])
    where = torch.cuda.get_device_name() if device == "cuda" else "a CPU"
    print(
        f"{given.epochs} epochs on {given.rows} rows, batch size {given.batch}, PyTorch {torch.__version__},"
    )
    print(f"{where}:\n\n| function | time | times as fast as `train_reference` |\n| --- | --- | --- |")
    for name, rounds in seconds.items():
        if name in failed:
            print(f"| `train_{name}` | - | {failed[name]} |")
            continue
        low, mean, high = (
            1e3 * one for one in (mean_interval(rounds)[0], mean_of(rounds), mean_interval(rounds)[1])
        )
        found = ratio(seconds["reference"], rounds)
        over = "1" if name == "reference" else f"{found.value:.3g} ({found.low:.3g} to {found.high:.3g})"
        print(f"| `train_{name}` | {mean:.3g} ms ({low:.3g} to {high:.3g}) | {over} |")


if __name__ == "__main__":
    main()
