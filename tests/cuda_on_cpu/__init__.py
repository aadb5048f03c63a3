"""Runs CUDA kernels on the CPU, for tests: the source itself, compiled by g++ behind cuda_on_cpu.h.

    kernels = cuda_on_cpu.load("kernels/tiled.cu", BLOCK_X=16, BLOCK_Y=16, WORK_ROWS=1, WORK_COLS=1)
    kernels["matmul"](grid=(4, 4), block=(16, 16), arguments=(A, B, C, m, k, n))

Arrays are NumPy arrays, and changed in place. A launch raises KernelError where a kernel reads or writes
outside its arrays, where two threads race for a word with no barrier between them, where a barrier is
not reached by the whole block, where a vector is misaligned. Shared memory is initialised to NaN.
It says nothing about speed, and nothing about what nvcc makes of the source.
"""

import ctypes
import functools
import hashlib
import os
import platform
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import compiled
import numpy as np

from snn.backends import kernel_source

HERE = Path(__file__).resolve().parent
SOURCES = HERE.parents[1] / "kernels"
COMPILER = "g++"
COMMON = [
    *("-std=c++17", "-fPIC", "-fvisibility=hidden", "-fno-extern-tls-init"),
    *("-g1", "-gdwarf-4", "-U_FORTIFY_SOURCE"),  # addr2line confuses files in DWARF 5; longjmp between stacks
    *(("-mtls-dialect=gnu2",) if platform.machine() == "x86_64" else ()),  # 5% of a launch looked up `worker`
    "-fno-var-tracking",  # takes a third of the time, for variables that -g1 leaves out anyway
]
KERNEL = [
    *("-Og", "-ffp-contract=off", "-fno-tree-loop-distribute-patterns", "-Wno-unknown-pragmas"),
    *("-fsanitize=thread,bounds", "--param", "tsan-instrument-func-entry-exit=0"),
]
LINKER = ["-fuse-ld=gold"] if shutil.which("ld.gold") else []  # half of the time
GUARD_BYTES = 4096
GUARD = 0xA5
_MOST_Y = 65_535  # blocks of a grid in y, and in z
_LOCK = threading.Lock()  # sources may be compiled by several threads at once


class KernelError(Exception):
    """A kernel did what it must not do, or does not compile."""


# Whether tests that run kernels should skip; not where they run unattended, since a skip would go unseen.
MISSING = shutil.which(COMPILER) is None and not os.environ.get("CI")


@functools.cache
def _folder() -> tempfile.TemporaryDirectory:
    return tempfile.TemporaryDirectory(prefix="cuda-on-cpu-")


