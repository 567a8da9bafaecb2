"""The source of a training loop, a reader or a mixture, and what its records are decoded to."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np
from typing_extensions import Self

from tfio_store.dataset.source import is_one, of_source
from tfio_store.example import decode_examples
from tfio_store.example.codec import NumberForms, Numbers, SchemaToRead
from tfio_store.example.feature import Feature
from tfio_store.example.ragged import joined_columns
from tfio_store.example.schema import Schema, column_names, schema_to_read
from tfio_store.loader.packing import Packing, check_packing, rows_at_once
from tfio_store.read.mixture import Mixture, datasets_of
from tfio_store.read.reader import RecordReader
from tfio_store.read.record_source import RecordSource
from tfio_store.records.framing import RecordBatch
from tfio_store.storage.redaction import redacted
from tfio_store.tables.infer import telling

__all__ = ["LoaderContent", "Reader", "between", "reader_of", "wanted_schema"]


# The source of a training loop's loader: a reader of a source, or a mixture, which is used as one.


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
    """The schema that the source has by itself, or with "auto" by its records; if there is one.
    ValueError if those of a mixture's sources differ."""
    if not isinstance(reader, Mixture):
        return telling(reader.dataset, schema).schema
    found = [telling(dataset, schema).schema for dataset in datasets_of(reader)]
    if any(one != found[0] for one in found):
        raise ValueError("the sources of the mixture have different schemas: pass schema=")
    return found[0]


# The items of a training loader: records' bytes, or the features that a schema names.


def wanted_schema(
    reader: Reader | RecordSource, schema: SchemaToRead | None, columns: Sequence[str] | None
) -> Schema | None:
    """The features to decode, by ``schema=`` and ``columns=``. None: records come as they are.
    ValueError, KeyError or TypeError for what cannot be given."""
    columns = None if columns is None else column_names(columns)
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
            f"columns={list(columns)!r}: nothing says which features the records hold; pass "
            "schema=, for example what tfio_store.infer_schema finds"
        )
    if found is not None and not found:
        raise ValueError("columns= and schema= leave no feature to decode")
    return found


_ROWS_AT_ONCE = 256
_PIXELS_AT_ONCE = 4 << 20
"""Rows that become Python objects together, and the bytes of their pixels."""

_STRING_BYTES, _PLACE_BYTES = 64, 16
"""About what an object of Python takes beside its bytes, and where a value lies in a record."""


