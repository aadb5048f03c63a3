"""How the tests build each source in kernels/: in which launch shapes and with which further defines."""

import re
from dataclasses import dataclass, field, replace
from itertools import cycle
from pathlib import Path

from snn.backends import kernel_source
from snn.backends.launches import HEAD, DeviceCapability, LaunchConfiguration, TrainingShape
from snn.backends.launches.convolution import ConvolutionalShape
from snn.backends.launches.linear import LayeredShape, LinearLayer, PerceptronShape
from snn.backends.launches.whole import WholeShape
from snn.backends.ops import OPS
from snn.config import groups
from snn.models.optimizers import PLAIN, Adam, AdamW, Sgd

SOURCES = sorted((Path(__file__).resolve().parent.parent / "kernels").glob("*.cu"))

LAYERS = sorted((SOURCES[0].parent / "layers").glob("*.cu"))
"""What layers launch beside products: their blocks are their own."""

CONVOLUTIONS = sorted((SOURCES[0].parent / "convolution").glob("*.cu"))
"""Direct convolutions, each of the kernel of its name, compiled for one shape."""

LIMITS = sorted((SOURCES[0].parent / "limits").glob("*.cu"))
"""What measures a device: compiled like the others, and no products to run on a CPU."""

ACCESS = sorted((SOURCES[0].parent / "access").glob("*.cu"))
"""Patterns of memory access, for the microbenchmark memory_access."""

# (block, work) of a kernel that computes several elements a thread.
SEVERAL = [((16, 16), work) for work in [(4, 4), (2, 4), (2, 2), (1, 2), (1, 1)]]
SHAPES = {
    "elementwise": {"fp32": [((16, 16), (1, 1))]},  # its blocks are its own
    "split_k": {"fp32": [((128, 1), (1, 1)), ((7, 1), (1, 1))]},
    "tiled_fused": {"fp32": [*SEVERAL, ((7, 3), (1, 1)), ((5, 4), (2, 3))]},
    "tensor_core": {"tf32": SEVERAL[0::2], "bf16": [*SEVERAL[1::2], ((5, 32), (1, 1))]},
}