def _run(*command: str | Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise KernelError(f"{' '.join(map(str, command))} failed:\n{done.stderr}")
    return done.stdout


@functools.cache
def _of_all() -> tuple[str, ...]:
    """What every library depends on: the compiler's version, and the emulator itself."""
    files = sorted(path for path in HERE.iterdir() if path.suffix in (".cpp", ".h"))
    return _run(COMPILER, "--version"), *(path.read_text() for path in files)


@functools.cache
def _runtime() -> list[Path]:
    objects = []
    for source in sorted(HERE.glob("*.cpp")):
        flags = (*COMMON, "-O3", "-c")
        name = f"{source.stem}.o"
        objects.append(compiled.kept(name, (_of_all(), flags, source.name), _compiling(*flags, source)))
    # Parsed once and found beside what includes it; g++ ignores it where another __CUDA_ARCH__ is asked for.
    name = "cuda_on_cpu.h.gch"
    flags = (*COMMON, *KERNEL, "-x", "c++-header")
    header = compiled.kept(name, (_of_all(), flags), _compiling(*flags, HERE / "cuda_on_cpu.h"))
    beside = Path(_folder().name) / name
    beside.unlink(missing_ok=True)
    beside.symlink_to(header)
    return objects


def _compiling(*flags: str | Path) -> Callable[[Path], None]:
    return lambda target: _run(COMPILER, *flags, "-o", target) and None


def load(source: str | Path, **defines: object) -> dict[str, Any]:
    """The kernels of a source by name, compiled with -Dname=value for each define, and its constants.

    A kernel is `extern "C" __global__`, a constant `extern "C" __device__ const int`.

    Raises KernelError with the compiler's text where it does not compile.
    """
    source = Path(source).resolve()
    return _built(source, source.read_text(), tuple(f"-D{name}={value}" for name, value in defines.items()))


def check_constants(source: Path, expected: dict[str, int], **defines: object) -> None:
    """Raises KernelError with the compiler's text unless the constants are these; generates no code."""
    lines = [f"static_assert({name} == {value});" for name, value in expected.items()]
    flags = ("-std=c++17", "-fsyntax-only", "-Wno-unknown-pragmas")
    flags += tuple(f"-D{name}={value}" for name, value in defines.items())

    def check(done: Path) -> None:
        with tempfile.NamedTemporaryFile("w", suffix=".cpp") as file:
            file.write("\n".join(['#include "cuda_on_cpu.h"', f'#include "{source}"', *lines, ""]))
            file.flush()
            _run(COMPILER, *flags, "-I", HERE, file.name)
        done.touch()

    compiled.kept(f"{source.stem}.checked", (_of_all(), flags, lines, kernel_source.text(source)), check)


@functools.cache
def _built(source: Path, text: str, flags: tuple[str, ...]) -> dict[str, Any]:
    is_kept = SOURCES in source.parents  # and not one that a test wrote
    preprocess = (COMPILER, "-E", "-P", "-x", "c++", "-std=c++17", "-DCUDA_ON_CPU=1", *flags)
    if is_kept:
        decided_by = (_of_all(), preprocess, kernel_source.text(source))
        write = _compiling(*preprocess[1:], source)
        plain = compiled.kept(f"{source.stem}.txt", decided_by, write).read_text()
    else:
        plain = _run(*preprocess, source)
    bounds = r"(?:__launch_bounds__\s*\([^)]*\)\s*)?"
    names = re.findall(rf'extern\s+"C"\s+__global__\s+{bounds}void\s+{bounds}(\w+)\s*\(', plain)
    dynamic = set(re.findall(r"extern\s+__shared__\s+(?:__align__\(\d+\)\s+)?(\w+)\s+(\w+)\s*\[\s*\]", plain))
    if len(dynamic) > 1:
        raise KernelError(f"{source}: one extern __shared__ array is possible, not {sorted(dynamic)}")

    included = source.relative_to(SOURCES) if is_kept else source  # the same in every clone
    lines = ['#include "cuda_on_cpu.h"', f'#include "{included}"']
    lines += [f"CUDA_ON_CPU_DYNAMIC_SHARED({kind}, {name})" for kind, name in dynamic]
    lines += [] if dynamic else ["CUDA_ON_CPU_NO_DYNAMIC_SHARED"]
    constants = re.findall(r'extern\s+"C"\s+__device__\s+const\s+int\s+(\w+)', plain)
    lines += [f"CUDA_ON_CPU_KERNEL({name})" for name in names]
    lines += [f"CUDA_ON_CPU_CONSTANT({name})" for name in constants]
    unit = "\n".join(lines) + "\n"

    def compile_to(library: Path) -> None:
        with _LOCK:
            runtime = _runtime()
        stem = hashlib.sha256(repr((source, text, flags)).encode()).hexdigest()[:16]
        file = Path(_folder().name) / f"{stem}.cpp"
        file.write_text(unit)
        folders = ("-I", HERE, "-I", SOURCES)
        _run(COMPILER, *COMMON, *KERNEL, *folders, *flags, "-c", file, "-o", file.with_suffix(".o"))
        _run(COMPILER, "-shared", "-pthread", *LINKER, file.with_suffix(".o"), *runtime, "-o", library)

    if is_kept:
        decided_by = (_of_all(), COMMON, KERNEL, flags, unit, kernel_source.text(source))
        library = compiled.kept(f"{source.stem}.so", decided_by, compile_to)
    else:
        library = (
            Path(_folder().name) / f"{hashlib.sha256(repr((unit, text, flags)).encode()).hexdigest()}.so"
        )
        compile_to(library)
    loaded = ctypes.CDLL(str(library))
    values = {name: loaded[f"cuda_on_cpu_constant_{name}"]() for name in constants}
    return {name: Kernel(name, loaded, library) for name in names} | values


class _Launch(ctypes.Structure):  # as in runtime.cpp
    _fields_ = (
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("dynamic_shared", ctypes.c_uint64),
        ("arrays", ctypes.c_uint64),
        ("array_begin", ctypes.POINTER(ctypes.c_void_p)),
        ("array_bytes", ctypes.POINTER(ctypes.c_uint64)),
        ("array_argument", ctypes.POINTER(ctypes.c_uint64)),
        ("workers", ctypes.c_uint64),
        ("cluster", ctypes.c_uint64),
        ("error", ctypes.c_void_p),
        ("error_bytes", ctypes.c_uint64),
    )


class _Guarded:
    """A copy of an array with guards around it, aligned as the device allocates."""

    def __init__(self, array: np.ndarray, position: int):
        self.position = position
        self.buffer = np.full(array.nbytes + 2 * GUARD_BYTES + 256, GUARD, dtype=np.uint8)
        self.start = GUARD_BYTES + -(self.buffer.ctypes.data + GUARD_BYTES) % 256
        self.end = self.start + array.nbytes
        self.copy = self.buffer[self.start : self.end].view(array.dtype).reshape(array.shape)
        self.copy[...] = array

    def intact(self) -> bool:
        return bool((self.buffer[: self.start] == GUARD).all() and (self.buffer[self.end :] == GUARD).all())


class Kernel:
    """A kernel of a compiled source; call it to launch it."""

    def __init__(self, name: str, library: ctypes.CDLL, path: Path):
        self.name = name
        self._path = path
        self._launch = library[f"cuda_on_cpu_launch_{name}"]
        self._launch.restype = ctypes.c_bool
        parameter = library[f"cuda_on_cpu_parameter_{name}"]
        parameter.restype = ctypes.c_char_p
        parameter.argtypes = [ctypes.c_size_t]
        self.parameters: list[str] = []
        while (kind := parameter(len(self.parameters))) is not None:
            self.parameters.append(kind.decode())

    def __call__(
        self,
        grid: tuple,
        block: tuple,
        arguments: tuple,
        dynamic_shared: int = 0,
        cooperative: bool = False,
        cluster: int = 1,
    ) -> None:
        """Runs the kernel; what it writes is in the arrays afterwards.

        `grid` and `block` have one to three sizes; `arguments` are contiguous arrays of the parameter's type,
        ints and floats; `dynamic_shared` is the bytes of an extern __shared__ array; `cooperative` says that
        all blocks run side by side and may wait for each other, as those of a `cluster` of so many do. The
        same array passed twice is one array to the kernel. Raises KernelError, and then leaves the arrays as
        they were.
        """
        if len(arguments) != len(self.parameters):
            raise KernelError(f"{self.name} takes {len(self.parameters)} arguments, got {len(arguments)}")
        sizes = [tuple(size) + (1,) * (3 - len(size)) for size in (grid, block)]
        if not 1 <= np.prod(sizes[1]) <= 1024 or min(*sizes[0], *sizes[1]) < 1 or max(sizes[0][1:]) > _MOST_Y:
            raise KernelError(f"{self.name}: no such launch, grid {grid}, block {block}")
        if np.prod(sizes[0]) >= 2**20:
            raise KernelError(f"{self.name}: {grid} is too large a grid for the emulator")

        guarded: dict[int, _Guarded] = {}
        values = []
        for position, (argument, kind) in enumerate(zip(arguments, self.parameters, strict=True)):
            if kind.endswith("*"):
                self._check_array(position, argument, kind[:-1])
                if id(argument) not in guarded:
                    guarded[id(argument)] = _Guarded(argument, position)
                values.append(ctypes.c_void_p(guarded[id(argument)].copy.ctypes.data))
            else:
                values.append(np.ctypeslib.as_ctypes_type(np.dtype(kind))(argument))

        distinct = list(guarded.values())
        how = _Launch(*sizes, dynamic_shared, len(distinct))
        how.array_begin = (ctypes.c_void_p * len(distinct))(*(one.copy.ctypes.data for one in distinct))
        how.array_bytes = (ctypes.c_uint64 * len(distinct))(*(one.copy.nbytes for one in distinct))
        how.array_argument = (ctypes.c_uint64 * len(distinct))(*(one.position for one in distinct))
        blocks = int(np.prod(sizes[0]))
        how.cluster = cluster
        how.workers = blocks if cooperative or cluster > 1 else min(os.cpu_count() or 1, blocks)
        error = ctypes.create_string_buffer(1000)
        how.error, how.error_bytes = ctypes.addressof(error), len(error)
        pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        if not self._launch(ctypes.byref(how), pointers):
            raise KernelError(f"{self.name}: {self._with_lines(error.value.decode())}")
        originals = {id(argument): argument for argument in arguments}
        for identity, one in guarded.items():
            if not one.intact():
                raise KernelError(f"{self.name} wrote outside argument {one.position}")
            originals[identity][...] = one.copy

    def _check_array(self, position: int, argument: object, dtype: str) -> None:
        if not isinstance(argument, np.ndarray) or argument.dtype != dtype:
            got = getattr(argument, "dtype", type(argument).__name__)
            raise KernelError(f"{self.name}: argument {position} is an array of {dtype}, got {got}")
        if not argument.flags.c_contiguous:
            raise KernelError(f"{self.name}: argument {position} is not contiguous")

    def _with_lines(self, text: str) -> str:
        """`text` with <0x1234>, an address behind a call in the library, as file and line."""

        def line(match: re.Match) -> str:
            offset = hex(int(match[1], 16) - 1)
            where = _run("addr2line", "-e", self._path, offset).strip()
            return re.sub(r"^.*/(.*:\d+).*$", r"\1", where)

        return re.sub(r"<0x([0-9a-f]+)>", line, text)
