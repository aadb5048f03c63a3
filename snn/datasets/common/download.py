"""Downloads of published images into a cache of this user, each file checked by its digest."""

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from snn.datasets.common.image_files import PARTS, looked_for, spellings
from snn.errors import DataError
from snn.files import cache as caches
from snn.files.printed import say

if TYPE_CHECKING:
    from snn.datasets.common.published import Published

_TIMEOUTS = (10, 60)
"""Seconds until a mirror must have answered, and between two parts of its answer."""
_CHUNK = 1 << 16
_QUIET_SECONDS = 2.0
_LONGEST_REASON = 100


def fetched(published: "Published") -> dict[str, Path]:
    """The four packed files in the cache; what is not there comes from the first mirror that has it.

    Raises DataError, which names the ways to have the files, where no mirror has one.
    """
    import pooch

    pooch.get_logger().setLevel("WARNING")  # it would announce what Progress does
    names = {part: f"{published.name}/{spellings(part)[0]}.gz" for part in PARTS}
    registry = {names[part]: f"sha256:{sha256}" for part, sha256 in zip(PARTS, published.packed, strict=True)}
    found: dict[str, Path] = {}
    for part, name in names.items():
        faults = []
        for mirror in published.mirrors:
            url = mirror + Path(name).name
            cache = pooch.create(
                pooch.os_cache(caches.PROJECT),
                mirror,
                registry=registry,
                urls={name: url},
                env=caches.VARIABLE,
            )
            try:
                downloader = pooch.HTTPDownloader(Progress(url), _CHUNK, timeout=_TIMEOUTS)
                found[part] = Path(cache.fetch(name, downloader=downloader))
                break
            except (OSError, ValueError) as error:  # those of requests are OSErrors
                faults.append(f"{url}: {_reason(error)}")
        else:
            raise DataError(_nowhere(published, Path(cache.abspath) / published.name, faults))
    return found


class Progress:
    """Prints how much of a file has come, when it begins and every two seconds: a progress bar for pooch."""

    def __init__(self, url: str) -> None:
        self._url, self.total = url, 0
        self._done, self._last = 0, -_QUIET_SECONDS

    def update(self, count: int) -> None:
        """Further bytes have come, at most so many."""
        self._done += count
        if time.monotonic() - self._last >= _QUIET_SECONDS and self._done < self.total:
            self._last = time.monotonic()
            done, total = (f"{size / 1e6:.1f}" for size in (self._done, self.total))
            say(f"snn: downloading {self._url}: {done} of {total} MB", sys.stderr)

    def reset(self) -> None:
        """The count begins again, as pooch has it at the end."""
        self._done = 0

    def close(self) -> None:
        """The file is there."""


def _reason(error: Exception) -> str:
    said = f"{type(error).__name__}: {' '.join(str(error).split())}"
    return said if len(said) <= _LONGEST_REASON else f"{said[:_LONGEST_REASON]}..."


def _nowhere(published: "Published", cache: Path, faults: list[str]) -> str:
    """What to say where the files are not on this machine and cannot be downloaded."""
    if published.package:
        by_system = f"apt-get install {published.package} (Debian's package)"
    else:
        by_system = f"the same files in {published.system} (Debian has no package of them)"
    return (
        f"dataset={published.name}: its files are neither in {published.system} nor in the cache {cache}, "
        f"and no download succeeded ({'; '.join(faults)}). There are three ways to them: "
        f"dataset.path=FOLDER, with the files {looked_for()}; {by_system}; or the same command once with "
        f"access to one of {', '.join(published.mirrors)}: it keeps them in the cache, for which the "
        f"environment variable {caches.VARIABLE} names another folder"
    )
