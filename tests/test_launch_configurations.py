"""Launch configurations of kernels that train in one launch: which one a shape gets, and what has none."""

import math
import re
from dataclasses import replace
from itertools import product

import cuda_on_cpu
import numpy as np
import pytest
from conftest import ROOT, further
from convolutional_shapes import CNN, FEW, SMALL
from convolutional_shapes import network_of as convolutional
from emulated import EmulatedBackend
from kernel_builds import trainings
from layered_shapes import FURTHER, SHAPES, network_of, plan_for, shape
from test_kernels import run

from snn.backends import kernel_source
from snn.backends.launches import DeviceCapability, LaunchConfiguration, Steps, padded
from snn.backends.launches.convolution import Layout
from snn.backends.launches.linear import PerceptronShape, tile_of
from snn.backends.launches.operations import MOST_Y, check_grid, check_sizes, launch_shape
from snn.config import groups
from snn.errors import Unsupported
from snn.models.gradients import PublishedNaive
from snn.models.layers import parse
from snn.models.network import mlp
from snn.models.optimizers import Adam, Sgd
from snn.strategies.one_launch import convolutional_shape, layered_shape, perceptron_shape

H200 = DeviceCapability(132, 232448, (9, 0))
A100 = DeviceCapability(108, 166912, (8, 0))
T4 = DeviceCapability(40, 65536, (7, 5))


def perceptron(*layers, batch=256, sequential=True, clipped=False, members=1):
    return PerceptronShape(tuple(map(padded, layers[:-1])), batch, sequential, clipped, members)


def first(one, device=H200):
    """The first launch of a shape, and all reasons why there are no others."""
    found = list(one.configurations(device))
    launch = next((each for each in found if isinstance(each, LaunchConfiguration)), None)
    return launch, " ".join(each for each in found if isinstance(each, str))


def layers(*widths, **options):
    return shape(*widths, **options)


def bare(batch, features, width):
    """A perceptron as a stack of layers."""
    return shape(batch, features, width, 1, loss="error", bare=(0, 1))


@pytest.mark.parametrize(
    ("one", "device", "kernel", "blocks", "cluster", "words"),
    [
        (perceptron(32, 256, 1), H200, "one_layer", 16, 16, "one cluster of 16 blocks, 16 hidden neurons in"),
        (perceptron(32, 1024, 1), H200, "one_layer", 64, 16, "4 clusters of 16 blocks, 16 hidden neurons in"),
        (perceptron(64, 2048, 1), H200, "one_layer", 64, 16, "4 clusters of 16 blocks, 32 hidden neurons in"),
        (perceptron(32, 256, 1), A100, "grid", None, 0, "together, a tile of every product in each"),
        (perceptron(32, 256, 256, 1), H200, "two_layers", 128, 0, "16 groups of 8 blocks together"),
        (
            perceptron(10, 64, 256, 1, batch=100, sequential=False),
            *(H200, "two_layers", 56, 0, "7 groups of 8 blocks together"),
        ),
        (perceptron(32, 256, 1024, 256, 1), H200, "three_layers", 128, 0, "16 groups of 8 blocks together"),
        (perceptron(10, 128, 256, 250, 1, batch=60), H200, "three_layers", 32, 0, "4 groups of 8 blocks"),
        (layers(256, 32, 256, 10), H200, "layers", 128, 0, "128 blocks together, a tile of every product in"),
        (
            layers(1024, 1024, 2048, 2048, 100),
            *(H200, "layers", 132, 0, "132 blocks together, up to 8 tiles of a product in each"),
        ),
        (bare(471, 939, 535), H200, "layers", None, 0, "blocks together"),
        # With biases graph launches twice as many kernels.
        (layers(336, 13, 1423, 1, loss="error"), H200, "layers", None, 0, "blocks together"),
        (CNN, H200, "convolution", 128, 0, "128 blocks together, one for each of 2 parts of an image"),
        (
            replace(CNN, batch=128, height=20, width=20),
            *(H200, "convolution", 128, 0, "128 blocks together, one for each image"),
        ),
        (replace(CNN, batch=20), H200, "convolution", 20 * 6, 0, "6 parts"),  # of 12 rows: each has two
        (replace(CNN, batch=1), H200, "convolution", 12, 0, "12 parts"),
    ],
)
def test_a_shape_has_the_kernel_that_fits_it(one, device, kernel, blocks, cluster, words):
    launch, _ = first(one, device)
    assert (launch.kernel, launch.cluster) == (kernel, cluster) and words in launch.words
    assert blocks is None or launch.blocks == blocks
    assert (ROOT / launch.source).is_file()


