"""Counts what was passed over in each file, and warns once for each."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from tfio_store.errors import CorruptRecordError, DataLossWarning
from tfio_store.records.recovery import SkippedRegion

__all__ = ["FileSkips", "OnCorrupt", "Skips", "check_policy"]

OnCorrupt: TypeAlias = "str | Callable[[SkippedRegion], None]"


@dataclass(slots=True)
class FileSkips:
    """One file so far."""

    records: int = 0
    parts: int = 0
    regions: int = 0
    nbytes: int = 0
    stored: int = 0
    first: SkippedRegion | None = None
    told: int = 0

    @property
    def untold(self) -> bool:
        """Whether there are regions that `say` has not reported."""
        return self.regions > self.told

    def add(self, region: SkippedRegion) -> None:
        self.regions += 1
        self.nbytes += region.length or 0
        self.stored += region.stored_length
        if self.first is None or region.offset < self.first.offset:
            self.first = region  # blocks come in any order

    def end(self, url: str) -> None:
        """At the end of the file, warn of what was skipped. CorruptRecordError if there was nothing
        else."""
        if self.first is not None and not self.records:
            raise CorruptRecordError(
                f"nothing in this file can be read: {self.first.reason}",
                path=url,
                offset=self.first.offset,
            )
        self.say()

    def say(self) -> None:
        """Warn of all that was skipped, if part of it is untold."""
        if self.untold:
            self.told = self.regions
            warnings.warn(str(self), DataLossWarning, stacklevel=2)

    def __str__(self) -> str:
        assert self.first is not None
        what = "1 damaged region" if self.regions == 1 else f"{self.regions} damaged regions"
        sizes = [f"{self.nbytes} bytes"] if self.nbytes or not self.stored else []
        sizes += [f"{self.stored} compressed bytes that do not inflate"] if self.stored else []
        return (
            f"{self.first.path}: {what} skipped, {' and '.join(sizes)}; the first at offset "
            f"{self.first.offset}: {self.first.reason}"
        )


class Skips:
    """Called with each damaged region. If the user gave a function, it is called, and nothing more.
    Otherwise each file gives one `DataLossWarning`, when it was read to its end or nobody reads on.
    A file in which nothing could be read is an error.
    """

    def __init__(self, on_corrupt: OnCorrupt = "skip") -> None:
        self._tell = on_corrupt if callable(on_corrupt) else None
        self._files: dict[str, FileSkips] = {}
        self.count = 0
        """Regions so far."""

    def __call__(self, region: SkippedRegion) -> None:
        self.count += 1
        if self._tell is not None:
            self._tell(region)
        else:
            self._files.setdefault(region.path, FileSkips()).add(region)

    def read(self, url: str, records: int, *, parts: int, whole: bool) -> None:
        """Say that one of a file's ``parts`` was read, with so many good records. Behind the last
        one, warns of what was skipped; CorruptRecordError if there was nothing else, and the parts
        are the ``whole`` file.
        """
        if self._tell is not None:
            return
        file = self._files.setdefault(url, FileSkips())
        file.records += records
        file.parts += 1
        if file.parts < parts:
            return
        del self._files[url]
        if whole:
            file.end(url)
        else:
            file.say()

    def say(self) -> None:
        """Warn of what is still unsaid, because reading stops or begins anew."""
        for url in list(self._files):
            self._files.pop(url).say()

    def __del__(self) -> None:
        if getattr(self, "_files", None) and not sys.is_finalizing():
            self.say()


def check_policy(on_corrupt: OnCorrupt) -> OnCorrupt:
    """ValueError for what ``on_corrupt=`` does not take."""
    if on_corrupt in ("raise", "skip") or callable(on_corrupt):
        return on_corrupt
    raise ValueError(f'on_corrupt= takes "raise", "skip" or a function, not {on_corrupt!r}')
