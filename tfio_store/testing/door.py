"""What a door says of itself to the tests that every door passes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from tfio_store.testing.sources import numbers_in


class Door:
    """A door: what opens a source, and gives its records to a framework or an engine."""

    keeps_order = True
    """Whether records come in the order of their files, unless they are shuffled."""
    reads_streams = True
    """Whether it reads a file that others compressed as one stream, and that has no index."""
    skips = True
    """Whether it takes ``on_corrupt="skip"``."""
    warns = True
    """Whether the process that takes the steps is warned of what was skipped."""
    pickles = True
    """Whether what `open` returns pickles."""
    forks = True
    """Whether a forked child may read what its parent opened."""
    fails_again = True
    """Whether steps that have failed fail again if they are asked again."""
    binds_states = True
    """Whether it refuses a state of another source, and what is no state."""
    binds_orders = True
    """Whether it refuses a state of another order."""
    wrong: ClassVar[dict[str, tuple[Any, ...]]] = {}
    """By the name of an option, values that it refuses."""

    def open(self, source: Any, **options: Any) -> Any:
        """Open a source, whose records are Examples with an int64 feature ``x``.

        Args:
            source (Any): A URL, or a list of them.
            **options (Any): ``storage``, a `Storage`; in some tests ``on_corrupt`` and one of
                `wrong`.

        Returns:
            Any: What can be read from several times.
        """
        raise NotImplementedError

    def steps(self, opened: Any) -> Iterator[Any]:
        """Begin a pass.

        Args:
            opened (Any): What `open` returned.

        Returns:
            Iterator[Any]: Rows or batches. Unless overridden: of ``iter(opened)``.
        """
        return iter(opened)

    def numbers(self, step: Any) -> list[int]:
        """Say which records a step gave.

        Args:
            step (Any): A row or a batch.

        Returns:
            list[int]: The ``x`` of each. Unless overridden: of a record, or of columns.
        """
        if isinstance(step, bytes):
            return numbers_in(step)
        return [int(x) for x in np.atleast_1d(step["x"])]

    def state(self, opened: Any, steps: Iterator[Any]) -> Any:
        """Say where a pass stands.

        Args:
            opened (Any): What `open` returned.
            steps (Iterator[Any]): The pass, which has given some steps.

        Returns:
            Any: A state, which JSON can hold.
        """
        raise NotImplementedError

    def resume(self, opened: Any, state: Any) -> Iterator[Any]:
        """Go on from a state.

        Args:
            opened (Any): What `open` returned, opened anew.
            state (Any): What `state` returned.

        Returns:
            Iterator[Any]: The steps that come behind it.
        """
        raise NotImplementedError

    def share(self, source: Any, index: int, count: int, **options: Any) -> Any:
        """Open one of several shares.

        Args:
            source (Any): As of `open`.
            index (int): Which share, from 0 on.
            count (int): Of how many.
            **options (Any): As of `open`.

        Returns:
            Any: As of `open`.
        """
        raise NotImplementedError

    def shuffle(self, source: Any, seed: int, **options: Any) -> Any:
        """Open a source in a random order.

        Args:
            source (Any): As of `open`.
            seed (int): Which order.
            **options (Any): As of `open`.

        Returns:
            Any: As of `open`.
        """
        raise NotImplementedError

    def error(self, kind: type[Exception]) -> Any:
        """Say what users of the door get in the place of an error of the library.

        Args:
            kind (type[Exception]): Its class.

        Returns:
            Any: A class, or a tuple of them. Unless overridden: the same class.
        """
        return kind

    def place(self, error: Any) -> tuple[str, int]:
        """Say where damage is.

        Args:
            error (Any): What opening or a step raised.

        Returns:
            tuple[str, int]: The file's URL or path, and the record's offset in bytes. Unless
            overridden: the error's own.
        """
        return error.path, error.offset


def has(door: type[Door], what: str) -> bool:
    """Whether a door overrides a method; or an attribute of it is true."""
    found = getattr(door, what)
    return found is not getattr(Door, what) if callable(found) else bool(found)
