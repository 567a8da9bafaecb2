"""Opens a source for the page: its shards, and its records by number where that is cheap."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tfio_store.dataset.header_walk import index_raw_shards, is_remote
from tfio_store.dataset.model import Dataset
from tfio_store.dataset.source import Source
from tfio_store.errors import TFIOStoreError
from tfio_store.records.framing import DEFAULT_MAX_RECORD_BYTES
from tfio_store.show.kept import Opened, open_source
from tfio_store.show.server.pages import Pager
from tfio_store.storage import Storage

__all__ = ["Opening", "Shown"]

_WALKED_BYTES = 256 << 20
"""Raw local files of so many bytes at most are walked from header to header, which takes a
moment."""

_WALK_BUDGET = 16 << 20


@dataclass(frozen=True, slots=True)
class Shown:
    """A source. ``pager`` is None where no record can be reached by its number; ``why`` then says
    why."""

    opened: Opened
    pager: Pager | None
    why: str = ""


@dataclass(frozen=True)
class Opening:
    """What to open, and how it is reached."""

    source: Source
    compression: str | None = "auto"
    storage: Storage | None = None
    max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES

    def open(self) -> Shown:
        """Raises as `open_source`."""
        opened = open_source(
            self.source,
            self.storage,
            compression=self.compression,
            max_record_bytes=self.max_record_bytes,
        )
        dataset, why = opened.dataset, ""
        if not dataset.has_blocks and _is_soon_walked(dataset):
            dataset, why = self._walked(dataset)
        if not dataset.has_blocks:
            return Shown(opened, None, why or _without_index(dataset))
        pager = Pager(dataset, max_record_bytes=self.max_record_bytes)
        return Shown(replace(opened, dataset=dataset), pager)

    def _walked(self, dataset: Dataset) -> tuple[Dataset, str]:
        """The dataset with its blocks, or as it was and why."""
        try:
            found = index_raw_shards(
                dataset,
                memory_budget=_WALK_BUDGET,
                max_record_bytes=self.max_record_bytes,
                starts_bytes=_WALK_BUDGET,
            )
        except TFIOStoreError:
            return dataset, (
                "A file is damaged, so that nobody can count its records: the sample's are shown."
            )
        return found, ""


def _is_soon_walked(dataset: Dataset) -> bool:
    near = not any(is_remote(shard.url) for shard in dataset.shards)
    return near and dataset.nbytes <= _WALKED_BYTES


def _without_index(dataset: Dataset) -> str:
    if any(shard.compression not in (None, "auto") for shard in dataset.shards):
        return (
            "A compressed stream without blocks has to be read whole to reach a record: the "
            "sample's are shown. tfio-store copy writes a dataset with blocks."
        )
    return (
        "The files have no index, and are not read whole to find their records: the sample's are "
        "shown. tfio-store index writes an index."
    )
