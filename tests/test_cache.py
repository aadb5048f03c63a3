"""The user's cache: what is compiled once stays, for the same source, options, architecture and compiler."""

import ctypes
import json
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.util import module_from_spec, spec_from_file_location
from itertools import count
from pathlib import Path
from types import ModuleType, SimpleNamespace
from unittest.mock import Mock

import pytest
from conftest import ROOT

from snn.backends import kernel_source
from snn.errors import OutputError
from snn.files import cache
from snn.strategies import numba_loops

try:
    from cuda.bindings import nvrtc

    nvrtc.nvrtcVersion()
    missing = None
except (ImportError, RuntimeError) as error:  # RuntimeError: the bindings without the compiler
    missing = f"no NVRTC: {error}"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """The cache's folder, empty."""
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


def printed(script, *arguments):
    """What a Python process prints last, as JSON."""
    command = [sys.executable, "-c", script, *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_snakemake_has_a_cache_in_the_clone_if_the_users_cannot_be_written(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "mine"))
    assert cache.of_snakemake(tmp_path / "clone") == {}
    (tmp_path / "file").touch()
    inside = {"XDG_CACHE_HOME": str(tmp_path / "clone/.snakemake/cache")}
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file/mine"))
    assert cache.of_snakemake(tmp_path / "clone") == inside
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "file/home"))
    assert cache.of_snakemake(tmp_path / "clone") == inside


def test_what_is_made_once_is_there_in_every_further_process(folder):
    made = count()
    paths = [cache.kept("kernels", ".x", ("a", "b"), lambda: b"%d" % next(made)) for _ in range(3)]
    assert set(paths) == set(folder.rglob("*.x")) and len(set(paths)) == 1
    assert paths[0].read_bytes() == b"0" and next(made) == 1


def test_each_of_what_decides_makes_another_file():
    decided = [("a", "b"), ("ab", ""), ("", "ab"), ("a", "b", ""), ("b", "a"), ("a", "b", "c")]
    assert len({cache.kept("kernels", ".x", one, lambda: b"the same") for one in decided}) == len(decided)
    assert cache.kept("others", ".x", decided[0], lambda: b"new").read_bytes() == b"new"


@pytest.mark.parametrize("damaged", [b"", b"conten", b"c0ntent", b"content, and more"])
def test_a_damaged_file_is_made_again(folder, damaged):
    path = cache.kept("kernels", ".x", ("a",), lambda: b"content")
    path.write_bytes(damaged)
    assert cache.kept("kernels", ".x", ("a",), lambda: b"content").read_bytes() == b"content"
    path.write_bytes(damaged)
    assert cache.kept("kernels", ".x", ("a",), lambda: b"otherwise").read_bytes() == b"otherwise"
    assert len(list(folder.rglob("*.x"))) == 1


def test_what_fails_leaves_nothing(folder):
    with pytest.raises(ValueError, match="not this one"):
        cache.kept("kernels", ".x", ("a",), Mock(side_effect=ValueError("not this one")))
    assert not list(folder.rglob("*"))


def test_what_nobody_uses_goes_and_what_is_used_stays():
    old, used, recent = (cache.kept("kernels", ".x", (one,), lambda: b"content") for one in "abc")
    for path, days in ((old, 90.1), (used, 1000), (recent, 89.9)):
        os.utime(path, (0, time.time() - days * 24 * 60 * 60))
    cache.kept("kernels", ".x", ("b",), lambda: b"content")
    cache.kept("kernels", ".x", ("d",), lambda: b"content")
    assert [path.exists() for path in (old, used, recent)] == [False, True, True]


def test_where_nothing_can_be_written_an_error_names_the_file(folder):
    folder.write_text("a file in the place of the folder")
    with pytest.raises(OutputError, match=r"cache/kernels/.*x: cannot be written"):
        cache.kept("kernels", ".x", ("a",), lambda: b"content")