@dataclass(frozen=True)
class Build:
    source: Path
    block: tuple[int, int]
    work: tuple[int, int]
    precision: str = "fp32"
    architecture: int | None = None  # that the emulator pretends to be, as 750
    training: bool = False  # the products of biases, activation functions and Adam
    grouped: bool = False  # gradients of several layers
    storage: str = ""  # of activations, if that is not float32
    defines: dict = field(init=False, hash=False, compare=False)

    def __post_init__(self):
        sizes = dict(
            zip(("BLOCK_X", "BLOCK_Y", "WORK_ROWS", "WORK_COLS"), self.block + self.work, strict=True)
        )
        rounding = {self.precision.upper(): 1} if self.precision != "fp32" else {}
        generation = {"__CUDA_ARCH__": self.architecture} if self.architecture else {}
        training = {name: 1 for name in ("TRAINING", "GROUPED") if getattr(self, name.lower())}
        storage = {f"STORED_{self.storage.upper()}": 1} if self.storage else {}
        object.__setattr__(self, "defines", sizes | rounding | generation | training | storage)

    def __str__(self) -> str:
        block, work = ("x".join(map(str, pair)) for pair in (self.block, self.work))
        generation = f"sm_{self.architecture // 10}" if self.architecture else None
        precision = self.precision if self.precision != "fp32" else None
        training = "grouped" if self.grouped else "training" if self.training else None
        parts = [self.source.stem, precision, block, work, generation, training, self.storage]
        return "-".join(filter(None, parts))

    def grid(self, m: int, n: int) -> tuple[int, int]:
        """Blocks for a C of m x n."""
        return -(-n // (self.block[0] * self.work[1])), -(-m // (self.block[1] * self.work[0]))


def builds(source: Path) -> list[Build]:
    return [
        Build(source, block, work, precision)
        for precision, shapes in shapes_of(source).items()
        for block, work in shapes
    ]


def builds_for_training() -> list[Build]:
    """Those of each source that has products of biases, activation functions and Adam."""
    sources = [source for source in SOURCES if kernel_source.knows_training(kernel_source.text(source))]
    grouped = [source for source in sources if source.stem != "split_k"]
    return [
        *(
            replace(builds(source)[-1 if source.stem == "split_k" else 0], training=True)
            for source in sources
        ),
        *(replace(builds(source)[-1], training=True, grouped=True) for source in grouped),
    ]


def builds_in_16_bits() -> list[Build]:
    """One of each source that can hold activations in 16 bits, of those for training where it has them."""
    made = {build.source: build for build in [*(builds(one)[0] for one in SOURCES), *builds_for_training()]}
    made |= {source: Build(source, (1, 1), (1, 1)) for source in LAYERS}
    held = [one for source, one in made.items() if "STORED_BF16" in kernel_source.text(source)]
    return [replace(one, storage=storage) for one, storage in zip(held, cycle(["bf16", "fp16"]))]


def shapes_of(source: Path) -> dict[str, list[tuple[tuple[int, int], tuple[int, int]]]]:
    """The (block, work) of a source by precision: those of ``SHAPES``, else of its file in config/kernel."""
    if source.stem in SHAPES:
        return SHAPES[source.stem]
    choice = choice_of(source)
    if choice["work"] is None:
        shapes = [*SEVERAL, ((7, 3), (1, 1))]
    else:
        blocks = dict.fromkeys([tuple(choice["block"]), (1, 1), (7, 3)])
        shapes = [(block, tuple(choice["work"])) for block in blocks]
    return dict.fromkeys(choice["precisions"], shapes)


def choice_of(source: Path) -> dict:
    """The content of the file in config/kernel that names this source."""
    choices = [groups.load("kernel", name) for name in groups.names("kernel")]
    found = [choice for choice in choices if choice["source"] == f"kernels/{source.name}"]
    assert found, f"kernels/{source.name}: no file in config/kernel has it as its source"
    return found[0]


def builds_of_old(source: Path) -> list[Build]:
    """For GPUs without what a source uses on newer ones: what it does there instead."""
    if source.stem != "tensor_core":
        return []
    return [Build(source, (16, 16), (1, 2), precision, 750) for precision in SHAPES[source.stem]]


CONVOLVED = {  # by name: channels, height, width, filters, kernel, padding, size of a pooling, rows, parts
    "first": (1, 28, 28, 16, 3, 0, 2, 3, 128),
    "second": (16, 26, 26, 32, 3, 0, 2, 1, 8),
    "uneven": (5, 11, 9, 7, 2, 1, 3, 3, 4),
    "wide": (2, 6, 131, 34, 5, 2, 2, 1, 3),
    "large": (3, 12, 13, 3, 9, 10, 4, 2, 5),
    "point": (9, 3, 5, 17, 1, 0, 1, 4, 2),
}


@dataclass(frozen=True)
class Convolution:
    """A convolution's source, compiled for a shape: one of ``CONVOLVED``, or numbers like those."""

    source: Path
    shape: str | tuple[int, ...]
    precision: str = "fp32"
    architecture: int | None = None
    block: tuple[int, int] = (16, 16)
    defines: dict = field(init=False, hash=False, compare=False)

    def __post_init__(self):
        of_shape = Build(self.source, self.block, (1, 1), self.precision, self.architecture).defines
        numbers = {name.upper(): number for name, number in self.given().items()}
        object.__setattr__(self, "defines", of_shape | numbers)

    def __str__(self) -> str:
        generation = f"sm_{self.architecture // 10}" if self.architecture else None
        precision = self.precision if self.precision != "fp32" else None
        block = "x".join(map(str, self.block)) if self.block != (16, 16) else None
        return "-".join(filter(None, [self.source.stem, str(self.shape), precision, block, generation]))

    def given(self) -> dict[str, int]:
        numbers = CONVOLVED[self.shape] if isinstance(self.shape, str) else self.shape
        return dict(zip(_NUMBERS, numbers, strict=True))

    def numbers(self, op: str) -> tuple[int, ...]:
        return tuple(self.given()[name] for name in OPS[op].numbers)


_ANOTHER = re.compile(r"^//.*\n|^#include \"\w+\.cu\"\n|^\n", re.MULTILINE)
"""What a source may hold that is nothing but another source."""

_NUMBERS = ("channels", "height", "width", "filters", "kernel", "padding", "size", "rows", "parts")


def convolutions() -> list[Convolution]:
    """Every source with every shape, and with every precision that it has; one that is another's with one."""
    found = []
    for source in CONVOLUTIONS:
        kernel = groups.load("kernel", source.stem)
        if _ANOTHER.sub("", source.read_text()) == "":
            found.append(Convolution(source, "uneven", kernel["precisions"][0]))
            continue
        found += [Convolution(source, shape, kernel["precisions"][0]) for shape in CONVOLVED]
        found += [Convolution(source, "uneven", precision) for precision in kernel["precisions"][1:]]
        if kernel["work"] == [1, 1] and not kernel["fused"]:
            found.append(Convolution(source, "uneven", block=(7, 3)))
        if kernel["precisions"] != ["fp32"]:
            found += [Convolution(source, "uneven", precision, 750) for precision in kernel["precisions"]]
    return found


@dataclass(frozen=True)
class Training:
    """A whole training as a plan compiles it; ``architectures``: those that could have it."""

    source: Path
    defines: dict = field(hash=False)
    architectures: tuple[str, ...]
    constants: dict = field(hash=False)  # of the source, by the engine's formulae

    @property
    def spills(self) -> bool:
        """Whether a thread may keep variables in local memory: it has few registers, or one of two roles."""
        return int(self.defines.get("BLOCKS_PER_SM", 1)) > 1 or int(self.defines.get("OWNER_WARPS", 0)) > 0

    def __str__(self) -> str:
        names = (
            "WIDTHS",
            "HEIGHT",
            "FILTERS2",
            "CROSS_ENTROPY",
            "CLUSTER",
            "BLOCKS_PER_SM",
            "CLUSTERS",
            "NEURON_TILES",
            "PARTS",
            "BATCH",
            "CLIP",
            "SEQUENTIAL",
        )
        return "-".join([self.source.stem, *(self.defines[name] for name in names if name in self.defines)])


_ALL = ("sm_70", "sm_75", "sm_80", "sm_90", "sm_100", "sm_120")
_TRAININGS = [  # widths, batch, sequential, clipped, members, architectures
    ((32, 256), 256, True, False, 1, ("sm_90", "sm_100")),
    ((32, 1024), 256, True, False, 1, ("sm_120",)),
    ((32, 1024), 256, True, False, 10, ("sm_90",)),
    ((48, 512), 256, True, False, 1, ("sm_90",)),
    ((64, 512), 256, True, False, 1, ("sm_90",)),
    ((32, 4096), 200, True, False, 1, ("sm_90",)),
    ((16, 1024), 150, True, False, 10, ("sm_90",)),
    ((32, 256), 256, False, True, 1, ("sm_70", "sm_75", "sm_90", "sm_120")),
    ((32, 256, 256), 256, True, False, 1, ("sm_90", "sm_100", "sm_120")),
    ((32, 256, 256), 256, True, True, 1, ("sm_80", "sm_100")),
    ((32, 256, 1024, 256), 256, True, False, 1, ("sm_90", "sm_100")),
    ((16, 128, 1024, 256), 250, True, False, 1, ("sm_90",)),
    ((32, 256, 512, 256), 128, True, False, 1, ("sm_70", "sm_90")),
    ((48, 256, 1024, 256), 256, True, False, 1, ("sm_75", "sm_90")),
    # Not sm_80, whose SMs have less shared memory than this takes.
    ((32, 256, 1024, 256), 256, True, True, 1, ("sm_90", "sm_100")),
    ((32, 128, 1024, 256), 256, False, True, 1, ("sm_90",)),
]


_OF_MEMBERS = [  # widths, batch, sequential, architectures: of many networks, in a block each
    ((32, 64), 256, True, ("sm_80", "sm_90", "sm_100", "sm_120")),  # a warp
    ((16, 160), 90, False, ("sm_90",)),  # three, chunks of 16 rows
    ((64, 256), 256, True, ("sm_90",)),  # eight, with two tiles of neurons each
]

_OF_IMAGES = [
    (
        ConvolutionalShape(64, True, 1, 28, 28, 16, 3, 0, 32, 3, 0, 2, 10),
        ("sm_80", "sm_90", "sm_100", "sm_120"),
    ),
    (ConvolutionalShape(32, False, 3, 15, 16, 30, 5, 0, 20, 3, 1, 3, 7), ("sm_90",)),
    (ConvolutionalShape(20, True, 2, 12, 13, 48, 3, 1, 20, 2, 0, 1, 32), ("sm_90",)),
    (
        ConvolutionalShape(60, True, 1, 28, 28, 16, 3, 0, 32, 3, 0, 2, 10, "adamw_update", 2, True, True),
        ("sm_90",),
    ),
]

_LAYERED = [  # widths, batch, sequential, cross-entropy, architectures; with Adam, shuffled: a function
    ((784, 256, 128, 10), 256, False, True, _ALL),
    ((32, 256, 1), 256, True, False, ("sm_90",)),
    ((1024, 2048, 2048, 100), 1024, True, True, ("sm_90", "sm_120")),
    ((30, 1000, 48, 8, 256), 97, True, True, ("sm_80",)),
    ((64, 96, 192, 32, 1), 416, True, False, ("sm_90", "sm_100")),
    ((17, 256, 256, 6), 256, False, False, ("sm_75", "sm_90"), "tanh"),
    ((100, 1000, 2048, 10), 500, True, True, ("sm_90",), "gelu"),
]


_WATCHED = {"watched": True, "held_rows": 100, "most_epochs": 9}
_HELD = [  # widths, batch, activation, optimiser, changes; blocks per network, blocks per SM, architectures
    ((11, 64, 64, 1), 32, "relu", Adam(), {}, 4, 1, ("sm_90",)),
    ((17, 64, 96, 6), 64, "gelu", AdamW(), {"scheduled": True}, 8, 1, ("sm_90",)),
    ((5, 24, 40, 20, 1), 64, "silu", Sgd(0.9, True), {"sequential": True}, 1, 1, ("sm_80",)),
    ((256, 16, 10), 64, "sigmoid", PLAIN, {"loss": "softmax_cross_entropy"}, 1, 1, ("sm_90",)),
    ((300, 24, 6), 640, "elu", Sgd(0.9), {"own_rows": True, "members": 40}, 1, 1, ("sm_100",)),
    ((11, 64, 64, 1), 32, "relu", Adam(), {"members": 999}, 1, 2, ("sm_90",)),
    ((11, 64, 64, 1), 64, "tanh", Adam(), {"clipped": True, **_WATCHED}, 8, 1, ("sm_90",)),
    ((17, 64, 64, 6), 64, "gelu", AdamW(), {"clipped": True, **_WATCHED}, 1, 1, ("sm_80",)),
]
_H200, _V100 = DeviceCapability(132, 227 * 1024, (9, 0)), DeviceCapability(80, 96 * 1024, (7, 0))


def trainings() -> list[tuple[Training, str]]:
    """The plan that makes most of each block's registers, of each shape, on each of its architectures."""
    found = []
    for widths, batch, sequential, clipped, members, architectures in _TRAININGS:
        for architecture in architectures:
            plans = _plans(PerceptronShape(widths, batch, sequential, clipped, members), architecture)
            chosen = (one for one in reversed(plans) if one.cluster or "layers" in one.source)
            found.append((_training(next(chosen, plans[-1]), architectures), architecture))
    for widths, batch, sequential, architectures in _OF_MEMBERS:
        shape = PerceptronShape(widths, batch, sequential, False, 99)
        found += [
            (_training(_plans(shape, one)[0], architectures, workspace_floats=HEAD + 100), one)
            for one in architectures
        ]
    shapes = [*_OF_IMAGES]
    for (features, *widths), batch, sequential, cross_entropy, architectures, *function in _LAYERED:
        hidden = [LinearLayer(width, True, *(function or ["relu"])) for width in widths[:-1]]
        loss = "softmax_cross_entropy" if cross_entropy else "error"
        flags, layers = (sequential, True, loss), (*hidden, LinearLayer(widths[-1], True))
        further = ("adam_update", 2, True, True) if function else ()
        shapes.append((LayeredShape(batch, *flags, features, layers, *further), architectures))
    for further, architectures in shapes:
        found += [
            (_training(_plans(further, architecture)[0], architectures), architecture)
            for architecture in architectures
        ]
    for (features, *widths), batch, name, optimizer, changes, cluster, together, architectures in _HELD:
        layers = (*(LinearLayer(n, True, name) for n in widths[:-1]), LinearLayer(widths[-1], True))
        sizes = {"batch": batch, "features": features, "layers": layers, "data_rows": 1001}
        flags = {"sequential": False, "mean": True, "loss": "error", "shuffled": True}
        update = {"update": optimizer.op, "states": len(optimizer.state)}
        shape = WholeShape(**(sizes | flags | update | changes))
        for architecture in architectures:
            plans = [(one.cluster, dict(one.defines)["BLOCKS_PER_SM"]) for one in _plans(shape, architecture)]
            chosen = _plans(shape, architecture)[plans.index((cluster, str(together)))]
            memory = max(plan.memory for plan in shape._plans if plan.blocks == cluster)
            of_members = {"memory_floats": memory, "workspace_floats": HEAD + shape.of_member * shape.members}
            found.append((_training(chosen, architectures, **of_members), architecture))
    return found


def _plans(shape: TrainingShape, architecture: str) -> list[LaunchConfiguration]:
    """What the engine would launch: on the oldest GPUs it leaves out what needs newer ones."""
    device = _V100 if architecture == "sm_70" else _H200
    device = replace(device, capability=divmod(int(architecture.removeprefix("sm_")), 10))
    return [one for one in shape.configurations(device) if isinstance(one, LaunchConfiguration)]


def _training(plan: LaunchConfiguration, architectures: tuple[str, ...], **constants: int) -> Training:
    source = SOURCES[0].parents[1] / plan.source
    return Training(
        source, dict(plan.defines), architectures, constants | {"shared_bytes": plan.shared_bytes}
    )
