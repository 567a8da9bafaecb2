"""The progress that a long call reports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tfio_store.records.framing import FrameWriter

__all__ = ["OnProgress", "Progress", "Tally", "check_on_progress"]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a long call is. The counts never go down.

    Attributes:
        records (int): Records in full blocks that were written, or that were read.
        nbytes (int): Their bytes with framing, before compression.
        shards (int): Shards that the store has taken whole.
        whole (int | None): The records that there are in all, if that is known. Default None.
        whole_shards (int | None): The shards that there are in all, if that is all that is known.
            Default None.

    Example:
        >>> with tfs.ShardedWriter("train", num_shards=1, on_progress=print) as writer:
        ...     writer.write(b"one")
        Progress(records=1, nbytes=19, shards=1)
    """

    records: int
    """Records in full blocks."""
    nbytes: int
    """Their framed bytes, before compression."""
    shards: int
    """Shards that the store has taken whole."""
    whole: int | None = field(default=None, repr=False)
    whole_shards: int | None = field(default=None, repr=False)


OnProgress = Callable[[Progress], object]


def check_on_progress(given: object) -> None:
    """TypeError for what is neither None nor a function."""
    if given is not None and not callable(given):
        raise TypeError(
            "on_progress= takes a function, or tfio_store.ProgressBar(), which shows a bar, not "
            f"{given!r}"
        )


class Tally:
    """Keeps the counts, and calls the caller's function with them, in the caller's thread."""

    def __init__(self, on_progress: OnProgress | None) -> None:
        check_on_progress(on_progress)
        self._on_progress = on_progress
        self._nbytes = self._shards = 0
        self.records = 0
        """In full blocks."""

    def count(self, frames: FrameWriter) -> None:
        """The records that wait in ``frames`` are about to become a block."""
        self.records += frames.records
        self._nbytes += frames.nbytes

    def landed(self) -> None:
        """One more shard has been taken."""
        self._shards += 1
        self.tell()

    def tell(self) -> None:
        if self._on_progress is not None:
            self._on_progress(Progress(self.records, self._nbytes, self._shards))