def test_it_is_where_the_variable_says_or_else_in_the_users_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("SNN_CACHE", "~/mine")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache.folder("kernels") == tmp_path / "mine/kernels"
    monkeypatch.delenv(cache.VARIABLE)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache.folder("kernels") == tmp_path / ".cache/snn-memory-strategies/kernels"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache.folder("torch") == tmp_path / "xdg/snn-memory-strategies/torch"


def test_a_library_is_named_a_folder_unless_the_user_has_named_one_or_it_cannot_be_written(
    folder, monkeypatch
):
    def lent(before=None):
        monkeypatch.setenv("A_LIBRARYS", before or "")
        if before is None:
            monkeypatch.delenv("A_LIBRARYS")
        cache.lend("library", "A_LIBRARYS")
        return os.environ.get("A_LIBRARYS")

    assert lent("of the user") == "of the user"
    assert lent() == str(folder / "library") and (folder / "library").is_dir()
    shutil.rmtree(folder)
    folder.write_text("a file in the place of the folder")
    assert lent() is None
    assert not numba_loops.keeps(SimpleNamespace(__version__="1"), parallel=False)


# ---- Numba's loops, and PyTorch's steps


def test_numba_compiles_a_loop_once_for_its_options_and_all_clones(folder, tmp_path, monkeypatch):
    pytest.importorskip("numba")

    def hits(module):
        monkeypatch.setitem(sys.modules, numba_loops.__name__, module)
        loops = module.perceptron_loops.__wrapped__(parallel=False)
        return [sum(loop.stats.cache_hits.values()) for loop in loops]

    clone = shutil.copy(numba_loops.__file__, tmp_path)
    spec = spec_from_file_location(numba_loops.__name__, clone)
    in_clone = module_from_spec(spec)
    spec.loader.exec_module(in_clone)
    assert [*map(hits, (numba_loops, numba_loops, in_clone))] == [[0] * 5, [1] * 5, [1] * 5]
    config = SimpleNamespace(CACHE_LOCATOR_CLASSES="")
    assert numba_loops.keeps(SimpleNamespace(config=config, __version__="1"), parallel=True)
    (of_one_thread, of_several) = sorted((folder / "numba").iterdir(), key=lambda one: not any(one.iterdir()))
    assert str(of_several) == config.CACHE_DIR and not list(of_several.iterdir())
    assert list(of_one_thread.rglob("*.nbc"))


@pytest.mark.parametrize("parallel", [False, True])
def test_a_loop_that_is_kept_refers_to_no_compiled_function(parallel, monkeypatch):
    """Numba would pickle it into the loop's key, with an identifier that each process draws."""
    numba = pytest.importorskip("numba")
    monkeypatch.delenv(cache.VARIABLE)
    families = (numba_loops._layer_loops, numba_loops._norm_loops, numba_loops._optimizer_loops)
    every = [loop for family in families for loop in family(parallel).values()]
    loops = [loop.written for loop in every if isinstance(loop, numba_loops.Loop)]
    cells = [cell.cell_contents for loop in loops for cell in loop.__closure__ or ()]
    assert len(loops) > 20
    compiled = numba_loops.Loop, numba.core.dispatcher.Dispatcher
    assert not [cell for cell in cells if isinstance(cell, compiled)]


STEP = """
import json, sys
from snn.measurement import cell
from snn.config.compose import composed
record = cell.run(composed(sys.argv[1:]))
from torch._dynamo.utils import counters
hits, misses = (counters["inductor"][f"fxgraph_cache_{found}"] for found in ("hit", "miss"))
print(json.dumps([record["status"], record["runs"][0]["final_loss"], hits > 0, misses > 0]))
"""


def test_a_second_process_finds_the_step_that_pytorch_compiled(folder, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "")
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR")
    settings = ["strategy=torch_compile", "strategy.mode=default", "dataset=small"]
    settings += ["training.epochs=2", "protocol=glance", "protocol.runs=5"]
    first, second = (printed(STEP, *settings) for _ in range(2))
    assert first[:2] == second[:2] and first[0] == "ok"
    assert (first[2:], second[2:]) == ([False, True], [True, False])
    assert any((folder / "torch").iterdir())


