"""Locks (one measurement per device, one workflow per folder), and jobs that end with their workflow."""

import ctypes
import errno
import fcntl
import os
import platform
import re
import signal
import stat
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path

from snn.errors import SnnError
from snn.files import outputs
from snn.files.outputs import say
from snn.hardware.devices import VISIBLE, Device

END_WITH_PARENT = "SNN_END_WITH_PARENT"
GPUS_AT_ONCE = "SNN_GPUS_AT_ONCE"
"""The environment variable with the number of GPUs that a workflow's cells may use at once."""

WAITS = "SNN_WAITS"
"""The environment variable with a file; each wait appends `wait`, and at its end the seconds."""

WAITING = "waiting for another measurement on this machine to finish"
"""The line that a process prints if all its devices are locked."""

_PR_SET_PDEATHSIG = 1
_FOLDER_LOCK = "snn.lock"
_MOMENT = 0.05
_OF_GPU = re.compile(r"snn-((GPU|MIG)-[\w./-]+)\.lock")

_TICK = 20_000_000  # nanoseconds by which a file's time may lag behind the clock


class LockedError(SnnError):
    """Another workflow is running in the same folder, or a lock cannot be opened."""


def in_turn(devices: Sequence[Device], number: int) -> list[Device]:
    """The GPUs that a workflow may use, rotated by the number of the round. All cells so try the same GPU
    first in a round, because times of two cells are divided round by round."""
    several = list(devices[: int(os.environ.get(GPUS_AT_ONCE, "1"))])
    first = (number - 1) % len(several)
    return several[first:] + several[:first]


@contextmanager
def device_lock(*devices: Device, count: int = 1) -> Iterator[Device]:
    """Hold the first free device of these; wait for other measurements if none is free.

    With a larger ``count``, hold the first ``count`` of them together, and return the first.

    CUDA, if it is loaded meanwhile, sees only what is held. The system releases a device if the process dies.
    Measurements on different GPUs may share the host's CPUs; a measurement on the CPU has the host to itself.
    Raises LockedError if a lock's file cannot be opened or locked, or is not a regular file.
    """
    with ExitStack() as held:
        kind = fcntl.LOCK_SH if devices[0].uuid else fcntl.LOCK_EX
        with _lock(["turn"], fcntl.LOCK_EX):  # else shared holders overtake an exclusive one
            held.enter_context(_lock(["cpu"], kind))
        if count > 1:
            # Every process locks in the same order, so that no two wait for each other.
            uuids = [str(device.uuid) for device in devices[:count]]
            for uuid in sorted(uuids):
                held.enter_context(_lock([uuid], fcntl.LOCK_EX))
            held.enter_context(_visible(",".join(uuids)))
            yield devices[0]
        else:
            yield held.enter_context(gpu_lock(*devices)) if devices[0].uuid else devices[0]


@contextmanager
def gpu_lock(*devices: Device) -> Iterator[Device]:
    """Hold the first free GPU of these, as ``device_lock`` does, in a process whose parent holds another. The
    parent, which may wait for this process, already holds a share of the host, so this one does not queue."""
    with _lock([str(device.uuid) for device in devices], fcntl.LOCK_EX) as uuid, _visible(uuid):
        yield next(device for device in devices if device.uuid == uuid)


@contextmanager
def _visible(uuids: str) -> Iterator[None]:
    """Let CUDA, if it is loaded meanwhile, see only these GPUs."""
    before, os.environ[VISIBLE] = os.environ.get(VISIBLE), uuids
    try:
        yield
    finally:
        del os.environ[VISIBLE]
        if before is not None:
            os.environ[VISIBLE] = before


def lock_file(name: str) -> Path:
    """Lock file for a measurement on the GPU with this UUID, or on the CPU. A UUID identifies one GPU; any
    other name includes this machine's key, because several machines may share a temporary folder."""
    here = f"-{_machine()}" if name in ("cpu", "turn") else ""
    return Path(tempfile.gettempdir()) / f"snn-{name}{here}.lock"


