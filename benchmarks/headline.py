#!/usr/bin/env python3
"""Print one table: the fastest strategies of the project, PyTorch and JAX, and the lower bound for this GPU.

    benchmarks/headline.py [--seconds 0.5] [--rounds 2] [--strategies jax_scan persistent ...]

Trains the paper's networks on the large data set, with batches of 256, in float32, from the same weights, by
the peers that are installed (envs/requirements-peers.txt) and by `graph` and `persistent`, and measures the
limits of the device. Times are microseconds per step, medians over rounds in which the strategies take turns,
each in a separate process. Some peers compile for minutes first. At the end come full training runs of the
paper's network, 10,000 steps each.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

from steps import BATCH, ROOT, Timed, data, time_of_step  # first: it puts snn on the path

from snn import backends
from snn.analysis import roofline
from snn.analysis.roofline import Step, floor, warning
from snn.config import groups
from snn.errors import SnnError
from snn.hardware import devices
from snn.hardware.limits import Measured
from snn.models.network import Network, label, mlp
from snn.records.store import read
from snn.strategies.factory import own_runtime

STRATEGIES = ("torch_eager", "torch_graph", "torch_compile", "jax_scan", "graph", "persistent")
OURS = "persistent"
NETWORKS = ((128,), (256,), (1024,), (256, 256), (256, 1024, 256))
Turn = dict[str, Timed | str]
_EPOCHS = 100  # of a whole training, which some strategies run in one call


def networks() -> list[Network]:
    """The paper's networks, with its order of updates, without clipping."""
    features = groups.load("dataset", "large")["features"]
    return [mlp((features, *hidden, 1), init="he_uniform") for hidden in NETWORKS]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--seconds", type=float, default=0.5, help="minimum seconds per measurement")
    options.add_argument("--rounds", type=int, default=2, help="measurements of each strategy")
    options.add_argument("--strategies", nargs="+", choices=STRATEGIES, default=STRATEGIES)
    options.add_argument("--only", choices=STRATEGIES, help="print the times of one strategy as JSON")
    given = options.parse_args()
    if not (given.seconds > 0 and given.rounds > 0):
        options.error("--seconds and --rounds must be above 0")
    try:
        if given.only:
            print(json.dumps(turn(given.only, given.seconds)))
        else:
            headline(given.seconds, given.rounds, given.strategies)
    except SnnError as error:
        sys.exit(f"headline: {error}")


def headline(seconds: float, rounds: int, names: Sequence[str]) -> None:
    """Measure everything and print it."""
    device = devices.find("cuda")
    with tempfile.TemporaryDirectory() as folder:
        limits, training = Path(folder) / "limits.json", Path(folder) / "training.json"
        _python("-m", "snn", "measure-limits", "cuda", str(limits))
        times, remarks = in_turns(rounds, names, lambda name: _turn_of_its_own(name, seconds))
        cell = ("dataset=large", f"strategy={OURS}", "kernel=tiled_fused", "protocol=brief")
        _python("-m", "snn", *cell, f"output={training}")
        measured, record = Measured.of(roofline.read_limits(limits)), read(training)
    print(f"{device.name}, driver {device.driver}\n")
    print(table(times, measured))
    print("".join(f"\n{remark}" for remark in remarks))
    whole = record["summary"]
    if whole["runs"]:
        print(
            f"\nlarge, 32-256-1, {_EPOCHS} epochs by {OURS}: {1e3 * whole['median_seconds']:.4g} ms, "
            f"mean squared error {whole['mean_final_mse']}"
        )


