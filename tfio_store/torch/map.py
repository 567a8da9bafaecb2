"""`TFRecordMap`: any record of a source by its number, for samplers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, SupportsIndex

import torch
from torch.utils.data import Dataset
from torch.utils.data._utils.collate import collate, default_collate_fn_map

from tfio_store.dataset.model import CACHE_BUDGET, MEMORY_BUDGET
from tfio_store.dataset.source import Source
from tfio_store.example.codec import SchemaToRead
from tfio_store.example.schema import Schema
from tfio_store.read.record_source import RecordSource, is_number
from tfio_store.records.framing import DEFAULT_MAX_RECORD_BYTES
from tfio_store.storage import Storage
from tfio_store.torch.shared_memory import SharedColumns
from tfio_store.torch.tensors import Content, content_of
from tfio_store.torch.workers import Lent, carrying_errors, threads_here


class TFRecordMap(Dataset):  # type: ignore[misc]
    """A PyTorch dataset with ``len()`` and ``[i]``, for samplers and ``shuffle=True``.

    What a loader asks for at once is fetched in one round, neighbours in one request, and decoded
    at once. Workers share the index of the source, however they are started. Reading in blocks, as
    `TFRecordIterable` does, is faster on most stores.

    ``DataLoader(dataset, batch_size=64, shuffle=True, num_workers=2)`` is a loader of it. Its
    ``collate_fn`` gets a list of rows, each behind ``transform``.

    ``dataset[i]`` gives a row, and ``dataset[[i, j]]`` a batch. ``DataLoader(dataset,
    batch_size=n)`` gives batches, as `TFRecordIterable` describes them.

    Args:
        source (str | PathLike | list): See `RecordSource`.
        schema (Schema | dict | str | None): See `TFRecordIterable`. Default None.
        columns (list[str] | None): See `TFRecordIterable`. Default None.
        images (dict | None): See `TFRecordIterable`. A damaged image is an error. Default None.
        transform (Callable | None): Called with each row, a dict. What it returns is given, and a
            batch is a list of that. Default None.
        compression (str | None): See `RecordReader`. Default "auto".
        verify (bool): See `RecordReader`. Default True.
        storage_options (dict | None): See `RecordReader`. Default None.
        storage (Storage | None): See `RecordReader`. Default None.
        idx (list[str] | None): See `RecordSource`. Default None.
        cache_bytes (int): See `RecordSource`; each worker has so much. Default 64 MiB.
        memory_budget (int): See `RecordSource`. Default 256 MiB.
        max_record_bytes (int): See `RecordReader`. Default 1 GiB.

    Raises:
        OSError: The storage fails.
        ValueError: A shard is a compressed stream that was not written in blocks, or an argument is
            not as described.
        KeyError: ``columns`` names no feature of the schema.
        TypeError: torch lacks the dtype of a feature.
        DataLossError: A record is damaged. It gives path and offset in the training process too.

    Example:
        >>> from torch.utils.data import DataLoader
        >>> from tfio_store.torch import TFRecordMap
        >>> _ = tfs.write_table({"x": [10, 20, 30, 40]}, "train")
        >>> dataset = TFRecordMap("train")
        >>> len(dataset), dataset[1], dataset[[3, 0]]
        (4, {'x': tensor(20)}, {'x': tensor([40, 10])})
        >>> [batch["x"] for batch in DataLoader(dataset, batch_size=3)]
        [tensor([10, 20, 30]), tensor([40])]
    """

    def __init__(
        self,
        source: Source,
        *,
        schema: SchemaToRead | None = None,
        columns: Sequence[str] | None = None,
        images: Mapping[str, Any] | None = None,
        transform: Callable[[Any], Any] | None = None,
        compression: str | None = "auto",
        verify: bool = True,
        storage_options: Mapping[str, Any] | None = None,
        storage: Storage | None = None,
        idx: Sequence[str] | None = None,
        cache_bytes: int = CACHE_BUDGET,
        memory_budget: int = MEMORY_BUDGET,
        max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES,
    ) -> None:
        records = RecordSource(
            source,
            compression=compression,
            verify=verify,
            storage_options=storage_options,
            storage=storage,
            idx=idx,
            cache_bytes=cache_bytes,
            memory_budget=memory_budget,
            max_record_bytes=max_record_bytes,
        )
        self._content = content_of(source, records, schema, columns, images, transform)
        self._records = Lent(records)

    @property
    def schema(self) -> Schema | None:
        """The features that are decoded (Schema | None). None: records come as bytes."""
        return self._content.schema

    def __len__(self) -> int:
        return len(self._records.value)

    def __getitem__(self, index: Any) -> Any:
        """Row i; or a batch of the rows of a list, a slice, or a tensor of numbers."""
        if isinstance(index, slice):
            index = range(*index.indices(len(self)))
        elif is_number(index):
            return self.__getitems__([index])[0]
        found = self.__getitems__(index)
        return found.batch() if isinstance(found, Fetched) else found

    def __getitems__(self, indices: Iterable[SupportsIndex]) -> Sequence[Any]:
        """The rows of ``indices``. torch's default collate_fn makes one batch of them at once."""
        if isinstance(indices, torch.Tensor):
            indices = indices.numpy()
        with carrying_errors:
            records = self._records.value.__getitems__(indices)
            content = self._content
            if self.schema is None:
                return records if content.transform is None else [*map(content.given, records)]
            decoded = content.decode(records)
            if content.transform is not None:
                return [content.given(row) for row in content.rows(_shown(content, decoded))]
            return Fetched(content, decoded, len(records))

    def __repr__(self) -> str:
        return f"<TFRecordMap of {self._records.value!r}>"


# Rows that were fetched and decoded together, and that a DataLoader makes one batch of.


class Row(dict[str, Any]):
    """One row of `Fetched`. By this class torch's default collate_fn finds `_collated`."""


class Fetched(Sequence[Any]):
    """``count`` rows of what `Content.decode` gave. Nothing is made of them before it is wanted:
    rows for a collate_fn of the user's, a batch for the default one."""

    def __init__(self, content: Content, decoded: Mapping[str, Any], count: int) -> None:
        self._content, self._decoded, self._count = content, decoded, count

    def batch(self) -> dict[str, Any]:
        """All rows as one batch."""
        return SharedColumns(self._content.batch(_shown(self._content, self._decoded)))

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(self._count)[index]]
        at = range(self._count)[index]
        part = self._content.cut(self._decoded, at, at + 1)
        (row,) = self._content.rows(_shown(self._content, part))
        return Row(row)


def _shown(content: Content, decoded: Any) -> Any:
    return content.shown(decoded, threads_here())


def _collated(batch: Sequence[Row], *, collate_fn_map: Any = None) -> dict[str, Any]:
    if isinstance(batch, Fetched):
        return batch.batch()
    return SharedColumns(
        (name, collate([row[name] for row in batch], collate_fn_map=collate_fn_map))
        for name in batch[0]
    )


default_collate_fn_map[Row] = _collated