@cache
def _machine() -> str:
    """Key that identifies the host; containers share it if Linux reports the ID of the boot."""
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")[:8]
    return platform.node()


@contextmanager
def _lock(names: Sequence[str], kind: int) -> Iterator[str]:
    """Hold the first free lock of these; the time of its file is when it was last locked."""
    # Open for reading: another user's file can be locked, but not written.
    descriptors = {name: _open(lock_file(name), os.O_RDONLY) for name in names}
    try:
        name = _first_free(descriptors, kind)
        for other in set(descriptors) - {name}:
            os.close(descriptors.pop(other))
        with suppress(PermissionError):  # another user's
            os.utime(descriptors[name])
        yield name
    finally:
        for descriptor in descriptors.values():
            os.close(descriptor)


def _first_free(descriptors: dict[str, int], kind: int) -> str:
    """Lock the first of these files that is or becomes free, and return its name."""

    def free() -> str | None:
        return next((name for name, descriptor in descriptors.items() if _try(descriptor, kind)), None)

    first, *others = descriptors
    if _try(descriptors[first], kind):
        return first
    time.sleep(_MOMENT)  # ``Neighbours`` may only have looked at it
    if name := free():
        return name
    say(WAITING, sys.stderr)
    _note_wait("wait ")
    since = time.monotonic()
    if not others:
        _flock(descriptors[first], kind)
        name = first
    while name is None:
        time.sleep(_MOMENT)
        name = free()
    seconds = time.monotonic() - since
    _note_wait(f"{seconds}\n")
    say(f"waited {seconds:.1f} s for another measurement on this machine", sys.stderr)
    return name


class Neighbours:
    """Watches the other GPUs' locks from now on. It also sees a lock that was taken and released in between,
    because the time of a lock's file is when it was last locked."""

    def __init__(self, *devices: Device) -> None:
        self._own = [lock_file(device.uuid or "cpu") for device in devices]
        self._since = time.time_ns() - _TICK
        self._found = self._busy()

    def uuids(self) -> list[str]:
        """The sorted UUIDs of GPUs whose locks were held at some time until now."""
        self._found |= self._busy()
        return sorted(self._found)

    def _busy(self) -> set[str]:
        found = ((path, _OF_GPU.fullmatch(path.name)) for path in self._own[0].parent.glob("snn-*.lock"))
        return {lock[1] for path, lock in found if lock and path not in self._own and self._was_held(path)}

    def _was_held(self, path: Path) -> bool:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:  # not a lock of ours
            return False
        try:
            if os.fstat(descriptor).st_mtime_ns >= self._since:
                return True
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False


def _note_wait(text: str) -> None:
    with suppress(OSError):  # the measurement does not depend on it
        if file := os.environ.get(WAITS):
            with Path(file).open("a", encoding="ascii") as notes:
                notes.write(text)


def is_waiting(file: Path) -> bool:
    """Whether a process whose WAITS is this file is waiting for a lock."""
    return file.exists() and file.read_text(encoding="ascii").endswith(" ")


def waited(file: Path) -> float:
    """Seconds that the processes whose WAITS is this file have waited for locks, up to getting them."""
    lines = file.read_text(encoding="ascii").splitlines() if file.exists() else []
    return sum(float(seconds) for _, _, seconds in (line.partition(" ") for line in lines) if seconds)


def _try(descriptor: int, kind: int) -> bool:
    try:
        _flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _flock(descriptor: int, kind: int) -> None:
    """Lock an open file. Raises LockedError if its file system does not support such locks."""
    try:
        fcntl.flock(descriptor, kind)
    except BlockingIOError:
        raise
    except OSError as error:
        is_linux = sys.platform == "linux"
        path = Path(f"/proc/self/fd/{descriptor}").readlink() if is_linux else "a lock's file"
        raise LockedError(
            f"{path}: its file system cannot lock files ({error.strerror}): use a folder of another one, "
            "for what is in the temporary folder with the environment variable TMPDIR"
        ) from error