@pytest.mark.parametrize(
    ("reason", "one", "device"),
    [
        ("no cluster: compute capability 8.0, clusters need 9.0", perceptron(32, 256, 1), A100),
        ("no groups of blocks: compute capability 7.5, TF32 needs 8.0", perceptron(32, 256, 256, 1), T4),
        (
            "their kernel does not support 32-256-512-256 in batches of 256",
            perceptron(32, 256, 512, 256, 1),
            H200,
        ),
        ("2 hidden layers", perceptron(32, 256, 272, 1), H200),
        ("their kernel does not support 48-256-256 in batches of 256", perceptron(40, 256, 256, 1), H200),
        ("their kernel does not support 32-512-256 in batches of 256", perceptron(32, 512, 256, 1), H200),
        (
            "their kernel does not support 32-256-1024-512 in batches of 256",
            perceptron(32, 256, 1024, 512, 1),
            H200,
        ),
        (
            "their kernel does not support 32-256-1024-256 in batches of 128",
            perceptron(32, 256, 1024, 256, 1, batch=128),
            H200,
        ),
        ("neither clips nor", perceptron(32, 256, 1, clipped=True), H200),
        ("neither clips nor", perceptron(32, 256, 1, sequential=False), H200),
        ("batches of 512 rows", perceptron(32, 256, 1, batch=512), H200),
        ("of 96 features", perceptron(90, 256, 1, batch=100), H200),
        ("2112 hidden neurons", perceptron(40, 2112, 1), H200),
    ],
)
def test_what_fits_no_cluster_or_groups_is_for_the_grid(reason, one, device):
    launch, reasons = first(one, device)
    assert reason in reasons
    assert launch is None or launch.kernel == "grid"


@pytest.mark.parametrize(
    ("reason", "one", "device"),
    [
        ("132 tiles of 64 x 64 do not cover 256 x 16384", perceptron(32, 16384, 16384, 1), H200),
        ("9 linear layers, 8 at most", layers(16, 8, *[8] * 9), H200),
        ("batches of 16 rows, widths of up to 2112", layers(16, 8, 2049, 2), H200),
        ("batches of 2049 rows", layers(2049, 8, 8), H200),
        ("257 outputs, 256 at most", layers(16, 8, 257), H200),
        ("one hidden layer of 1423 neurons on 13 features", bare(336, 13, 1423), H200),  # graph is faster
        ("one hidden layer of 656 neurons on 53 features", bare(779, 53, 656), H200),
        ("compute capability 7.5, TF32 needs 8.0", CNN, T4),
        ("109 blocks would run together, the device has 108 SMs", replace(CNN, batch=109), A100),
        ("bytes of shared memory, the device has 166912", CNN, A100),
        ("batches of 129 images", replace(CNN, batch=129), H200),
        ("conv2d of 65 filters, 64 at most", replace(CNN, filters1=65), H200),
        ("kernels of 3 on 1 channels and of 8", replace(CNN, kernel2=8), H200),
        ("kernels of 7 on 3 channels", replace(CNN, kernel1=7, channels=3), H200),
        ("maxpool2d of 4, 3 at most", replace(CNN, window=4), H200),
        ("33 outputs", replace(CNN, outputs=33), H200),
        ("bytes of shared memory, the device has 232448", replace(CNN, height=64, width=64), H200),
    ],
)
def test_what_no_kernel_takes_has_none(reason, one, device):
    launch, reasons = first(one, device)
    assert launch is None and reason in reasons


LAYERED, IMAGES = network_of(SHAPES["classifier"]), convolutional(CNN)


