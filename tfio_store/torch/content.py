"""What a loader gives of records: their bytes, or the features that a schema names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch.utils.data import get_worker_info

from tfio_store.dataset.source import is_one
from tfio_store.example import decode_examples
from tfio_store.example.codec import SchemaToRead
from tfio_store.example.joining import joined_columns
from tfio_store.example.schema import Schema, column_names, schema_to_read
from tfio_store.read.record_source import RecordSource
from tfio_store.records.framing import RecordBatch
from tfio_store.storage.redaction import redacted
from tfio_store.tools.source_errors import of_source
from tfio_store.torch.packing import packed
from tfio_store.torch.source import Reader, known_schema
from tfio_store.torch.tensors import rows_of, tensors

__all__ = ["Content", "content_of"]


def content_of(
    source: Any,
    reader: Reader | RecordSource,
    schema: SchemaToRead | None,
    columns: Sequence[str] | None,
    images: Mapping[str, Any] | None = None,
    transform: Callable[[Any], Any] | None = None,
    *,
    skips: bool = False,
) -> Content:
    """What a user asks for by ``schema=`` and ``columns=``. ValueError, KeyError or TypeError for
    what cannot be given."""
    columns = None if columns is None else column_names(columns)
    name = source if isinstance(source, str) else None
    if schema is None or schema == "auto":
        found = known_schema(reader, schema)
    elif schema == "bytes":
        found = None
    else:
        found = schema_to_read(schema)
    if found is not None and columns is not None:
        found = found.select(columns)
    elif columns is not None:
        raise ValueError(
            f"columns={list(columns)!r}: nothing tells which features the records hold; pass "
            "schema=, for example what tfio_store.infer_schema finds"
        )
    if found is not None and not found:
        raise ValueError("columns= and schema= leave no feature to decode")
    if transform is not None and not callable(transform):
        raise TypeError(f"transform= takes a function, not {transform!r}")
    if images is not None:
        _check_images(images, found)
    made = Content(found, name, images or None, transform, skips)
    made.batch([made.decode(RecordBatch.from_records([]))])  # so that a dtype fails at once
    return made


@dataclass(frozen=True, slots=True)
class Content:
    """``schema`` None: the records themselves, as bytes."""

    schema: Schema | None
    source: str | None = None
    """What errors of a record name."""
    images: Mapping[str, Any] | None = None
    transform: Callable[[Any], Any] | None = None
    skips: bool = False
    """Whether zeros stand in the place of a damaged image."""

    def decode(self, records: RecordBatch | Iterable[bytes]) -> Any:
        """The columns of records, in which `cut` and `batch` take parts."""
        if self.schema is None:
            return records
        with of_source(self.source):
            return dict(decode_examples(records, self.schema))

    @staticmethod
    def cut(decoded: Any, start: int, stop: int) -> Any:
        """Some of the rows, without a copy."""
        if not isinstance(decoded, dict):
            return decoded[start:stop]
        return {name: column[start:stop] for name, column in decoded.items()}

    def batch(self, parts: list[Any]) -> Any:
        """A batch of parts: a dict of tensors, or a list of bytes."""
        if self.schema is None:
            return [record for part in parts for record in part]
        joined = {name: joined_columns([part[name] for part in parts]) for name in self.schema}
        return packed(tensors(self._shown(joined)))

    def rows(self, part: Any) -> list[Any]:
        """The rows of a part, each by itself."""
        return list(part) if self.schema is None else rows_of(tensors(self._shown(part)))

    def given(self, made: Any) -> Any:
        """What the user's function makes of a batch or row."""
        if self.transform is None:
            return made
        try:
            return self.transform(made)
        except StopIteration as error:  # it would pass for the end of the data
            raise RuntimeError("transform= raised StopIteration") from error

    def _shown(self, columns: Mapping[str, Any]) -> Mapping[str, Any]:
        """The columns, with pixels of those that `images` names. Workers share the cores, and so
        each decodes in one thread."""
        if self.images is None:
            return columns
        from tfio_store.image import pixels

        return pixels(
            columns,
            self.images,
            threads=None if get_worker_info() is None else 1,
            on_corrupt="skip" if self.skips else "raise",
            path=redacted(self.source) if self.source and is_one(self.source) else "",
        )


def _check_images(images: Mapping[str, Any], schema: Schema | None) -> None:
    from tfio_store.image import check_images

    for name in check_images(images):
        if schema is None:
            raise ValueError("images= names features, and nothing tells them: pass schema=")
        if name not in schema:
            raise KeyError(f"images= names {name!r}, and the features are {list(schema)}")