def table(times: dict[str, dict[str, float]], measured: Measured) -> str:
    """The table in Markdown, one row per network, from seconds per step by network and strategy.

    Warnings of times below their floor follow it.
    """
    heads = (
        "network",
        "best peer",
        "its us",
        "graph us",
        f"{OURS} us",
        "times faster",
        "floor us",
        "of the limit",
    )
    rows, warnings = [heads, ("---",) * len(heads)], []
    for network in networks():
        name, hidden = _name(network), network.mlp_widths()[1:-1]
        seconds_by = times[name]
        peers = {
            strategy: seconds
            for strategy, seconds in seconds_by.items()
            if own_runtime(groups.load("strategy", strategy))
        }
        peer = min(peers, key=lambda strategy: peers[strategy], default="")
        step = Step(network.mlp_widths()[0], hidden, _ROWS, BATCH, network.update_order == "sequential")
        bound = floor(step, measured)
        least = bound.seconds if bound else None
        for strategy, seconds in seconds_by.items():
            if said := warning(seconds, least):
                warnings.append(f"\n{name} by {strategy}: {said}")
        ours = seconds_by.get(OURS)
        rows.append(
            (
                name,
                peer,
                _us(peers.get(peer)),
                _us(seconds_by.get("graph")),
                _us(ours),
                f"{peers[peer] / ours:.2f}" if peer and ours else "",
                _us(least),
                f"{least / ours:.0%}" if least and ours else "",
            )
        )
    return "\n".join([*(f"| {' | '.join(row)} |" for row in rows), *warnings])


_ROWS = groups.load("dataset", "large")["rows"]


def turn(name: str, seconds: float) -> Turn:
    """Seconds per step and the plan, if any, by network; or the reason why it has no time."""
    X, Y = data()
    kernel = "naive" if own_runtime(groups.load("strategy", name)) else "tiled_fused"
    backend = backends.make("cuda", groups.load("kernel", kernel))
    times: Turn = {}
    for network in networks():
        try:
            times[_name(network)] = time_of_step(name, backend, network, X, Y, seconds, _EPOCHS)
        except SnnError as error:
            times[_name(network)] = str(error)
    return times


def _turn_of_its_own(name: str, seconds: float) -> Turn:
    """The same, in a separate process."""
    try:
        printed = _python(__file__, "--only", name, "--seconds", str(seconds))
    except SnnError as error:
        return {_name(network): str(error) for network in networks()}
    return {
        network: time if isinstance(time, str) else Timed(*time)
        for network, time in json.loads(printed.splitlines()[-1]).items()
    }


def in_turns(
    rounds: int, names: Sequence[str], take: Callable[[str], Turn]
) -> tuple[dict[str, dict[str, float]], list[str]]:
    """Median seconds by network and strategy; and remarks on plans and on what is left out.

    A strategy is left out of a network's row if it has no time in some round.
    """
    everywhere = [_name(network) for network in networks()]
    samples: dict[str, dict[str, list[float]]] = {network: defaultdict(list) for network in everywhere}
    plans: dict[str, str] = {}
    reasons: dict[str, dict[str, str]] = defaultdict(dict)
    for _ in range(rounds):
        for name in names:
            if len(reasons[name]) == len(everywhere):
                continue
            for network, time in take(name).items():
                if isinstance(time, str):
                    reasons[name].setdefault(network, time)
                else:
                    samples[network][name].append(time.seconds)
                    if name == OURS and time.plan:
                        plans[network] = time.plan
    times = {
        network: {
            name: statistics.median(values)
            for name, values in by_name.items()
            if network not in reasons[name]
        }
        for network, by_name in samples.items()
    }
    remarks = [f"{network} by {OURS}: {plan}" for network, plan in plans.items()]
    for name, why in reasons.items():
        for reason in dict.fromkeys(why.values()):
            of = [network for network in everywhere if why.get(network) == reason]
            where = "" if of == everywhere else f" of {', '.join(of)}"
            remarks.append(f"{name} is left out{where}: {reason}")
    return times, remarks


def _name(network: Network) -> str:
    return label(network.mlp_widths())


def _us(seconds: float | None) -> str:
    """Microseconds, with two decimals below 100."""
    if seconds is None:
        return ""
    return f"{1e6 * seconds:.2f}" if seconds < 1e-4 else f"{1e6 * seconds:.0f}"


def _python(*arguments: str) -> str:
    """Standard output of another Python process; its standard error is shown."""
    done = subprocess.run([sys.executable, *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise SnnError(f"{' '.join(arguments)} ended with status {done.returncode}")
    return done.stdout


if __name__ == "__main__":
    main()