@pytest.mark.parametrize(
    ("describe", "network", "reason", "changes"),
    [
        (
            *(layered_shape, LAYERED, "and this one is maxpool2d"),
            {"inputs": (1, 4, 4), "layers": "maxpool2d 2,linear 2"},
        ),
        (layered_shape, LAYERED, "between two linear", {"layers": "linear 3,relu,relu,linear 2"}),
        (layered_shape, LAYERED, "none elsewhere", {"layers": "linear 3,relu"}),
        (layered_shape, LAYERED, "its kernel does not clip", {"clip_norm": 1.0}),
        (layered_shape, LAYERED, "along the gradient itself", {"gradient": PublishedNaive(256)}),
        (convolutional_shape, IMAGES, "simultaneously and does not clip", {"update_order": "sequential"}),
        (convolutional_shape, IMAGES, "simultaneously and does not clip", {"clip_norm": 1.0}),
        (convolutional_shape, IMAGES, "along the gradient itself", {"gradient": PublishedNaive(256)}),
        (convolutional_shape, IMAGES, "does not clip", {"optimizer": Adam(clip_norm=1.0)}),
        (
            *(
                convolutional_shape,
                IMAGES,
                "its layers are conv2d, relu, linear, the kernel's conv2d, relu, con",
            ),
            {"layers": "conv2d 2 3,relu,linear 10"},
        ),
        (convolutional_shape, IMAGES, "its layers are conv2d, linear", {"layers": "conv2d 2 3,linear 10"}),
    ],
)
def test_another_network_has_no_shape(describe, network, reason, changes):
    if "layers" in changes:
        changes = changes | {"layers": tuple(map(parse, changes["layers"].split(",")))}
    with pytest.raises(Unsupported, match=re.escape(reason)):
        describe(replace(network, **changes), 16)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [({"optimizer": Sgd(0.9)}, "training.momentum=0.9"), ({"order_seed": 1}, "training.shuffle=epoch")],
)
def test_a_perceptron_that_is_trained_otherwise_is_a_stack_of_layers(changes, reason):
    network = mlp((5, 20, 1), **changes)
    with pytest.raises(Unsupported, match=re.escape(reason)):
        perceptron_shape(network, 16, np.zeros((1, 1), np.float32))
    layered = layered_shape(network, 16)
    assert (layered.update, layered.shuffled) == (network.optimizer.op, network.order_seed is not None)
    assert ("M" in layered.operands) == bool(network.optimizer.state)
    assert len(layered.operands) == len(layered.elements(40))


@pytest.mark.skipif(cuda_on_cpu.MISSING, reason="no g++ on this machine")
@pytest.mark.parametrize("name", ["classifier", "adam"])
def test_arguments_are_of_the_kinds_that_the_kernel_takes(name):
    """A whole number that a file has for a real one would be passed as other bits."""
    one = (SHAPES | FURTHER)[name]
    launch = plan_for(one)
    kernel = cuda_on_cpu.load(ROOT / launch.source, **dict(launch.defines))["train_persistent"]
    steps = Steps(70, 0, 3, 1, 2, 4, 5, (1, 0), (1, 2, 3, 1))
    kinds = [kind for kind in kernel.parameters if not kind.endswith("*")]
    assert [kind.startswith("float") for kind in kinds] == [
        isinstance(n, float) for n in one.arguments(steps)
    ]
    assert len(kernel.parameters) - len(kinds) == len(one.operands)


# ---- clusters and tiles


@pytest.mark.parametrize(
    ("widths", "batch", "parts"),
    [
        ((32, 256, 1), 256, 2),
        ((32, 130, 1), 256, 2),  # as many blocks, each with columns of zeros
        ((32, 128, 1), 256, 1),
        ((32, 256, 1), 225, 2),
        ((32, 256, 1), 224, 1),
        ((16, 256, 1), 256, 1),
        ((16, 512, 1), 256, 1),  # of two clusters
        ((32, 1024, 1), 256, 1),  # of several clusters
        ((64, 256, 1), 256, 2),
        ((60, 500, 1), 256, 1),
        ((64, 2048, 1), 256, 1),  # blocks of 32 neurons of 64 features would spill in two parts
    ],
)
def test_a_long_exchange_is_hidden_in_two_parts(widths, batch, parts):
    launch, _ = first(perceptron(*widths, batch=batch))
    assert (launch.kernel, launch.threads, dict(launch.defines)["PARTS"]) == ("one_layer", 160, str(parts))


