"""CUDA modules, compiled once for each source, options, architecture and compiler.

The user's cache keeps NVRTC's output, so that further processes compile nothing. CuPy's own cache would
compile an empty source for every set of options, 15 to 25 ms each, before each look-up. CuPy also holds
Python's lock while it compiles, so that threads would wait for each other.
"""

import ctypes
import re
from functools import cache
from pathlib import Path

import cupy
from cupy_backends.cuda.libs import nvrtc

from snn.errors import OutputError
from snn.files.cache import kept

KIND = "kernels"
"""The folder of the user's cache."""

_SYSTEM_HEADER = re.compile(r"^\s*#\s*include\s*<", re.MULTILINE)
_LOADED = re.compile(r"^[^/\n]*(/.*/libnvrtc\.so[.0-9]*)$", re.MULTILINE)
_MAPS = Path("/proc/self/maps")


class NotCompiledError(Exception):
    """NVRTC cannot be called here, or rejects a source."""


def load(source: str, options: tuple[str, ...] = ()) -> cupy.RawModule:
    """The module of a source, whose local includes are expanded, for the current device.

    CuPy compiles sources that include headers of the system, because it can find them, sources that NVRTC
    rejects, to report the reason, and everything if the cache cannot be written.
    """
    options = ("-std=c++17", *options)
    if not _SYSTEM_HEADER.search(source):
        architecture = f"sm_{cupy.cuda.Device().compute_capability}"
        try:
            decided_by = (source, *options, architecture, _compiler())
            path = kept(KIND, ".cubin", decided_by, lambda: compiled(source, options, architecture))
            return cupy.RawModule(path=str(path))
        except (NotCompiledError, OutputError):
            pass
    return cupy.RawModule(code=source, options=options, backend="nvrtc")


def constant(module: cupy.RawModule, name: str) -> int:
    """The value of a module's integer constant."""
    return int(cupy.ndarray(1, dtype=cupy.int32, memptr=module.get_global(name)).get()[0])


def compiled(source: str, options: tuple[str, ...], architecture: str) -> bytes:
    """The machine code of a source, by NVRTC without Python's lock. Raises NotCompiledError."""
    library, program, size = _library(), ctypes.c_void_p(), ctypes.c_size_t()
    given = [
        text.encode() for text in (*options, "-ftz=true", f"-arch={architecture}")
    ]  # -ftz: CuPy's default
    created = library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernel.cu", 0, None, None)
    if created:
        raise NotCompiledError(f"nvrtcCreateProgram: {created}")
    try:
        status = library.nvrtcCompileProgram(program, len(given), (ctypes.c_char_p * len(given))(*given))
        if status or library.nvrtcGetCUBINSize(program, ctypes.byref(size)) or not size.value:
            raise NotCompiledError(f"nvrtcCompileProgram: {status}")
        code = ctypes.create_string_buffer(size.value)
        library.nvrtcGetCUBIN(program, code)
        return code.raw
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


@cache
def _library() -> ctypes.CDLL:
    """CuPy's loaded NVRTC library."""
    return ctypes.CDLL(_loaded()[0])


@cache
def _compiler() -> str:
    """The version of NVRTC and, since a version has several builds, the size and time of its library."""
    path, version = _loaded()
    try:
        file = Path(path).stat()
    except OSError as error:
        raise NotCompiledError(f"{path}: {error.strerror}") from error
    return f"nvrtc {version} {file.st_size} {file.st_mtime_ns}"


@cache
def _loaded() -> tuple[str, tuple[int, int]]:
    """The path of the NVRTC that CuPy uses, and its version. Raises NotCompiledError if it is not known.

    PyTorch or JAX may have loaded others: CuPy, and cuda-pathfinder for it, take the first one that was
    loaded as ``libnvrtc.so`` of their CUDA's major version, from any place.
    """
    version = nvrtc.getVersion()  # loads it
    try:
        used = ctypes.CDLL(f"libnvrtc.so.{version[0]}")
        maps = _MAPS.read_text(encoding="utf-8", errors="surrogateescape")
        found = [
            path for path in dict.fromkeys(_LOADED.findall(maps)) if ctypes.CDLL(path)._handle == used._handle
        ]
    except OSError:
        found = []
    if not found or _version(used) != version:
        raise NotCompiledError("the system does not say which NVRTC CuPy has loaded")
    return found[0], version


def _version(library: ctypes.CDLL) -> tuple[int, int]:
    major, minor = ctypes.c_int(), ctypes.c_int()
    library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    return major.value, minor.value
