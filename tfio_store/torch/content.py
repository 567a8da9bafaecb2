"""What a DataLoader gives of records: their bytes, or tensors of the features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tfio_store.example.codec import SchemaToRead
from tfio_store.read.record_source import RecordSource
from tfio_store.records.framing import RecordBatch
from tfio_store.tools.loader_content import LoaderContent, wanted_schema
from tfio_store.tools.loader_source import Reader
from tfio_store.torch.packing import packed
from tfio_store.torch.tensors import rows_of, tensors

__all__ = ["Content", "content_of"]


def content_of(
    source: Any,
    reader: Reader | RecordSource,
    schema: SchemaToRead | None,
    columns: Sequence[str] | None,
) -> Content:
    """What a user asks for by ``schema=`` and ``columns=``. ValueError, KeyError or TypeError for
    what cannot be given."""
    name = source if isinstance(source, str) else None
    made = Content(wanted_schema(reader, schema, columns), name)
    made.batch([made.decode(RecordBatch.from_records([]))])  # so that a dtype fails at once
    return made


class Content(LoaderContent):
    """Columns become tensors."""

    __slots__ = ()

    def batch(self, parts: list[Any]) -> Any:
        """A batch of parts: a dict of tensors, or a list of bytes."""
        joined = self.joined(parts)
        return joined if self.schema is None else packed(tensors(joined))

    def rows(self, part: Any) -> list[Any]:
        """The rows of a part, each by itself."""
        return list(part) if self.schema is None else rows_of(tensors(part))