@dataclass(frozen=True, slots=True)
class LoaderContent:
    """``schema`` None: the records themselves, as bytes."""

    schema: Schema | None
    source: str | None = None
    """The name of a record in errors."""
    images: Mapping[str, Any] = field(default_factory=dict)
    """What is made of columns of encoded images, as `tfio_store.image` has it."""
    skips: bool = False
    """Whether zeros stand in the place of a damaged image."""
    packing: Packing | None = None
    """How documents become rows, if they do."""
    _numbers: NumberForms | None = field(init=False, repr=False, compare=False)
    """How records are decoded without Python, if all that is wanted of them are numbers."""

    def __post_init__(self) -> None:
        alone = self.schema is not None and self.packing is None and not self.images
        forms = NumberForms.of(self.schema) if alone and self.schema is not None else None
        object.__setattr__(self, "_numbers", forms)

    @classmethod
    def of(
        cls,
        source: Any,
        reader: Reader | RecordSource,
        schema: SchemaToRead | None,
        columns: Sequence[str] | None,
        images: Mapping[str, Any] | None = None,
        *,
        skips: bool = False,
        packing: Packing | None = None,
    ) -> Self:
        """Read the arguments of these names. ValueError, KeyError or TypeError for what cannot be
        given."""
        name = source if isinstance(source, str) else None
        if packing is not None:
            for option, value in (("columns=", columns), ("images=", images)):
                if value is not None:
                    raise ValueError(f"{option} does not go with pack=, which names the columns")
            found = wanted_schema(reader, schema, packing.columns)
            check_packing(packing, found)
            return cls(found, name, packing=packing)
        found = wanted_schema(reader, schema, columns)
        if images is None:
            return cls(found, name)
        from tfio_store.image import images_of

        return cls(found, name, images_of(images, found), skips)

    @property
    def pixels_each(self) -> int:
        """The bytes of the pixels of a row."""
        return sum(how.nbytes for how in self.images.values())

    @property
    def nbytes_each(self) -> int:
        """About the bytes that a row takes while it is decoded, beside its record and lists."""
        features = (self.schema or {}).values()
        return self.pixels_each + sum(_PLACE_BYTES + _nbytes_of(one) for one in features)

    @property
    def rows_at_once(self) -> int:
        """How many rows become Python objects together."""
        if self.packing is not None:
            return rows_at_once(self.packing)
        return max(1, min(_ROWS_AT_ONCE, _PIXELS_AT_ONCE // (self.pixels_each or 1)))

    def decode(self, records: RecordBatch | Iterable[bytes]) -> Any:
        """The columns of records, of which `cut` takes some rows."""
        if self.schema is None:
            return records
        with of_source(self.source):
            return dict(decode_examples(records, self.schema))

    def shown(
        self,
        columns: Any,
        threads: int | None,
        numbers: Sequence[int] | None = None,
        warn: Callable[[str], object] | None = None,
    ) -> Any:
        """Decoded rows, with pixels in the columns that `images` names. ``numbers``: of the
        records in the source. ``warn`` is told of images that were skipped."""
        if not self.images:
            return columns
        from tfio_store.image import decode_columns

        return decode_columns(
            columns,
            self.images,
            threads=threads,
            on_corrupt="skip" if self.skips else "raise",
            path=redacted(self.source) if self.source and is_one(self.source) else "",
            numbers=numbers,
            warn=warn,
        )

    def numbers(self, parts: Sequence[RecordBatch]) -> Numbers | None:
        """What decodes such parts without Python, if all that is wanted of them are numbers."""
        return None if self._numbers is None else self._numbers.columns(parts)

    def made(
        self, parts: Sequence[RecordBatch], threads: int | None, warn: Callable[[str], object]
    ) -> Any:
        """The columns of records in parts that lie end to end, with their pixels; or a list of
        bytes. Of records that are packed, the columns of each part. `cut` gives rows of these.
        SchemaError counts the records of all parts."""
        if self.schema is None:
            return [record for part in parts for record in part]
        numbers = self.numbers(parts)
        found = None if numbers is None else numbers.result()
        if found is not None:
            columns: Any = found[0]
        else:
            firsts = accumulate(map(len, parts), initial=0)
            decoded = [self._decoded(*pair) for pair in zip(parts, firsts, strict=False)]
            if self.packing is not None:
                return InParts(decoded)
            columns = {name: _joined([part[name] for part in decoded]) for name in self.schema}
        return self.shown(columns, threads, warn=warn)

    def _decoded(self, records: RecordBatch, first: int) -> Mapping[str, Any]:
        """Columns of one part. Encoded images are views of the records, as byte strings may be."""
        assert self.schema is not None
        with of_source(self.source, first):
            strings = [name for name, feature in self.schema.items() if _is_strings(feature)]
            objects = [name for name in strings if not self._has_views(name)]
            if not strings or (objects and not self.images):  # all by one look at each record
                return decode_examples(records, self.schema)
            viewed = self.schema
            if objects:
                viewed = viewed.select([name for name in viewed if name not in objects])
            columns = dict(decode_examples(records, viewed, strings="batch"))
            for name in self.images:
                columns[name] = [columns[name].view(i) for i in range(len(records))]
            others = [name for name in strings if name in viewed and name not in self.images]
            most = 2 * sum(columns[name].nbytes for name in others) > records.nbytes
            for name in others:
                columns[name] = ByteStrings([columns[name] if most else list(columns[name])])
            if objects:
                columns |= decode_examples(records, self.schema.select(objects))
            return columns

    def _has_views(self, name: str) -> bool:
        """Whether a row's bytes of this name lie in its record as they are."""
        assert self.schema is not None
        feature = self.schema[name]
        alone = feature.shape == () and not feature.nullable and not feature.sequence
        return name in self.images or (alone and feature.dtype == "bytes")

    @staticmethod
    def cut(decoded: Any, start: int, stop: int) -> Any:
        """Some of the rows, without a copy."""
        if isinstance(decoded, dict):
            return _cut(decoded, start, stop)
        return decoded.cut(start, stop) if isinstance(decoded, InParts) else decoded[start:stop]


class _Rows(Protocol):
    def __len__(self) -> int: ...

    def __getitem__(self, rows: slice, /) -> Self: ...


AnyRows = TypeVar("AnyRows", bound=_Rows)


def between(parts: Iterable[AnyRows], start: int, stop: int) -> Iterator[AnyRows]:
    """Rows ``start:stop`` of parts that lie end to end."""
    for part in parts:
        if start < len(part) and stop > 0:
            yield part[max(start, 0) : max(stop, 0)]
        start, stop = start - len(part), stop - len(part)


class ByteStrings:
    """One byte string for each row, in parts that lie end to end: mostly in their records' memory.
    Rows of it are an array of objects, which are made for who wants them now. If threads made them
    ahead, the allocator would keep for each thread the memory of all that it ever had at once."""

    def __init__(self, parts: list[RecordBatch | list[bytes]]) -> None:
        self._parts = parts

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    def __getitem__(self, rows: slice) -> Any:
        start, stop, _ = rows.indices(len(self))
        some = [value for part in between(self._parts, start, stop) for value in part]
        made = np.empty(len(some), object)
        made[:] = some
        return made

    @classmethod
    def joined(cls, columns: Iterable[ByteStrings]) -> ByteStrings:
        """Those of columns that lie end to end."""
        return cls([part for column in columns for part in column._parts])


class InParts(list[Mapping[str, Any]]):
    """Columns of parts that lie end to end, which are copied where they are packed."""

    def cut(self, start: int, stop: int) -> InParts:
        """Some of the rows."""
        found = InParts()
        for columns in self:
            count = len(next(iter(columns.values())))
            if start < count and stop > 0:
                found.append(_cut(columns, max(start, 0), stop))
            start, stop = start - count, stop - count
        return found


def _cut(columns: Mapping[str, Any], start: int, stop: int) -> dict[str, Any]:
    return {name: column[start:stop] for name, column in columns.items()}


def _nbytes_of(feature: Feature) -> int:
    if feature.ragged:
        return 0
    each = _STRING_BYTES if _is_strings(feature) else feature.item_dtype().itemsize
    return feature.width * each


def _is_strings(feature: Feature) -> bool:
    return feature.wire == "bytes" and not feature.raw


def _joined(parts: list[Any]) -> Any:
    if isinstance(parts[0], ByteStrings):
        return ByteStrings.joined(parts)
    if isinstance(parts[0], list):
        return [value for part in parts for value in part]
    return joined_columns(parts)