# ---- modules of CUDA, by NVRTC without a GPU

KERNEL = 'extern "C" __global__ void k(float* x) { *x = N; }'


class Process:
    """A process with a device and NVRTC, in which CuPy makes modules of what it is given."""

    def __init__(self, monkeypatch):
        self.capability, self.compiled = "90", []
        device = SimpleNamespace(Device=lambda: SimpleNamespace(compute_capability=self.capability))
        parts = {
            "cupy": {"cuda": device, "RawModule": lambda **given: given},
            "cupy_backends.cuda.libs": {
                "nvrtc": SimpleNamespace(getVersion=lambda: nvrtc.nvrtcVersion()[1:])
            },
        }
        for name, values in parts.items():
            module = ModuleType(name)
            vars(module).update(values)
            monkeypatch.setitem(sys.modules, name, module)
        self.start()

    def start(self):
        """Begin anew, with nothing loaded."""
        spec = spec_from_file_location("modules", ROOT / "snn/backends/cuda/modules.py")
        self.modules = module_from_spec(spec)
        spec.loader.exec_module(self.modules)
        compile_source = self.modules.compiled
        self.modules.compiled = lambda *given: (self.compiled.append(given), compile_source(*given))[1]


@pytest.fixture
def process(monkeypatch):
    if missing:
        pytest.skip(missing)
    return Process(monkeypatch)


def test_a_second_process_compiles_nothing(process):
    first = process.modules.load(KERNEL, ("-DN=1",))
    process.start()
    assert process.modules.load(KERNEL, ("-DN=1",)) == first
    assert len(process.compiled) == 1
    assert Path(first["path"]).read_bytes().startswith(b"\x7fELF")


def test_another_source_option_architecture_or_compiler_is_compiled(process, monkeypatch):
    load = process.modules.load
    found = [load(KERNEL, ("-DN=1",)), load(KERNEL + " ", ("-DN=1",)), load(KERNEL, ("-DN=2",))]
    process.capability = "80"
    found.append(load(KERNEL, ("-DN=1",)))
    monkeypatch.setattr(process.modules, "_compiler", lambda: "another build")
    found.append(load(KERNEL, ("-DN=1",)))
    assert len({one["path"] for one in found}) == len(process.compiled) == 5
    assert Path(found[0]["path"]).read_bytes() != Path(found[2]["path"]).read_bytes()


def test_headers_of_the_system_errors_and_a_full_cache_are_left_to_cupy(process, folder):
    load = process.modules.load
    of_cupy = {"options": ("-std=c++17",), "backend": "nvrtc"}
    header, wrong = "#include <cuda_fp16.h>\n", "this is no C++"
    assert load(header) == of_cupy | {"code": header} and not process.compiled
    assert load(wrong) == of_cupy | {"code": wrong} and not list(folder.rglob("*.cubin"))
    shutil.rmtree(folder, ignore_errors=True)
    folder.write_text("a file in the place of the folder")
    assert load(KERNEL, ("-DN=1",))["code"] == KERNEL


class Loader:
    """A dynamic loader that has loaded these libraries, by path their soname and version, in this order."""

    byref, c_int = ctypes.byref, ctypes.c_int

    def __init__(self, loaded):
        self.loaded = loaded

    def CDLL(self, name):
        for handle, (path, (soname, version)) in enumerate(self.loaded.items()):
            if name in (path, soname):
                return SimpleNamespace(_handle=handle, nvrtcVersion=partial(self.write, version))
        raise OSError(name)

    @staticmethod
    def write(version, *numbers):
        for number, value in zip(numbers, version, strict=True):
            number._obj.value = value


