"""What a wheel holds besides the package: ``snn/_share``, with the files that its commands read in a clone.

setuptools imports this module when it builds (pyproject.toml). An editable installation needs no copies.
"""

import json
import shutil
import sys
from itertools import chain
from pathlib import Path

from setuptools.command.build_py import build_py

SHARED = (
    *("Snakefile", "pyproject.toml", "config/**/*", "kernels/**/*", "profiles/**/*", "workflow/**/*"),
    *(
        "docs/**/*.md",
        "examples/**/*",
        "results/published/*/*/README.md",
        "results/published/*/*/tables/*.csv",
    ),
)
"""Patterns of these files."""

_BUILT_WITH = ("scripts/wheel.py", "envs/*.txt")


class BuildPackage(build_py):
    """Also copies the shared files, and has them in a source distribution."""

    def run(self):
        if self.editable_mode:
            super().run()
            return
        shutil.rmtree(f"{self.build_lib}/snn", ignore_errors=True)  # files of an earlier build
        super().run()
        for source, target in self._copies().items():
            self.mkpath(str(Path(target).parent))
            self.copy_file(source, target, preserve_mode=False)
        sys.path.insert(0, str(Path.cwd()))
        from snn.files import revision

        built_from = Path(self.build_lib, "snn/_share", revision.BUILT_FROM)
        built_from.write_text(json.dumps(revision.git()), encoding="utf-8")

    def get_source_files(self):
        return [*super().get_source_files(), *self._copies(), *files(_BUILT_WITH)]

    def get_outputs(self, include_bytecode=True):
        copies = [] if self.editable_mode else self._copies().values()
        return [*super().get_outputs(include_bytecode), *copies]

    def _copies(self):
        return {file: f"{self.build_lib}/snn/_share/{file}" for file in files(SHARED)}


def files(patterns):
    """The files of these patterns, relative to the clone, in which setuptools builds."""
    found = chain.from_iterable(Path().glob(pattern) for pattern in patterns)
    return sorted(path.as_posix() for path in found if path.is_file() and "__pycache__" not in path.parts)
