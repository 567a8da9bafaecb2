"""A bar for whoever waits for a long call."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tfio_store.write.progress import Progress

__all__ = ["ProgressBar"]


class ProgressBar:
    """Shows how far a long call is, in a terminal or a notebook. It is made for ``on_progress=``.

    It counts records against the whole, where that is known; or shards, if only their number is.
    The bar ends when the whole is there, at `close`, or at the end of its ``with``. One bar serves
    one call.

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
        self._description = description
        self._bar: Any = None

    def __call__(self, now: Progress) -> None:
        by_shards = now.whole is None and now.whole_shards is not None
        done, whole = (now.shards, now.whole_shards) if by_shards else (now.records, now.whole)
        if self._bar is None:
            unit = " shards" if by_shards else " records"
            self._bar = self._make(desc=self._description or None, unit=unit, unit_scale=True)
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
