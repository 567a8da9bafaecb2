"""Where a reader stands, and how it comes back there."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from tfio_store.dataset import Dataset
from tfio_store.decode import Located

__all__ = ["Position"]

_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Position:
    """``records`` behind the start of the unit (or shuffled window) at ``position`` of an epoch's
    order.

    ``offset`` is the next frame's byte in a stream of raw records: going there needs no reading
    of what lies before.
    """

    epoch: int = 0
    position: int = 0
    records: int = 0
    offset: int | None = None

    def at(self, located: Located, index: int) -> Position:
        """Of record ``index`` of a batch of the same epoch."""
        return replace(
            self,
            position=located.position,
            records=located.records + index,
            offset=located.offset(index),
        )

    def resume(self, batches: Iterator[Located]) -> Iterator[Located]:
        """Drop what comes before this position. ``batches`` starts with its unit, or at
        ``offset``."""
        behind = self.records
        with closing(batches):  # type: ignore[type-var]
            for located in batches:
                if located.position > self.position:
                    behind = 0
                if self.offset is not None and located.position == self.position:
                    located = replace(located, records=located.records + behind)
                elif located.records + len(located.batch) <= behind:
                    continue
                elif located.records < behind:
                    cut = behind - located.records
                    located = replace(located, batch=located.batch[cut:], records=behind)
                yield located

    def to_json(self, dataset: Dataset) -> dict[str, Any]:
        return {
            "format": _FORMAT,
            "source": _fingerprint(dataset),
            "epoch": self.epoch,
            "position": self.position,
            "records": self.records,
            "offset": self.offset,
        }

    @classmethod
    def from_json(cls, state: Mapping[str, Any], dataset: Dataset) -> Position:
        """ValueError if the state is not one of this library's, or was taken of another source."""
        if state.get("format") != _FORMAT:
            raise ValueError(f"state= is no reader's state of format {_FORMAT}: {dict(state)!r}")
        if state.get("source") != _fingerprint(dataset):
            raise ValueError("state= was taken of another source: its files or their sizes differ")
        numbers = {name: state.get(name) for name in ("epoch", "position", "records", "offset")}
        for name, value in numbers.items():
            if not (isinstance(value, int) and value >= 0) and not (
                name == "offset" and value is None
            ):
                raise ValueError(f"state= holds {name}={value!r}, which is no position")
        return cls(**numbers)  # type: ignore[arg-type]


def _fingerprint(dataset: Dataset) -> str:
    """Of the files' names (without folders, which a copy changes) and sizes."""
    crc = 0
    for shard in dataset.shards:
        crc = zlib.crc32(f"{shard.url.rsplit('/', 1)[-1]}\0{shard.nbytes}\0".encode(), crc)
    return f"{len(dataset.shards)}-{crc:08x}"
