"""MNIST and Fashion-MNIST: where their files are looked for, that they are the right ones, and downloads."""

import contextlib
import gzip
import hashlib
import http.server
import re
import socket
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import idx_files
import numpy as np
import pytest
from conftest import ROOT
from idx_files import NAMES, TEST_IMAGES, TEST_LABELS, TRAIN_IMAGES, TRAIN_LABELS, image_set, write, zipped

from snn import cli, datasets
from snn.config.compose import composed
from snn.datasets import download, fashion_mnist, mnist
from snn.datasets import idx_images as published
from snn.errors import DataError
from snn.files import cache

DEBIAN = Path("/usr/share/datasets/fashion-mnist")
FILES = image_set(rows=5, test_rows=3)
SHAPE = [1, 2, 3]


def sha256(content):
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def bare(monkeypatch, tmp_path):
    """A machine that has no images."""
    monkeypatch.setattr(published, "SYSTEM", tmp_path / "system")
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "*")


@pytest.fixture
def small(bare, monkeypatch):
    """A published set of a few small images; called with its mirrors."""
    sizes = ((5, 2, 3), (5,), (3, 2, 3), (3,))
    monkeypatch.setattr(published, "_SIZES", dict(zip(published.PARTS, sizes, strict=True)))
    digests = {
        "content": [sha256(content) for content in FILES.values()],
        "packed": [sha256(zipped(content)) for content in FILES.values()],
    }
    return lambda *mirrors, package="dataset-few": published.Published(
        name="few", folder="few", package=package, mirrors=mirrors, **digests
    )


def packed(files):
    return {f"{name}.gz": zipped(content) for name, content in files.items()}


EXPECTED = idx_files.table(FILES.values())


def whole(few, path=None):
    """All rows of the set."""
    return few.make(path and str(path), 5, 3, SHAPE)


