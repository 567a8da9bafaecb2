"""What a DataLoader gives of records: their bytes, or tensors of the features."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch.utils.data import get_worker_info

from tfio_store.dataset.source import is_one
from tfio_store.example.codec import SchemaToRead
from tfio_store.example.schema import Schema
from tfio_store.read.record_source import RecordSource
from tfio_store.records.framing import RecordBatch
from tfio_store.storage.redaction import redacted
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
    images: Mapping[str, Any] | None = None,
    transform: Callable[[Any], Any] | None = None,
    *,
    skips: bool = False,
) -> Content:
    """What a user asks for by the arguments of these names. ValueError, KeyError or TypeError for
    what cannot be given."""
    name = source if isinstance(source, str) else None
    found = wanted_schema(reader, schema, columns)
    if transform is not None and not callable(transform):
        raise TypeError(f"transform= takes a function, not {transform!r}")
    if images is not None:
        _check_images(images, found)
    made = Content(found, name, images or None, transform, skips)
    made.batch([made.decode(RecordBatch.from_records([]))])  # so that a dtype fails at once
    return made


@dataclass(frozen=True, slots=True)
class Content(LoaderContent):
    """Columns become tensors, and images pixels."""

    images: Mapping[str, Any] | None = None
    transform: Callable[[Any], Any] | None = None
    skips: bool = False
    """Whether zeros stand in the place of a damaged image."""

    def batch(self, parts: list[Any]) -> Any:
        """A batch of parts: a dict of tensors, or a list of bytes."""
        joined = self.joined(parts)
        return joined if self.schema is None else packed(tensors(self._shown(joined)))

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
