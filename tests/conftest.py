"""Fixtures that several test files share."""

import fcntl
import functools
import gc
import os
import shutil
import sys
import tempfile
from contextlib import ExitStack, closing, contextmanager
from multiprocessing.util import get_temp_dir
from pathlib import Path
from random import SystemRandom

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # what many short processes import is compiled once
sys.dont_write_bytecode = False
os.environ.pop("SNAKEMAKE_PROFILE", None)  # the developer's own

from snn.hardware import threads  # noqa: E402

threads.assign()

import browser  # noqa: E402
import hypothesis  # noqa: E402
import numpy as np  # noqa: E402
import pytest  # noqa: E402
from every_source import EverySource  # noqa: E402
from project import NOT_OF_WORKFLOW, TINY, Project, copied  # noqa: E402
from xdist.scheduler import LoadScopeScheduling  # noqa: E402

from snn import backends, cli  # noqa: E402
from snn.config import groups  # noqa: E402
from snn.errors import DeviceError, Unsupported  # noqa: E402
from snn.files import cache  # noqa: E402
from snn.hardware import devices  # noqa: E402
from snn.strategies.factory import class_of, own_runtime, side_by_side  # noqa: E402

hypothesis.settings.register_profile("default", deadline=None)  # a test does not look at the clock
hypothesis.settings.register_profile("thorough", deadline=None)
SHARE, FEWEST = 3, 3
"""One in so many of a test's examples is tried, but at least so many; ``thorough`` tries all of them."""

os.environ.update(cache.of_snakemake(ROOT))
gc.disable()  # until all tests are collected, of which nothing is garbage

TOGETHER = {
    "pipeline": (
        "test_workflow.py",
        "test_report.py",
        "test_survival.py",
        "test_reruns.py",
        "test_notebook.py",
    ),
    "numba": (
        *("test_layers.py", "test_other_trainers.py", "test_memory.py", "test_device_driven.py"),
        *("test_profile.py", "test_training.py", "test_remedies.py"),
        *("test_measure.py", "test_strategies.py", "test_activations.py", "test_norms.py"),
        *("test_optimizers.py", "test_losses.py", "test_schedules.py", "test_row_order.py"),
        *("test_on_host.py", "test_validation.py"),
    ),
}
"""Files of one group: they share a project in which everything was made, or loops that Numba compiled."""

LONGEST = (
    *("pipeline", "numba", "test_persistent_on_cpu.py", "test_compile.py", "test_launched_training.py"),
    *("test_convolutions.py", "test_published_figures.py", "test_retabulate.py", "test_kernels_on_cpu.py"),
    *("test_cnn_pipeline.py", "test_recommend.py", "test_microbenchmarks.py"),
    *("test_convolutional_steps.py", "test_whole.py", "test_inputs.py"),
)
"""Groups that begin first, those of 10 seconds and more: at the end no process waits long for the other."""

OF_OTHERS = [name for name in groups.names("strategy") if own_runtime(groups.load("strategy", name))]
DIAGNOSTICS = [
    name for name in groups.names("strategy") if class_of(groups.load("strategy", name)).diagnostic
]
"""Strategies made of parts of others: config/paper_questions.yaml has them, and no ranking."""
STRATEGIES = [name for name in groups.names("strategy") if name not in (*OF_OTHERS, *DIAGNOSTICS)]
MANY = [name for name in groups.names("strategy") if side_by_side(groups.load("strategy", name))]
"""Strategies that train several networks: ``test_members`` tests them."""
PEERS = [name for name in OF_OTHERS if name not in MANY]
SINGLE = [name for name in STRATEGIES if name not in MANY]
DIFFERENT = (
    *("reference", "preallocated", "workspace", "resident"),
    *("graph", "persistent", "blas", "sequential"),
    *PEERS,
)
"""Strategies whose steps differ; every other strategy shares the steps of one of these."""
FOR_SEVERAL = [
    name for name in groups.names("strategy") if class_of(groups.load("strategy", name)).several_devices
]
"""Strategies for several GPUs: config/several_gpus.yaml has them, and no ranking."""
OWN_LOOPS = (*DIFFERENT, "threads")
"""And ``threads``, which has the loops of ``sequential``, compiled for several threads."""
LIKE_GRAPH = ("graph_loop", "graph_pdl")  # test_device_driven.py has them do what graph does, to the bit


@functools.cache
def _why_no_gpu() -> str | None:
    try:
        devices.find("cuda")
    except DeviceError as error:
        return str(error)
    return None


def pytest_configure(config):
    """Named in pyproject.toml, it would import pandas before BLAS is told its threads."""
    config.addinivalue_line("filterwarnings", "error::pandas.errors.Pandas4Warning")


def pytest_terminal_summary(terminalreporter):
    if reason := _why_no_gpu():
        terminalreporter.write_line(f"Tests marked gpu were left out: {reason}")


def pytest_collection_modifyitems(config, items):
    for test in {
        getattr(item.obj, "__func__", item.obj) for item in items if hasattr(item.obj, "hypothesis")
    }:
        if not _is_thorough(config):
            _try_fewer(test)
    for test in {item.obj for item in items if "name" in getattr(item, "fixturenames", ())}:
        if hasattr(test, "hypothesis"):
            test.hypothesis.inner_test = _skipping(test.hypothesis.inner_test)
    if _why_no_gpu():
        config.hook.pytest_deselected(items=[item for item in items if "gpu" in item.keywords])
        items[:] = [item for item in items if "gpu" not in item.keywords]
    items.sort(key=lambda item: _turn(_group(item.nodeid)))


