"""``torch_loader``: its options, its processes, and that they end on every way out."""

import multiprocessing
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from test_layers import compare
from test_other_trainers import CNN, data, made

from snn.backends.cpu.backend import CpuBackend
from snn.config.compose import composed
from snn.errors import ConfigError, Unsupported
from snn.models.glibc_random import GlibcRandom
from snn.models.network import draw_weights, mlp
from snn.strategies.torch import Images, TorchLoader

torch = pytest.importorskip("torch")


@pytest.fixture
def none_left():
    before = set(multiprocessing.active_children())
    yield
    assert set(multiprocessing.active_children()) == before


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_are_in_file_order_whoever_collates_them(workers, backend, none_left):
    compare("torch_loader", backend, CNN, 5, 2, 2, epochs=3, error=1e-4, workers=workers)


def test_float32_takes_none_of_mixed_precisions_calls(backend, none_left, monkeypatch):
    """Each of them takes some microseconds of a step."""

    def fail(*arguments, **options):
        raise AssertionError("fp32 needs no autocast and no GradScaler")

    monkeypatch.setattr(torch, "autocast", fail)
    monkeypatch.setattr(torch.amp, "GradScaler", fail)
    compare("torch_loader", backend, CNN, 5, 2, 2, epochs=1, error=1e-4, workers=0)


def test_samples_made_of_images_train_the_same(random, none_left):
    network = replace(CNN, inputs=(1, 8, 8))
    X = np.float32(np.rint(255 * random.random((5, 64))) / np.float32(255))
    Y, found = np.eye(3, dtype=np.float32)[[0, 1, 2, 1, 0]], []
    for images in (False, True):
        strategy = made("torch_loader", CpuBackend(), workers=1, images=images)
        strategy.setup(network, X, Y, 2, 0.1)
        strategy.load(draw_weights(network, GlibcRandom(1)))
        strategy.epoch()
        found.append([*strategy.weights(), strategy.predict(X)])
        strategy.close()
    assert all(map(np.array_equal, *found))
    with pytest.raises(Unsupported, match="whole 255ths"):
        Images(X.reshape(5, 1, 8, 8) / 2, Y.argmax(1))
    with pytest.raises(Unsupported, match=r"strategy\.images=true"):
        made("torch_loader", CpuBackend(), images=True).check_network(
            replace(mlp((4, 3, 1)), update_order="simultaneous")
        )


@pytest.mark.gpu
@pytest.mark.parametrize("pin_memory", [False, True])
def test_pinned_batches_train_the_same(pin_memory, cuda_backend, none_left):
    compare(
        "torch_loader", cuda_backend, CNN, 5, 2, 2, epochs=3, error=1e-4, workers=1, pin_memory=pin_memory
    )


class Interrupts:
    """A model that ends its training at the second batch."""

    def __init__(self, model):
        self._model, self._left = model, 1

    def __getattr__(self, name):
        return getattr(self._model, name)

    def __call__(self, x):
        if not self._left:
            raise KeyboardInterrupt
        self._left -= 1
        return self._model(x)


@pytest.mark.parametrize("work", ["epoch", "predict"])
def test_processes_end_where_training_is_interrupted(work, random, none_left):
    strategy, (X, Y) = made("torch_loader", CpuBackend(), workers=2), data(30, random)
    strategy.setup(CNN, X, Y, 2, 0.01)
    strategy._model = Interrupts(strategy._model)
    with pytest.raises(KeyboardInterrupt) as caught:
        strategy.epoch() if work == "epoch" else strategy.predict(X)
    assert not multiprocessing.active_children()
    strategy.close()
    del caught  # which held the frames, and with them the iterator, until here


def test_an_error_in_a_process_is_an_error_here(random, none_left):
    strategy, (X, Y) = made("torch_loader", CpuBackend(), workers=1), data(6, random)
    strategy.setup(CNN, X, Y, 2, 0.01)

    class Broken(torch.utils.data.Dataset):
        def __len__(self):
            return 6

        def __getitem__(self, i):
            raise ValueError("planted")

    strategy._loader = torch.utils.data.DataLoader(Broken(), batch_size=2, num_workers=1)
    with pytest.raises(ValueError, match="planted"):
        strategy.epoch()
    strategy.close()


def test_each_step_reads_the_loss(random):
    strategy, (X, Y) = made("torch_loader", CpuBackend(), workers=0), data(5, random)
    try:
        strategy.setup(CNN, X, Y, 2, 0.01)
        strategy.load(draw_weights(CNN, GlibcRandom(1)))
        assert np.isnan(strategy.loss())
        strategy.epoch()
        assert len(strategy.epoch_losses()) == 3  # whether they are asked for or not
        assert strategy.loss() == strategy.epoch_losses()[-1]
    finally:
        strategy.close()


def test_settings_are_those_of_the_report_and_afterwards_as_before(random):
    cudnn = torch.backends.cudnn
    before = cudnn.allow_tf32, cudnn.benchmark, cudnn.deterministic
    strategy = made("torch_loader", CpuBackend(), workers=0)
    strategy.setup(CNN, *data(5, random), 2, 0.01)
    assert (cudnn.allow_tf32, cudnn.benchmark, cudnn.deterministic) == (False, False, True)
    strategy.close()
    assert (cudnn.allow_tf32, cudnn.benchmark, cudnn.deterministic) == before
    strategy = made("torch_eager", CpuBackend())
    strategy.setup(CNN, *data(5, random), 2, 0.01)
    assert (cudnn.allow_tf32, cudnn.benchmark, cudnn.deterministic) == (False, True, False)
    strategy.close()
    assert (cudnn.allow_tf32, cudnn.benchmark, cudnn.deterministic) == before


def test_what_it_cannot_do_has_a_reason(random):
    with pytest.raises(Unsupported, match=r"network\.update_order=sequential is not possible"):
        made("torch_loader", CpuBackend()).check_network(mlp((4, 3, 1)))
    with pytest.raises(Unsupported, match=r"strategy\.on_host=true is for device=cpu"):
        TorchLoader(SimpleNamespace(is_processor=False), on_host=True)
    strategy = made("torch_loader", CpuBackend(), pin_memory=True)
    with pytest.raises(Unsupported, match=r"strategy.pin_memory=true .*: on the CPU choose false"):
        strategy.setup(CNN, *data(5, random), 2, 0.01)
    strategy.close()


@pytest.mark.parametrize(
    ("key", "values", "right"),
    [
        *((key, ("'True'", "1"), "true or false") for key in ("images", "on_host")),
        ("pin_memory", ("'True'", "'False'", "1", "null"), "true or false"),
        ("workers", ("-1", "1025", "1.5", "many"), ".*(at least 0|from 0 to 1024)"),
    ],
)
def test_an_option_of_another_kind_is_refused(key, values, right):
    for value in values:
        with pytest.raises(ConfigError, match=rf"strategy\.{key} is .*: it must be {right}"):
            composed(["strategy=torch_loader", f"strategy.{key}={value}"])
