"""Where the shares of a dataset stand in an epoch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["FORMAT", "Saved", "Standing"]

FORMAT = "TFRecordIterable"
_VERSION = 1


@dataclass(frozen=True, slots=True)
class Standing:
    """Where one share stands. ``ended``: it has nothing left in the epoch."""

    ended: bool
    reader: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Saved:
    """Where shares of ``count`` stand in an epoch; without ``shares``, all at its beginning."""

    epoch: int
    count: int
    shares: Mapping[int, Standing]

    def to_json(self) -> dict[str, Any]:
        shares = {
            str(index): {"ended": one.ended, "reader": one.reader}
            for index, one in self.shares.items()
        }
        return {FORMAT: _VERSION, "epoch": self.epoch, "count": self.count, "shares": shares}

    @classmethod
    def from_json(cls, state: Mapping[str, Any]) -> Saved:
        """ValueError if the state is not one of a dataset."""
        if not isinstance(state, Mapping) or state.get(FORMAT) != _VERSION:
            raise ValueError(f"state= is no state of a TFRecordIterable: {state!r}")
        try:
            shares = {
                int(index): Standing(bool(one["ended"]), dict(one["reader"]))
                for index, one in state["shares"].items()
            }
            epoch, count = int(state["epoch"]), int(state["count"])
            if min(epoch, count) < 0:
                raise ValueError(f"it has epoch {epoch} and {count} shares")
            return cls(epoch, count, shares)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"state= is no state of a TFRecordIterable: {error!r}") from error

    def share(self, index: int, count: int) -> Standing | None:
        """Where one share stands; None at the beginning. ValueError if others are here."""
        if not self.shares:
            return None
        if self.count != count or index not in self.shares:
            raise ValueError(
                f"state= holds shares {sorted(self.shares)} of {self.count}, and this is share "
                f"{index} of {count}; make states for another number of ranks or workers by "
                "tfio_store.torch.reshard"
            )
        return self.shares[index]
