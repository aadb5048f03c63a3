"""Figures of microbenchmarks: memory by access pattern, call, allocator and time, and networks of any
shape."""

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import PatchCollection
from matplotlib.colors import LinearSegmentedColormap, LogNorm
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from snn.analysis import launch_gain as gain
from snn.backends.access import AOS, OFFSET, SOA, STRIDE, VECTOR
from snn.figures import layout, style
from snn.figures.form import Drawing, Rows, Values, about, points, with_rule
from snn.figures.style import RULE, Look, binary_size, numbered
from snn.figures.ticks import linear_axis
from snn.microbenchmarks.allocators import ALLOCATORS, CUPY_POOL, FIRST_FIT, MALLOC, MALLOC_ASYNC
from snn.microbenchmarks.memory_calls import FROM_PAGEABLE, FROM_PINNED

_LOOKS = {
    name: numbered(i)
    for names in (
        (*ALLOCATORS, "host_alloc", "managed_alloc"),
        ("pageable", "pinned", "managed", "managed_prefetch"),
        ("by_device", "by_host"),
    )
    for i, name in enumerate(names)
}
"""The looks of allocators and kinds of host memory that share a panel."""
_CUDA_NAMES = {
    MALLOC: "cudaMalloc",
    MALLOC_ASYNC: "cudaMallocAsync",
    "host_alloc": "cudaHostAlloc (pinned)",
    "managed_alloc": "cudaMallocManaged",
}
_POOLS = {MALLOC_ASYNC: "cudaMallocAsync", CUPY_POOL: "CuPy's pool", FIRST_FIT: "first-fit pool"}


def _name(call: str, backend: str) -> str:
    """The name of a call, an allocator or a kind of host memory for readers."""
    names = _POOLS | (_CUDA_NAMES if backend == "cuda" else {})
    return names.get(call, call.replace("_", " "))


# ---- fragmentation

_QUANTITIES = {
    "reserved_over_used": "peak reserved / peak in use",
    "suffices": "least that sufficed / peak in use",
    "first_us": "time per call (µs)",
    "again_us": "time per call (µs)",
}
_AGAIN = "trace served again"


def _fragments(table: pd.DataFrame) -> pd.DataFrame:
    """A panel per quantity with a row per trace and a dot per allocator; a dot is hollow if the allocator has
    served the trace before. If even the largest tested ratio failed, its marker is open."""
    served = table[table["status"] == "ok"]
    failed = served["fails"].notna() & ~(served["suffices"] > served["fails"])
    known = served.assign(suffices=served["suffices"].fillna(served["fails"]), status="")
    names = [_name(*each) for each in served[["allocator", "backend"]].to_numpy()]
    found = []
    for quantity, axis in _QUANTITIES.items():
        columns = {"row": served["trace"].str.replace("_", " "), "panel": axis, "axis": axis}
        columns |= {"slot": served["allocator"], "is_open": failed & (quantity == "suffices")}
        columns["look"] = [_LOOKS[name]._replace(line="") for name in served["allocator"]]
        columns |= {"label": names, "aside": -0.05 if quantity == "first_us" else 0.0}
        if quantity == "again_us":
            columns["look"] = [look._replace(face="white") for look in columns["look"]]
            columns |= {"label": _AGAIN, "aside": 0.05}
        ends = (f"{quantity}_low", f"{quantity}_high") if axis == "time per call (µs)" else ()
        found.append(points(known, quantity, ends, **columns))
    frame = pd.concat(found, ignore_index=True)
    return frame[frame["value"].groupby(frame["panel"]).transform("count") > 0]


def _note_ratios(table: pd.DataFrame, frame: pd.DataFrame) -> str:
    """The note's sentence about the tested ratios of an allocator."""
    served = table[table["status"] == "ok"]
    tested = sorted({*served["suffices"].dropna(), *served["fails"].dropna()})
    if not tested:
        return ""
    said = f"Middle: the least of the tested ratios ({', '.join(f'{ratio:g}' for ratio in tested)}) that "
    none = " Open: not even this ratio, the largest tested, sufficed." if frame["is_open"].any() else ""
    return f"{said}sufficed, not an exact value.{none}"


# ---- bandwidth by access pattern

_ACCESSES = {"read": style.BLUE, "copy": style.ORANGE}
_PATTERNS = {
    STRIDE: ("strides", "stride (floats)", "o"),
    AOS: ("structures", "used fields of 8", "s"),
    SOA: ("structures", "used fields of 8", "^"),
    OFFSET: ("alignment", "offset (floats)", "o"),
    VECTOR: ("vector loads", "floats per load", "o"),
}
"""The panel, the varied number and the marker of each pattern."""