OURS, ALIKE = "/home/a user/lib/libnvrtc.so.13", "/torch/lib/libnvrtc.so.13"
OTHER, BUILTINS = "/torch/lib/libnvrtc.so.12", "/lib/libnvrtc-builtins.so.13.0"
IS_13, IS_12 = ("libnvrtc.so.13", (13, 0)), ("libnvrtc.so.12", (12, 8))


@pytest.mark.parametrize(
    ("maps", "loaded", "path"),
    [
        ([OURS], {OURS: IS_13}, OURS),
        ([OTHER, BUILTINS, OURS], {OTHER: IS_12, OURS: IS_13}, OURS),  # the addresses have no order
        ([ALIKE, OURS], {OURS: IS_13, ALIKE: IS_13}, OURS),
        ([ALIKE, OURS], {ALIKE: IS_13, OURS: IS_13}, ALIKE),  # which was there when CuPy asked for one
        ([OURS], {OURS: ("libnvrtc.so.13", (13, 1))}, None),
        ([OTHER], {OTHER: IS_12}, None),
        ([BUILTINS], {OURS: IS_13}, None),
        ([f"{OURS} (deleted)"], {OURS: IS_13}, None),
        ([], {OURS: IS_13}, None),
    ],
)
def test_the_library_is_the_one_that_cupy_uses(process, tmp_path, monkeypatch, maps, loaded, path):
    modules = process.modules
    monkeypatch.setattr(modules, "ctypes", Loader(loaded))
    monkeypatch.setattr(modules.nvrtc, "getVersion", lambda: (13, 0))
    modules._MAPS = tmp_path / "maps"
    lines = (f"7f{i}-80 r-xp 00 08:01 9   {name}\n" for i, name in enumerate(maps) for _ in range(2))
    modules._MAPS.write_text("7f-80 rw-p 00 00:00 0\n" + "".join(lines))
    if path:
        assert modules._loaded() == (path, (13, 0))
        return
    assert modules.load(KERNEL, ("-DN=1",))["code"] == KERNEL  # left to CuPy


def test_several_threads_compile_at_once(process):
    """Python goes on while one of them compiles."""
    source = kernel_source.text(ROOT / "kernels/naive.cu")
    options = ("-std=c++17", "-DBLOCK_X=16", "-DBLOCK_Y=16", "-DWORK_ROWS=1", "-DWORK_COLS=1")
    counted = 0
    with ThreadPoolExecutor(1) as pool:
        made = pool.submit(process.modules.compiled, source, options, "sm_90")
        while not made.done():
            counted += 1
    assert made.result().startswith(b"\x7fELF")
    assert counted > 100  # Python went on meanwhile


COUNTED = """
import json, sys
from cupy_backends.cuda.libs import nvrtc
from snn.backends.cuda import modules
from snn.measurement import cell
from snn.config.compose import composed
compiled = []
def counted(function):
    return lambda *arguments: (compiled.append(1), function(*arguments))[1]
nvrtc.compileProgram, modules.compiled = counted(nvrtc.compileProgram), counted(modules.compiled)
record = cell.run(composed(sys.argv[1:]))
print(json.dumps([record["status"], record["plan"], record["runs"][0]["final_loss"], len(compiled)]))
"""


@pytest.mark.gpu
@pytest.mark.parametrize(
    "choices",
    [
        ("strategy=persistent", "kernel=tiled_fused"),
        ("strategy=reference", "kernel=naive"),
        ("strategy=graph", "kernel=tiled_fused", "dataset=patterns", "network.init=he_uniform"),
    ],
)
def test_a_second_run_of_a_cell_compiles_nothing_and_trains_the_same(choices):
    brief = ("device=cuda", "training.epochs=2", "protocol=glance", "protocol.runs=5")
    first, second = (printed(COUNTED, *choices, *brief) for _ in range(2))
    assert first[0] == "ok"
    assert first[:3] == second[:3]
    assert first[3] > 0 and second[3] == 0
