"""States that tell which source they are of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import grain

__all__ = ["Identified", "IdentifiedIterator"]

_KEY = "tfio_store"


class Identified(grain.IterDataset[Any]):  # type: ignore[misc]
    """A dataset of Grain's, whose states say what it reads."""

    def __init__(self, parent: Any, identity: str) -> None:
        super().__init__(parent)
        self._identity = identity

    def __iter__(self) -> grain.DatasetIterator[Any]:
        return IdentifiedIterator(iter(self.parents[0]), self._identity)

    def __str__(self) -> str:
        return f"Identified({self._identity})"


class IdentifiedIterator(grain.DatasetIterator[Any]):  # type: ignore[misc]
    """Gives what another iterator of Grain's gives. ValueError for a state of another source."""

    def __init__(self, parent: Any, identity: str) -> None:
        super().__init__(parent)
        self._reading = parent
        self._identity = identity

    def __next__(self) -> Any:
        return next(self._reading)

    def get_state(self) -> dict[str, Any]:
        return {**self._reading.get_state(), _KEY: self._identity}

    def set_state(self, state: Mapping[str, Any]) -> None:
        found = state.get(_KEY) if isinstance(state, Mapping) else None
        if found != self._identity:
            told = "no source" if found is None else found
            raise ValueError(
                f"the state is of {told}, and the dataset reads {self._identity}: pass a state "
                "that this pipeline gave"
            )
        self._reading.set_state({name: state[name] for name in state if name != _KEY})

    def close(self) -> None:
        super().close()
        self._reading.close()

    def _get_next_index(self) -> int:
        return int(self._reading._get_next_index())

    def _set_next_index(self, index: int) -> None:
        self._reading._set_next_index(index)