@pytest.fixture
def nowhere():
    """An address at which nothing answers."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{one.getsockname()[1]}/few/"


@contextlib.contextmanager
def mirror(files):
    """A server on this machine with these files; its address, and the paths that it was asked for."""
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            content = files.get(Path(self.path).name)
            self.send_response(200 if content is not None else 404)
            self.send_header("Content-Length", str(len(content or b"")))
            self.end_headers()
            self.wfile.write(content or b"")

        def log_message(self, *given):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        # Its end is seen so soon.
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/few/", asked
        finally:
            server.shutdown()
            thread.join()


# ---- where they are looked for


@pytest.mark.skipif(not DEBIAN.is_dir(), reason="Debian's package dataset-fashion-mnist is not installed")
def test_debians_fashion_mnist_is_found_and_is_all_of_it():
    choice = composed(["dataset=fashion"])["dataset"]
    training, test = datasets.parts(datasets.make(choice).values, choice)
    for rows, of_class in ((training, 6000), (test, 1000)):
        assert rows.shape == (10 * of_class, 785)
        assert np.bincount(rows[:, -1].astype(int)).tolist() == [of_class] * 10
    raw = gzip.decompress((DEBIAN / f"{TEST_IMAGES}.gz").read_bytes())[16:]
    pixels = np.frombuffer(raw, np.uint8).astype(np.float32) / np.float32(255)
    assert np.array_equal(test[:, :-1].ravel(), pixels)
    few = composed(["dataset=fashion", "dataset.rows=300", "dataset.test_rows=7"])["dataset"]
    assert np.array_equal(datasets.make(few).values, np.concatenate([training[:300], test[:7]]))
    choice = composed(["dataset=mnist", f"dataset.path={DEBIAN}"])["dataset"]
    with pytest.raises(DataError, match=f"^{re.escape(str(DEBIAN))}/{TRAIN_IMAGES}.gz: it is another file"):
        datasets.make(choice)


def test_a_path_comes_before_the_system_and_the_system_before_a_download(small, tmp_path):
    with mirror(packed(FILES)) as (address, asked):
        few = small(address)
        path, system = tmp_path / "path", tmp_path / "system/few"
        write(path, FILES)
        assert np.array_equal(whole(few, path), EXPECTED)
        with pytest.raises(DataError, match=r"^dataset.path is .*: there is no"):
            whole(few, tmp_path)
        write(system, packed(FILES))
        assert np.array_equal(few.make(None, 2, 1, SHAPE), EXPECTED[[0, 1, 5]])
        assert not asked
        (system / f"{TEST_LABELS}.gz").unlink()
        assert np.array_equal(whole(few), EXPECTED)
        assert len(asked) == 4
        write(system, packed(FILES) | {f"{TEST_LABELS}.gz": b"damaged"})
        with pytest.raises(DataError, match=f"{re.escape(str(system))}/{TEST_LABELS}.gz: its magic number"):
            whole(few)


def test_a_download_is_kept_and_one_that_was_damaged_is_repeated(small, tmp_path, capsys):
    with mirror(packed(FILES)) as (address, asked):
        few = small(address)
        for _ in range(2):
            assert np.array_equal(whole(few), EXPECTED)
            assert asked == [f"/few/{name}.gz" for name in NAMES]
        cached = tmp_path / f"cache/few/{TRAIN_LABELS}.gz"
        cached.write_bytes(cached.read_bytes()[:-1])
        assert np.array_equal(whole(few), EXPECTED)
        assert asked[4:] == [f"/few/{TRAIN_LABELS}.gz"]
    assert np.array_equal(whole(few), EXPECTED)  # with no server
    assert "Traceback" not in capsys.readouterr().err


def test_mirrors_are_tried_in_turn_and_what_they_send_is_checked(small, nowhere):
    right = packed(FILES)
    other = right | {f"{TEST_IMAGES}.gz": zipped(image_set(seed=2)[TEST_IMAGES])}
    with mirror({}) as (empty, of_none), mirror(other) as (wrong, of_wrong), mirror(right) as (good, of_good):
        assert np.array_equal(whole(small(nowhere, empty, wrong, good)), EXPECTED)
    assert len(of_none) == len(of_wrong) == 4
    assert of_good == [f"/few/{TEST_IMAGES}.gz"]


def test_a_file_that_is_nowhere_is_refused_once_with_all_ways_to_have_it(small, nowhere, tmp_path):
    with mirror({}) as (empty, _), pytest.raises(DataError) as caught:
        whole(small(nowhere, empty))
    said = str(caught.value)
    assert said.isprintable()
    assert f"neither in {tmp_path}/system/few nor in the cache {tmp_path}/cache/few" in said
    for address, error in ((nowhere, "ConnectionError: "), (empty, "HTTPError: 404")):
        assert f"{address}{TRAIN_IMAGES}.gz: {error}" in said
    for way in ("dataset.path=FOLDER", "apt-get install dataset-few", cache.VARIABLE):
        assert way in said
    assert f"access to one of {nowhere}, {empty}: " in said
    with pytest.raises(DataError, match=f"the same files in {re.escape(str(tmp_path))}/system/few"):
        whole(small(nowhere, package=None))


def test_a_cache_that_cannot_be_written_is_refused(small, nowhere, tmp_path):
    (tmp_path / "cache").write_bytes(b"a file")
    with pytest.raises(DataError, match=r"no download succeeded \(\S+: (NotADirectory|FileExists)Error: "):
        whole(small(nowhere))


def test_the_command_line_says_it_in_one_line(bare, nowhere, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(mnist, "make", replace(mnist.MNIST, mirrors=(nowhere,)).make)
    assert cli.main(["prepare", "dataset=mnist", f"output={tmp_path}/t.npy"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("snn: dataset=mnist: its files are neither in ") and said.count("\n") == 1


def test_progress_is_printed_at_most_every_two_seconds(monkeypatch, capsys):
    clock = iter([100.0, 100.0, 101.0, 102.5, 102.5, 103.0])
    monkeypatch.setattr(download.time, "monotonic", lambda: next(clock, 200.0))
    progress = download.Progress("http://m/x.gz")
    progress.total = 8_000_000
    for _ in range(4):
        progress.update(2_000_000)
    progress.reset()
    progress.close()
    said = "snn: downloading http://m/x.gz: {} of 8.0 MB"
    assert capsys.readouterr().err.splitlines() == [said.format("2.0"), said.format("6.0")]
    with Path("/dev/full").open("w") as full:  # what cannot be printed costs no file
        monkeypatch.setattr(sys, "stderr", full)
        progress.update(1)


# ---- that they are the right ones


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        (TRAIN_IMAGES, image_set(rows=4)[TRAIN_IMAGES], "4 images of 2x3, not 5 images of 2x3; images"),
        (TEST_IMAGES, idx_files.idx(np.zeros((3, 3, 2))), "it has 3 images of 3x2, not 3 images of 2x3"),
        (TEST_LABELS, idx_files.idx([1, 2]), "it has 2 labels, not 3 labels"),
        (TRAIN_LABELS, idx_files.idx([0, 9, 10, 1, 255]), r"label 2 \(from 0\) is 10: it must be from 0 to"),
        (TRAIN_LABELS, image_set(rows=5, seed=2)[TRAIN_LABELS], "it is another file than was published"),
        (TEST_IMAGES, FILES[TEST_IMAGES][:-1] + b"\7", "it is another file .* are dataset=idx, not few"),
    ],
)
def test_other_files_are_refused(small, tmp_path, name, content, said):
    path = write(tmp_path / "path", FILES | {name: content})
    with pytest.raises(DataError, match=f"^{re.escape(str(path / name))}: .*{said}"):
        whole(small(), path)


@pytest.mark.parametrize("dataset", ["mnist", "fashion"])
@pytest.mark.parametrize(("key", "most"), [("rows", 60000), ("test_rows", 10000)])
def test_more_rows_than_there_are_are_refused_before_a_file_is_read(dataset, key, most):
    assert composed([f"dataset={dataset}", f"dataset.{key}={most}"])["dataset"][key] == most
    with pytest.raises(
        DataError, match=rf"dataset.{key} is {most + 1}: it must be at most {most}, .* dataset={dataset} "
    ):
        composed([f"dataset={dataset}", f"dataset.{key}={most + 1}"])


def test_an_output_never_replaces_a_file_of_a_path(tmp_path):
    path = write(tmp_path / "path", FILES)
    choice = composed(["dataset=mnist", f"dataset.path={path}"])["dataset"]
    assert {file.name for file in datasets.inputs(choice)} == set(NAMES)
    for others in (["dataset=mnist"], []):
        assert datasets.inputs(composed(others)["dataset"]) == []
    for one in (mnist.MNIST, fashion_mnist.FASHION):
        digests = [*one.content, *one.packed]
        assert len(set(digests)) == 8 and all(re.fullmatch("[0-9a-f]{64}", digest) for digest in digests)
        assert len(one.mirrors) > 1 and all(re.fullmatch(r"https?://\S+/", of) for of in one.mirrors)


def test_pooch_is_loaded_for_downloads_only(tmp_path):
    write(tmp_path, image_set())
    code = (
        "import sys; from snn import datasets; from snn.config.compose import composed\n"
        "idx, patterns = ['dataset=idx', sys.argv[1]], ['dataset=patterns', 'dataset.rows=256']\n"
        "for keys in (['dataset=small'], patterns, idx):"
        " datasets.make(composed([*keys, 'training.batch_size=1'])['dataset'])\n"
        "sys.exit('pooch' in sys.modules)"
    )
    run = [sys.executable, "-c", code, f"dataset.path={tmp_path}"]
    assert subprocess.run(run, cwd=ROOT).returncode == 0