def _accesses(table: pd.DataFrame) -> pd.DataFrame:
    """Useful bytes per second, bytes of whole sectors (dotted), and the limit of the device (dashed).

    Colours show accesses, and markers the two layouts of structures.
    """
    table = table[table["median"].notna()]
    table = table.sort_values("pattern", key=lambda names: names.map([*_PATTERNS].index), kind="stable")
    panel, title, marker = (table["pattern"].map(lambda name, i=i: _PATTERNS[name][i]) for i in range(3))
    shades, name = table["access"].map(_ACCESSES), table["access"] + ", " + table["pattern"]
    columns = {"panel": panel, "x": table["value"], "x_title": title, "slot": "", "in_key": False}
    looks = [Look(shade, each, "-") for shade, each in zip(shades, marker, strict=True)]
    used = points(table, "median", ("low", "high"), looks, label=name, **columns)
    dotted = [Look(shade, "", ":") for shade in shades]
    moved = points(table, "moved_gb_s", look=dotted, label=name + ", whole sectors", **columns)
    columns |= {"x": np.nan, "label": table["access"]}
    dashed = [RULE._replace(colour=shade) for shade in shades]
    limit = points(table, "limit_gb_s", look=dashed, **columns).drop_duplicates(["panel", "label", "value"])
    key = {
        name: Look(shade, "o", "-") for name, shade in _ACCESSES.items() if (table["access"] == name).any()
    }
    key |= {"whole sectors": Look(style.GREY, "", ":"), "limit": RULE}
    layouts = [name for name in (AOS, SOA) if (table["pattern"] == name).any()]
    key |= {name: Look(style.GREY, _PATTERNS[name][2]) for name in layouts}
    nothing = pd.DataFrame({"value": np.nan, "panel": panel.tail(1).repeat(len(key))}).reset_index(drop=True)
    entries = points(nothing, "value", panel=nothing["panel"], label=[*key] * bool(len(table)), look=key)
    found = [used, moved[moved["value"].notna()], limit[limit["value"].notna()], entries]
    return pd.concat(found, ignore_index=True)


# ---- time of memory calls

_KINDS = {
    ("allocation", None): "allocation and free",
    ("copy", "to_device"): "copy to the device",
    ("copy", "to_host"): "copy to the host",
    ("first_touch", None): "first touch of managed pages",
}
_OVERLAP = "overlap of copies and kernels"
_FROM = {FROM_PINNED: "pinned", FROM_PAGEABLE: "pageable"}
_CALL_TIME, _HIDDEN = "time (µs)", "fraction hidden"


def _calls(table: pd.DataFrame) -> pd.DataFrame:
    """A panel per kind of call with a line per call, dashed if other blocks are alive, and a panel with the
    overlap of streams."""
    table = table[table["median"].notna()]
    found = []
    for (kind, direction), panel in _KINDS.items():
        cells = table[(table["kind"] == kind) & (direction is None or table["direction"] == direction)]
        calls = cells["direction"] if kind == "first_touch" else cells["call"]
        columns = {"panel": panel, "x": cells["bytes"], "tick": [*map(binary_size, cells["bytes"])]}
        columns["label"] = [_name(*each) for each in zip(calls, cells["backend"], strict=True)]
        lines = np.where(cells["live"].fillna(0), "--", "-")
        looks = [
            _LOOKS[call]._replace(line=str(line), size=3.0) for call, line in zip(calls, lines, strict=True)
        ]
        found.append(points(cells, "median", ("low", "high"), looks, slot="", **columns))
    cells = table[table["call"] == "overlap"]
    memory = cells["kind"].replace(_FROM)
    columns = {"panel": _OVERLAP, "axis": _HIDDEN, "x": cells["streams"], "x_title": "streams", "slot": ""}
    columns |= {"label": memory + " memory", "look": [_LOOKS[name] for name in memory]}
    frame = points(cells, "median", ("low", "high"), **columns)
    return pd.concat([*found, with_rule(frame, 1.0)], ignore_index=True)