def _open(path: Path, mode: int) -> int:
    """The descriptor of a lock's file, which is created if needed.

    If it is created for reading, all users can read it despite the umask; if for writing, users whom the
    umask permits can write it. Raises LockedError for anything but a regular file, and if permission is
    denied.
    """
    flags = mode | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK  # O_NONBLOCK: opening a FIFO would block
    try:
        try:  # in a sticky folder, another user's file may not be opened with O_CREAT
            descriptor = os.open(path, flags)
        except FileNotFoundError:
            descriptor = os.open(path, flags | os.O_CREAT, 0o666)
            if mode == os.O_RDONLY and os.fstat(descriptor).st_uid == os.geteuid():
                os.fchmod(descriptor, 0o644)
                os.utime(descriptor, (0, 0))  # not locked yet
    except OSError as error:
        remedy = "remove it, or let its owner"
        if isinstance(error, PermissionError):  # removing a held lock would let a second holder in
            remedy = "let its owner give you access to it (chmod g+rw)"
        why = f"it is a link: {remedy}" if error.errno == errno.ELOOP else f"{error.strerror}: {remedy}"
        raise LockedError(f"{path}: the lock cannot be opened: {why}") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise LockedError(f"{path}: the lock is not a file: remove it")
    return descriptor


def generation(folder: Path) -> str | None:
    """The last workflow that worked in a folder, "" without one; None while a workflow is at work."""
    descriptor = _open_in(folder)
    try:
        return _text(descriptor) if _try(descriptor, fcntl.LOCK_SH) else None
    finally:
        os.close(descriptor)


def folder_lock(folder: Path, planned: str | None) -> int:
    """Lock a folder until the returned descriptor is closed or this process ends.

    ``planned`` is the folder's ``generation`` from before the work was planned. Raises LockedError if another
    workflow is at work, or has been since: its results would be built again.
    """
    descriptor = _open_in(folder)
    try:
        is_free, found = _try(descriptor, fcntl.LOCK_EX), _text(descriptor)
        if not is_free:
            holder = found.partition(" ")[0] or "unknown"
            raise LockedError(
                f"another snakemake (process {holder}) is running in this folder: wait until it has finished"
            )
        if found != planned:
            raise LockedError(
                "another snakemake was at work in this folder while this one planned: start it again"
            )
    except LockedError:
        os.close(descriptor)
        raise
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()} {time.time_ns()}".encode(), 0)
    return descriptor


@contextmanager
def file_lock(path: Path) -> Iterator[None]:
    """A context for one process at a time per file, which can read and replace the file in it.

    The file need not exist. Raises OutputError if its folder cannot be created, LockedError if it cannot be
    locked.
    """
    with outputs.reported(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    lock = path.with_name(f".{path.name}.lock")
    # A network file system locks only files open for writing; another user's file can only be read.
    mode = os.O_RDWR if not lock.exists() or os.access(lock, os.W_OK) else os.O_RDONLY
    descriptor = _open(lock, mode)
    try:
        _flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _open_in(folder: Path) -> int:
    """The descriptor of a folder's lock; creates the folder if needed. Raises LockedError if this user may
    not write there, and as ``_open`` does."""
    there = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.is_dir())
    if not os.access(there, os.W_OK):
        raise LockedError(
            f"{there}: you cannot write here: work in a separate folder, a clone or copy of your own"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LockedError(f"{folder}: cannot be used as a folder: {error.strerror}; remove it") from error
    return _open(folder / _FOLDER_LOCK, os.O_RDWR)


def _text(descriptor: int) -> str:
    return os.pread(descriptor, 100, 0).decode(errors="replace")


def end_with_parent() -> None:
    """Let Linux kill this process when its parent ends, if the environment asks for it."""
    parent = os.environ.get(END_WITH_PARENT)
    if not parent or sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if str(os.getppid()) != parent:  # the parent ended before the call of prctl
        sys.exit(f"snn: the workflow (process {parent}) has ended")
