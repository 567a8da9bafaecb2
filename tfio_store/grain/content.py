"""The contents of Grain's rows: columns of a schema, with pixels in place of encoded images."""

from __future__ import annotations

import multiprocessing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tfio_store._loader import LoaderContent
from tfio_store.dataset.source import is_one
from tfio_store.example.schema import Schema
from tfio_store.storage.redaction import redacted

__all__ = ["Content", "content_of"]


def content_of(
    source: Any, schema: Schema | None, images: Mapping[str, Any] | None, *, skips: bool = False
) -> Content:
    """The features that are given of records of ``schema``. ValueError, KeyError or TypeError for
    ``images`` that these do not have."""
    name = source if isinstance(source, str) else None
    if images is None:
        return Content(schema, name)
    from tfio_store.image import images_of

    return Content(schema, name, images_of(images, schema), skips)


@dataclass(frozen=True, slots=True)
class Content(LoaderContent):
    """``images``: what is made of columns, as `tfio_store.image` has it."""

    images: Mapping[str, Any] = field(default_factory=dict)
    skips: bool = False
    """Whether zeros stand in the place of a damaged image."""

    @property
    def pixels_each(self) -> int:
        """The bytes of the pixels of a row."""
        return sum(how.nbytes for how in self.images.values())

    def shown(self, columns: Any, numbers: Sequence[int] | None = None) -> Any:
        """Decoded rows with their pixels. ``numbers``: of the records in the source. Workers share
        the cores, and so each decodes in one thread."""
        if not self.images:
            return columns
        from tfio_store.image import decode_columns

        return decode_columns(
            columns,
            self.images,
            threads=None if multiprocessing.parent_process() is None else 1,
            on_corrupt="skip" if self.skips else "raise",
            path=redacted(self.source) if self.source and is_one(self.source) else "",
            numbers=numbers,
        )