@pytest.mark.parametrize("device", [H200, A100])
@pytest.mark.parametrize("m, n", [(256, 256), (256, 1024), (32, 256), (272, 48), (16, 16)])
def test_a_tile_covers_its_product_with_the_blocks_that_there_are(m, n, device):
    rows, cols = tile_of(m, n, device.multiprocessors)
    assert m % rows == n % cols == 0
    assert m // rows * (n // cols) <= device.multiprocessors
    smaller = [(rows // 2, cols), (rows, cols // 2)]
    assert all(m * n / (r * c) > device.multiprocessors or r < 16 or c < 8 for r, c in smaller)


def test_a_product_too_large_for_a_tile_a_block_has_none():
    assert tile_of(256, 1024, T4.multiprocessors) is None
    assert tile_of(256, 512, T4.multiprocessors) == (64, 64)
    wide = dict(first(layers(1024, 1024, 2048, 2048, 100))[0].defines)
    assert wide["FORWARD"] == "{64,64},{64,64},{16,128}"


# ---- parts of images

ROWS = CNN.pooled[0]


def test_images_are_split_for_the_sms_that_there_are():
    """A part of one row at least, and as many as SMs allow, but 128 blocks: published records have these."""
    for batch, (device, blocks) in product(range(1, 129), ((H200, 128), (A100, 108))):
        one = replace(CNN, batch=batch)
        if batch > blocks:
            continue
        rows = math.ceil(ROWS / max(1, min(ROWS, blocks // batch)))
        launch, reasons = first(one, device)
        if launch is None:
            assert "bytes of shared memory" in reasons and rows > 4
        else:
            assert launch.blocks == batch * math.ceil(ROWS / rows) <= blocks
        if device is H200:
            assert launch == first(one, DeviceCapability(128, 232448, (9, 0)))[0]
            assert one.elements(1)[-1] == Layout(one, math.ceil(ROWS / rows)).workspace


# ---- memory of a block, and of a launch

BUILDS = {f"{build}-{architecture}": (build, architecture) for build, architecture in trainings()}
needs_compiler = pytest.mark.skipif(cuda_on_cpu.MISSING, reason="no g++ on this machine")


@needs_compiler
@pytest.mark.parametrize(
    "name",
    [
        name if architecture == build.architectures[0] else further(name)
        for name, (build, architecture) in BUILDS.items()
    ],
)
def test_a_kernel_declares_the_memory_that_its_configuration_gives(name):
    build, architecture = BUILDS[name]
    defines = {**build.defines, "__CUDA_ARCH__": 10 * int(architecture.removeprefix("sm_"))}
    cuda_on_cpu.check_constants(build.source, build.constants, **defines)


@needs_compiler
@pytest.mark.parametrize(
    "one", [*SMALL.values(), *(SHAPES[name] for name in ("classifier", "deep", "outputs"))], ids=str
)
def test_a_shape_knows_its_kernels_memory(one):
    few = FEW if one in SMALL.values() else DeviceCapability(5, 232448, (8, 0))
    for device in (H200, few):
        launch, _ = first(one, device)
        assert launch.shared_bytes <= device.shared_bytes
        expected = {"shared_bytes": launch.shared_bytes, "workspace_floats": one.elements(1)[-1]}
        if launch.kernel == "convolution":  # enough on any device
            allocated = expected["workspace_floats"]
            expected["workspace_floats"] = Layout(one, int(dict(launch.defines)["PARTS"])).workspace
            assert allocated >= expected["workspace_floats"]
        cuda_on_cpu.check_constants(ROOT / launch.source, expected, **dict(launch.defines))


# ---- grids of launches: what CUDA does not launch is launched another way, or refused with a reason


NAIVE = groups.load("kernel", "naive")
IM2COL = (2048 * 26 * 26, 9 * 32, 64)  # of a second convolution: a product of so many rows of patches


@pytest.mark.parametrize(
    "name", [one for one in groups.names("kernel") if groups.load("kernel", one)["source"]]
)
@pytest.mark.parametrize(
    ("op", "numbers"), [("matmul", IM2COL), ("matmul_nt", (2**21, 9, 1)), ("transpose", (2**22, 3))]
)
def test_a_grid_is_one_that_cuda_launches(name, op, numbers):
    shape = launch_shape(op, numbers, groups.load("kernel", name), 132)
    across, down = shape.grid
    assert down <= MOST_Y
    tile = (
        (32, 32) if op == "transpose" else [b * w for b, w in zip(shape.block, shape.work[::-1], strict=True)]
    )
    rows, cols = (across, down) if shape.tall else (down, across)
    last = numbers[1] if op == "transpose" else numbers[2]
    assert 0 <= rows * tile[1] - numbers[0] < tile[1]
    assert 0 <= cols * tile[0] - last < tile[0]


def test_every_kernel_with_many_rows_of_blocks_can_count_them_in_x():
    sources = [groups.load("kernel", name)["source"] for name in groups.names("kernel")]
    for source in {*filter(None, sources), "kernels/elementwise.cu"}:
        assert kernel_source.knows_tall_grids(kernel_source.text(ROOT / source)), source
    assert not kernel_source.knows_tall_grids(kernel_source.text(ROOT / kernel_source.SPLIT_K))


def test_only_a_grid_that_is_too_tall_counts_rows_in_x():
    rows = MOST_Y * NAIVE["block"][1]
    assert launch_shape("matmul", (rows, 2, 3), NAIVE, 132).grid == (1, MOST_Y)
    tall = launch_shape("matmul", (rows + 1, 2, 3), NAIVE, 132)
    assert (tall.grid, tall.tall) == ((MOST_Y + 1, 1), True)


@pytest.mark.parametrize(
    ("check", "numbers"),
    [
        (lambda *of: launch_shape(*of, NAIVE, 132), ("matmul", (2**22, 2, 2**22))),
        (lambda *of: check_grid(*of, MOST_Y + 1), ("matmul", (1, 2, 3))),
        (check_sizes, ("relu", (2**31,))),
        (check_sizes, ("mask", (2**31 - 1,))),
        (check_sizes, ("conv2d", (2048, 32, 512, 512, 8, 3, 0))),
        (check_sizes, ("published_wgrad", (60_000, 1, 28, 28, 3, 0, 64))),
    ],
)
def test_what_no_launch_holds_is_refused_with_its_numbers(check, numbers):
    with pytest.raises(Unsupported) as refused:
        check(*numbers)
    op, given = numbers
    assert op in str(refused.value) and all(str(number) in str(refused.value) for number in given)


def test_sizes_that_fit_are_not_refused():
    check_sizes("matmul", (2**31 - 2**17, 2**20, 2**20))  # whose indices have 64 bits
    check_sizes("matmul_tn_update", (3, 2, 1, 1e20))
    check_sizes("conv2d", (2048, 32, 28, 28, 64, 3, 0))
    check_grid("conv2d", (1, 1, 1, 1, 1, 1, 0), MOST_Y)


@pytest.mark.skipif(cuda_on_cpu.MISSING, reason="no g++ on this machine")
@pytest.mark.parametrize("op", ["matmul", "matmul_tn", "matmul_nt"])
def test_a_product_of_more_rows_than_y_has_blocks(op):
    """Blocks of one thread: as many rows of blocks as the product has rows."""
    m, k, n = MOST_Y + 2, 2, 2
    backend = EmulatedBackend({**NAIVE, "block": [1, 1]})
    random = np.random.default_rng(1)
    A, B = random.standard_normal((m, k), np.float32), random.standard_normal((k, n), np.float32)
    operands = A.T if op == "matmul_tn" else A, B.T if op == "matmul_nt" else B, np.zeros((m, n), np.float32)
    C = run(backend, op, [one.ravel() for one in operands], (m, k, n))[2]
    np.testing.assert_allclose(C.reshape(m, n), A @ B, rtol=1e-5, atol=1e-6)


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["naive", "tiled", "pretransposed", "fused", "tiled_fused", "tensor_core"])
def test_a_gpu_multiplies_and_transposes_what_is_taller_than_y(name):
    from snn.backends.cuda.backend import CudaBackend

    choice = groups.load("kernel", name)
    backend = CudaBackend(choice, choice["precisions"][0])
    rows = 64 * MOST_Y + 5
    A = np.arange(2 * rows, dtype=np.float32).reshape(rows, 2) % 64
    B = np.array([[1, 2], [-1, 4]], dtype=np.float32)  # products are exact, also of rounded numbers
    C = run(backend, "matmul", [A.ravel(), B.ravel(), np.zeros(2 * rows, np.float32)], (rows, 2, 2))[2]
    T = run(backend, "transpose", [A.ravel(), np.zeros(2 * rows, np.float32)], (rows, 2))[1]
    np.testing.assert_array_equal(C.reshape(rows, 2), A @ B)
    np.testing.assert_array_equal(T.reshape(2, rows), A.T)