def _allocation_sizes(table: pd.DataFrame) -> pd.DataFrame:
    """A panel for allocations and one for frees, a line per call, dashed while another block is alive."""
    cells = table[table["median"].notna()]
    names = [_name(*each) for each in zip(cells["call"], cells["backend"], strict=True)]
    looks = [
        _LOOKS[call]._replace(line="--" if live else "-", size=3.0)
        for call, live in zip(cells["call"], cells["live"], strict=True)
    ]
    columns = {"panel": cells["kind"], "x": cells["bytes"], "label": names, "slot": ""}
    return points(
        cells, "median", ("low", "high"), looks, tick=[*map(binary_size, cells["bytes"])], **columns
    )


# ---- networks of any shape

_LAW = "law"


def _by_layers(table: pd.DataFrame, x: str, speedup: str) -> pd.DataFrame:
    """Speedups of one launch, with a marker per shape that shows its number of hidden layers."""
    table = table[table[speedup].notna() & table[x].notna()]
    table = table.assign(layers=table["hidden"].map(gain.hidden_layers)).sort_values("layers")
    labels = ("one hidden layer" if count == 1 else f"{count} hidden layers" for count in table["layers"])
    looks = [numbered(count - 1)._replace(line="") for count in table["layers"]]
    columns = {"x": table[x], "label": list(labels), "slot": ""}
    return points(table, speedup, look=looks, **columns)


def _shapes(table: pd.DataFrame) -> pd.DataFrame:
    return with_rule(_by_layers(table, "graph_us", "speedup_over_graph"), 1.0)


def _note_shapes(table: pd.DataFrame, frame: pd.DataFrame) -> str:
    known = frame[frame["x"].notna()]
    slower, none = int((known["value"] < 1).sum()), int((table["status"] != "ok").sum())
    return (
        f"Markers: ratio of two medians, without an interval. Of {len(table)} shapes {len(known)} are shown, "
        f"{slower} of them below the dashed line, where graph is faster; {none} have no plan in one launch."
    )


def _gains(table: pd.DataFrame) -> pd.DataFrame:
    """Speedups over the best graph by its time per kernel, and the law of two hidden layers and more."""
    dots = _by_layers(table, "kernel_us", "speedup_over_best_graph")
    deeper = dots[dots["label"] != "one hidden layer"].sort_values("x")
    x = deeper["x"].to_numpy(float)
    if law := gain.fit(x, deeper["value"].to_numpy(float)):
        line = deeper.assign(
            value=law.speedup(x), label=_LAW, look=[Look(style.BLACK, "", "-")] * len(deeper)
        )
        dots = pd.concat([dots, line], ignore_index=True)
    return with_rule(dots, 1.0)


# ---- the memory map over time


_MIB = 1 << 20
_SIZES = LinearSegmentedColormap.from_list("sizes", mpl.colormaps["viridis"](np.linspace(0.2, 1, 256)))
"""Dark to light, for colour-blind readers, too; without the darkest, which would hide the black lines."""
_AMOUNTS = {"reserved": Look(style.BLACK, "", "-"), "in use": Look(style.BLACK, "", "--")}


def memory_map(table: pd.DataFrame, paper_device: str = "", trained: str = "") -> Figure:
    """Draw each block of a trace as a box from its allocation to its free: a panel per allocator, with calls
    from left to right, and places upwards.

    The line shows reserved memory, the dashed line memory in use.
    """
    rows = table[table["status"] == "ok"]
    if rows.empty:
        return layout.nothing("memory_map: no trace was replayed")
    allocators = list(dict.fromkeys(rows["allocator"]))
    titles = [_name(allocator, rows["backend"].iloc[0]) for allocator in allocators]
    figure, panels = layout.panels(len(allocators), 2.3, 2, titles, sharex=True)
    least, most = float(rows["bytes"].min()), float(rows["bytes"].max()) + 1
    sizes = LogNorm(least, most)
    for axes, allocator in zip(panels, allocators, strict=True):
        _boxes(axes, rows[rows["allocator"] == allocator], sizes)
        if axes.xaxis.get_tick_params()["labelbottom"]:
            axes.set_xlabel("call of the trace")
        if layout.is_first(axes):
            axes.set_ylabel("place of a block,\namount of a line (MiB)")
    bar = figure.colorbar(ScalarMappable(sizes, _SIZES), ax=panels, shrink=0.8)
    bar.ax.yaxis.set_minor_locator(mpl.ticker.NullLocator())
    shown = [size for size in (1 << shift for shift in range(0, 41, 5)) if least <= size <= most]
    bar.set_ticks(shown, labels=[binary_size(size) for size in shown])
    bar.set_label("size of the block")
    trace = rows["trace"].iloc[0].replace("_", " ")
    note = (
        "Boxes: blocks, from the call that allocates one to the call that frees it. Places: addresses, "
        "without those that no block touches. Lines: amounts; they end at the last call that allocates. One "
        "replay of the trace, without an interval."
    )
    key = [look.entry(label) for label, look in _AMOUNTS.items()]
    return layout.framed(figure, "Memory map over time", [*about(table, ""), f"Trace: {trace}."], note, key)


