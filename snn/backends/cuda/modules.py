"""CUDA modules: a source is compiled once for its options, the architecture and the compiler.

What NVRTC makes is kept in the user's cache, so that a further process compiles nothing. CuPy's own cache
compiles an empty source for every set of options, 15 to 25 ms each, before it looks for the kept one.
"""

import re
from functools import cache
from pathlib import Path

import cupy
from cupy.cuda import compiler
from cupy_backends.cuda.libs import nvrtc

from snn.errors import OutputError
from snn.files.cache import kept

KIND = "kernels"
"""The folder of the user's cache."""

_SYSTEM_HEADER = re.compile(r"^\s*#\s*include\s*<", re.MULTILINE)
_MAPS = Path("/proc/self/maps")


def load(source: str, options: tuple[str, ...] = ()) -> cupy.RawModule:
    """The module of a source, whose local includes are expanded, for the current device.

    A source that includes headers of the system is left to CuPy, which knows where they are; so is one that
    the cache cannot hold. Raises CompileException, there or when a function is asked for.
    """
    options = ("-std=c++17", *options)
    if not _SYSTEM_HEADER.search(source):

        def compiled() -> bytes:
            made, _ = compiler.compile_using_nvrtc(source, (*options, "-ftz=true"))  # as CuPy has it
            return bytes(made)

        try:
            decided_by = (source, *options, cupy.cuda.Device().compute_capability, _compiler())
            return cupy.RawModule(path=str(kept(KIND, ".cubin", decided_by, compiled)))
        except OutputError:  # compiled again in every process, or kept by CuPy
            pass
    return cupy.RawModule(code=source, options=options, backend="nvrtc")


@cache
def _compiler() -> str:
    """CuPy's version, NVRTC's and, since a version has several builds, the size and time of its library."""
    version = nvrtc.getVersion()  # loads the library
    try:
        mapped = {line.split()[-1] for line in _MAPS.read_text().splitlines() if "libnvrtc.so" in line}
    except OSError:
        mapped = set()
    files = [Path(path).stat() for path in sorted(mapped)]
    builds = [(file.st_size, file.st_mtime_ns) for file in files]
    return f"cupy {cupy.__version__} nvrtc {version} {builds}"