def pytest_collection_finish():
    """What was collected stays: every timed run collects garbage first, and would look through all of it."""
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_xdist_auto_num_workers():
    """Two processes; but one where there is a GPU, which has to be that of one alone."""
    return 2 if _why_no_gpu() else 0


def pytest_xdist_make_scheduler(config, log):
    if config.option.dist != "loadscope":
        return None

    class Groups(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return _group(nodeid)

    return Groups(config, log)


def _group(nodeid: str) -> str:
    """Tests of one group run one after the other in one process, which makes their fixtures once."""
    file = nodeid.partition("::")[0].rpartition("/")[2]
    return next((group for group, files in TOGETHER.items() if file in files), file)


def _turn(group: str) -> int:
    return LONGEST.index(group) if group in LONGEST else len(LONGEST)


@contextmanager
def _flock(path: Path, kind: int):
    with path.open("r+") as file:  # a network file system locks for writing only what is open for it
        fcntl.flock(file, kind)
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """A test marked `alone` waits until no other runs; who comes later waits at the door, behind it."""
    with ExitStack() as room:
        with _flock(ROOT / "pyproject.toml", fcntl.LOCK_EX):
            kind = fcntl.LOCK_EX if item.get_closest_marker("alone") else fcntl.LOCK_SH
            room.enter_context(_flock(Path(__file__), kind))
        return (yield)


def _is_thorough(config):
    return config.getoption("hypothesis_profile") not in (None, "default")


def _try_fewer(test):
    tried = test._hypothesis_internal_use_settings
    fewer = min(tried.max_examples, max(FEWEST, tried.max_examples // SHARE))
    test._hypothesis_internal_use_settings = hypothesis.settings(tried, max_examples=fewer)


def _skipping(test):
    """A test of examples that skips at the first unsupported one, instead of looking for a smaller one."""

    @functools.wraps(test)
    def skipping(*arguments, **options):
        try:
            return test(*arguments, **options)
        except Unsupported as error:
            pytest.skip(str(error))

    return skipping


@pytest.hookimpl(hookwrapper=True)
def pytest_pyfunc_call(pyfuncitem):
    """A test over all strategies skips one that its backend cannot have; test_strategies.py knows which."""
    outcome = yield
    of_strategy = pyfuncitem.funcargs.get("name") in (*STRATEGIES, *DIAGNOSTICS, *PEERS)
    if outcome.excinfo and issubclass(outcome.excinfo[0], Unsupported) and of_strategy:
        outcome.force_exception(pytest.skip.Exception(str(outcome.excinfo[1])))


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)], scope="session")
def backend(request):
    """A backend of each sort that this machine has, with the paper's kernel; the CPU's has pools as well."""
    if request.param == "cpu":
        return EverySource()
    return backends.make(request.param, groups.load("kernel", "naive"), ROOT)


@pytest.fixture(autouse=True, scope="session")
def locked_apart(request):
    """Each of several processes locks devices in a separate folder, or cells would wait for another's.

    Its name is short: the sockets of multiprocessing are in it, and a socket's path has 107 bytes at most.
    """
    if not hasattr(request.config, "workerinput"):
        yield
        return
    get_temp_dir()  # of this process's own sockets, which outlive the folder
    made = tempfile.TemporaryDirectory(prefix="", ignore_cleanup_errors=True)
    with made as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", folder)
        patch.setenv("TMPDIR", folder)
        yield


@pytest.fixture(autouse=True)
def closed_figures():
    """What a test draws takes memory no longer than the test."""
    yield
    if pyplot := sys.modules.get("matplotlib.pyplot"):
        pyplot.close("all")


def further(*case):
    """A case for `make kernels`: another shape of a kernel that `make test` builds or runs in some."""
    return pytest.param(*case, marks=pytest.mark.kernels)


def as_command(*first):
    """A function that runs ``snn`` with these words and those that it gets; it returns the status."""
    return lambda words: cli.main([*first, *words])


@pytest.fixture(scope="session")
def share(pytestconfig):
    """A function that returns one in ``SHARE`` elements of a list, from a random one on; or all of them."""
    step = 1 if _is_thorough(pytestconfig) else SHARE
    return lambda cases: [*cases][SystemRandom().randrange(step) :: step]


@pytest.fixture
def random():
    return np.random.default_rng(20260211)


@pytest.fixture(scope="session")
def cuda_backend():
    return backends.make("cuda", groups.load("kernel", "naive"), ROOT)


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """A project in which everything has been made; tests look at it and leave it as it is.

    It takes half a minute: name a file whose tests use it, or a copy of it, in ``TOGETHER["pipeline"]``.
    """
    project = Project(tmp_path_factory.mktemp("made") / "project")
    shutil.copytree(ROOT, project.folder, ignore=NOT_OF_WORKFLOW)
    project.write_grid(TINY)
    project.never_drifts()
    project.printed = project.snakemake("--verbose", cores=4)
    return project


@pytest.fixture(scope="session")
def chromium(tmp_path_factory):
    """The browser of all tests of a process; without Chromium they are skipped."""
    if browser.PROGRAM is None:
        pytest.skip("there is no Chromium to open pages with")
    profile = tmp_path_factory.mktemp("chromium")
    with closing(browser.Browser(profile)) as opened:
        yield opened
    shutil.rmtree(profile, ignore_errors=True)


@pytest.fixture
def project(made, tmp_path_factory):
    """A copy of the made project, to change; all copies are deleted at the end of a run that passes.

    For some seconds after a thousand files were deleted, ext4 takes ten times as long to create a thousand.
    """
    return copied(made.folder, tmp_path_factory.mktemp("copy") / "project")
