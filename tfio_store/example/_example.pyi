"""The Example codec, compiled. `tfio_store.example.pure` answers to the same names.

Kinds are Feature's field numbers: 0 none, 1 bytes, 2 float, 3 int64. Maps are top-level fields: 1
an Example's features and a SequenceExample's context, 2 its feature lists.
"""

from collections.abc import Mapping, Sequence
from typing import Any, final

import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer as BytesLike, Self

_Int64Array = npt.NDArray[np.int64]
_BoolArray = npt.NDArray[np.bool_]

class Spans:
    """Where the wanted features of each record of a batch lie, column by column.

    Readers give one flat array. Record i has ``splits[i]:splits[i + 1]`` of it, or with no splits
    ``width`` values; a feature that is absent is read as ``fallback`` (``width`` values) if one is
    given. ``valid`` is an array of flags, one for each record, that the reader sets. With it a
    record may be null, which is to lack the feature or to have none of its values: its flag is
    False, and zeros or empty strings take the places of its values. SchemaError where a feature is
    absent without any of these, of another kind or of another size; CorruptRecordError where the
    bytes are not an Example.
    """

    @property
    def keys(self) -> list[bytes]: ...
    @staticmethod
    def locate(
        buffer: BytesLike,
        offsets: _Int64Array,
        lengths: _Int64Array,
        keys: list[bytes],
        map_field: int = 1,
    ) -> Spans:
        """``keys`` must differ. CorruptRecordError, with the record's offset."""
    def __len__(self) -> int:
        """The number of records."""
    def counts(self, column: int, kind: int) -> _Int64Array:
        """How many values each record has; 0 where the feature is absent."""
    def present(self, column: int) -> _BoolArray:
        """Which records have the feature, with values or without."""
    def floats(
        self,
        column: int,
        *,
        splits: _Int64Array | None = None,
        width: int = 1,
        fallback: npt.NDArray[np.float32] | None = None,
        valid: _BoolArray | None = None,
    ) -> npt.NDArray[np.float32]: ...
    def int64s(
        self,
        column: int,
        *,
        splits: _Int64Array | None = None,
        width: int = 1,
        fallback: _Int64Array | None = None,
        valid: _BoolArray | None = None,
    ) -> _Int64Array: ...
    def fixed(
        self, columns: list[int], widths: list[int], kinds: list[int]
    ) -> list[npt.NDArray[Any]] | None:
        """The values of several columns of floats or int64s, of so many for each record, by one
        call without the GIL. None where one of them is unusual, or there is nothing: to read each
        by itself tells what is wrong."""
    def objects(
        self,
        column: int,
        *,
        splits: _Int64Array | None = None,
        width: int = 1,
        fallback: list[bytes] | None = None,
        valid: _BoolArray | None = None,
    ) -> npt.NDArray[Any]:
        """An object array of bytes."""
    def spans(
        self,
        column: int,
        *,
        splits: _Int64Array | None = None,
        width: int = 1,
        valid: _BoolArray | None = None,
    ) -> tuple[_Int64Array, _Int64Array]:
        """(offsets, lengths) of byte strings in the buffer."""
    def joined(
        self,
        column: int,
        *,
        splits: _Int64Array | None = None,
        width: int = 1,
        fallback: list[bytes] | None = None,
        valid: _BoolArray | None = None,
    ) -> tuple[npt.NDArray[np.uint8], _Int64Array]:
        """Byte strings copied end to end, and their offsets, one more than there are strings."""
    def steps(self, column: int) -> tuple[_Int64Array, Spans]:
        """Of a feature list: row_splits, and the steps of all records as records of one column."""

def describe(record: BytesLike, /) -> list[tuple[bytes, int, int]]:
    """(key, kind, count) of every feature of one record, in the order met."""

def describe_lists(
    record: BytesLike, /
) -> list[tuple[bytes, npt.NDArray[np.uint8], npt.NDArray[np.int64]]]:
    """(key, kinds, counts) of every feature list of one record, in the order met. Kinds and counts
    have an entry for each step."""

def encode_example(features: Mapping[str, Any], /) -> bytes:
    """One serialized Example; see `tfio_store.encode_example`."""

def encode_sequence_example(
    context: Mapping[str, Any], feature_lists: Mapping[str, Sequence[Any]], /
) -> bytes:
    """One serialized SequenceExample; see `tfio_store.encode_sequence_example`."""

def encode_columns(
    columns: list[tuple[bytes, Any, _Int64Array | None, int, npt.NDArray[np.bool_] | None]],
    records: int,
    /,
) -> tuple[memoryview, _Int64Array]:
    """Examples of a table: (their bytes end to end, int64[records + 1] offsets).

    A column is (key, values, row_splits or None, width, valid or None). Record i has the values
    ``row_splits[i]:row_splits[i + 1]``, or ``i * width:(i + 1) * width``. Where ``valid`` is False
    the record lacks the feature, and its values are passed over. Values are a float32 or
    int64 array of one dimension, a list of bytes and str, (buffer, offsets, lengths) of byte
    strings, or None for no value of no kind. Columns are written in the order given. ValueError,
    naming the column, where the sizes do not fit.
    """

def encode_sequence_columns(
    context: list[tuple[bytes, Any, _Int64Array | None, int, npt.NDArray[np.bool_] | None]],
    feature_lists: list[
        tuple[bytes, Any, _Int64Array, _Int64Array | None, int, npt.NDArray[np.bool_] | None]
    ],
    records: int,
    /,
) -> tuple[memoryview, _Int64Array]:
    """SequenceExamples of a table, as `encode_columns` gives Examples.

    A feature list is (key, values, steps, row_splits or None, width, valid or None). Record i has
    the steps ``steps[i]:steps[i + 1]``, and each step has values as each record of
    `encode_columns` has. Where ``valid`` is False the record lacks the list, and has no steps.
    """

@final
class Columns:
    """The columns of records in several buffers, one behind the other.

    Each record must have ``widths`` numbers of these ``kinds`` under the ``keys``, which must
    differ. Parts are buffers with their offsets and lengths. They are decoded without the GIL, by a
    thread of C or by the caller; the pure core gives none. One thread at a time may call the
    methods.
    """

    def __new__(
        cls,
        parts: list[tuple[BytesLike, _Int64Array, _Int64Array]],
        keys: list[bytes],
        widths: list[int],
        kinds: list[int],
    ) -> Self: ...
    @property
    def keys(self) -> list[bytes]: ...
    def __len__(self) -> int:
        """The number of records."""
    def begin(self, threads: int, at_once: int) -> bool:
        """Hand it to one of at most ``threads`` threads of C, which all readers share, and of which
        ``at_once`` keep a core busy. False where nothing can be done."""
    def begins(self, patience: float) -> bool:
        """Whether a thread works on it or has done, or does so within ``patience`` seconds. Else
        no thread will: it is left to `result`."""
    def done(self) -> bool:
        """Whether `result` neither waits nor works."""
    def result(self) -> tuple[list[npt.NDArray[Any]], float] | None:
        """Wait for the thread that works on it, or do it here: float32 or int64 for each key, flat,
        and the seconds that it took. None where a record is damaged, or has other values. Call it
        once."""

class Learner:
    """Encodes mappings as `encode_example` does, and notes what their features hold."""

    def encode(self, mapping: Mapping[str, Any], /) -> bytes:
        """SchemaError for a feature of another kind, or of times of another unit, than before."""
    def skip(self, records: int, /) -> None:
        """Count records that are no mappings."""
    def state(self) -> dict[str, Any]:
        """What `learned_schema` takes."""
