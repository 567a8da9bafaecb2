"""The progress that a long call reports, and a bar that shows it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tfio_store.records.framing import FrameWriter


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
    nbytes: int
    shards: int
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
        self.report()

    def report(self) -> None:
        if self._on_progress is not None:
            self._on_progress(Progress(self.records, self._nbytes, self._shards))


# A bar for whoever waits for a long call.


class ProgressBar:
    """Shows how far a long call is, in a terminal or a notebook. It is made for ``on_progress=``.

    It counts records against the whole, where that is known; or shards, if only their number is.
    The bar ends when the whole is there, at `close`, or at the end of its ``with``. One bar serves
    one call. It shows nothing where stderr is no terminal, such as in a log file.

    It needs tqdm: ``pip install 'tfio_store[progress]'``.

    Args:
        description (str): Stands before the bar. Default "".

    Raises:
        ImportError: tqdm is not installed.

    Example:
        >>> with tfs.ProgressBar("writing") as bar:
        ...     _ = tfs.write_table({"x": [1, 2, 3]}, "numbers", on_progress=bar)
        >>> tfs.count("numbers", on_progress=tfs.ProgressBar())
        3
    """

    def __init__(self, description: str = "") -> None:
        try:
            from tqdm.auto import tqdm
        except ImportError as fault:
            raise ImportError("ProgressBar needs: pip install 'tfio_store[progress]'") from fault
        self._make: Any = tqdm
        self._in_notebook = any(one.__name__ == "tqdm_notebook" for one in tqdm.__mro__)
        self._description = description
        self._bar: Any = None

    def __call__(self, now: Progress) -> None:
        by_shards = now.whole is None and now.whole_shards is not None
        done, whole = (now.shards, now.whole_shards) if by_shards else (now.records, now.whole)
        if self._bar is None:
            unit = " shards" if by_shards else " records"
            self._bar = self._make(
                desc=self._description or None,
                unit=unit,
                unit_scale=True,
                disable=not (sys.stderr.isatty() or self._in_notebook),
            )
        if self._bar.total != whole:
            self._bar.total = whole
            self._bar.refresh()
        self._bar.update(done - self._bar.n)
        if done == whole:
            self.close()

    def close(self) -> None:
        """End the bar where it stands. A second time is fine.

        Example:
            >>> bar = tfs.ProgressBar()
            >>> bar.close()
        """
        if self._bar is not None:
            self._bar.close()

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"ProgressBar({self._description!r})"
