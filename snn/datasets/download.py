"""Downloads published files into the user's cache, and checks the digest of each."""

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from snn.errors import DataError
from snn.files import cache as caches
from snn.files.outputs import say

_TIMEOUTS = (10, 60)
"""Timeouts in seconds: until a mirror answers, and between two parts of its answer."""
_CHUNK = 1 << 16
_QUIET_SECONDS = 2.0
_LONGEST_REASON = 100


def fetched(
    name: str, files: Mapping[str, tuple[str, str]], mirrors: Sequence[str], elsewhere: str, ways: str
) -> dict[str, Path]:
    """The packed files of a data set in the cache; missing ones come from the first mirror that has them.

    ``files``: each part's file name and SHA-256. Raises DataError, with other ``ways`` to get the files.
    """
    import pooch

    pooch.get_logger().setLevel("WARNING")  # it would print what Progress prints
    registry = {f"{name}/{file}": f"sha256:{sha256}" for file, sha256 in files.values()}
    found: dict[str, Path] = {}
    for part, (file, _) in files.items():
        faults = []
        for mirror in mirrors:
            url = mirror + file
            cache = pooch.create(
                pooch.os_cache(caches.PROJECT),
                mirror,
                registry=registry,
                urls={f"{name}/{file}": url},
                env=caches.VARIABLE,
            )
            try:
                downloader = pooch.HTTPDownloader(Progress(url), _CHUNK, timeout=_TIMEOUTS)
                found[part] = Path(cache.fetch(f"{name}/{file}", downloader=downloader))
                break
            except (OSError, ValueError) as error:  # errors of requests are OSErrors
                said = f"{type(error).__name__}: {' '.join(str(error).split())}"
                cut = f"{said[:_LONGEST_REASON]}..." if len(said) > _LONGEST_REASON else said
                faults.append(f"{url}: {cut}")
        else:
            raise DataError(
                f"dataset={name}: its files are neither in {elsewhere} nor in the cache "
                f"{Path(cache.abspath) / name}, and no download succeeded ({'; '.join(faults)}). There are "
                f"three ways to them: {ways}; or the same command once with access to one of "
                f"{', '.join(mirrors)}: it keeps them in the cache, for which the environment variable "
                f"{caches.VARIABLE} names another folder"
            )
    return found


class Progress:
    """Progress bar for pooch: prints the received size at the start and every two seconds."""

    def __init__(self, url: str) -> None:
        self._url, self.total = url, 0
        self._done, self._last = 0, -_QUIET_SECONDS

    def update(self, count: int) -> None:
        """Count further bytes: at most ``size`` have come."""
        self._done += count
        if time.monotonic() - self._last >= _QUIET_SECONDS and self._done < self.total:
            self._last = time.monotonic()
            done, total = (f"{size / 1e6:.1f}" for size in (self._done, self.total))
            say(f"snn: downloading {self._url}: {done} of {total} MB", sys.stderr)

    def reset(self) -> None:
        """Restart the count, which pooch does at the end."""
        self._done = 0

    def close(self) -> None:
        """The file is there."""
