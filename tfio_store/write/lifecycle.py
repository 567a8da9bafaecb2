"""The life of a writer: open, and then closed or failed."""

from __future__ import annotations

from types import TracebackType
from typing import NoReturn

from typing_extensions import Self

__all__ = ["Lifecycle"]


class Lifecycle:
    """The part that all writers share. A writer begins open, and ends once.

    A writer that failed, in whichever thread, raises its failure at every later call.
    """

    _ended = False  # a plain attribute: `write` looks at it for each record
    _failure: BaseException | None = None
    _shown = "?"
    """What is written, for people's eyes."""

    def __repr__(self) -> str:
        state = "open" if not self._ended else "closed" if self._failure is None else "failed"
        return f"<{type(self).__name__} of {self._shown}, {state}>"

    def close(self) -> object:
        raise NotImplementedError

    def abort(self) -> None:
        raise NotImplementedError

    def _refuse(self) -> NoReturn:
        raise self._failure or ValueError("the writer is closed")

    def _set_ended(self, failure: BaseException | None) -> None:
        self._failure = failure
        self._ended = True

    def _stop(self, failure: BaseException) -> None:
        """Another thread calls this when it has failed."""
        if not self._ended:
            self._set_ended(failure)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is not None:
            self.abort()
        elif not self._ended or self._failure is not None:  # an abort inside is no failure
            self.close()