def _boxes(axes: Axes, rows: pd.DataFrame, sizes: LogNorm) -> None:
    low, high = rows["place"] / _MIB, (rows["place"] + rows["bytes"]) / _MIB
    corners = zip(rows["allocated"], low, rows["freed"] - rows["allocated"], high - low, strict=True)
    boxes = [Rectangle((at, place), calls, size) for at, place, calls, size in corners]
    drawn = PatchCollection(boxes, cmap=_SIZES, norm=sizes, linewidth=0, rasterized=True)
    drawn.set_array(rows["bytes"].to_numpy(float))
    axes.add_collection(drawn)
    amounts = [rows["reserved_bytes"] / _MIB, rows["in_use_bytes"] / _MIB]
    for amount, look in zip(amounts, _AMOUNTS.values(), strict=True):
        axes.step(rows["allocated"], amount, where="post", **look.options | {"zorder": 2})
    axes.set_xlim(0, rows["freed"].max())
    axes.set_ylim(0, 1.05 * max(high.max(), amounts[0].max()))
    linear_axis(axes.xaxis)
    linear_axis(axes.yaxis)


FORMS: dict[str, Drawing] = {
    "memory_map": memory_map,
    "fragmentation": Rows(
        title="Fragmentation by trace and allocator",
        frame=_fragments,
        axes=dict.fromkeys(_QUANTITIES.values(), True),
        note=(
            "Memory: counted, without an interval. Times: median of the samples; bars: its 95% confidence "
            "interval. Traces of strategies have their names; the others are made by a rule.",
            _note_ratios,
        ),
    ),
    "memory_access": Values(
        title="Bandwidth by pattern of memory access",
        frame=_accesses,
        axes={"bandwidth (GB/s)": True},
        log_x=True,
        most=2,
        has_one_scale=True,
        note=(
            "Markers: median of the samples, of the bytes that the program uses; bars: its 95% confidence "
            "interval. Dotted: with the rest of the sectors (on a CPU, cache lines) that hold them. What "
            "neighbours share counts for each, but a cache may have it: so this can exceed the limit. "
            "Dashed: the device's measured limit.",
        ),
    ),
    "memory_calls": Values(
        title="Time of memory calls",
        frame=_calls,
        axes={_CALL_TIME: True, _HIDDEN: False},
        x="size of the block",
        most=2,
        keys=2,
        note=(
            "Markers: median of the samples; bars: its 95% confidence interval. Dashed lines of allocation: "
            "while another block is alive. Fraction hidden: the time that copies and kernels together save, "
            "over the shorter of copies alone and kernels alone; 1: all of it. Below 0: both together take "
            "longer than one after the other, as alternating between them has an overhead. Above 1: noise of "
            "the three times.",
        ),
    ),
    "allocation_size": Values(
        title="Time of allocations by size",
        frame=_allocation_sizes,
        axes={_CALL_TIME: True},
        x="size of the block",
        most=2,
        note=(
            "Markers: median of the samples, of one call each; bars: its 95% confidence interval. Dashed "
            "lines: while another block of 256 bytes is alive.",
        ),
    ),
    "shapes": Values(
        title="Training in one launch beside a CUDA graph, by shape",
        frame=_shapes,
        axes={"speedup over graph": True},
        x="time per step of graph (µs)",
        note=(_note_shapes,),
    ),
    "launch_gain": Values(
        title="Gain of one launch by the time of a CUDA graph's kernels",
        frame=_gains,
        axes={"speedup over the best graph": True},
        x="time per kernel of the best graph (µs)",
        note=(
            "Markers: ratio of two medians, without an interval, of perceptrons with one output. Line: law "
            "t / (a t - b) for kernels of t µs, fitted to networks of two hidden layers and more. The table "
            "launch_gain has a and b. Below the dashed line the graph is faster.",
            lambda table, frame: f"Best graphs: {', '.join(sorted(set(table['best_graph'].dropna())))}.",
        ),
    ),
}
