"""The source of training loops: a reader or a mixture, decoded by blocks, with a state behind each
batch.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from typing_extensions import Self

from tfio_store.dataset.source import is_one, of_source
from tfio_store.example import decode_examples
from tfio_store.example.codec import SchemaToRead
from tfio_store.example.ragged import joined_columns
from tfio_store.example.schema import Schema, column_names, schema_to_read
from tfio_store.read.mixture import Mixture, datasets_of
from tfio_store.read.reader import RecordReader
from tfio_store.read.record_source import RecordSource
from tfio_store.records.framing import RecordBatch
from tfio_store.storage.redaction import redacted
from tfio_store.tables.infer import telling

__all__ = ["Blocks", "Gathering", "LoaderContent", "Reader", "reader_of", "wanted_schema"]


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
    ) -> Self:
        """Read the arguments of these names. ValueError, KeyError or TypeError for what cannot be
        given."""
        found = wanted_schema(reader, schema, columns)
        name = source if isinstance(source, str) else None
        if images is None:
            return cls(found, name)
        from tfio_store.image import images_of

        return cls(found, name, images_of(images, found), skips)

    @property
    def pixels_each(self) -> int:
        """The bytes of the pixels of a row."""
        return sum(how.nbytes for how in self.images.values())

    @property
    def rows_at_once(self) -> int:
        """How many rows become Python objects together."""
        return max(1, min(_ROWS_AT_ONCE, _PIXELS_AT_ONCE // (self.pixels_each or 1)))

    def decode(self, records: RecordBatch | Iterable[bytes]) -> Any:
        """The columns of records, in which `cut` and `joined` take parts."""
        if self.schema is None:
            return records
        with of_source(self.source):
            return dict(decode_examples(records, self.schema))

    def shown(self, columns: Any, threads: int | None, numbers: Sequence[int] | None = None) -> Any:
        """Decoded rows, with pixels in the columns that `images` names. ``numbers``: of the
        records in the source."""
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
        )

    @staticmethod
    def cut(decoded: Any, start: int, stop: int) -> Any:
        """Some of the rows, without a copy."""
        if not isinstance(decoded, dict):
            return decoded[start:stop]
        return {name: column[start:stop] for name, column in decoded.items()}

    def joined(self, parts: list[Any]) -> Any:
        """Parts end to end: a dict of columns, or a list of bytes."""
        if self.schema is None:
            return [record for part in parts for record in part]
        return {name: joined_columns([part[name] for part in parts]) for name in self.schema}


# The blocks of a reader, decoded and cut into batches, and the reader's state behind each batch.
#
# A block is decoded at once, or a long one in parts. Batches have their size whatever the blocks
# are.


_DECODED_AT_ONCE = 2 << 20
"""Bytes of records that are decoded together. A window of a shuffle is much longer."""


class Blocks:
    """The decoded rows of a reader's blocks, one block at a time, or a part of a long one."""

    def __init__(self, reader: Reader, content: LoaderContent) -> None:
        self._reader = reader
        self._content = content
        self._batches = reader.batches()
        self._waiting: RecordBatch | None = None
        """The part of a block that is not decoded yet, and won't be if it is damaged."""
        self._rows: Any = None
        self._at = self._count = 0
        self.over = False

    @property
    def left(self) -> int:
        """How many decoded rows are not taken yet."""
        return self._count - self._at

    def pull(self) -> None:
        """Go to the next rows, or to the end."""
        if self._waiting is None:
            self._waiting = next(self._batches, None)
        if self._waiting is None:
            self.over, self._rows, self._at, self._count = True, None, 0, 0
            return
        count = _rows_at_once(self._waiting)
        self._rows = self._content.decode(self._waiting[:count])
        self._at, self._count, self._waiting = 0, count, self._waiting[count:] or None

    def take(self, most: int) -> Any:
        """Some of the decoded rows."""
        stop = min(self._at + most, self._count)
        part = self._content.cut(self._rows, self._at, stop)
        self._at = stop
        return part

    def made(self, make: Callable[[Any], list[Any]]) -> list[Any]:
        """Some of the next rows as Python objects, which ``make`` makes of decoded ones; none at
        the end. Where it raises, they are the next ones again."""
        while self.left == 0:
            if self.over:
                return []
            self.pull()
        start = self._at
        try:
            return make(self.take(self._content.rows_at_once))
        except BaseException:
            self._at = start
            raise

    def state(self, unread: int) -> dict[str, Any]:
        """The reader's state, before ``unread`` of the rows that were taken of its block."""
        return self._reader.state(unread=len(self._waiting or ()) + self.left + unread)


def _rows_at_once(records: RecordBatch) -> int:
    """How many records to decode: all, or the first of about equal parts."""
    parts = records.nbytes // _DECODED_AT_ONCE + 1
    return -(-len(records) // parts)


class Gathering:
    """Batches of ``size`` rows, in parts; the last one may be smaller, or is left out by
    ``drop_last``."""

    def __init__(self, reader: Reader, content: LoaderContent, size: int, drop_last: bool) -> None:
        self._blocks = Blocks(reader, content)
        self._size = size
        self._drop_last = drop_last
        self._parts: list[Any] = []
        self._gathered = 0
        self._before: dict[str, Any] | None = None
        """The state before what was gathered, while that takes another block."""

    @property
    def over(self) -> bool:
        """Whether the reader has nothing left."""
        return self._blocks.over

    def state(self) -> dict[str, Any]:
        """The reader's state, before the parts of a batch that is not `done`."""
        return self._before or self._blocks.state(self._gathered)

    def parts(self) -> list[Any] | None:
        """The parts of the next batch; None at the end."""
        self._gather()
        if self._gathered == 0 or (self._drop_last and self._gathered < self._size):
            return None
        return self._parts

    def done(self) -> None:
        """The parts are used: the state stands behind them."""
        self._parts, self._gathered, self._before = [], 0, None

    def _gather(self) -> None:
        blocks = self._blocks
        while self._gathered < self._size and not blocks.over:
            if blocks.left == 0:
                if self._before is None:
                    self._before = blocks.state(self._gathered)
                blocks.pull()
                continue
            wanted = min(self._size - self._gathered, blocks.left)
            self._parts.append(blocks.take(wanted))
            self._gathered += wanted
