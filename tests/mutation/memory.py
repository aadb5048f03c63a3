"""Which mutants were killed, until their file changes."""

import hashlib
import json
import shutil
from pathlib import Path

from mutants import Mutant


class Memory:
    """A file for each module as it is now, with the mutants of it that a test killed."""

    def __init__(self, folder: Path, root: Path, afresh: bool) -> None:
        self._folder, self._root = folder / "killed", root
        if afresh:
            shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._known: dict[str, set[str]] = {}

    def killed(self, mutant: Mutant) -> bool:
        """Whether it was killed before."""
        return self._name(mutant) in self._of(mutant.file)

    def keep(self, mutant: Mutant) -> None:
        """Remember that it was killed."""
        known = self._of(mutant.file)
        known.add(self._name(mutant))
        self._path(mutant.file).write_text(json.dumps(sorted(known)), "utf-8")

    def _of(self, file: str) -> set[str]:
        if file not in self._known:
            path = self._path(file)
            self._known[file] = set(json.loads(path.read_text("utf-8"))) if path.exists() else set()
        return self._known[file]

    def _path(self, file: str) -> Path:
        digest = hashlib.sha256((self._root / file).read_bytes()).hexdigest()
        return self._folder / f"{file.replace('/', '.')}-{digest[:16]}.json"

    @staticmethod
    def _name(mutant: Mutant) -> str:
        return hashlib.sha256(mutant.code.encode()).hexdigest()[:16]
