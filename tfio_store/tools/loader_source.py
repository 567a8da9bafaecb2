"""What a training loop's loader reads: a reader of a source, or a mixture, which is used as one."""

from __future__ import annotations

import inspect
from typing import Any, TypeAlias

from tfio_store.example.schema import Schema
from tfio_store.read.mixture import Mixture, parts_of
from tfio_store.read.reader import RecordReader
from tfio_store.read.record_source import RecordSource
from tfio_store.tools.infer import telling

__all__ = ["Reader", "known_schema", "reader_of"]

Reader: TypeAlias = "RecordReader | Mixture"

_DEFAULTS = {
    name: parameter.default
    for name, parameter in inspect.signature(RecordReader).parameters.items()
}


def reader_of(source: Any, **options: Any) -> Reader:
    """A reader of the source. ValueError for options of a reader beside a mixture, which has its
    own."""
    if not isinstance(source, Mixture):
        return RecordReader(source, **options)
    for name, value in options.items():
        if value != _DEFAULTS[name]:
            raise ValueError(f"{name}= is not for a mixture: pass it to tfio_store.mix")
    return source


def known_schema(reader: Reader | RecordSource, schema: object = None) -> Schema | None:
    """The schema that the source tells by itself, or with "auto" by its records; if there is one.
    ValueError if those of a mixture's sources differ."""
    if not isinstance(reader, Mixture):
        return telling(reader.dataset, schema).schema
    found = [telling(part.shared.dataset, schema).schema for part in parts_of(reader)]
    if any(one != found[0] for one in found):
        raise ValueError("the sources of the mixture have different schemas: pass schema=")
    return found[0]
